"""Drives Triton's extensions with Triton's own Python client, over HTTP, shared memory over gRPC as well, and generate with
`requests`.

Usage: triton_extensions.py HTTP_HOST:PORT GRPC_HOST:PORT
of a server that allows shared memory, with the models type_string, two_outputs and digits.
"""

import json
import os
import sys

import numpy as np
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype
from tritonclient.utils import serialize_byte_tensor

KEY = f"/muster-clients-{os.getpid()}"


def refused(call, status, part):
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == str(status) and part in error.message(), error
    else:
        raise AssertionError(f"expected {status}: {part}")


def shared_input(name, array, region, size, offset=0):
    port = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    port.set_shared_memory(region, size, offset)
    return port


def check_shared_memory(client):
    a, b = (np.random.default_rng(it).normal(size=(3, 4)).astype(np.float32) for it in (1, 2))
    inputs = shm.create_shared_memory_region("inputs", KEY + "-in", 2 * a.nbytes)
    outputs = shm.create_shared_memory_region("outputs", KEY + "-out", 2 * a.nbytes)
    try:
        shm.set_shared_memory_region(inputs, [a, b])
        client.register_system_shared_memory("in put", KEY + "-in", 2 * a.nbytes)
        client.register_system_shared_memory("outputs", KEY + "-out", 2 * a.nbytes)
        status = client.get_system_shared_memory_status()
        assert [it["name"] for it in status] == ["in put", "outputs"], status
        status = client.get_system_shared_memory_status("in put")
        expected = {"name": "in put", "key": KEY + "-in", "offset": 0, "byte_size": 2 * a.nbytes}
        assert status == [expected], status
        refused(lambda: client.register_system_shared_memory("outputs", KEY + "-out", 8), 400,
                "already in manager")

        wanted = [triton.InferRequestedOutput("sum"), triton.InferRequestedOutput("difference")]
        wanted[0].set_shared_memory("outputs", a.nbytes)
        wanted[1].set_shared_memory("outputs", a.nbytes, a.nbytes)
        given = [shared_input("a", a, "in put", a.nbytes),
                 shared_input("b", b, "in put", b.nbytes, a.nbytes)]
        result = client.infer("two_outputs", given, outputs=wanted)
        for at, (name, expected) in enumerate([("sum", a + b), ("difference", a - b)]):
            output = result.get_output(name)
            back = shm.get_contents_as_numpy(outputs, triton_to_np_dtype(output["datatype"]),
                                             output["shape"], at * a.nbytes)
            np.testing.assert_array_equal(back, expected)
        wanted[0].set_shared_memory("outputs", 4)
        refused(lambda: client.infer("two_outputs", given, outputs=wanted[:1]), 400, "'sum'")

        client.unregister_system_shared_memory("in put")
        refused(lambda: client.infer("two_outputs", given), 404, "in put")
        client.unregister_system_shared_memory()
        assert client.get_system_shared_memory_status() == []
    finally:
        shm.destroy_shared_memory_region(inputs)
        shm.destroy_shared_memory_region(outputs)
    assert client.get_cuda_shared_memory_status() == []


def check_shared_strings(client):
    texts = np.array([["plain", "ünïcode", ""]], dtype=object)
    size = len(serialize_byte_tensor(texts).item())
    region = shm.create_shared_memory_region("texts", KEY + "-texts", size)
    try:
        shm.set_shared_memory_region(region, [serialize_byte_tensor(texts)])
        client.register_system_shared_memory("texts", KEY + "-texts", size)
        port = triton.InferInput("input", [1, 3], "BYTES")
        port.set_shared_memory("texts", size)
        result = client.infer("type_string", [port])
        assert [it.decode() for it in result.as_numpy("output").ravel()] == list(texts.ravel())
        client.unregister_system_shared_memory("texts")
    finally:
        shm.destroy_shared_memory_region(region)


def check_shared_memory_over_grpc(address):
    a, b = (np.random.default_rng(it).normal(size=(3, 4)).astype(np.float32) for it in (1, 2))
    inputs = shm.create_shared_memory_region("inputs", KEY + "-in", 2 * a.nbytes)
    outputs = shm.create_shared_memory_region("outputs", KEY + "-out", 2 * a.nbytes)
    with triton_grpc.InferenceServerClient(address) as client:
        try:
            shm.set_shared_memory_region(inputs, [a, b])
            client.register_system_shared_memory("inputs", KEY + "-in", 2 * a.nbytes)
            client.register_system_shared_memory("outputs", KEY + "-out", 2 * a.nbytes)
            regions = client.get_system_shared_memory_status().regions
            assert sorted(regions) == ["inputs", "outputs"], regions

            wanted = [triton_grpc.InferRequestedOutput(name) for name in ("sum", "difference")]
            wanted[0].set_shared_memory("outputs", a.nbytes)
            wanted[1].set_shared_memory("outputs", a.nbytes, a.nbytes)
            given = [triton_grpc.InferInput(name, [3, 4], "FP32") for name in "ab"]
            given[0].set_shared_memory("inputs", a.nbytes)
            given[1].set_shared_memory("inputs", b.nbytes, a.nbytes)
            result = client.infer("two_outputs", given, outputs=wanted)
            for at, (name, expected) in enumerate([("sum", a + b), ("difference", a - b)]):
                output = result.get_output(name)
                back = shm.get_contents_as_numpy(outputs, triton_to_np_dtype(output.datatype),
                                                 output.shape, at * a.nbytes)
                np.testing.assert_array_equal(back, expected)
            # One in shared memory, the other in the message, and an output that is sent.
            given[1].set_data_from_numpy(b)
            result = client.infer("two_outputs", given)
            np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
            wanted[0].set_shared_memory("outputs", 4)
            refused(lambda: client.infer("two_outputs", given, outputs=wanted[:1]),
                    "StatusCode.INVALID_ARGUMENT", "'sum'")
            client.unregister_system_shared_memory()
            refused(lambda: client.infer("two_outputs", given), "StatusCode.NOT_FOUND", "inputs")
        finally:
            shm.destroy_shared_memory_region(inputs)
            shm.destroy_shared_memory_region(outputs)


