"""Networks for images before and after optimising: TorchScript, ONNX as exported, optimised, and with eight bits."""

import random
import statistics
import sys

from serving import Muster, bench, in_turns, made, ratio, say, table, times

NETS = {"detector": 416, "resnet-18": 224, "u-net": 256}
# By form: what answers may differ by from the graph as it was exported, as a share of its largest number.
FORMS = {"torchscript": 1e-3, "onnx-as-exported": 0.0, "onnx": 1e-3, "int8": 0.3}
# What was exported once more: how much equals differ.
AGAIN = "onnx-as-exported, again"
PUBLISHED = {
    "detector": "YOLOv4: mean 2.11 ×, p95 1.76 ×",
    "resnet-18": "ResNet-50: 286 %, ResNet-152: 33 %",
    "u-net": "22 %",
}


def nets(given):
    """One request after the other on one thread, all forms in turns; answers are compared first."""
    rounds, seconds = (2, 1) if given.quick else (7, 3)
    folder = made(given, "nets")
    cache = given.work / "cache"
    cache.mkdir(exist_ok=True)
    rows = []
    for net, side in NETS.items():
        say(net)
        # The same threads for both engines: ONNX Runtime's would be more while nothing else runs.
        threads = "--default-intra-op-threads=1"
        arguments = ("--model-repository", folder / net, f"--model-cache-dir={cache}", threads)
        # The first start fills the cache, where the file is large enough for it.
        with Muster(given, *arguments):
            pass
        with Muster(given, *arguments) as server:
            differences = compare(server, net, side)

            def block(key, server=server, side=side):
                form = "onnx-as-exported" if key == AGAIN else key
                report = bench(
                    given, server.url, "--format", "kserve-binary", "--model", form,
                    "--input", f"images:FP32:1,3,{side},{side}", "--duration", seconds,
                    "--warm-up", seconds / 10, "--pid", server.pid)
                if report["ok"] < report["requests"]:
                    sys.exit(f"{net}, {form}: {report['refusals']} {report['failures']}")
                latency = report["latency"]
                return latency["mean_us"] / 1e3, latency["p95_us"] / 1e3, report["server"]["cpu_per_request_us"] / 1e3

            found = in_turns(rounds, [*FORMS, AGAIN], block)
        for form in found:
            columns, base = list(zip(*found[form])), list(zip(*found["onnx-as-exported"]))
            script = list(zip(*found["torchscript"]))
            mean, p95, cpu = (statistics.median(it) for it in columns)
            rows.append([
                net, form, f"{mean:.1f}", f"{p95:.1f}", f"{cpu:.1f}", times(ratio(script[0], columns[0])),
                times(ratio(script[1], columns[1])), times(ratio(base[0], columns[0])),
                times(ratio(base[2], columns[2])), f"{100 * differences.get(form, 0):.2g} %",
                PUBLISHED[net] if form == "onnx" else "–"])
    print(f"{rounds} rounds of blocks of {seconds} s; medians. Ratios of latencies: above 1 this form is faster. "
          "The last row of each network is the noise.\n")
    table(
        ["network", "form", "mean ms>", "p95 ms>", "server CPU ms>", "TorchScript / this: mean>", "p95>",
         "as exported / this: mean>", "CPU>", "difference>", "published, compiled over not"], rows)


def compare(server, net, side):
    """By form the largest difference from the graph as it was exported, as a share of its largest number. Ends the
    program where one is too large."""
    chance = random.Random(0)
    data = [round(chance.random(), 3) for _ in range(3 * side * side)]
    inputs = [{"name": "images", "datatype": "FP32", "shape": [1, 3, side, side], "data": data}]
    (expected,) = server.infer("onnx-as-exported", inputs).values()
    largest = max(map(abs, expected))
    found = {}
    for form, limit in FORMS.items():
        (given,) = server.infer(form, inputs).values()
        found[form] = max(abs(one - other) for one, other in zip(given, expected)) / largest
        if found[form] > limit:
            sys.exit(f"{net}, {form}: expected answers within {limit} of the largest number, given {found[form]:.3g}")
    return found
