"""Four short questions: the first request after a start, the response cache, an ensemble beside calls of its steps, and
JSON beside binary tensors."""

import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

from cases import case
from serving import ROOT, Muster, bench, in_turns, made, ratio, table, times

MODELS = ROOT / "tests/fixtures/models"


def first(given):
    """The first request to a server that has just started, as it comes and with Triton's `model_warmup`, beside later
    ones."""
    starts = 3 if given.quick else 15
    source = made(given, "bert-64") / "base"
    tensors = {"ids": [1] * 64, "mask": [1] * 64}
    inputs = [{"name": name, "datatype": "INT32", "shape": [1, 64], "data": data} for name, data in tensors.items()]
    named = " ".join(
        f'inputs {{ key: "{it}" value {{ data_type: TYPE_INT32 dims: [ 64 ] zero_data: true }} }}' for it in tensors)
    warm_up = f'model_warmup [ {{ name: "zeros" batch_size: 1 count: 5 {named} }} ]\n'
    with tempfile.TemporaryDirectory() as folder:
        keys = list(itertools.product(("torchscript", "onnx"), ("cold", "warmed")))
        for form, way in keys:
            model = Path(folder) / form / way / "bert"
            model.mkdir(parents=True)
            (model / "1").symlink_to((source / form / "1").resolve())
            config = (source / form / "config.pbtxt").read_text()
            (model / "config.pbtxt").write_text(config + warm_up * (way == "warmed"))

        def start(key):
            with Muster(given, "--model-repository", Path(folder, *key)) as server:
                spent = []
                for _ in range(30):
                    begun = time.perf_counter()
                    server.infer("bert", inputs)
                    spent.append(1e3 * (time.perf_counter() - begun))
                return spent[0], spent[1], statistics.median(spent[10:]), 1e3 * server.start_s

        found = in_turns(starts, keys, start)
    rows = []
    for form, way in keys:
        columns = list(zip(*found[form, way]))
        medians = [f"{statistics.median(it):.1f}" for it in columns]
        rows.append([form, way, *medians, times(ratio(columns[0], columns[2]))])
    print(f"{starts} starts of each; medians.\n")
    table(
        ["form", "start", "first request ms>", "second ms>", "11th to 30th ms>", "start to ready ms>",
         "first / later>"],
        rows)


def cache(given):
    """A model of a millisecond without the response cache, and with it at several shares of requests that it knows."""
    rounds, count = (2, 300) if given.quick else (9, 3000)
    # The second without a cache is the noise.
    shares = {"no cache": None, "no cache, again": None, "0 %": 0.0, "50 %": 0.5, "90 %": 0.9}
    model = case("transformer")
    chance = random.Random(0)
    highest = max(model.values)

    def new():
        return [chance.randint(0, highest) for _ in range(64)]

    def body(values):
        return json.dumps({"inputs": [{"name": model.input, "datatype": "INT64", "shape": [1, 64], "data": values}]})

    known = body(model.values)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "models/transformer"
        (place / "1").mkdir(parents=True)
        (place / "1/model.onnx").symlink_to(model.file)
        (place / "config.pbtxt").write_text("response_cache { enable: true }\n")
        lines = Path(folder) / "bodies.jsonl"
        repository = ("--model-repository", place.parent)
        with Muster(given, *repository, name="plain") as plain, \
                Muster(given, *repository, "--cache-config=local,size=268435456", name="keeping") as keeping:
            keeping.ask("/v2/models/transformer/infer", json.loads(known), keeping.http_port)

            def block(key):
                share = shares[key]
                server = plain if share is None else keeping
                # None of those that are not known has been sent before.
                sent = (known if chance.random() < (share or 0) else body(new()) for _ in range(count))
                lines.write_text("".join(f"{it}\n" for it in sent))
                before = hits(server)
                report = bench(
                    given, server.url + "/v2/models/transformer/infer", "--bodies", lines, "--no-check",
                    "--requests", count, "--warm-up", 0, "--connections", 4, "--pid", server.pid)
                if report["ok"] < count:
                    sys.exit(f"{key}: {report['refusals']} {report['failures']}")
                latency = report["latency"]
                return (report["throughput"], latency["p50_us"] / 1e3, latency["p95_us"] / 1e3,
                        report["server"]["cpu_per_request_us"], 100 * (hits(server) - before) / count)

            found = in_turns(rounds, shares, block)
    rows, base = [], list(zip(*found["no cache"]))
    for key, blocks in found.items():
        columns = list(zip(*blocks))
        rate, p50, p95, cpu, hit = (statistics.median(it) for it in columns)
        rows.append([key, f"{hit:.0f} %", f"{rate:.0f}", f"{p50:.2f}", f"{p95:.2f}", f"{cpu:.0f}",
                     times(ratio(columns[0], base[0])), times(ratio(base[3], columns[3]))])
    print(f"{rounds} rounds of {count} requests over 4 connections; medians. Bodies of {len(known)} bytes.\n")
    table(
        ["hits asked for", "counted>", "requests/s>", "p50 ms>", "p95 ms>", "server CPU µs>",
         "requests/s × no cache>", "no cache / CPU>"], rows)


def hits(server):
    """Requests that the cache has answered so far."""
    with urlopen(server.url + "/v2/models/transformer/stats", timeout=60) as reply:
        (model,) = json.load(reply)["model_stats"]
    return model["inference_stats"].get("cache_hit", {}).get("count", 0)