def check_statistics(client):
    before = client.get_inference_statistics("digits")["model_stats"][0]
    images = np.zeros((2, 1, 8, 8), np.float32)
    port = triton.InferInput("image", list(images.shape), "FP32")
    port.set_data_from_numpy(images)
    client.infer("digits", [port])
    after = client.get_inference_statistics("digits", "1")["model_stats"][0]
    assert after["inference_count"] == before["inference_count"] + 2, (before, after)
    assert after["execution_count"] == before["execution_count"] + 1, (before, after)
    stats = after["inference_stats"]
    assert stats["success"]["count"] == before["inference_stats"]["success"]["count"] + 1, stats
    assert all(set(it) == {"count", "ns"} for it in stats.values()), stats
    names = [it["name"] for it in client.get_inference_statistics()["model_stats"]]
    assert "digits" in names and names == sorted(names), names
    refused(lambda: client.get_inference_statistics("digit"), 400, "digits")


def check_trace_settings(client):
    rate = client.get_trace_settings()["trace_rate"]
    assert isinstance(client.get_trace_settings()["trace_level"], list)
    changed = client.update_trace_settings(settings={"trace_rate": "77"})
    assert changed["trace_rate"] == "77", changed
    assert client.get_trace_settings("digits")["trace_rate"] == "77"
    changed = client.update_trace_settings("digits", {"trace_rate": "5"})
    assert changed["trace_rate"] == "5" and client.get_trace_settings()["trace_rate"] == "77"
    changed = client.update_trace_settings("digits", {"trace_rate": None})
    assert changed["trace_rate"] == "77", changed
    changed = client.update_trace_settings(settings={"trace_rate": None})
    assert changed["trace_rate"] == rate, changed
    refused(lambda: client.update_trace_settings(settings={"trace_rat": "5"}), 400, "trace_rate")
    refused(lambda: client.update_trace_settings(settings={"trace_level": ["LOUD"]}), 400, "LOUD")
    refused(lambda: client.get_trace_settings("digit"), 404, "digits")


def check_log_settings(client):
    before = client.get_log_settings()
    names = {"log_file", "log_info", "log_warning", "log_error", "log_verbose_level", "log_format"}
    assert set(before) >= names, before
    changed = client.update_log_settings({"log_verbose_level": 1})
    assert changed["log_verbose_level"] == 1, changed
    assert client.update_log_settings({"log_verbose_level": before["log_verbose_level"]}) == before
    refused(lambda: client.update_log_settings({"log_verbos_level": 1}), 400, "log_verbose_level")
    refused(lambda: client.update_log_settings({"log_info": 3}), 400, "log_info")


def check_parameters(client):
    a = np.ones((1, 4), np.float32)
    given = []
    for name in "ab":
        port = triton.InferInput(name, [1, 4], "FP32")
        port.set_data_from_numpy(a)
        given.append(port)
    result = client.infer("two_outputs", given, sequence_id=7, sequence_start=True, sequence_end=True,
                          priority=1, timeout=10**6,
                          parameters={"text": "x", "whole": -3, "share": 0.5, "on": True})
    assert "parameters" not in result.get_response(), result.get_response()


def check_generate(url):
    body = {"id": "7", "input": ["a", "b", "ü"], "parameters": {"temperature": 0.5}, "stream": False}
    response = requests.post(f"{url}/v2/models/type_string/generate", json=body, timeout=10)
    expected = {"id": "7", "model_name": "type_string", "model_version": "1", "output": ["a", "b", "ü"]}
    assert response.status_code == 200 and response.json() == expected, response.text
    path = f"{url}/v2/models/type_string/generate_stream"
    with requests.post(path, json=body, timeout=10, stream=True) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        lines = [it for it in response.iter_lines() if it]
    assert len(lines) == 1 and json.loads(lines[0].removeprefix(b"data: ")) == expected, lines
    response = requests.post(path, json={"input": "a"}, timeout=10)
    assert response.status_code == 400 and "[-1,3]" in response.json()["error"], response.text


def main():
    address, grpc_address = sys.argv[1:]
    client = triton.InferenceServerClient(address)
    for check in [check_shared_memory, check_shared_strings, check_statistics,
                  check_trace_settings, check_log_settings, check_parameters]:
        check(client)
        print(check.__name__, "passed")
    check_shared_memory_over_grpc(grpc_address)
    print(check_shared_memory_over_grpc.__name__, "passed")
    check_generate(f"http://{address}")
    print(check_generate.__name__, "passed")
    client.close()


if __name__ == "__main__":
    main()
