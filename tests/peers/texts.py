"""The text set: all-MiniLM-L6-v2 by muster and by its peers, over OpenAI's form of embeddings."""

import base64
import hashlib
import json
import math
import random
import shutil
import struct
import sys
from http.client import HTTPConnection
from statistics import NormalDist

from bench import Bench, failed
from cases import ROOT
from peers import ANSWERS_ALL, HERE
from processes import Server, Unavailable, environment, finished, free_port, last_line, versions
from table import TOLERATED, Row
from text_peers import FASTEMBED, FASTEMBED_SETTINGS

# Seconds to the first answer; infinity optimises its graph when it starts for the first time.
START_LIMIT = 300
# Texts of each mix. Each block begins with the same ones: were there more than a slow peer gets through, it would have
# others to do than muster.
TEXTS = 48
# Characters of a text: none of so many has more than the 256 tokens that the folder allows, which infinity passes over.
LONGEST = 500
# Connections at which settings are tried, and seconds of each try.
TUNING_CONNECTIONS, TRY = 16, 2
# Cosine of an answer and that of the first peer, at least.
ALIKE = 0.9999


def mixes(folder):
    """Files of texts by name: queries of some nine tokens, passages of some eighty, and half of each."""
    words = (ROOT / "tests/fixtures/pipelines/corpus.txt").read_text().split()
    chance = random.Random(7)

    def texts(median, spread):
        """Log-normal in length: one for each of as many equal shares."""
        shares = (NormalDist().inv_cdf((it + 0.5) / TEXTS) for it in range(TEXTS))
        counts = [min(max(round(median * math.exp(spread * it)), 1), 200) for it in shares]
        starts = [chance.randrange(len(words) - it) for it in counts]
        return [" ".join(words[at : at + count])[:LONGEST] for at, count in zip(starts, counts)]

    queries, passages = texts(6, 0.5), texts(33, 0.6)
    found = {}
    for name, each in (("queries", queries), ("passages", passages), ("mixed", queries[::2] + passages[1::2])):
        found[name] = folder / f"{name}.txt"
        found[name].write_text("\n".join(each) + "\n")
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
        digest = hashlib.sha256((self.model / "model.onnx").read_bytes()).hexdigest()
        said = f"{options.pairs} pairs of blocks of {self.seconds():g} s"
        self.notes.append(f"all-MiniLM-L6-v2, SHA-256 of its graph {digest[:16]}; {TEXTS} texts of each kind; {said}")
        self.sample = self.texts["mixed"].read_text().splitlines()[::2]

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
                sys.exit(f"the model cannot be made: {last_line(done)}")
        return folder

    def folder_of(self, peer):
        """The model's, for this peer: infinity writes a graph and tokenizer files beside what it reads."""
        if not peer.writes_beside:
            return self.model
        own = self.options.work / "models" / peer.folder / self.model.name
        if not own.exists():
            shutil.copytree(self.model, own)
        return own

    def measure(self):
        """Every peer in turns with muster, which has its default settings, but refuses nothing: as the peers."""
        with self.start_muster("muster.log") as muster:
            start = self.ready(muster)
            self.vectors = [vector(muster.port, it) for it in self.sample]
            self.measure_muster(muster, start)
            self.measure_again(muster)
            for peer in self.options.peers:
                try:
                    self.measure_peer(peer, muster)
                except Unavailable as error:
                    self.complain(f"{peer.name}: {error}")
        if self.options.all_peers:
            try:
                self.measure_loop()
            except Unavailable as error:
                self.complain(f"fastembed: {error}")

    def start_muster(self, log):
        """muster over the model's folder; its port is in it."""
        port = free_port()
        command = [self.options.muster, "serve", "--model-repository", self.model.parent]
        command += ["--http-address=127.0.0.1", f"--http-port={port}"]
        command += ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", *ANSWERS_ALL]
        server = Server(command, self.options.work / log)
        server.port = port
        return server

    def ready(self, server, workers=1):
        """The seconds until the first right answer, and until all workers have started."""

        def problem():
            return self.problem(server.port) or (server.workers_left(workers) if workers > 1 else None)

        return server.wait_until_right(problem, START_LIMIT)

    def complain(self, text):
        """A line below the table, said at once."""
        self.notes.append(text)
        self.say(text)

    def loads(self):
        """Pairs of a mix and connections. Of one connection texts of several lengths say nothing new."""
        every = ((mix, connections) for mix in self.texts for connections in self.options.connections)
        return [it for it in every if it != ("mixed", 1)]

    def load(self, mix, connections):
        """The arguments that say what is sent."""
        arguments = ["--format", "openai-embeddings", "--model", "minilm"]
        return [*arguments, "--texts", self.texts[mix], "--connections", connections]

    def measure_muster(self, muster, start):
        """muster by itself."""
        for mix, connections in self.loads():
            arguments = [url(muster.port), *self.load(mix, connections), "--pid", muster.pid]
            report = self.bench.run([*arguments, "--duration", 4 * self.seconds(), "--warm-up", 1])
            row = Row(mix, "muster", "default", "OpenAI", connections).with_report(report)
            self.rows.append(row.with_process(muster.memory(), start))

    def measure_again(self, muster):
        """muster beside itself: what ratios are worth."""
        with self.start_muster("muster-again.log") as again:
            self.measure_rows("muster", "again", again, self.ready(again), muster)

    def measure_peer(self, peer, muster):
        """A peer with its default and its best settings."""
        programs = self.programs(peer.folder) if peer.folder else None
        note = versions(programs, peer.packages) if programs else peer.version()
        if note not in self.notes:
            self.notes.append(note)
        best = self.tuned(peer, programs)
        for label, settings in {"default": peer.default, f"best: {best}": best}.items():
            self.say(f"{peer.name}, {label}")
            try:
                with self.start_peer(peer, programs, settings) as server:
                    start = self.ready(server, settings.workers)
                    self.compare_vectors(f"{peer.name}, {label}", (vector(server.port, it) for it in self.sample))
                    self.measure_rows(peer.name, label, server, start, muster)
            except Unavailable as error:
                self.complain(f"{peer.name}, {label}: {error}")

    def measure_loop(self):
        """fastembed without a server, by itself: its processor time of a text beside that of a request to muster."""
        programs = self.programs("fastembed")
        self.notes.append(versions(programs, FASTEMBED))
        ours = {it.model: it.cpu_us for it in self.rows if (it.server, it.settings) == ("muster", "default")}
        for label, (threads, rows) in FASTEMBED_SETTINGS.items():
            self.say(f"fastembed, {label}")
            measured = []
            for mix, file in self.texts.items():
                command = [programs / "python", HERE / "fastembed/loop.py", self.model, file, 2 * self.seconds()]
                done = finished([str(it) for it in [*command, threads, rows]])
                if done.returncode:
                    raise Unavailable(last_line(done))
                found = json.loads(done.stdout)
                if mix == "mixed":
                    self.compare_vectors(f"fastembed, {label}", found["vectors"][::2])
                cpu = 1e6 * found["cpu_s"] / found["texts"]
                row = Row(mix, "fastembed, no server", label, "–", 0, found["texts"] / found["seconds"], cpu_us=cpu)
                row.cpu_ratio = ours[mix] / cpu if mix in ours and cpu else None
                measured.append(row)
            self.rows += measured

    def tuned(self, peer, programs):
        """The settings with the highest throughput; of a quick look the first ones."""
        if self.options.quick:
            return peer.grid[0]
        found = {}
        for settings in peer.grid:
            try:
                with self.start_peer(peer, programs, settings) as server:
                    self.ready(server, settings.workers)
                    arguments = [url(server.port), *self.load("mixed", TUNING_CONNECTIONS), "--pid", server.pid]
                    report = self.bench.run([*arguments, "--duration", TRY, "--warm-up", TRY / 2])
            except Unavailable as error:
                self.complain(f"{peer.name}, {settings}: {error}")
                continue
            self.say(f"{peer.name}, {settings}: {report['throughput']:.0f} requests/s")
            if failed([report]) < TOLERATED:
                found[settings] = report["throughput"]
        if not found:
            raise Unavailable("no settings of the grid work")
        return max(found, key=found.get)

    def start_peer(self, peer, programs, settings):
        """Its process; its port is in it."""
        port = free_port()
        folder = self.folder_of(peer)
        variables = peer.environment(programs, folder, settings, self.options.work / "hub")
        log = self.options.work / f"{peer.name.replace(', ', '-').replace(' ', '-')}.log"
        server = Server(peer.command(programs, folder, port, settings), log, variables, self.options.work)
        server.port = port
        return server

    def compare_vectors(self, name, vectors):
        """Those of the sample with muster's; `Unavailable` where they differ."""
        least = min(map(cosine, self.vectors, vectors))
        if least < ALIKE:
            raise Unavailable(f"answers differ: a cosine of {least:.5f}")
        self.notes.append(f"{name}: answers agree, cosine {least:.6f} at least")

    def measure_rows(self, name, label, server, start, muster):
        """A row for each load."""
        rows = []
        for mix, connections in self.loads():
            row = Row(mix, name, label, "OpenAI", connections)
            try:
                self.compare(row, server, muster)
            except Unavailable as error:
                self.complain(f"{name}, {label}, {mix}, {connections} connections: {error}")
            else:
                rows.append(row)
        self.rows += [it.with_process(server.memory(), start) for it in rows]

    def seconds(self):
        """Of a block: runs take milliseconds, and it has to hold some."""
        return 4 * self.options.block

    def compare(self, row, server, muster):
        """Fills in the numbers and ratios of a row."""
        arguments = [url(server.port), "--vs", url(muster.port), *self.load(row.model, row.connections)]
        arguments += ["--pid", server.pid, "--vs-pid", muster.pid, "--pairs", self.options.pairs]
        arguments += ["--duration", self.seconds(), "--warm-up", self.seconds() / 4, "--most-steal", 10]
        row.with_comparison(self.bench.run(arguments))

    def problem(self, port):
        """Asks once: what is wrong with the answer, or nothing."""
        found = vector(port, "a text")
        return None if len(found) == 384 else f"{len(found)} numbers"


def url(port):
    """Where requests go; the format knows its path."""
    return f"http://127.0.0.1:{port}"
