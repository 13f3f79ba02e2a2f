"""Does a multi-model endpoint leak? Loads several hundred models and unloads them, again and again, under traffic.

Usage: multi_model_churn.py --muster target/release/muster [--models 300] [--minutes 10] [--pipelines]

Starts the server as the platform does, with variables alone. Each round loads all models, asks each once, lists them in
pages, and unloads them, from several threads, while clients ask one model that stays and others that come and go.
Prints the resident memory, threads and open files of the server after each half of a round. The verdict is about the
memory with all models unloaded, from the third round to the last; the first two rounds fill caches and pools, with
`--pipelines` the first fifty, since their blocks are of many sizes and the C library's heaps settle slowly. Exit code
1 when it is not flat, when a request fails that must not, or when an answer is wrong. The resident memory is read when
the last DELETE is answered: nothing is waited for.

With `--pipelines` the models are folders with tokenizers, image processors and feature extractors: 50 unless said
otherwise, which are loaded and unloaded 5,000 times at least.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parent.parent.parent
FLAT = 1.05
PIPELINES = ROOT / "tests/fixtures/pipelines"
# What the platform waits for a model to be loaded or unloaded, in seconds. The memory is measured here, and not how long
# anything takes: whoever shares the machine may take all of it for minutes.
PATIENCE = 360
ROW = ",".join(["3459"] + ["0.5"] * 28 + ["515.72"])


class Kind:
    """What a model is, and what it is asked."""

    def __init__(self, source, content_type="text/csv", body=ROW):
        self.source, self.content_type, self.body = source, content_type, body
        self.expected = None

    def copy(self, folder):
        """Files of its own: none is read twice from one place."""
        if self.source.is_dir():
            shutil.copytree(self.source, folder)
        else:
            folder.mkdir(parents=True)
            shutil.copyfile(self.source, folder / "model.onnx")


def same(kind, reply):
    """Is it the answer that the model gave first? Rows of images and sounds in a run move each other's last digits."""
    if reply.text == kind.expected:
        return True
    if kind.content_type == "text/csv" or reply.status_code != 200:
        return False
    return near(json.loads(reply.text), json.loads(kind.expected))


def near(one, other):
    """Are two values of JSON equal but for what is beyond the fourth digit of numbers?"""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-4
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(near(it, other[key]) for key, it in one.items())
    return one == other


def kinds_of_pipelines():
    """Folders of texts, images and sounds."""
    text = json.dumps({"inputs": "I am super happy right now, and so is everybody else."})
    question = json.dumps({"inputs": {"question": "Who is happy?", "context": "I am super happy right now."}})
    labels = json.dumps({"inputs": "I am happy.", "parameters": {"candidate_labels": ["good", "bad"]}})
    picture, sound = PIPELINES / "pictures/64x64.png", PIPELINES / "speech/0.wav"
    ranking = json.dumps({"query": "Who is happy?", "texts": ["I am.", "It rains."]})
    asked = dict.fromkeys(["sst2", "roberta", "ner", "st-6"], ("application/json", text))
    asked |= {"question-answering": ("application/json", question), "zero-shot": ("application/json", labels)}
    masked = json.dumps({"inputs": "I am super [MASK] right now."})
    asked |= {"rerank": ("application/json", ranking), "fill-mask": ("application/json", masked)}
    asked |= dict.fromkeys(["vit", "dinov2", "detr"], ("image/png", picture.read_bytes()))
    asked |= dict.fromkeys(["speech", "audio-classification"], ("audio/wav", sound.read_bytes()))
    return [Kind(PIPELINES / name / "folder", *it) for name, it in asked.items()]


