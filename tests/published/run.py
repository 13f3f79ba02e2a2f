#!/usr/bin/env python3
"""Published results of other servers, each repeated in shape by one command:

    cargo build --release -p muster
    python3 tests/published/run.py threads      # threads of small graphs: a wrong tuple costs 20 times
    python3 tests/published/run.py bert         # BERT as TorchScript and ONNX, batching, instances; --device gpu
    python3 tests/published/run.py detector     # a detector, compiled and not
    python3 tests/published/run.py load         # load until it bends, and beyond
    python3 tests/published/run.py trees        # boosted trees: 500 requests/s below 100 ms

`--quick` is a look, no measurement. docs/performance.md has the tables beside the articles'.
"""

import argparse
import csv
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peers"))
from processes import free_port  # noqa: E402

FEATURES = 30
# Shares of the knee at which an open loop sends.
SHARES = (0.5, 0.8, 1, 1.5, 3, 10)
DEADLINE_MS = 1000


def main():
    """Runs one case and prints Markdown."""
    given = arguments()
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}: `tests/published/run.py {' '.join(sys.argv[1:])}`\n", flush=True)
    sys.exit(CASES[given.case](given))


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--quick", action="store_true", help="short blocks")
    parser.add_argument("--muster", type=Path, default=ROOT / "target/release/muster")
    parser.add_argument("--python", default=sys.executable, help="for bert: one with torch, numpy and onnxscript")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="for bert")
    parser.add_argument("--model", type=Path, default=ROOT / "tests/fixtures/pipelines/sst2/folder",
                        help="for load: a folder that classifies texts; the fixture is a small DistilBERT")
    return parser.parse_args()


def machine():
    """Its processors."""
    names = [it.split(":")[1].strip() for it in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in it]
    return f"{len(os.sched_getaffinity(0))} × {names[0] if names else 'processor'}"


def threads(given):
    """A grid of instances, threads and spinning, and the default beside the best, at 16 connections and at one."""
    return run(["cargo", "bench", "-p", "muster", "--bench", "threads", "--", *(["--quick"] if given.quick else [])])


def bert(given):
    """Engines, types, batching and instances. On the CPU a small BERT with short sequences."""
    command = [given.python, ROOT / "tests/gpu/experiment.py", "--device", given.device, "--muster", given.muster]
    if given.device == "cpu":
        command += ["--layers", 4, "--wide", 256, "--heads", 4, "--length", 64, "--types", "fp32"]
    return run(command + (["--seconds", 1] if given.quick else []))


def detector(given):
    """One detector as exported, optimised, from the cache, in FP16 and in int8, in turns."""
    command = [sys.executable, ROOT / "tests/peers/run.py", "--set", "detector", "--muster", given.muster]
    return run(command + (["--quick"] if given.quick else []))


def run(command):
    """The exit status of a command of the repository, which prints its own table."""
    return subprocess.run([str(it) for it in command], cwd=ROOT, check=False).returncode