# Name, the two steps as models with input and output, and the shape of what goes through them.
CHAINS = {
    "double → convnet, 12 KB": (("double", "input", "output"), ("convnet", "image", "probabilities"), (1, 3, 32, 32)),
    "double → double, 600 KB": (("double", "input", "output"), ("again", "input", "output"), (1, 3, 224, 224)),
}


def ensemble(given):
    """An ensemble beside a client that calls its two steps one after the other, which is the sum of the two calls."""
    rounds, seconds = (2, 0.5) if given.quick else (9, 2)
    rows = []
    for name, (one, two, shape) in CHAINS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_chain(Path(folder), one, two, shape)
            calls = {"first step": one[:2], "second step": two[:2], "ensemble": ("both", "x")}
            with Muster(given, "--model-repository", folder) as server:

                def block(key, calls=calls, shape=shape, server=server):
                    model, port = calls[key]
                    report = bench(
                        given, server.url, "--format", "kserve-binary", "--model", model,
                        "--input", f"{port}:FP32:{','.join(map(str, shape))}", "--duration", seconds, "--warm-up", 0.2,
                        "--pid", server.pid)
                    if report["ok"] < report["requests"]:
                        sys.exit(f"{model}: {report['refusals']} {report['failures']}")
                    return report["latency"]["mean_us"], report["server"]["cpu_per_request_us"]

                found = in_turns(rounds, calls, block)
        calls = [[sum(it) for it in zip(*pair)] for pair in zip(found["first step"], found["second step"])]
        both = [list(it) for it in zip(*found["ensemble"])]
        sums = [list(it) for it in zip(*calls)]
        for way, (mean, cpu) in (("two calls", sums), ("ensemble", both)):
            rows.append([name, way, f"{statistics.median(mean):.0f}", f"{statistics.median(cpu):.0f}",
                         times(ratio(sums[0], mean)), times(ratio(sums[1], cpu))])
    print(f"{rounds} rounds of blocks of {seconds} s, binary tensors, one connection; medians.\n")
    table(["steps", "way", "mean µs>", "server CPU µs>", "two calls / this: mean>", "CPU>"], rows)


def write_chain(folder, one, two, shape):
    """A repository with both steps and an ensemble of them."""
    dims = f"[ {', '.join(map(str, shape))} ]"
    end = "[ 1, 10 ]" if two[0] == "convnet" else dims
    for (name, given, output), last in ((one, dims), (two, end)):
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
        file = MODELS / ("convnet" if name == "convnet" else "any_rank") / "1/model.onnx"
        (folder / name / "1/model.onnx").symlink_to(file)
        (folder / name / "config.pbtxt").write_text(
            f'max_batch_size: 0\ninput [ {{ name: "{given}" data_type: TYPE_FP32 dims: {dims} }} ]\n'
            f'output [ {{ name: "{output}" data_type: TYPE_FP32 dims: {last} }} ]\n')
    steps = ",\n".join(
        f'  {{ model_name: "{name}" model_version: -1 input_map {{ key: "{given}" value: "{source}" }} '
        f'output_map {{ key: "{output}" value: "{target}" }} }}'
        for (name, given, output), source, target in ((one, "x", "between"), (two, "between", "y")))
    (folder / "both/1").mkdir(parents=True)
    (folder / "both/config.pbtxt").write_text(
        f'platform: "ensemble"\nmax_batch_size: 0\ninput [ {{ name: "x" data_type: TYPE_FP32 dims: {dims} }} ]\n'
        f'output [ {{ name: "y" data_type: TYPE_FP32 dims: {end} }} ]\nensemble_scheduling {{ step [\n{steps}\n] }}\n')


def body(given):
    """The same tensor of [1, 3, 640, 640] as JSON and as bytes, to a graph that does next to nothing with it."""
    rounds, seconds = (2, 1) if given.quick else (9, 3)
    formats = ("kserve-json", "kserve-binary")
    with Muster(given, "--model-repository", made(given, "mean")) as server:

        def block(key):
            report = bench(
                given, server.url, "--format", key, "--model", "mean", "--input", "images:FP32:1,3,640,640",
                "--duration", seconds, "--warm-up", 0.3, "--pid", server.pid)
            if report["ok"] < report["requests"]:
                sys.exit(f"{key}: {report['refusals']} {report['failures']}")
            latency = report["latency"]
            return (latency["mean_us"] / 1e3, latency["p95_us"] / 1e3, report["server"]["cpu_per_request_us"] / 1e3,
                    report["bytes_sent"] / report["requests"] / 2**20)

        found = in_turns(rounds, formats, block)
    rows, base = [], list(zip(*found["kserve-json"]))
    for key, blocks in found.items():
        columns = list(zip(*blocks))
        medians = [f"{statistics.median(it):.2f}" for it in columns[:3]]
        rows.append([key, f"{statistics.median(columns[3]):.1f}", *medians,
                     times(ratio(base[0], columns[0]), 1), times(ratio(base[2], columns[2]), 1)])
    print(f"{rounds} rounds of blocks of {seconds} s, one connection; medians.\n")
    table(["body", "MiB>", "mean ms>", "p95 ms>", "server CPU ms>", "JSON / this: mean>", "CPU>"], rows)
    print("Expected: 5 × or more.\n")
