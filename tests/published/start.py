"""How long a server takes until it is ready, and how much memory, by where its models run.

    python3 tests/published/start.py PROGRAM.. [--set SET] [--models N] [--tries N] [--cache] [--peer]

The sets are of start_models.py: `small` has models of one operator, `large` models of 160 MiB, `mixed` nets of 0.1 to
100 MB. `--peer` adds one process with a session of ONNX Runtime for each model, as its Python package makes them.

All are measured in turns, so that each meets the same machine. Each line has medians: seconds from the start of the
process to `ready to serve`; processor seconds of all processes until then; and the memory of all processes (PSS) when
ready, after one request to each model and some rest, and at its peak. The peak is that of a start of its own, as to
look at memory takes time. Packages: onnx, onnxruntime for the peer. Programs look for ONNX Runtime as ever.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection

import start_models

PORTS = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"]
# Seconds after the requests until memory is at rest, and between two looks at a peak.
REST, LOOK = 5, 0.03
TICKS = os.sysconf("SC_CLK_TCK")


def family(pid):
    """A process and its descendants."""
    pids = [pid]
    for it in pids:
        try:
            lists = [child.read_text() for child in pathlib.Path(f"/proc/{it}/task").glob("*/children")]
        except OSError:
            # It has ended meanwhile.
            continue
        pids += [int(child) for text in lists for child in text.split()]
    return pids


def memory(pid):
    """PSS of a process and of its descendants, in MiB."""
    total = 0
    for it in family(pid):
        try:
            lines = pathlib.Path(f"/proc/{it}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def processor(pid):
    """Seconds of processors that they and their descendants that have ended have taken."""
    total = 0
    for it in family(pid):
        try:
            fields = pathlib.Path(f"/proc/{it}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / TICKS
    return total


class Peak:
    """The highest memory while it is entered."""

    def __init__(self, pid):
        self.pid, self.most, self.is_over = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        """Until it is left."""
        while not self.is_over.wait(LOOK):
            self.most = max(self.most, memory(self.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def until(lines, words):
    """Reads lines up to that with the words."""
    said = []
    for line in lines:
        said.append(line)
        if words in line:
            return said
    sys.exit(f"it ended without a line with '{words}':\n{''.join(said[-5:])}")


def ask(port, path, body=None):
    """The reply of a server."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST" if body else "GET", path, body and json.dumps(body))
    reply = connection.getresponse()
    read = reply.read()
    connection.close()
    if reply.status != 200:
        sys.exit(f"{path}: expected status 200, given {reply.status}: {read[:500]}")
    return json.loads(read)


def one_request_each(port, folder):
    """A row of ones to each model."""
    for model in sorted(folder.iterdir()):
        said = ask(port, f"/v2/models/{model.name}")["inputs"][0]
        shape = [1, *said["shape"][1:]]
        data = [1] * math.prod(shape)
        given = {"name": said["name"], "datatype": said["datatype"], "shape": shape, "data": data}
        ask(port, f"/v2/models/{model.name}/infer", {"inputs": [given]})


def start(command, folder, is_peak):
    """What a start has taken: a dict of figures."""
    began = time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        peak = Peak(server.pid)
        if is_peak:
            with peak:
                said = until(server.stdout, "ready to serve")
        else:
            said = until(server.stdout, "ready to serve")
        seconds = time.monotonic() - began
        found = {"s": seconds, "CPU s": processor(server.pid), "ready MiB": memory(server.pid)}
        if port := re.search(r"service=http address=\S+:(\d+)", "".join(said)):
            # What it says meanwhile is not to fill the pipe.
            threading.Thread(target=server.stdout.read, daemon=True).start()
            one_request_each(int(port[1]), folder)
        else:
            print("run", file=server.stdin, flush=True)
            until(server.stdout, "has run")
        time.sleep(REST)
        found["rest MiB"] = memory(server.pid)
        for pid in family(server.pid):
            # Workers end with their server.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return {"peak MiB": peak.most} if is_peak else found


def sessions(folder):
    """The peer: a session for each model, and a run of each once a line comes."""
    # Only the peer needs it.
    import numpy
    import onnxruntime

    models = [onnxruntime.InferenceSession(it / "1/model.onnx") for it in sorted(folder.iterdir())]
    print("ready to serve", flush=True)
    sys.stdin.readline()
    for model in models:
        given = model.get_inputs()[0]
        dtype = numpy.int64 if "int64" in given.type else numpy.float32
        model.run(None, {"x": numpy.ones([1, *given.shape[1:]], dtype)})
    print("has run", flush=True)
    sys.stdin.readline()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--set", choices=start_models.SETS, default="small")
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--cache", action="store_true", help="starts with --model-cache-dir, too")
    parser.add_argument("--peer", action="store_true", help="sessions without a server, too")
    parser.add_argument("--folder", type=pathlib.Path, help="a repository that was made before, in place of a set")
    parser.add_argument("--sessions", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sessions:
        return sessions(given.sessions)
    with tempfile.TemporaryDirectory() as own:
        own = pathlib.Path(own)
        models = given.folder or own / "models"
        if not given.folder:
            start_models.SETS[given.set](models, given.models)
        ways = {}
        for index, program in enumerate(given.programs):
            command = [program, "--model-repository", str(models), *PORTS]
            ways[program, "off"] = [*command, "--isolation=off"]
            ways[program, "auto"] = [*command, "--isolation=auto"]
            if given.cache:
                cached = ["--isolation=auto", f"--model-cache-dir={own}/cache{index}"]
                ways[program, "auto, a later start with a cache"] = [*command, *cached]
        if given.peer:
            ways["sessions", ""] = [sys.executable, __file__, "--sessions", str(models)]
        seen = {way: [] for way in ways}
        # The first start reads the files from the disk, and fills a cache.
        for attempt in range(given.tries + 2):
            for way, command in ways.items():
                found = start(command, models, attempt == given.tries + 1)
                if attempt:
                    seen[way].append(found)
        show(seen, len(list(models.iterdir())), given.tries)


def show(seen, models, tries):
    """A table of medians."""
    print(f"{models} models, medians of {tries} starts")
    for (program, way), found in seen.items():
        figures = {}
        for one in found:
            for name, value in one.items():
                figures.setdefault(name, []).append(value)
        medians = {name: statistics.median(values) for name, values in figures.items()}
        print(f"{program} {way}: " + ", ".join(f"{name} {value:.2f}" for name, value in medians.items()))


if __name__ == "__main__":
    main()
