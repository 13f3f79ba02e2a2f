"""SavedModels by muster and by TensorFlow in Python behind FastAPI: the same rows as JSON, 16 connections, in turns.

    pip install tensorflow-cpu fastapi uvicorn
    python3 tests/peers/tensorflow_fastapi.py [--muster target/dist/muster] [--pairs 10] [--seconds 2] [--only mlp]

Models are a network of layers (30 → 256 → 256 → 2), an encoder of four layers over 64 tokens of 256 numbers, and
six convolutions over 96 × 96 points, made here with Keras. The convolutions are run by muster alone, once with one thread
in each session and once with as many as there are processors. Answers are compared before anything is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# One worker, the model's function as it is saved, on the pool of threads that FastAPI has for calls that block.
APPLICATION = """
import os

import tensorflow as tf
from fastapi import FastAPI
from pydantic import BaseModel

served = tf.saved_model.load(os.environ["SAVED_MODEL"])
run = served.signatures["serving_default"]
name = list(run.structured_input_signature[1])[0]
output = list(run.structured_outputs)[0]
app = FastAPI()


class Instances(BaseModel):
    instances: list


@app.post("/v1/models/{model}:predict")
def predict(model: str, request: Instances):
    answer = run(**{name: tf.constant(request.instances, tf.float32)})
    return {"predictions": answer[output].numpy().tolist()}
"""


def make(place, names):
    """The models of these names, and a request for each."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import numpy as np
    import tensorflow as tf

    layers = tf.keras.layers

    def mlp():
        x = tf.keras.Input((30,), name="x")
        y = layers.Dense(256, activation="relu")(layers.Dense(256, activation="relu")(x))
        return tf.keras.Model(x, layers.Dense(2, activation="softmax")(y))

    def encoder():
        x = h = tf.keras.Input((64, 256), name="x")
        for _ in range(4):
            h = layers.LayerNormalization()(h + layers.MultiHeadAttention(4, 64)(h, h))
            h = layers.LayerNormalization()(h + layers.Dense(256)(layers.Dense(1024, activation="gelu")(h)))
        return tf.keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(h)))

    def convolutions():
        x = h = tf.keras.Input((96, 96, 3), name="x")
        for filters, stride in [(16, 2), (32, 1), (32, 2), (64, 1), (64, 2), (128, 1)]:
            h = layers.Conv2D(filters, 3, stride, "same", activation="relu")(h)
        return tf.keras.Model(x, layers.Dense(10)(layers.GlobalAveragePooling2D()(h)))

    makers = {"mlp": mlp, "encoder": encoder, "convolutions": convolutions}
    tf.keras.utils.set_random_seed(7)
    random = np.random.default_rng(7)
    for name in names:
        model = makers[name]()
        model.export(str(place / name / "1"), verbose=False)
        rows = random.standard_normal((1, *model.input_shape[1:])).round(3).tolist()
        (place / f"{name}.json").write_text(json.dumps({"instances": rows}))


def ask(url, body):
    request = urllib.request.Request(url, body.read_bytes(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))["predictions"]


def wait(url, body, server):
    for _ in range(600):
        try:
            return ask(url, body)
        except OSError:
            if server.poll() is not None:
                sys.exit(f"the server of {url} has ended with {server.returncode}")
            time.sleep(0.2)
    sys.exit(f"{url} does not answer")


def muster(given, place, model, port, *flags):
    """A server of that model. It looks for further versions, and would do without oneDNN, which the other one uses."""
    ports = ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", "--http-address=127.0.0.1"]
    command = [given.muster, f"--model-base-path={place / model}", f"--model-name={model}", f"--http-port={port}",
               "--max-queue-wait-ms=0", "--tensorflow-onednn=on", *ports, *flags]
    return subprocess.Popen(command, **QUIET)


def fastapi(place, model, port):
    command = [sys.executable, "-m", "uvicorn", "application:app", f"--port={port}", "--log-level=error"]
    environment = {**os.environ, "SAVED_MODEL": str(place / model / "1")}
    return subprocess.Popen(command, cwd=place, env=environment, **QUIET)


def compare(given, place, model, text, start):
    """Two servers of one model, which `start` makes on its port each, in turns."""
    body = place / f"{model}.json"
    ports = [given.port, given.port + 1]
    urls = [f"http://127.0.0.1:{it}/v1/models/{model}:predict" for it in ports]
    servers = [each(port) for each, port in zip(start, ports)]
    try:
        answers = [wait(url, body, server)[0] for url, server in zip(urls, servers)]
        assert all(abs(a - b) < 1e-4 for a, b in zip(*answers, strict=True)), answers
        print(f"{model}: {text}", flush=True)
        # As TensorFlow Serving's REST: a body to a path.
        command = [given.muster, "bench", urls[0], "--vs", urls[1], "--format", "invocations", "--body", body, "-c", 16,
                   "-d", given.seconds, "--pairs", given.pairs, "--most-steal", 100,
                   "--pid", servers[0].pid, "--vs-pid", servers[1].pid]
        subprocess.run([str(it) for it in command], check=True)
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def main():
    names = ["mlp", "encoder", "convolutions"]
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--muster", default=str(ROOT / "target/dist/muster"))
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--port", type=int, default=18490)
    arguments.add_argument("--only", nargs="+", choices=names, default=names)
    given = arguments.parse_args()
    cores = len(os.sched_getaffinity(0))
    sessions = [f"--tensorflow-session-count={cores}", f"--default-instance-count={cores}"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "application.py").write_text(APPLICATION)
        make(place, given.only)
        for model in given.only:
            served = lambda port, *flags: muster(given, place, model, port, *flags)
            if model == "convolutions":
                text = f"both are muster with {cores} sessions, A with 1 thread in each, B with {cores}"
                threads = lambda count: lambda port: served(port, *sessions, f"--default-intra-op-threads={count}")
                compare(given, place, model, text, [threads(1), threads(cores)])
            else:
                text = "A is muster, B is TensorFlow in Python behind FastAPI"
                compare(given, place, model, text, [served, lambda port: fastapi(place, model, port)])


if __name__ == "__main__":
    main()
