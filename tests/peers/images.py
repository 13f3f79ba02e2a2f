"""The image set: a JPEG in, boxes out, by muster and by what one writes by hand; and the tensor in the JPEG's place."""

import json
import shutil
import sys
import time
from http.client import HTTPConnection

from bench import Bench
from peers import ANSWERS_ALL, HERE
from processes import Server, Unavailable, environment, finished, free_port, last_line, versions
from table import Row

START_LIMIT = 60
# Workers and threads of a run; 0 threads leave it to the library.
SETTINGS = (("default", 1, 0), ("best: workers 2, threads 1", 2, 1))
# The graph whose run costs next to nothing, and one of the size that people use.
MODELS = ("light", "detector")
# Corners and scores of the two sides differ by less.
PIXELS, SCORE = 2, 1e-3


def files(options, say):
    """The folder of the graphs and the photograph, and the programs that made it."""
    requirements = HERE / "image/requirements.txt"
    programs = environment(options.work / "environments/image", requirements, say)
    folder = options.work / "models/image"
    if not (folder / "detector-int8.onnx").exists():
        done = finished([programs / "python", HERE / "image/detector.py", folder])
        if done.returncode:
            sys.exit(f"the detectors cannot be made: {last_line(done)}")
    return folder, programs


def repository(folder, name, file, said=True):
    """A folder with one model, as a single graph lies there; without what the graph says, it takes tensors."""
    place = folder / name / ("picture" if said else "tensor")
    version = place / "detector" / "1"
    shutil.rmtree(place, ignore_errors=True)
    version.mkdir(parents=True)
    shutil.copyfile(file, version / "model.onnx")
    return place


