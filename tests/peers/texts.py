"""The text set: all-MiniLM-L6-v2 by muster and by its peers, over OpenAI's form of embeddings."""

import base64
import json
import math
import random
import shutil
import struct
import sys
from dataclasses import dataclass
from http.client import HTTPConnection

from bench import Bench
from cases import ROOT
from peers import ANSWERS_ALL, HERE
from processes import Server, Unavailable, environment, finished, free_port, versions
from table import Row

# Seconds to the first answer; infinity optimises its graph when it starts for the first time.
START_LIMIT = 300
# Texts of each mix.
TEXTS = 500
# Characters of a text: none of so many has more than the 256 tokens that the folder allows, which infinity passes over.
LONGEST = 500
# Cosine of an answer and that of the first peer, at least.
ALIKE = 0.9999


@dataclass(frozen=True)
class TextPeer:
    """A server of embeddings: its environment's folder, packages whose versions are told, and settings."""

    name: str
    folder: str
    packages: tuple
    # By label: workers and threads of a run; 0 threads leave it to the library.
    settings: tuple

    def command(self, programs, model, port, workers):
        """The command line."""
        if self.folder == "infinity":
            command = [programs / "infinity_emb", "v2", "--model-id", model, "--engine", "optimum"]
            command += ["--url-prefix", "/v1", "--host", "127.0.0.1", "--port", port]
            # Without a word it takes the vector of the first token, whatever the folder says.
            command += ["--pooling-method", "mean"]
            return command + ["--no-bettertransformer", "--device", "cpu"]
        app = {"by hand": "by_hand_app", "sentence-transformers": "library_app"}[self.name]
        command = [programs / "uvicorn", "--app-dir", HERE / self.folder, f"{app}:app"]
        command += ["--port", port, "--workers", workers, "--no-access-log"]
        return command + ["--loop", "uvloop", "--http", "httptools"]


PYTHON = (("default", 1, 0), ("best: workers 2, threads 1", 2, 1))
TEXT_PEERS = [
    TextPeer("by hand", "text", ("onnxruntime", "tokenizers", "fastapi"), PYTHON),
    TextPeer("sentence-transformers", "text", ("sentence-transformers", "torch"), PYTHON),
    TextPeer("infinity", "infinity", ("infinity-emb", "optimum", "onnxruntime"), (("default", 1, 0),)),
]


