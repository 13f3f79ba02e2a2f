"""Sends /invocations what users of SageMaker's containers send, with `requests`, NumPy and tritonclient's own encoder.

Usage: invocation_bodies.py URL       of a server with the models `copy` (the default: rows of four floats), `text` (a
string) and `pair` (a float `a` and a string `b`), which all give their inputs back.
"""

import io
import sys

import numpy as np
import requests
import tritonclient.http as triton

BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="
ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)


class Endpoint:
    """One address, asked as one model after the other."""

    def __init__(self, url):
        self.url, self.session = url, requests.Session()

    def ask(self, body, content_type=None, accept=None, model="copy", status=200):
        headers = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={model}"}
        headers |= {"Content-Type": content_type} if content_type else {}
        headers |= {"Accept": accept} if accept else {}
        reply = self.session.post(self.url + "/invocations", data=body, headers=headers, timeout=10)
        assert reply.status_code == status, (reply.status_code, reply.text)
        return reply


def tritonclient_encodes_binary_and_json_requests(endpoint):
    client = triton.InferenceServerClient

    def tensor(binary):
        given = triton.InferInput("INPUT0", ROWS.shape, "FP32")
        given.set_data_from_numpy(ROWS, binary_data=binary)
        return given

    def check(reply):
        kind = reply.headers["Content-Type"]
        length = int(kind[len(BINARY):]) if kind.startswith(BINARY) else None
        parsed = client.parse_response_body(reply.content, header_length=length)
        np.testing.assert_array_equal(parsed.as_numpy("OUTPUT0"), ROWS)
        return length is not None

    output = [triton.InferRequestedOutput("OUTPUT0", binary_data=True)]
    body, length = client.generate_request_body([tensor(True)], outputs=output)
    assert check(endpoint.ask(body, BINARY + str(length)))
    # Inputs in JSON: the reply is as the request asks, binary where it says nothing.
    body, length = client.generate_request_body([tensor(False)])
    assert length is None
    for kind in ("application/json", "application/octet-stream", None):
        assert check(endpoint.ask(body, kind))
    output = [triton.InferRequestedOutput("OUTPUT0", binary_data=False)]
    body, length = client.generate_request_body([tensor(False)], outputs=output)
    assert not check(endpoint.ask(body, "application/json"))

    raw = ROWS[:1].tobytes()
    reply = endpoint.ask(raw, BINARY + "0")
    assert reply.content.endswith(raw)
    for wrong in (str(len(raw) + 1), "-1", "x", ""):
        endpoint.ask(raw, BINARY + wrong, status=400)


def numpy_writes_arrays_and_archives(endpoint):
    def file(write):
        buffer = io.BytesIO()
        write(buffer)
        return buffer.getvalue()

    for version in ((1, 0), (2, 0), (3, 0)):
        body = file(lambda out: np.lib.format.write_array(out, ROWS, version))
        reply = endpoint.ask(body, "application/x-npy")
        assert reply.headers["Content-Type"] == "application/x-npy"
        np.testing.assert_array_equal(np.load(io.BytesIO(reply.content)), ROWS)
        assert endpoint.ask(body, "application/x-npy", "application/json").json() == ROWS.tolist()
    endpoint.ask(file(lambda out: np.save(out, np.array([{}]))), "application/x-npy", status=400)
    columns = file(lambda out: np.save(out, np.asfortranarray(ROWS)))
    assert endpoint.ask(columns, "application/x-npy", "application/json").json() == ROWS.tolist()

    for save in (np.savez, np.savez_compressed):
        for arrays in ({"INPUT0": ROWS}, {"anything": ROWS.astype(float)}):
            body = file(lambda out: save(out, **arrays))
            for kind in ("application/x-npz", None):
                assert endpoint.ask(body, kind, "application/json").json() == ROWS.tolist()
    # As scipy.sparse.save_npz writes a matrix.
    dense = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0]], dtype=np.float64)
    sparse = {"indices": [1, 3, 0], "indptr": [0, 2, 2, 3], "format": b"csr", "shape": dense.shape}
    arrays = {key: np.asarray(value) for key, value in sparse.items()} | {"data": np.array([1.0, 2, 3])}
    body = file(lambda out: np.savez_compressed(out, **arrays))
    assert endpoint.ask(body, "application/x-npz", "application/json").json() == dense.tolist()
    arrays["format"] = np.asarray(b"coo")
    error = endpoint.ask(file(lambda out: np.savez(out, **arrays)), "application/x-npz", status=400)
    assert "csr" in error.json()["error"], error.text
    bomb = file(lambda out: np.savez_compressed(out, INPUT0=np.zeros((1 << 20, 4), np.float32)))
    endpoint.ask(bomb, "application/x-npz", status=413)


def texts_and_images_reach_a_model_of_strings(endpoint):
    reply = endpoint.ask('{"inputs": "I am super happy right now."}', "application/json", model="text")
    assert reply.json() == [{"OUTPUT0": ["I am super happy right now."]}], reply.text
    assert " " not in reply.text.replace("I am super happy right now.", ""), reply.text
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    reply = endpoint.ask(png, "image/png", model="text")
    assert set(reply.json()[0][0]) == {"b64"}, reply.text
    endpoint.ask(png, "image/png", status=415)


def tables_of_pandas_become_inputs(endpoint):
    split = {"columns": ["b", "a"], "index": [0, 1], "data": [["x", 1.5], ["y", 2.5]]}
    expected = {"predictions": [{"a": [1.5], "b": ["x"]}, {"a": [2.5], "b": ["y"]}]}
    records = [dict(zip(split["columns"], row)) for row in split["data"]]
    for body in ({"dataframe_split": split}, {"dataframe_records": records}):
        reply = endpoint.session.post(
            endpoint.url + "/invocations",
            json=body,
            headers={"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=pair"},
            timeout=10,
        )
        assert reply.json() == expected, reply.text
    reply = endpoint.ask("b,a\nx,1.5\ny,2.5\n", "text/csv", "application/json", model="pair")
    assert reply.json() == expected, reply.text


def errors_are_json_with_the_id_of_the_request(endpoint):
    for body, kind, status in (
        ("{", "application/json", 400),
        ("1,2,3,4\n5,x,7,8\n", "text/csv", 400),
        ("x", "text/html", 415),
    ):
        reply = endpoint.ask(body, kind, status=status)
        error = reply.json()
        assert error["error"] and error["request_id"] and len(reply.content) < 1024, reply.text
    error = endpoint.ask("[[1,2,3,4]]", "application/json", "image/png", status=406).json()
    assert "application/json" in error["error"], error


def main():
    endpoint = Endpoint(sys.argv[1])
    for check in (
        tritonclient_encodes_binary_and_json_requests,
        numpy_writes_arrays_and_archives,
        texts_and_images_reach_a_model_of_strings,
        tables_of_pandas_become_inputs,
        errors_are_json_with_the_id_of_the_request,
    ):
        check(endpoint)
        print(check.__name__.replace("_", " "))


main()
