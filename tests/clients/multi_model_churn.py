"""Does a multi-model endpoint leak? Loads several hundred models and unloads them, again and again, under traffic.

Usage: multi_model_churn.py --muster target/release/muster [--models 300] [--minutes 10]

Starts the server as the platform does, with variables alone. Each round loads all models, asks each once, lists them in
pages, and unloads them, from several threads, while clients ask one model that stays and others that come and go.
Prints the resident memory, threads and open files of the server after each half of a round. The verdict is about the
memory with all models unloaded, from the third round to the last; the first two rounds fill caches and pools. Exit code
1 when it is not flat, when a request fails that must not, or when an answer is wrong. The resident memory is read when
the last DELETE is answered: nothing is waited for.
"""

import argparse
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
ROW = ",".join(["3459"] + ["0.5"] * 28 + ["515.72"])


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
        return self.local.session.request(method, self.url + path, timeout=60, **arguments)

    def load(self, key):
        body = {"model_name": key, "url": str(self.base / "models" / key / "model")}
        reply = self.call("POST", "/models", json=body)
        assert reply.status_code == 200, (key, reply.status_code, reply.text)

    def unload(self, key):
        reply = self.call("DELETE", f"/models/{key}")
        assert reply.status_code == 200, (key, reply.status_code, reply.text)

    def invoke(self, key):
        headers = {"Content-Type": "text/csv", "X-Amzn-SageMaker-Target-Model": f"team/{key}.tar.gz"}
        return self.call("POST", f"/models/{key}/invoke", data=ROW, headers=headers)

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

    def __init__(self, endpoint, keys, expected):
        self.endpoint, self.keys, self.expected = endpoint, keys, expected
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.counts, self.problems = {200: 0, 404: 0}, []
        self.threads = [threading.Thread(target=self.ask, args=(it == 0,)) for it in range(3)]
        for thread in self.threads:
            thread.start()

    def ask(self, stays):
        while not self.stop.is_set():
            key = "stays" if stays else random.choice(self.keys)
            try:
                reply = self.endpoint.invoke(key)
                status, right = reply.status_code, reply.text == self.expected
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
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="muster-churn-"))
    keys = [f"{number:04x}" * 8 for number in range(arguments.models)]
    for key in [*keys, "stays"]:
        # Files of their own: none is read twice from one place.
        (base / "models" / key / "model").mkdir(parents=True)
        shutil.copyfile(arguments.model, base / "models" / key / "model/model.onnx")
    endpoint = Endpoint(arguments.muster, base)
    try:
        return churn(endpoint, keys, arguments.minutes * 60)
    finally:
        endpoint.process.terminate()
        endpoint.process.wait(30)
        shutil.rmtree(base)


def churn(endpoint, keys, seconds):
    print(f"at the start: {endpoint.usage()[0]:.0f} MiB")
    endpoint.load("stays")
    expected = endpoint.invoke("stays").text
    traffic, unloaded, rounds = Traffic(endpoint, keys, expected), [], 0
    until = time.monotonic() + seconds
    print(f"{'round':>5} {'loaded MiB':>10} {'threads':>7} {'files':>5} {'unloaded MiB':>12} {'threads':>7} {'files':>5} {'loads/s':>7}")
    with ThreadPoolExecutor(4) as platform:
        # Two rounds to warm up, and two to compare, however short the time is.
        while time.monotonic() < until or rounds < 4:
            rounds += 1
            began = time.monotonic()
            list(platform.map(endpoint.load, keys))
            rate = len(keys) / (time.monotonic() - began)
            for reply in platform.map(endpoint.invoke, keys):
                assert reply.status_code == 200 and reply.text == expected, (reply.status_code, reply.text)
            assert endpoint.listed() == sorted([*keys, "stays"])
            full = endpoint.usage()
            list(platform.map(endpoint.unload, keys))
            empty = endpoint.usage()
            assert endpoint.listed() == ["stays"]
            unloaded.append(empty[0])
            print(f"{rounds:5} {full[0]:10.0f} {full[1]:7} {full[2]:5} {empty[0]:12.1f} {empty[1]:7} {empty[2]:5} {rate:7.0f}", flush=True)
    traffic.end()
    print(f"traffic meanwhile: {traffic.counts[200]} answers, {traffic.counts[404]} times 'not loaded', {len(traffic.problems)} failures")
    settled = unloaded[2:]
    most = max(settled[len(settled) // 2 :])
    flat = most <= settled[0] * FLAT and not traffic.problems
    print(f"{traffic.problems[:3]}" if traffic.problems else f"{rounds * len(keys)} models loaded and unloaded")
    print(f"unloaded: {settled[0]:.1f} MiB after round 3, at most {most:.1f} MiB in the second half of the rounds: {'flat within 5 %' if flat else 'NOT flat within 5 %'}")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