def mixes(folder):
    """Files of texts by name: queries of some nine tokens, passages of some eighty, and half of each."""
    words = (ROOT / "tests/fixtures/pipelines/corpus.txt").read_text().split()
    chance = random.Random(7)

    def text(median, spread):
        count = min(max(round(median * math.exp(spread * chance.gauss(0, 1))), 1), 200)
        start = chance.randrange(len(words) - count)
        return " ".join(words[start : start + count])[:LONGEST]

    queries = [text(6, 0.5) for _ in range(TEXTS)]
    passages = [text(33, 0.6) for _ in range(TEXTS)]
    mixed = queries[: TEXTS // 2] + passages[: TEXTS // 2]
    found = {}
    for name, texts in (("queries", queries), ("passages", passages), ("mixed", mixed)):
        found[name] = folder / f"{name}.txt"
        found[name].write_text("\n".join(texts) + "\n")
    return found


def vector(port, text):
    """The answer to one text."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    body = json.dumps({"input": text, "model": "minilm", "encoding_format": "base64"})
    try:
        connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = reply.read()
    finally:
        connection.close()
    if reply.status != 200:
        raise ValueError(f"status {reply.status}: {answer[:200].decode(errors='replace')}")
    raw = base64.b64decode(json.loads(answer)["data"][0]["embedding"])
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def cosine(one, other):
    """How alike two vectors are."""
    product = sum(a * b for a, b in zip(one, other))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


class TextComparison:
    """All rows so far. Answers are compared before anything is measured."""

    def __init__(self, options, say):
        self.options = options
        self.say = say
        self.bench = Bench(options.muster, options.work, options.pairs, options.block)
        self.rows = []
        self.notes = []
        self.texts = mixes(options.work)
        self.model = self.folder()
        self.sample = self.texts["mixed"].read_text().splitlines()[:: TEXTS // 20]

    def programs(self, folder):
        """Of an environment."""
        requirements = HERE / folder / "requirements.txt"
        return environment(self.options.work / "environments" / folder, requirements, self.say)

    def folder(self):
        """The model's, made once."""
        folder = self.options.work / "models" / "text" / "minilm"
        if not (folder / "model.onnx").exists():
            shutil.rmtree(folder, ignore_errors=True)
            done = finished([self.programs("text") / "python", HERE / "text/folder.py", folder])
            if done.returncode:
                sys.exit(f"the model cannot be made: {done.stderr.strip().splitlines()[-1]}")
        return folder

    def folder_of(self, peer):
        """The model's, for this peer: infinity writes a graph and tokenizer files beside what it reads."""
        if peer.folder != "infinity":
            return self.model
        own = self.options.work / "models" / peer.folder / self.model.name
        if not own.exists():
            shutil.copytree(self.model, own)
        return own

    def measure(self):
        """Every peer in turns with muster, which has its default settings, but refuses nothing: as the peers."""
        port = free_port()
        command = [self.options.muster, "serve", "--model-repository", self.model.parent]
        command += ["--http-address=127.0.0.1", f"--http-port={port}"]
        command += ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", *ANSWERS_ALL]
        with Server(command, self.options.work / "muster.log") as muster:
            muster.port = port
            start = muster.wait_until_right(lambda: self.problem(port), START_LIMIT)
            self.vectors = [vector(port, it) for it in self.sample]
            self.measure_muster(muster, start)
            for peer in TEXT_PEERS:
                for label, workers, threads in peer.settings:
                    self.say(f"{peer.name}, {label}")
                    try:
                        self.measure_peer(peer, label, (workers, threads), muster)
                    except Unavailable as error:
                        self.notes.append(f"{peer.name}, {label}: {error}")

    def load(self, mix, connections):
        """The arguments that say what is sent."""
        arguments = ["--format", "openai-embeddings", "--model", "minilm"]
        return [*arguments, "--texts", self.texts[mix], "--connections", connections]

    def measure_muster(self, muster, start):
        """muster by itself."""
        for mix in self.texts:
            for connections in self.options.connections:
                arguments = [url(muster.port), *self.load(mix, connections)]
                arguments += ["--duration", 4 * self.options.block, "--warm-up", 1]
                report = self.bench.run([*arguments, "--pid", muster.pid])
                self.rows.append(
                    Row(mix, "muster", "default", "OpenAI", connections)
                    .with_report(report)
                    .with_process(muster.memory(), start)
                )

    def measure_peer(self, peer, label, workers_and_threads, muster):
        """A row for each mix and number of connections."""
        workers, threads = workers_and_threads
        programs = self.programs(peer.folder)
        note = versions(programs, peer.packages)
        if note not in self.notes:
            self.notes.append(note)
        port = free_port()
        variables = {
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(HERE / peer.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEER_MODEL": str(self.model),
            "PEER_THREADS": str(threads),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.options.work / "hub"),
            "INFINITY_ANONYMOUS_USAGE_STATS": "0",
        }
        command = peer.command(programs, self.folder_of(peer), port, workers)
        log = self.options.work / f"{peer.name.replace(' ', '-')}.log"
        with Server(command, log, variables, self.options.work) as server:
            start = server.wait_until_right(lambda: self.problem(port), START_LIMIT)
            least = min(map(cosine, self.vectors, (vector(port, it) for it in self.sample)))
            if least < ALIKE:
                raise Unavailable(f"answers differ: a cosine of {least:.5f}")
            self.notes.append(f"{peer.name}, {label}: answers agree, cosine {least:.6f} at least")
            rows = []
            for mix in self.texts:
                for connections in self.options.connections:
                    row = Row(mix, peer.name, label, "OpenAI", connections)
                    self.compare(row, mix, server, port, muster)
                    rows.append(row)
            self.rows += [it.with_process(server.memory(), start) for it in rows]

    def compare(self, row, mix, server, port, muster):
        """Fills in the numbers and ratios of a row."""
        arguments = [url(port), "--vs", url(muster.port), *self.load(mix, row.connections)]
        arguments += ["--pid", server.pid, "--vs-pid", muster.pid, "--pairs", self.options.pairs]
        # Runs take milliseconds: a block has to hold some.
        block = 4 * self.options.block
        arguments += ["--duration", block, "--warm-up", block / 4, "--most-steal", 10]
        row.with_comparison(self.bench.run(arguments))

    def problem(self, port):
        """Asks once: what is wrong with the answer, or nothing."""
        found = vector(port, "a text")
        return None if len(found) == 384 else f"{len(found)} numbers"


def url(port):
    """Where requests go; the format knows its path."""
    return f"http://127.0.0.1:{port}"
