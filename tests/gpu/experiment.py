#!/usr/bin/env python3
"""What batching and a second instance are worth on a GPU, for a model in the shape of BERT-large at a sequence of 512:
TorchScript and ONNX, FP32 and FP16, each alone, with dynamic batching, with two instances, and with both.

    cargo build --release && python3 backends/pytorch/prepare.py --gpu
    python3 tests/gpu/experiment.py
    python3 tests/gpu/experiment.py --device cpu --layers 2 --wide 128 --length 64 --seconds 1     # does it work?

Needs torch, numpy and onnxscript to make the models (1.3 GB each in FP32, kept in --work), and for --device gpu a GPU
with its driver. Every answer is compared with that of ONNX Runtime on the CPU in FP32 before anything is measured.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import bert

ROOT = Path(__file__).resolve().parents[2]
# Largest difference from the CPU's FP32, in units of the answers' own size (they are normalised to about 1). FP16 has
# 11 bits, and its errors add up over the layers.
TOLERANCE = {"fp32": 2e-3, "fp16": 5e-2}
SETTINGS = {"base": (1, False), "batching": (1, True), "two instances": (2, False), "both": (2, True)}


def main():
    """Makes the models, measures each cell, prints the table."""
    given = arguments()
    shape = bert.Shape(given.layers, given.wide, given.heads, 4 * given.wide, 30522, given.length)
    given.work.mkdir(parents=True, exist_ok=True)
    expected = reference(given, shape)
    print("| Engine | Type | Setting | Requests/s | × base | p50, ms | p95, ms | Difference from the CPU's FP32 |")
    print("|---|---|---|---:|---:|---:|---:|---:|", flush=True)
    wrong = 0
    for engine in given.engines:
        for dtype in given.types:
            base = None
            for setting in given.settings:
                cell = measure(given, shape, engine, dtype, setting, expected)
                base = base or cell["rate"]
                wrong += cell["difference"] > TOLERANCE[dtype]
                print(f"| {engine} | {dtype} | {setting} | {cell['rate']:.1f} | {cell['rate'] / base:.2f} | "
                      f"{cell['p50']:.1f} | {cell['p95']:.1f} | {cell['difference']:.1e} |", flush=True)
    if wrong:
        sys.exit(f"{wrong} cells answered with more difference than {TOLERANCE}")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", choices=["gpu", "cpu"], default="gpu")
    add("--muster", type=Path, default=ROOT / "target/release/muster")
    add("--onnxruntime", type=Path, help="libonnxruntime.so of the GPU wheel, with its providers beside it")
    add("--work", type=Path, default=ROOT / "target/gpu-experiment", help="models and logs")
    add("--connections", type=int, default=16)
    add("--seconds", type=int, default=10)
    add("--engines", nargs="+", default=["pytorch", "onnxruntime"])
    add("--types", nargs="+", default=["fp32", "fp16"])
    add("--settings", nargs="+", default=list(SETTINGS))
    for name in ("layers", "wide", "heads", "length"):
        add(f"--{name}", type=int, default=getattr(bert.Shape, name))
    return parser.parse_args()


def model(given, shape, engine, dtype) -> Path:
    """The folder of that model's file; written unless it is there."""
    sizes = f"{shape.layers}-{shape.wide}-{shape.heads}-{shape.length}"
    folder = given.work / f"{engine}-{dtype}-{sizes}"
    file = folder / ("model.pt" if engine == "pytorch" else "model.onnx")
    if not file.is_file():
        aside = folder.with_suffix(".new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        bert.write(shape, engine, dtype, str(aside / file.name))
        aside.rename(folder)
    return folder


class Server:
    """muster with one model, on free ports."""

    def __init__(self, given, shape, engine, dtype, kind, instances, batching):
        repository = given.work / "repository"
        shutil.rmtree(repository, ignore_errors=True)
        folder = repository / "bert"
        folder.mkdir(parents=True)
        (folder / "1").symlink_to(model(given, shape, engine, dtype).resolve())
        (folder / "config.pbtxt").write_text(bert.config(shape, engine, dtype, kind, instances, batching))
        command = [str(given.muster), "--model-repository", str(repository), "--http-address=127.0.0.1"]
        command += ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", "--drain-delay-secs=0"]
        # As many requests as wait are to wait: what is measured is the GPU, not what is refused.
        command += ["--max-queue-wait-ms=0"]
        environment = dict(os.environ)
        if given.onnxruntime and kind == "gpu":
            environment["ORT_DYLIB_PATH"] = str(given.onnxruntime)
        self.log = given.work / "server.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.address = self.wait()

    def wait(self):
        """The address, once the model is ready."""
        for _ in range(6000):
            text = self.log.read_text()
            found = re.search(r"service=\"?http\"? address=\"?([0-9.:]+)", text)
            if found and "model is ready" in text:
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        sys.exit(f"the server did not become ready:\n{self.log.read_text()[-2000:]}")

    def infer(self, ids, mask):
        """Both outputs, as FP32."""
        inputs = [{"name": name, "datatype": "INT32", "shape": list(it.shape), "parameters": {"binary_data_size": it.nbytes}}
                  for name, it in (("ids", ids), ("mask", mask))]
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        connection = http.client.HTTPConnection(self.address, timeout=600)
        headers = {"Inference-Header-Content-Length": str(len(head))}
        connection.request("POST", "/v2/models/bert/infer", head + ids.tobytes() + mask.tobytes(), headers)
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            sys.exit(f"status {reply.status}: {body[:500]!r}")
        size = int(reply.getheader("Inference-Header-Content-Length"))
        outputs, at = {}, size
        for output in json.loads(body[:size])["outputs"]:
            length = output["parameters"]["binary_data_size"]
            kind = np.float16 if output["datatype"] == "FP16" else np.float32
            outputs[output["name"]] = np.frombuffer(body[at:at + length], kind).reshape(output["shape"]).astype(np.float32)
            at += length
        return outputs

    def stop(self):
        """Ends it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def question(shape):
    """Two rows, of which the second is half masked."""
    ids = np.random.default_rng(0).integers(0, shape.words, (2, shape.length), dtype=np.int32)
    mask = np.ones_like(ids)
    mask[1, shape.length // 2:] = 0
    return ids, mask


def reference(given, shape):
    """What ONNX Runtime answers on the CPU in FP32."""
    server = Server(given, shape, "onnxruntime", "fp32", "cpu", 1, False)
    try:
        return server.infer(*question(shape))
    finally:
        server.stop()


def measure(given, shape, engine, dtype, setting, expected):
    """One cell of the table."""
    server = Server(given, shape, engine, dtype, given.device, *SETTINGS[setting])
    try:
        answers = server.infer(*question(shape))
        difference = max(float(np.abs(answers[name] - it).max()) for name, it in expected.items())
        command = [str(given.muster), "bench", f"http://{server.address}", "--model", "bert", "--json"]
        command += ["--connections", str(given.connections), "--duration", str(given.seconds), "--warm-up", "2"]
        # Answers are compared here, with those in FP32.
        command.append("--no-check")
        for name in ("ids", "mask"):
            command += ["--shape", f"{name}:1,{shape.length}"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        server.stop()
    return {"difference": difference, **numbers(report)}


def numbers(report):
    """Rate and latencies of the load generator's report."""
    latency = report["latency"]
    return {"rate": report["throughput"], "p50": latency["p50_us"] / 1e3, "p95": latency["p95_us"] / 1e3}


if __name__ == "__main__":
    main()