class Endpoint:
    """The server as a child process, and the platform's side of its contract."""

    def __init__(self, muster, base):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {
            "SAGEMAKER_MULTI_MODEL": "true",
            "SAGEMAKER_BIND_TO_PORT": str(port),
            "SAGEMAKER_BASE_DIR": str(base),
            "SAGEMAKER_CONTAINER_LOG_LEVEL": "30",
            "CUDA_VISIBLE_DEVICES": "-1",
        }
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "ORT_DYLIB_PATH") if name in os.environ}
        self.process = subprocess.Popen([muster, "serve"], env=environment | kept)
        self.url = f"http://127.0.0.1:{port}"
        self.base = base
        self.local = threading.local()
        for _ in range(200):
            try:
                if self.call("GET", "/ping").status_code == 200:
                    return
            except requests.ConnectionError:
                time.sleep(0.05)
        raise SystemExit("the server does not answer /ping")

    def call(self, method, path, **arguments):
        if not hasattr(self.local, "session"):
            self.local.session = requests.Session()
        return self.local.session.request(method, self.url + path, timeout=PATIENCE, **arguments)

    def load(self, key):
        body = {"model_name": key, "url": str(self.base / "models" / key / "model")}
        reply = self.call("POST", "/models", json=body)
        assert reply.status_code == 200, (key, reply.status_code, reply.text)

    def unload(self, key):
        reply = self.call("DELETE", f"/models/{key}")
        assert reply.status_code == 200, (key, reply.status_code, reply.text)

    def invoke(self, key, kind):
        headers = {"Content-Type": kind.content_type, "X-Amzn-SageMaker-Target-Model": f"team/{key}.tar.gz"}
        return self.call("POST", f"/models/{key}/invoke", data=kind.body, headers=headers)

    def listed(self):
        keys, token = [], None
        while True:
            query = {"limit": 64} | ({"next_page_token": token} if token else {})
            page = self.call("GET", "/models", params=query).json()
            keys += [it["modelName"] for it in page["models"]]
            token = page.get("nextPageToken")
            if token is None:
                return keys

    def usage(self):
        """Resident MiB, threads, open files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        value = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if ":" in line and len(line.split()) > 1}
        files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        return int(value["VmRSS"]) / 1024, int(value["Threads"]), files


class Traffic:
    """Clients that ask a model which stays, and models that come and go."""

    def __init__(self, endpoint, kinds):
        self.endpoint, self.kinds, self.keys = endpoint, kinds, [it for it in kinds if it != "stays"]
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.counts, self.problems = {200: 0, 404: 0}, []
        self.threads = [threading.Thread(target=self.ask, args=(it == 0,)) for it in range(3)]
        for thread in self.threads:
            thread.start()

    def ask(self, stays):
        while not self.stop.is_set():
            key = "stays" if stays else random.choice(self.keys)
            try:
                kind = self.kinds[key]
                reply = self.endpoint.invoke(key, kind)
                status, right = reply.status_code, same(kind, reply)
            except requests.RequestException as error:
                status, right = repr(error), False
            good = status == 200 and right or status == 404 and not stays
            with self.lock:
                if good:
                    self.counts[status] += 1
                else:
                    self.problems.append((key, status))
            # The server is measured, and not how fast it can be asked.
            time.sleep(0.002)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description="Does a multi-model endpoint leak?")
    parser.add_argument("--muster", required=True, type=Path)
    parser.add_argument("--model", type=Path, default=ROOT / "model_repository/fraud/1/model.onnx")
    parser.add_argument("--models", type=int)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pipelines", action="store_true")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="muster-churn-"))
    kinds = kinds_of_pipelines() if arguments.pipelines else [Kind(arguments.model)]
    models = arguments.models or (50 if arguments.pipelines else 300)
    names = ["stays", *(f"{number:04x}" * 8 for number in range(models))]
    kinds = {key: kinds[number % len(kinds)] for number, key in enumerate(names)}
    for key, kind in kinds.items():
        kind.copy(base / "models" / key / "model")
    endpoint = Endpoint(arguments.muster, base)
    try:
        return churn(endpoint, kinds, arguments.minutes * 60, 50 if arguments.pipelines else 2)
    finally:
        endpoint.process.terminate()
        endpoint.process.wait(PATIENCE)
        shutil.rmtree(base)


def rounds_of(endpoint, kinds, seconds, warm):
    """Resident MiB behind each round, with nothing loaded but the model that stays."""
    keys, unloaded, rounds = [it for it in kinds if it != "stays"], [], 0
    until = time.monotonic() + seconds
    print(f"{'round':>5} {'loaded MiB':>10} {'threads':>7} {'files':>5} {'unloaded MiB':>12} {'threads':>7} {'files':>5} {'loads/s':>7}")
    with ThreadPoolExecutor(4) as platform:
        # As many rounds to compare as to warm up, however short the time is.
        while time.monotonic() < until or rounds < 2 * warm:
            rounds += 1
            began = time.monotonic()
            list(platform.map(endpoint.load, keys))
            rate = len(keys) / (time.monotonic() - began)
            replies = platform.map(endpoint.invoke, keys, [kinds[it] for it in keys])
            for key, reply in zip(keys, replies):
                right = reply.status_code == 200 and same(kinds[key], reply)
                assert right, (kinds[key].source, reply.status_code, reply.text)
            assert endpoint.listed() == sorted([*keys, "stays"])
            full = endpoint.usage()
            list(platform.map(endpoint.unload, keys))
            empty = endpoint.usage()
            assert endpoint.listed() == ["stays"]
            unloaded.append(empty[0])
            print(f"{rounds:5} {full[0]:10.0f} {full[1]:7} {full[2]:5} {empty[0]:12.1f} {empty[1]:7} {empty[2]:5} {rate:7.0f}", flush=True)
    return unloaded


def churn(endpoint, kinds, seconds, warm):
    print(f"at the start: {endpoint.usage()[0]:.0f} MiB")
    endpoint.load("stays")
    # One model of each kind says what all of them are to answer.
    for key, kind in kinds.items():
        if kind.expected is None:
            if key != "stays":
                endpoint.load(key)
            reply = endpoint.invoke(key, kind)
            assert reply.status_code == 200, (kind.source, reply.text)
            kind.expected = reply.text
            if key != "stays":
                endpoint.unload(key)
    traffic = Traffic(endpoint, kinds)
    try:
        unloaded = rounds_of(endpoint, kinds, seconds, warm)
    finally:
        traffic.end()
    print(f"traffic meanwhile: {traffic.counts[200]} answers, {traffic.counts[404]} times 'not loaded', {len(traffic.problems)} failures")
    settled = unloaded[warm:]
    most = max(settled[len(settled) // 2 :])
    flat = most <= settled[0] * FLAT and not traffic.problems
    print(f"{traffic.problems[:3]}" if traffic.problems else f"{len(unloaded) * (len(kinds) - 1)} models loaded and unloaded")
    print(f"unloaded: {settled[0]:.1f} MiB after round {warm + 1}, at most {most:.1f} MiB in the second half of the rounds: {'flat within 5 %' if flat else 'NOT flat within 5 %'}")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
