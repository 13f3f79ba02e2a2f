"""Drives a server with Triton's own Python client, over HTTP.

Usage: triton.py HOST:PORT      of a server with the models type_fp32, type_string, two_outputs and digits.
"""

import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype


def given(name, array, binary):
    port = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    port.set_data_from_numpy(array, binary_data=binary)
    return port


def check_health(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("digits") and client.is_model_ready("digits", "1")
    assert not client.is_model_ready("none")


def check_descriptions(client):
    server = client.get_server_metadata()
    assert server["name"] == "triton" and "binary_tensor_data" in server["extensions"], server
    metadata = client.get_model_metadata("two_outputs")
    assert metadata["versions"] == ["1"], metadata
    assert metadata["inputs"][0] == {"name": "a", "datatype": "FP32", "shape": [-1, 4]}, metadata
    config = client.get_model_config("digits")
    assert config["max_batch_size"] == 64 and config["backend"] == "onnxruntime", config
    index = client.get_model_repository_index()
    assert {it["name"]: it["state"] for it in index}["digits"] == "READY", index


def check_numbers(client):
    a, b = (np.random.default_rng(it).normal(size=(3, 4)).astype(np.float32) for it in (1, 2))
    for binary_in in (True, False):
        for binary_out in (True, False):
            outputs = [triton.InferRequestedOutput(name, binary_data=binary_out)
                       for name in ("difference", "sum")]
            result = client.infer("two_outputs",
                                  [given("a", a, binary_in), given("b", b, binary_in)],
                                  outputs=outputs, request_id="7", model_version="1")
            np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
            np.testing.assert_array_equal(result.as_numpy("difference"), a - b)
            assert result.as_numpy("product") is None
            response = result.get_response()
            assert response["id"] == "7" and response["model_name"] == "two_outputs", response
    # No outputs named: all of them come, as bytes.
    result = client.infer("two_outputs", [given("a", a, True), given("b", b, True)])
    np.testing.assert_array_equal(result.as_numpy("product"), a * b)


def check_bytes(client):
    texts = np.array([["plain", "ünïcode", ""]], dtype=object)
    for binary_in in (True, False):
        for binary_out in (True, False):
            outputs = [triton.InferRequestedOutput("output", binary_data=binary_out)]
            result = client.infer("type_string", [given("input", texts, binary_in)], outputs=outputs)
            back = [it.decode() if isinstance(it, bytes) else it
                    for it in result.as_numpy("output").ravel()]
            assert back == list(texts.ravel()), back
    odd = np.array([[b"\xff\x00\xfe", b"", b"\x80"]], dtype=object)
    result = client.infer("type_string", [given("input", odd, True)])
    assert list(result.as_numpy("output").ravel()) == list(odd.ravel())


def check_classes(client):
    images = np.zeros((2, 1, 8, 8), np.float32)
    for binary in (True, False):
        outputs = [triton.InferRequestedOutput("probabilities", binary_data=binary, class_count=3)]
        result = client.infer("digits", [given("image", images, True)], outputs=outputs)
        classes = result.as_numpy("probabilities")
        assert classes.shape == (2, 3), classes
        best = classes[0][0]
        value, index, label = (best.decode() if isinstance(best, bytes) else best).split(":")
        names = "zero one two three four five six seven eight nine".split()
        assert 0 < float(value) <= 1 and names[int(index)] == label, best


def check_compression(client):
    images = np.repeat(np.arange(64, dtype=np.float32) % 17, 64).reshape(64, 1, 8, 8)
    for binary in (True, False):
        def ask(**compression):
            outputs = [triton.InferRequestedOutput("probabilities", binary_data=binary)]
            result = client.infer("digits", [given("image", images, binary)], outputs=outputs,
                                  **compression)
            return result.as_numpy("probabilities")
        plain = ask()
        for request in ("gzip", "deflate", None):
            for reply in ("gzip", "deflate", None):
                got = ask(request_compression_algorithm=request,
                          response_compression_algorithm=reply)
                np.testing.assert_array_equal(got, plain)


def check_many_at_once(client):
    rows = [np.full((1, 3), it, np.float32) for it in range(32)]
    waiting = [client.async_infer("type_fp32", [given("input", row, True)]) for row in rows]
    for row, it in zip(rows, waiting):
        np.testing.assert_array_equal(it.get_result().as_numpy("output"), row)


def check_errors(client):
    wrong = np.zeros((1, 4), np.float32)
    for model, array, status, part in [("type_fp32", wrong, "400", "input"),
                                       ("none", wrong, "404", "none")]:
        try:
            client.infer(model, [given("input", array, True)])
        except InferenceServerException as error:
            assert error.status() == status and part in error.message(), error
        else:
            raise AssertionError(f"{model} was not refused")


def main():
    client = triton.InferenceServerClient(sys.argv[1], concurrency=4)
    checks = [check_health, check_descriptions, check_numbers, check_bytes, check_classes,
              check_compression, check_many_at_once, check_errors]
    for check in checks:
        check(client)
        print(check.__name__, "passed")
    client.close()


if __name__ == "__main__":
    main()
