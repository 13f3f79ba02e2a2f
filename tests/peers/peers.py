"""The peers: how each is started, which protocols it speaks, and the settings that are tried."""

from dataclasses import dataclass
from pathlib import Path

from cases import JSON, KSERVE_BINARY, KSERVE_JSON

HERE = Path(__file__).resolve().parent
# For muster: no request is refused because it would have to wait, as none is by the peers.
ANSWERS_ALL = ("--max-queue-wait-ms=0",)


@dataclass(frozen=True)
class Settings:
    """What is varied. A peer heeds what it has a knob for."""

    workers: int = 1
    # Of ONNX Runtime, per run; 0 leaves it to it, which is what one gets without thinking.
    threads: int = 0
    batch: int = 1
    # Access logs and metrics off, faster JSON, faster queues: what costs nothing but knowing of it.
    tuned: bool = False
    app: str = ""

    def __str__(self):
        if not self.tuned:
            return "default"
        batch = f", batches of {self.batch}" if self.batch > 1 else ""
        app = f"{self.app}, " if self.app else ""
        return f"{app}workers {self.workers}, threads {self.threads}{batch}"


def tuned(*workers_and_batches, app=""):
    """Settings of one thread per run, for each pair."""
    return [Settings(workers, 1, batch, True, app) for workers, batch in workers_and_batches]


@dataclass(frozen=True)
class Peer:
    """A server that others wrote, or a way of using one."""

    name: str
    packages: tuple
    protocols: tuple
    grid: list
    default: Settings = Settings()

    @property
    def folder(self):
        """Where its application and its requirements are."""
        return HERE / self.name.lower()

    def command(self, programs, settings, port):
        """The command line."""
        app = self.folder / "app.py"
        match self.name:
            case "uvicorn":
                name = f"{settings.app or 'fastapi'}_app:app"
                command = [programs / "uvicorn", "--app-dir", self.folder, name]
                command += ["--port", port, "--workers", settings.workers]
                if settings.tuned:
                    command += ["--no-access-log", "--loop", "uvloop", "--http", "httptools"]
                return command + (["--lifespan", "off"] if settings.app == "asgi" else [])
            case "Gunicorn":
                command = [programs / "gunicorn", "--chdir", self.folder, "app:app"]
                return [*command, "--bind", f"127.0.0.1:{port}", "--workers", settings.workers]
            case "mosec":
                return [programs / "python", app, "--address", "127.0.0.1", "--port", port]
            case "MLServer":
                return [programs / "mlserver", "start", self.folder]
            case "BentoML":
                command = [programs / "bentoml", "serve", "service:OnnxService"]
                command += ["--host", "127.0.0.1", "--port", port]
                return command + ["--working-dir", self.folder]
            case _:
                return [programs / "python", app]

    def environment(self, programs, case, settings, ports):
        """The variables: our own, and those of MLServer and BentoML."""
        variables = {
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{HERE / 'shared'}:{self.folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEER_MODEL": case.file,
            "PEER_MODEL_NAME": case.name,
            "PEER_PORT": ports[0],
            "PEER_SECOND_PORT": ports[1],
            "PEER_WORKERS": settings.workers,
            "PEER_BATCH": settings.batch,
            "PEER_THREADS": settings.threads,
            "PEER_TUNED": int(settings.tuned),
            "BENTOML_DO_NOT_TRACK": "True",
        }
        if self.name == "MLServer":
            variables |= {
                "MLSERVER_HOST": "127.0.0.1",
                "MLSERVER_HTTP_PORT": ports[0],
                "MLSERVER_GRPC_PORT": ports[1],
                "MLSERVER_METRICS_PORT": ports[2],
                "MLSERVER_PARALLEL_WORKERS": settings.workers,
                "MLSERVER_MODEL_NAME": case.name,
                "MLSERVER_MODEL_IMPLEMENTATION": "onnx_runtime.OnnxModel",
            }
            if settings.tuned:
                variables |= {"MLSERVER_DEBUG": "false", "MLSERVER_METRICS_ENDPOINT": ""}
            if settings.batch > 1:
                variables |= {
                    "MLSERVER_MODEL_MAX_BATCH_SIZE": settings.batch,
                    "MLSERVER_MODEL_MAX_BATCH_TIME": 0.001,
                }
        return {name: str(value) for name, value in variables.items()}


PEERS = [
    Peer(
        "uvicorn",
        ("uvicorn", "fastapi", "orjson"),
        (JSON,),
        tuned((2, 1), app="fastapi") + tuned((1, 1), (2, 1), (3, 1), app="asgi"),
    ),
    # Its own kind of workers: each has one request at a time, and closes the connection behind it.
    Peer("Gunicorn", ("gunicorn", "flask"), (JSON,), tuned((1, 1), (2, 1), (3, 1))),
    Peer("LitServe", ("litserve",), (JSON,), tuned((1, 1), (2, 1), (1, 16), (2, 16))),
    Peer("mosec", ("mosec",), (JSON,), tuned((1, 1), (2, 1), (1, 16), (2, 16))),
    Peer("BentoML", ("bentoml",), (JSON,), tuned((1, 1), (2, 1), (2, 16))),
    # No workers: the model runs in the process that speaks HTTP. Its REST server reads JSON only.
    Peer("MLServer", ("mlserver",), (KSERVE_JSON,), tuned((0, 1), (1, 1), (2, 1), (0, 16))),
    Peer(
        "PyTriton",
        ("nvidia-pytriton",),
        (KSERVE_JSON, KSERVE_BINARY),
        tuned((1, 1), (1, 16), (2, 16)),
    ),
]
