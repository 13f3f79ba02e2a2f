"""SavedModels by muster and by TensorFlow in Python behind FastAPI: the same rows as JSON, 16 connections, in turns.

    pip install tensorflow-cpu fastapi uvicorn
    python3 tests/peers/tensorflow_fastapi.py [--muster target/release/muster] [--pairs 10] [--seconds 2]

Models are a network of layers (30 → 256 → 256 → 2) and an encoder of four layers over 64 tokens of 256 numbers, made
here with Keras. Answers are compared before anything is measured.
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


def make(place):
    """The models, and a request for each."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import numpy as np
    import tensorflow as tf

    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(7)
    x = tf.keras.Input((30,), name="x")
    y = layers.Dense(256, activation="relu")(layers.Dense(256, activation="relu")(x))
    y = layers.Dense(2, activation="softmax")(y)
    models = {"mlp": tf.keras.Model(x, y)}
    x = h = tf.keras.Input((64, 256), name="x")
    for _ in range(4):
        h = layers.LayerNormalization()(h + layers.MultiHeadAttention(4, 64)(h, h))
        h = layers.LayerNormalization()(h + layers.Dense(256)(layers.Dense(1024, activation="gelu")(h)))
    models["encoder"] = tf.keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(h)))
    random = np.random.default_rng(7)
    for name, model in models.items():
        model.export(str(place / name / "1"), verbose=False)
        rows = random.standard_normal((1, *model.input_shape[1:])).round(3).tolist()
        (place / f"{name}.json").write_text(json.dumps({"instances": rows}))
    return list(models)


def ask(url, body):
    request = urllib.request.Request(url, body.read_bytes(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))["predictions"]


def wait(url, body):
    for _ in range(600):
        try:
            return ask(url, body)
        except OSError:
            time.sleep(0.2)
    sys.exit(f"{url} does not answer")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--muster", default=str(ROOT / "target/release/muster"))
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--port", type=int, default=18490)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "application.py").write_text(APPLICATION)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for model in make(place):
            urls = [f"http://127.0.0.1:{given.port + it}/v1/models/{model}:predict" for it in range(2)]
            body = place / f"{model}.json"
            ports = ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", "--http-address=127.0.0.1"]
            servers = [
                subprocess.Popen([given.muster, f"--model-base-path={place / model}", f"--model-name={model}",
                                  f"--http-port={given.port}", "--max-queue-wait-ms=0", *ports], **quiet),
                subprocess.Popen([sys.executable, "-m", "uvicorn", "application:app", f"--port={given.port + 1}",
                                  "--log-level=error"], cwd=place,
                                 env={**os.environ, "SAVED_MODEL": str(place / model / "1")}, **quiet),
            ]
            try:
                answers = [wait(url, body)[0] for url in urls]
                assert all(abs(a - b) < 1e-4 for a, b in zip(*answers, strict=True)), answers
                print(f"{model}: A is muster, B is TensorFlow in Python behind FastAPI", flush=True)
                # As TensorFlow Serving's REST: a body to a path.
                subprocess.run([given.muster, "bench", urls[0], "--vs", urls[1], "--format", "invocations", "--body",
                                str(body), "-c", "16", "-d", str(given.seconds), "--pairs", str(given.pairs),
                                "--most-steal", "100"], check=True)
            finally:
                for server in servers:
                    server.terminate()
                    server.wait()


if __name__ == "__main__":
    main()
