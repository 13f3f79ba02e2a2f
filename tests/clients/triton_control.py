"""Loads and unloads models with Triton's own Python client, alone and under load.

Usage: triton_control.py HOST:PORT [--requests N] [--clients N] [--model-file FILE]
       of a server with --model-control-mode=explicit, over a repository with the model `digits`.

The default is a short run. `--requests 100000` is the long one.
"""

import argparse
import threading

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def refused(call, *parts):
    try:
        call()
    except InferenceServerException as error:
        for part in parts:
            assert part in str(error), f"no {part!r} in: {error}"
        return
    raise AssertionError("it was not refused")


def state(client, name):
    index = client.get_model_repository_index()
    return {it.get("version"): it.get("state") for it in index if it["name"] == name}


def check_load_and_unload(client):
    client.load_model("digits")
    assert client.is_model_ready("digits")
    client.unload_model("digits")
    assert not client.is_model_ready("digits")
    refused(lambda: client.load_model("nothing"), "failed to load 'nothing', failed to poll from model repository")
    client.unload_model("nothing")


def check_overrides(client, model_file):
    client.load_model("digits", config='{"backend": "onnxruntime", "maxBatchSize": 5}')
    assert client.get_model_config("digits")["max_batch_size"] == 5
    with open(model_file, "rb") as file:
        content = file.read()
    config = '{"backend": "onnxruntime", "version_policy": {"specific": {"versions": [7]}}}'
    client.load_model("digits", config=config, files={"file:7/model.onnx": content})
    assert state(client, "digits").get("7") == "READY", state(client, "digits")
    refused(lambda: client.load_model("digits", config="{"), "config")
    refused(lambda: client.load_model("digits", files={"file:1/x": b""}), "config")
    refused(lambda: client.load_model("digits", config=config, files={"file:7/../x": b"x"}),
            "file:1/model.onnx")
    assert state(client, "digits").get("7") == "READY"
    client.load_model("digits")
    assert state(client, "digits").get("1") == "READY", state(client, "digits")


class Load:
    """Clients that ask until enough requests were made, and note what failed."""

    def __init__(self, address, clients, requests):
        self.address, self.each, self.failures = address, -(-requests // clients), []
        self.threads = [threading.Thread(target=self.ask) for _ in range(clients)]

    def ask(self):
        client = triton.InferenceServerClient(self.address)
        spec = client.get_model_metadata("digits")["inputs"][0]
        shape = [1] + [max(it, 1) for it in spec["shape"][1:]]
        given = triton.InferInput(spec["name"], shape, spec["datatype"])
        given.set_data_from_numpy(np.zeros(shape, dtype=np.float32))
        for _ in range(self.each):
            try:
                client.infer("digits", [given])
            except Exception as error:  # whatever it is, a request has failed
                self.failures.append(repr(error))

    def is_going_on(self):
        return any(it.is_alive() for it in self.threads)


def check_reload_under_load(client, address, clients, requests):
    load = Load(address, clients, requests)
    for thread in load.threads:
        thread.start()
    reloads = 0
    while load.is_going_on():
        # Each configuration makes another model of the same file.
        size = 16 + reloads % 2
        client.load_model("digits", config=f'{{"backend": "onnxruntime", "max_batch_size": {size}}}')
        reloads += 1
    for thread in load.threads:
        thread.join()
    assert not load.failures, f"{len(load.failures)} of {requests}: {load.failures[0]}"
    assert reloads > 2, reloads
    return reloads


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--model-file", required=True)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=16)
    given = parser.parse_args()
    client = triton.InferenceServerClient(given.address, network_timeout=60)
    check_load_and_unload(client)
    check_overrides(client, given.model_file)
    reloads = check_reload_under_load(client, given.address, given.clients, given.requests)
    print(f"{given.requests} requests, {reloads} loads, no failure")


if __name__ == "__main__":
    main()