def start_muster(options, place, log, *flags):
    """muster over a repository; only ports are given."""
    port = free_port()
    command = [options.muster, "serve", "--model-repository", place, "--http-address=127.0.0.1"]
    command += [f"--http-port={port}", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", "--log-format=json"]
    command += ANSWERS_ALL
    server = Server([*command, *flags], options.work / log)
    server.port = port
    return server


def answer(port, photo):
    """The objects of a photograph."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", "/invocations", photo, {"Content-Type": "image/jpeg"})
        reply = connection.getresponse()
        body = reply.read()
    finally:
        connection.close()
    if reply.status != 200:
        raise ValueError(f"status {reply.status}: {body[:200].decode(errors='replace')}")
    return json.loads(body)


def difference(found, expected):
    """What two answers differ by, or nothing."""
    if len(found) != len(expected):
        return f"{len(found)} objects, not {len(expected)}"
    for one, other in zip(found, expected):
        far = max(abs(one["box"][it] - other["box"][it]) for it in one["box"])
        if one["label"] != other["label"] or far > PIXELS or abs(one["score"] - other["score"]) > SCORE:
            return f"{one}, not {other}"
    return None


class ImageComparison:
    """All rows so far. Answers are compared before anything is measured."""

    def __init__(self, options, say):
        self.options, self.say = options, say
        self.bench = Bench(options.muster, options.work, options.pairs, options.block)
        self.rows, self.notes = [], []
        self.files, self.programs = files(options, say)
        self.photo = self.files / "photo.jpg"
        self.notes.append(versions(self.programs, ("onnxruntime", "opencv-python-headless", "fastapi")))

    def measure(self):
        """Each graph by both sides, in turns."""
        for name in MODELS:
            place = repository(self.options.work / "repositories", name, self.files / f"{name}.onnx")
            with start_muster(self.options, place, "muster.log") as muster:
                photo = self.photo.read_bytes()
                start = muster.wait_until_right(lambda: self.problem(muster.port), START_LIMIT)
                self.expected = answer(muster.port, photo)
                self.measure_muster(name, muster, start)
                for label, workers, threads in SETTINGS:
                    self.say(f"{name}: by hand, {label}")
                    try:
                        self.measure_peer(name, label, (workers, threads), muster)
                    except Unavailable as error:
                        self.notes.append(f"{name}: by hand, {label}: {error}")
            if name == "light":
                self.compare_with_tensors(name)

    def load(self, connections):
        """The arguments that say what is sent."""
        return ["--format", "image", "--files", self.photo, "--connections", connections]

    def seconds(self):
        """Of a block: runs take longer than those of other sets."""
        return 8 * self.options.block

    def problem(self, port):
        """Asks once: what is wrong with the answer, or nothing."""
        return None if answer(port, self.photo.read_bytes()) else "no objects"

    def measure_muster(self, name, muster, start):
        """muster by itself."""
        for connections in self.options.connections:
            arguments = [url(muster.port), *self.load(connections), "--duration", self.seconds()]
            report = self.bench.run([*arguments, "--warm-up", 1, "--pid", muster.pid])
            row = Row(name, "muster", "default", "JPEG", connections)
            self.rows.append(row.with_report(report).with_process(muster.memory(), start))

    def measure_peer(self, name, label, workers_and_threads, muster):
        """A row for each number of connections, and what the processor time beside the run is."""
        workers, threads = workers_and_threads
        port = free_port()
        variables = {
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(HERE / "image"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEER_MODEL": str(self.files / f"{name}.onnx"),
            "PEER_THREADS": str(threads),
        }
        command = [self.programs / "uvicorn", "--app-dir", HERE / "image", "app:app", "--port", port]
        command += ["--workers", workers, "--no-access-log", "--loop", "uvloop", "--http", "httptools"]
        with Server(command, self.options.work / "by-hand-image.log", variables, self.options.work) as server:
            start = server.wait_until_right(lambda: self.problem(port) or server.workers_left(workers), START_LIMIT)
            wrong = difference(answer(port, self.photo.read_bytes()), self.expected)
            if wrong:
                raise Unavailable(f"answers differ: {wrong}")
            rows = []
            for connections in self.options.connections:
                row = Row(name, "by hand", label, "JPEG", connections)
                self.compare(row, server, port, muster)
                rows.append(row)
            self.rows += [it.with_process(server.memory(), start) for it in rows]
        if name == "light":
            run = self.cost_of_run(name)
            for row in rows:
                beside = (row.muster_cpu_us - run, row.cpu_us - run)
                self.notes.append(
                    f"{name}, by hand, {label}, {row.connections} connections: beside the run of {run:.0f} µs "
                    f"{beside[1]:.0f} µs of processor time, muster {beside[0]:.0f} µs: {beside[0] / beside[1]:.2f} times"
                )

    def compare(self, row, server, port, muster):
        """Fills in the numbers and ratios of a row."""
        arguments = [url(port), "--vs", url(muster.port), *self.load(row.connections)]
        arguments += ["--pid", server.pid, "--vs-pid", muster.pid, "--pairs", self.options.pairs]
        arguments += ["--duration", self.seconds(), "--warm-up", self.seconds() / 4, "--most-steal", 10]
        row.with_comparison(self.bench.run(arguments))

    def cost_of_run(self, name):
        """Processor time of a run by itself, in microseconds."""
        done = finished([self.programs / "python", HERE / "image/costs.py", self.files / f"{name}.onnx", "run"])
        return float(done.stdout)

    def compare_with_tensors(self, name):
        """What the picture saves beside its tensor: on the wire, in the server, in the client."""
        for said, way in ((True, "JPEG"), (False, "tensor")):
            place = repository(self.options.work / "repositories", name, self.files / f"{name}{'' if said else '-plain'}.onnx", said)
            with start_muster(self.options, place, "muster.log") as muster:
                time.sleep(1)
                load = self.load(4) if said else ["--format", "kserve-binary", "--model", "detector", "--connections", 4]
                arguments = [url(muster.port), *load, "--duration", 4 * self.seconds(), "--warm-up", 1]
                report = self.bench.run([*arguments, "--pid", muster.pid])
            count = max(report["requests"], 1)
            own = 0.0
            if not said:
                file = self.files / f"{name}.onnx"
                own = float(finished([self.programs / "python", HERE / "image/costs.py", file, "client", self.photo]).stdout)
            sender = 1e6 * report["generator"]["cpu_s"] / count
            self.notes.append(
                f"{name} as {way}, 4 connections: {report['bytes_sent'] / count / 1e3:.0f} kB there, "
                f"{report['bytes_received'] / count / 1e3:.1f} kB back, {report['throughput']:.0f} requests/s, server "
                f"{report['server']['cpu_per_request_us']:.0f} µs, client {sender:.0f} µs to send and read, "
                f"{own:.0f} µs to prepare the tensor and find the boxes with OpenCV and NumPy"
            )


def url(port):
    """Where requests go; the format knows its path."""
    return f"http://127.0.0.1:{port}"
