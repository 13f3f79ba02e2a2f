"""What the cases share: servers that are up, loads on them, and how their findings are said."""

import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from bench import failed
from processes import Server, Unavailable, environment, finished, free_port
from table import TOLERATED

HERE = Path(__file__).resolve().parent
ROOT = Path(__file__).resolve().parents[2]
# Seconds until a server answers.
START_LIMIT = 120
# Resamples of an interval.
RESAMPLES = 2000


def say(text):
    """Tells how far it is."""
    print(text, file=sys.stderr, flush=True)


def processors():
    """Those of this machine that may be used."""
    return sorted(os.sched_getaffinity(0))


class Endpoint(Server):
    """A server that is ready: it answers /ping with 200 at `port`. A context manager that ends it."""

    def __init__(self, command, log, port, cpus=None, variables=None):
        pinned = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
        super().__init__([*pinned, *command], log, variables)
        self.port = port
        try:
            self.start_s = self.wait_until_right(self.problem, START_LIMIT)
        except Unavailable as error:
            self.__exit__()
            sys.exit(f"{Path(str(command[0])).name}: {error}; its log is {self.log}")

    def written(self):
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def problem(self):
        """What is wrong with the answer to /ping, or nothing."""
        status, _ = self.ping()
        return None if status == 200 else f"/ping: expected status 200, given {status or 'no answer'}"

    def ping(self):
        """The status of /ping, 0 where there is none, and the seconds it took."""
        begun = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/ping")
            status = connection.getresponse().status
        except OSError:
            status = 0
        connection.close()
        return status, time.perf_counter() - begun

    def ask(self, path, body, port=None):
        """The reply to a JSON body. Ends the program where there is none."""
        text = json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", port or self.port, timeout=120)
        connection.request("POST", path, text, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        read = reply.read()
        connection.close()
        if reply.status != 200:
            sys.exit(f"{path}: expected status 200, given {reply.status}: {read[:500].decode(errors='replace')}")
        return json.loads(read)


class Muster(Endpoint):
    """muster with the settings that it has by default, but for `arguments`: /invocations and /ping are at `port`, the
    other addresses of HTTP at `http_port`."""

    def __init__(self, given, *arguments, cpus=None, name="muster"):
        port, self.http_port = free_port(), free_port()
        command = [given.muster, "serve", *arguments, "--http-address=127.0.0.1", "--drain-delay-secs=0"]
        command += [f"--http-port={self.http_port}", "--grpc-port=0", "--metrics-port=0", f"--sagemaker-port={port}"]
        super().__init__(command, given.work / f"{name}.log", port, cpus)

    @property
    def url(self):
        """Where requests of KServe's and TensorFlow Serving's forms go."""
        return f"http://127.0.0.1:{self.http_port}"

    def infer(self, model, inputs):
        """The outputs of a model by name, as flat lists of numbers."""
        reply = self.ask(f"/v2/models/{model}/infer", {"inputs": inputs}, self.http_port)
        return {it["name"]: it["data"] for it in reply["outputs"]}


def engines(given):
    """The libraries that this muster finds for its engines, each with its version, as the server names them once it has
    loaded a small model: `ONNX Runtime 1.31.1`, `libtorch 2.13.0`."""
    with tempfile.TemporaryDirectory() as folder:
        for model in ("models/type_fp32", "torchscript/mlp"):
            shutil.copytree(ROOT / "tests/fixtures" / model, Path(folder) / Path(model).name)
        # It needs no library, so that there is something to serve where none is found.
        (Path(folder) / "none/1").mkdir(parents=True)
        (Path(folder) / "none/config.pbtxt").write_text('backend: "identity" max_batch_size: 1\n' + "".join(
            f'{port} {{ name: "{port}" data_type: TYPE_FP32 dims: [ 1 ] }}\n' for port in ("input", "output")))
        with Muster(given, "--model-repository", folder, "--strict-readiness=false", name="engines") as server:
            server.wait_until_right(lambda: None if "ready to serve" in server.written() else "it loads", START_LIMIT)
            return re.findall(r'engine_version="([^",]+)', server.written())


def bench(given, *arguments):
    """The report of `muster bench`. Ends the program where there is none."""
    done = finished([str(it) for it in (given.muster, "bench", *arguments, "--json")])
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"muster bench {' '.join(map(str, arguments))}: {done.stderr}")


def check_answered(name, blocks):
    """Ends the program where more of the requests of these blocks failed than may: a refusal costs next to nothing, so
    that a rate with many of them says nothing of answers."""
    share = failed(blocks)
    if share > TOLERATED:
        sys.exit(f"{name}: expected {100 * TOLERATED:g} % of the requests to fail at most, given {100 * share:.1f} %")


def in_turns(count, keys, measure):
    """What `measure` finds for each key in each of `count` rounds: there and back, so that a drift of the machine falls
    on all."""
    found = {key: [] for key in keys}
    for turn in range(count):
        say(f"round {turn + 1} of {count}")
        for key in list(keys)[:: -1 if turn % 2 else 1]:
            found[key].append(measure(key))
    return found


def ratio(numbers, others):
    """The median of the ratios of neighbours, with the ends of its bootstrap interval of 95 %."""
    ratios = [one / other for one, other in zip(numbers, others) if other]
    if not ratios:
        return float("nan"), float("nan"), float("nan")
    chance = random.Random(0)
    drawn = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return statistics.median(ratios), drawn[RESAMPLES // 40], drawn[-RESAMPLES // 40]


def times(found, digits=2):
    """A ratio as text; `base` where it is that of numbers to themselves."""
    if found == (1.0, 1.0, 1.0):
        return "base"
    return "{:.{d}f} × ({:.{d}f}–{:.{d}f})".format(*found, d=digits)


def table(columns, rows):
    """Prints Markdown. A column whose name ends in `>` is of numbers."""
    print("| " + " | ".join(it.rstrip(">") for it in columns) + " |")
    print("|" + "|".join("--:" if it.endswith(">") else "---" for it in columns) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(flush=True)


def made(given, kind):
    """The folder of models of a kind, made once by `models.py` with PyTorch and ONNX in an environment of its own, and
    again where the code that makes them is another."""
    folder = given.work / "models" / kind
    code = (HERE / "models.py", HERE / "nets_models.py", ROOT / "tests/gpu/bert.py", HERE / "requirements.txt")
    stamp, wanted = folder / "made.txt", "".join(it.read_text() for it in code)
    if not stamp.exists() or stamp.read_text() != wanted:
        try:
            programs = environment(given.work / "environment", HERE / "requirements.txt", say)
        except Unavailable as error:
            sys.exit(f"tests/published/requirements.txt: {error}")
        say(f"making models: {kind}")
        done = finished([str(it) for it in (programs / "python", HERE / "models.py", kind, folder)])
        if done.returncode:
            sys.exit(f"models.py {kind}: {done.stderr[-3000:]}")
        stamp.write_text(wanted)
    return folder


def recommend(given, *arguments):
    """Runs `muster recommend`, which may find nothing within its limits. Ends the program where it measures nothing."""
    done = finished([str(it) for it in (given.muster, "recommend", *arguments)])
    if done.returncode not in (0, 3):
        sys.exit(f"muster recommend {' '.join(map(str, arguments))}: {done.stderr[-3000:]}")


def prices(file):
    """Writes what parts of this machine cost: a core half of what ml.m5.large does, which has two."""
    file.write_text("".join(
        f'[instance."local.cpu{it}"]\ncpus = {it}\nprice_per_hour = {0.0575 * it}\n' for it in (1, 2)))
