"""The peers of the text set: how each is started, and the settings that are tried."""

from dataclasses import dataclass
from pathlib import Path

from peers import HERE
from processes import finished, free_port


@dataclass(frozen=True)
class TextSettings:
    """What is varied of a server of embeddings. What is 0 or empty is left to the peer."""

    workers: int = 1
    # Of a run.
    threads: int = 0
    # Rows of a run at most.
    batch: int = 0
    # Further options of infinity's and TEI's.
    options: tuple = ()

    def __str__(self):
        parts = [f"workers {self.workers}"] if self.workers > 1 else []
        parts += [f"threads {self.threads}"] if self.threads else []
        parts += [f"batches of {self.batch}"] if self.batch else []
        return ", ".join([*parts, *self.options]) or "default"


@dataclass(frozen=True)
class TextPeer:
    """A server of embeddings: its environment's folder, packages whose versions are told, and the settings to try."""

    name: str
    folder: str
    packages: tuple
    # Of uvicorn; or, where there is none, the engine of infinity.
    app: str
    engine: str
    # In the order of what is likely to be the best.
    grid: tuple
    default: TextSettings = TextSettings()

    @property
    def writes_beside(self):
        """Is something written beside the model that is read?"""
        return bool(self.engine)

    def command(self, programs, model, port, settings):
        """The command line."""
        if self.app:
            command = [programs / "uvicorn", "--app-dir", HERE / self.folder, f"{self.app}:app"]
            command += ["--port", port, "--workers", settings.workers, "--no-access-log"]
            return command + ["--loop", "uvloop", "--http", "httptools"]
        command = [programs / "infinity_emb", "v2", "--model-id", model, "--engine", self.engine]
        command += ["--url-prefix", "/v1", "--host", "127.0.0.1", "--port", port, "--device", "cpu"]
        # Without a word it takes the vector of the first token, whatever the folder says.
        command += ["--pooling-method", "mean"]
        command += ["--batch-size", settings.batch] if settings.batch else []
        return command + list(settings.options)

    def environment(self, programs, model, settings, hub):
        """The variables: our own, those of the hub's packages and infinity's, and the threads of torch."""
        variables = {
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": HERE / self.folder,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEER_MODEL": model,
            "PEER_WORKERS": settings.workers,
            "PEER_THREADS": settings.threads,
            "PEER_BATCH": settings.batch or 1,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": hub,
            "INFINITY_ANONYMOUS_USAGE_STATS": "0",
        }
        # Of torch; ONNX Runtime does not heed it.
        if settings.threads:
            variables["OMP_NUM_THREADS"] = settings.threads
        return {name: str(value) for name, value in variables.items()}


@dataclass(frozen=True)
class TextEmbeddingsInference:
    """A program with its own HTTP server, on no package index. It loads ONNX Runtime from `ORT_DYLIB_PATH`, and has as
    many threads a run as there are processors, whatever one says."""

    program: Path
    name: str = "tei"
    # No environment of Python's.
    folder: str = ""
    writes_beside: bool = False
    grid: tuple = tuple(TextSettings(batch=it, options=("--disable-spans",)) for it in (1, 2, 4, 8))
    default: TextSettings = TextSettings()

    def version(self):
        """The program's name and version."""
        return finished([self.program, "--version"]).stdout.strip()

    def command(self, _, model, port, settings):
        """The command line."""
        command = [self.program, "--model-id", model, "--hostname", "127.0.0.1", "--port", port]
        command += ["--prometheus-port", free_port()]
        command += ["--max-batch-requests", settings.batch] if settings.batch else []
        return [*command, *settings.options]

    def environment(self, _programs, _model, settings, _hub):
        """Its variables: it logs each request at the level of information."""
        return {"LOG_LEVEL": "error"} if settings.options else {}


def by_hand(*workers_and_batches):
    """Settings of one thread a run, for each pair."""
    return tuple(TextSettings(workers, 1, batch) for workers, batch in workers_and_batches)


def of_infinity(*batches_and_threads, options=()):
    """Settings for each pair. A start without warming up takes a fraction of the time, and serves as fast."""
    options = ("--no-model-warmup", *options)
    return tuple(TextSettings(1, threads, batch, options) for batch, threads in batches_and_threads)


INFINITY = ("infinity-emb", "optimum", "onnxruntime", "sentence-transformers", "torch")
TEXT_PEERS = (
    TextPeer(
        "by hand",
        "text",
        ("onnxruntime", "tokenizers", "fastapi"),
        "by_hand_app",
        "",
        by_hand((2, 0), (1, 0), (1, 4), (1, 8)),
    ),
    TextPeer(
        "sentence-transformers",
        "text",
        ("sentence-transformers", "torch"),
        "library_app",
        "",
        by_hand((2, 0), (1, 0), (1, 4), (1, 8)),
    ),
    # ONNX Runtime has as many threads there as there are processors. Batches of 32, the default, hold no more than 16
    # rows at the connections at which settings are tried.
    TextPeer("infinity, optimum", "infinity", INFINITY, "", "optimum", of_infinity((4, 0), (8, 0), (16, 0))),
    TextPeer("infinity, torch", "infinity", INFINITY, "", "torch", of_infinity((8, 0), (8, 1), (16, 0))),
)

# A light library in a bare loop, without a server.
FASTEMBED = ("fastembed", "onnxruntime", "tokenizers")
# By label: threads, and rows that run together of texts that are sorted by length; 0 leaves either to the library.
FASTEMBED_SETTINGS = {"default": (0, 0), "best: threads 1, sorted, batches of 8": (1, 8)}
