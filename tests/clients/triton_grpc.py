"""Drives a server with Triton's own Python client, over gRPC: in turn, without waiting, in streams, and in asyncio; and in
asyncio over HTTP.

Usage: triton_grpc.py GRPC_HOST:PORT HTTP_HOST:PORT
of a server with the models type_fp32, type_string, two_outputs and digits.
"""

import asyncio
import queue
import sys

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.http.aio as http_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype


def given(name, array, module=triton):
    port = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    port.set_data_from_numpy(array)
    return port


def pair(rows=3):
    return [np.random.default_rng(it).normal(size=(rows, 4)).astype(np.float32) for it in (1, 2)]


def refused(code, call):
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{code}", error
        return error.message()
    raise AssertionError("it was not refused")


def check_health(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("digits") and client.is_model_ready("digits", "1")
    assert not client.is_model_ready("none")


def check_descriptions(client):
    server = client.get_server_metadata()
    assert server.name == "triton" and "classification" in server.extensions, server
    metadata = client.get_model_metadata("two_outputs")
    assert list(metadata.versions) == ["1"], metadata
    assert (metadata.inputs[0].name, list(metadata.inputs[0].shape)) == ("a", [-1, 4]), metadata
    config = client.get_model_config("digits", as_json=True)["config"]
    assert config["max_batch_size"] == 64 and config["backend"] == "onnxruntime", config
    index = client.get_model_repository_index()
    assert {it.name: it.state for it in index.models}["digits"] == "READY", index
    statistics = client.get_inference_statistics("digits").model_stats
    assert [(it.name, it.version) for it in statistics] == [("digits", "1")], statistics
    assert len(client.get_system_shared_memory_status().regions) == 0
    assert len(client.get_cuda_shared_memory_status().regions) == 0
    client.get_trace_settings()
    client.get_log_settings()


def check_numbers(client):
    a, b = pair()
    for compression in (None, "gzip", "deflate"):
        outputs = [triton.InferRequestedOutput(name) for name in ("difference", "sum")]
        result = client.infer("two_outputs", [given("a", a), given("b", b)], outputs=outputs,
                              request_id="7", model_version="1", compression_algorithm=compression)
        np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
        np.testing.assert_array_equal(result.as_numpy("difference"), a - b)
        assert result.as_numpy("product") is None
        response = result.get_response()
        assert (response.id, response.model_name) == ("7", "two_outputs"), response
    result = client.infer("two_outputs", [given("a", a), given("b", b)], priority=1, timeout=1000000,
                          sequence_id=5, sequence_start=True, sequence_end=True,
                          parameters={"mine": "text", "count": 3})
    np.testing.assert_array_equal(result.as_numpy("product"), a * b)


def check_bytes(client):
    for texts in (["plain", "ünïcode", ""], [b"\xff\x00\xfe", b"", b"\x80"]):
        texts = np.array([texts], dtype=object)
        result = client.infer("type_string", [given("input", texts)])
        expected = [it.encode() if isinstance(it, str) else it for it in texts.ravel()]
        assert list(result.as_numpy("output").ravel()) == expected


def check_classes(client):
    images = np.zeros((2, 1, 8, 8), np.float32)
    outputs = [triton.InferRequestedOutput("probabilities", class_count=3)]
    classes = client.infer("digits", [given("image", images)], outputs=outputs).as_numpy("probabilities")
    assert classes.shape == (2, 3), classes
    value, index, label = classes[0][0].decode().split(":")
    names = "zero one two three four five six seven eight nine".split()
    assert 0 < float(value) <= 1 and names[int(index)] == label, classes


def check_refusals(client):
    a, b = pair()
    said = refused("INVALID_ARGUMENT", lambda: client.infer("two_outputs", [given("a", a)], request_id="9"))
    assert "b" in said and "request id: 9" in said, said
    refused("NOT_FOUND", lambda: client.infer("none", [given("a", a)]))
    refused("UNAVAILABLE", lambda: client.load_model("digits"))
    refused("UNIMPLEMENTED", lambda: client.register_system_shared_memory("r", "/r", 8))
    wrong = np.zeros((2, 5), np.float32)
    said = refused("INVALID_ARGUMENT", lambda: client.infer("two_outputs", [given("a", wrong), given("b", b)]))
    assert "two_outputs" in said and "[-1,4]" in said, said


def check_without_waiting(client):
    a, b = pair()
    answers = queue.Queue()
    for _ in range(50):
        client.async_infer("two_outputs", [given("a", a), given("b", b)],
                           callback=lambda result, error: answers.put((result, error)))
    for _ in range(50):
        result, error = answers.get(timeout=30)
        assert error is None, error
        np.testing.assert_array_equal(result.as_numpy("sum"), a + b)


def check_stream(address):
    answers = queue.Queue()
    with triton.InferenceServerClient(address) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for number in range(50):
            a = np.full((1, 4), number, np.float32)
            client.async_stream_infer("two_outputs", [given("a", a), given("b", a)], request_id=str(number),
                                      enable_empty_final_response=True)
        client.async_stream_infer("none", [given("a", a)], request_id="bad")
        for number in range(50):
            result, error = answers.get(timeout=30)
            assert error is None, error
            response = result.get_response()
            assert response.id == str(number), response
            assert response.parameters["triton_final_response"].bool_param, response
            assert result.as_numpy("sum")[0][0] == 2 * number
        result, error = answers.get(timeout=30)
        assert result is None and "Request for unknown model: 'none' is not found" in error.message(), error
        client.stop_stream()


async def check_asyncio(grpc_address, http_address):
    a, b = pair()
    async with triton_aio.InferenceServerClient(grpc_address) as client:
        assert await client.is_server_ready()
        asked = [client.infer("two_outputs", [given("a", a), given("b", b)]) for _ in range(20)]
        for result in await asyncio.gather(*asked):
            np.testing.assert_array_equal(result.as_numpy("sum"), a + b)

        async def requests():
            for number in range(20):
                yield {"model_name": "two_outputs", "request_id": str(number),
                       "inputs": [given("a", a), given("b", b)]}

        numbers = []
        async for result, error in client.stream_infer(requests()):
            assert error is None, error
            numbers.append(result.get_response().id)
        assert numbers == [str(it) for it in range(20)], numbers
    async with http_aio.InferenceServerClient(http_address) as client:
        assert await client.is_server_ready()
        asked = [client.infer("two_outputs", [given("a", a, http_aio), given("b", b, http_aio)])
                 for _ in range(20)]
        for result in await asyncio.gather(*asked):
            np.testing.assert_array_equal(result.as_numpy("sum"), a + b)


def check_standard_health(address):
    # grpc.health.v1 without its package: the request is empty, and the response one number.
    with grpc.insecure_channel(address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"


def main(grpc_address, http_address):
    checks = [check_health, check_descriptions, check_numbers, check_bytes, check_classes,
              check_refusals, check_without_waiting]
    with triton.InferenceServerClient(grpc_address) as client:
        for check in checks:
            check(client)
    check_stream(grpc_address)
    asyncio.run(check_asyncio(grpc_address, http_address))
    check_standard_health(grpc_address)
    print(f"{len(checks) + 3} checks passed")


main(*sys.argv[1:])