class Server:
    """`muster serve` on a port of its own."""

    def __init__(self, given, model):
        self.port = free_port()
        command = [given.muster, "serve", model, "--http-address=127.0.0.1", "--drain-delay-secs=0"]
        ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0", f"--sagemaker-port={self.port}"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(it) for it in command] + ports, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 60
        while not self.is_up():
            if self.process.poll() is not None or time.monotonic() > until:
                self.log.seek(0)
                sys.exit("the server does not start: " + self.log.read().decode()[-2000:])
            time.sleep(0.05)

    def is_up(self):
        """Is /ping answered with 200?"""
        return self.ping()[0] == 200

    def ping(self):
        """The status of /ping, and how long it took."""
        begun = time.perf_counter()
        try:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/ping")
            status = connection.getresponse().status
            connection.close()
        except OSError:
            status = 0
        return status, time.perf_counter() - begun

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def bench(given, server, *more):
    """A report of `muster bench` on /invocations."""
    command = [given.muster, "bench", f"http://127.0.0.1:{server.port}", "--pid", server.process.pid, "--json", *more]
    done = subprocess.run([str(it) for it in command], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(done.stderr)


def load(given):
    """The knee in a closed loop, then an open loop from half of it to ten times as much."""
    seconds = 1 if given.quick else 10
    body = ["--format", "invocations", "--content-type", "application/json"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file, Server(given, given.model) as server:
        json.dump({"inputs": "I am super happy right now."}, file)
        file.flush()
        body += ["--body", file.name]
        limit = bench(given, server, *body, "--find-limit", "--duration", seconds)
        best = max((it for it in limit["steps"] if it["errors"] == 0), key=lambda it: it["throughput"])
        knee = best["throughput"]
        print(f"Knee: {knee:.0f} requests/s with {best['users']} users, p95 {best['p95_us'] / 1e3:.1f} ms, "
              f"{100 * best['server_cores']:.0f} % CPU (100 for each core)\n")
        print("| Load, × knee | due /s | answered /s | within 1 s, % of the knee | p95 of answers, ms | refused | "
              "p95 of refusals, ms | connections lost | /ping p99, ms |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for share in SHARES:
            pings, is_over = [], threading.Event()
            pinging = threading.Thread(target=ping_until, args=(server, is_over, pings))
            pinging.start()
            rate = max(knee * share, 1)
            report = bench(given, server, *body, "--rate", f"{rate:.1f}", "--duration", seconds, "--connections",
                           max(64, min(2000, int(rate))), "--deadline-ms", DEADLINE_MS, "--warm-up", 0.5)
            is_over.set()
            pinging.join()
            refusals = report.get("refusal_latency") or {}
            refused = sum(count for status, count in report["statuses"].items() if status in ("429", "503"))
            lost = sum(report["failures"][it] for it in ("connect", "reset", "malformed"))
            slow = sorted(pings)[int(0.99 * (len(pings) - 1))] if pings else float("nan")
            print(f"| {share} | {rate:.0f} | {report['throughput']:.0f} | {100 * report['goodput'] / knee:.0f} | "
                  f"{report['latency']['p95_us'] / 1e3:.1f} | {refused} | "
                  f"{refusals.get('p95_us', float('nan')) / 1e3:.1f} | {lost} | {1e3 * slow:.1f} |", flush=True)


def ping_until(server, is_over, pings):
    """Asks for /ping ten times a second."""
    while not is_over.wait(0.1):
        pings.append(server.ping()[1])


def trees(given):
    """The article's advanced job with a forest of its size, threads times workers, on one core and on two."""
    scale = 40 if given.quick else 4
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        # Some ten megabytes, as the article's.
        (folder / "model.json").write_text(json.dumps(forest(1000, 6)))
        row = ",".join(f"{random.Random(1).uniform(-3, 3):.6f}" for _ in range(FEATURES)) + "\n"
        for name, body in (("row", row), ("rows, 10 KB", row * (10240 // len(row)))):
            print(f"\n{name}:\n")
            payload = folder / "body.csv"
            payload.write_text(body)
            (folder / "job.json").write_text(json.dumps(fraud_job(folder / "model.json")))
            (folder / "prices.toml").write_text(
                "".join(f'[instance."local.cpu{it}"]\ncpus = {it}\nprice_per_hour = {0.0575 * it}\n' for it in (1, 2)))
            command = [given.muster, "recommend", "--input-json", folder / "job.json", "--payload", payload,
                       "--time-scale", scale, "--prices", folder / "prices.toml", "--describe", folder / "describe.json",
                       "--table", folder / "table.md", "--series", folder / "series.csv", "--state", folder / "state"]
            done = subprocess.run([str(it) for it in command], capture_output=True, text=True, check=False)
            if done.returncode not in (0, 3):
                sys.exit(done.stderr)
            print((folder / "table.md").read_text(), flush=True)
            rows = csv.DictReader(io.StringIO((folder / "series.csv").read_text()))
            highest = max(float(it["replies_per_s"]) * 60 for it in rows)
            print(f"The most of a window: {highest:.0f} requests/min", flush=True)


def fraud_job(model):
    """The job of the article, on parts of this machine."""
    ranges = [{"Name": "OMP_NUM_THREADS", "Value": ["1", "2", "4"]},
              {"Name": "SAGEMAKER_MODEL_SERVER_WORKERS", "Value": ["1", "2"]}]
    cores = [it for it in (1, 2) if it <= len(os.sched_getaffinity(0))]
    machines = [{"InstanceType": f"local.cpu{it}", "EnvironmentParameterRanges": {"CategoricalParameterRanges": ranges}}
                for it in cores]
    phases = [{"InitialNumberOfUsers": it, "SpawnRate": it, "DurationInSeconds": 120} for it in (2, 6)]
    return {
        "JobName": "fraud-advanced", "JobType": "Advanced", "RoleArn": "arn:aws:iam::111111111111:role/x",
        "InputConfig": {
            "ModelName": str(model), "JobDurationInSeconds": 7200,
            "TrafficPattern": {"TrafficType": "PHASES", "Phases": phases},
            "ResourceLimit": {"MaxNumberOfTests": 12, "MaxParallelOfTests": 1}, "EndpointConfigurations": machines},
        "StoppingConditions": {"MaxInvocations": 30000, "FlatInvocations": "Continue",
                               "ModelLatencyThresholds": [{"Percentile": "P95", "ValueInMilliseconds": 100}]}}


def forest(count, depth):
    """A classifier of random trees in XGBoost's JSON."""
    chance = random.Random(0)
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1

    def tree(number):
        is_inner = [it < inner for it in range(nodes)]
        conditions = [chance.uniform(-2, 2) if it else chance.uniform(-0.05, 0.05) for it in is_inner]
        zeros = [0] * nodes
        return {
            "base_weights": conditions, "categories": [], "categories_nodes": [], "categories_segments": [],
            "categories_sizes": [], "default_left": zeros, "id": number,
            "left_children": [2 * at + 1 if it else -1 for at, it in enumerate(is_inner)],
            "right_children": [2 * at + 2 if it else -1 for at, it in enumerate(is_inner)],
            "parents": [2147483647] + [(at - 1) // 2 for at in range(1, nodes)],
            "loss_changes": zeros, "sum_hessian": [1.0] * nodes, "split_conditions": conditions,
            "split_indices": [chance.randrange(FEATURES) if it else 0 for it in is_inner], "split_type": zeros,
            "tree_param": {"num_deleted": "0", "num_feature": str(FEATURES), "num_nodes": str(nodes),
                           "size_leaf_vector": "1"}}

    model = {"gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(count)},
             "iteration_indptr": list(range(count + 1)), "tree_info": [0] * count,
             "trees": [tree(it) for it in range(count)]}
    parameters = {"base_score": "5E-1", "boost_from_average": "1", "num_class": "0",
                  "num_feature": str(FEATURES), "num_target": "1"}
    return {"learner": {"attributes": {}, "feature_names": [], "feature_types": [],
                        "gradient_booster": {"model": model, "name": "gbtree"}, "learner_model_param": parameters,
                        "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}}},
            "version": [2, 1, 0]}


CASES = {"threads": threads, "bert": bert, "detector": detector, "load": load, "trees": trees}

if __name__ == "__main__":
    main()
