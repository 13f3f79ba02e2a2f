"""Reads answers in parts with clients that know nothing of muster: tritonclient, `curl -N`, and any HTTP client.

Usage: parts.py HTTP GRPC SAGEMAKER      addresses `host:port` of a server whose only model is decoupled: `INPUT0` ->
                                         `OUTPUT0` of four numbers, in as many parts as the parameter `parts` says.
"""

import http.client
import json
import queue
import shutil
import subprocess
import sys

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

HTTP, GRPC, SAGEMAKER = sys.argv[1:4]
ROW = [1.0, 2.0, 3.0, 4.0]

# More than anybody reads.
ENDLESS = 1 << 40


def flat(parts):
    return json.dumps({"INPUT0": ROW, "parts": parts})


def kserve(parts):
    given = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": ROW}
    return json.dumps({"inputs": [given], "parameters": {"parts": parts}})


def is_part(event):
    return event.get("OUTPUT0", None) == ROW or event["outputs"][0]["data"] == ROW


def grpc_stream():
    given = triton.InferInput("INPUT0", [1, 4], "FP32")
    given.set_data_from_numpy(np.array([ROW], np.float32))
    answers = queue.Queue()
    with triton.InferenceServerClient(GRPC) as client:
        assert client.get_model_config("m", as_json=True)["config"]["model_transaction_policy"]["decoupled"]
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(
            "m", [given], request_id="a", parameters={"parts": 3}, enable_empty_final_response=True
        )
        for last in (False, False, True):
            result, error = answers.get(timeout=60)
            assert error is None, error
            response = result.get_response()
            assert response.id == "a" and result.as_numpy("OUTPUT0").tolist() == [ROW]
            assert response.parameters["triton_final_response"].bool_param is last
        client.async_stream_infer(
            "m", [given], request_id="b", parameters={"parts": 0}, enable_empty_final_response=True
        )
        result, error = answers.get(timeout=60)
        assert error is None and result.get_response().parameters["triton_final_response"].bool_param
        assert len(result.get_response().outputs) == 0
        # The answer has no end: each part comes before the last is sent.
        client.async_stream_infer("m", [given], request_id="c", parameters={"parts": ENDLESS})
        for _ in range(3):
            result, error = answers.get(timeout=60)
            assert error is None and result.as_numpy("OUTPUT0").tolist() == [ROW], error
        client.stop_stream(cancel_requests=True)
        try:
            client.infer("m", [given])
            raise AssertionError("expected to be refused")
        except InferenceServerException as error:
            assert error.status() == "StatusCode.UNIMPLEMENTED", error
        # By the place in the answer, as Triton counts them.
        statistics = client.get_inference_statistics("m", as_json=True)["model_stats"][0]
        assert int(statistics["response_stats"]["0"]["success"]["count"]) >= 2, statistics


def events(address, path, body, most):
    """So many events of an answer, which is given up then."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200 and reply.getheader("content-type").startswith("text/event-stream"), reply.headers
    read = []
    while len(read) < most:
        line = reply.readline()
        if not line:
            break
        if line.strip():
            read.append(json.loads(line.removeprefix(b"data: ")))
    connection.close()
    return read


def http_events():
    for address, path, body in ((HTTP, "/v2/models/m/generate_stream", flat), (SAGEMAKER, "/invocations", kserve)):
        for parts, expected in ((3, 3), (0, 0), (ENDLESS, 5)):
            read = events(address, path, body(parts), 5) if parts else []
            assert len(read) == expected and all(map(is_part, read)), read


def curl():
    program = shutil.which("curl")
    if program is None:
        print("no curl here")
        return
    places = ((f"http://{HTTP}/v2/models/m/generate_stream", flat), (f"http://{SAGEMAKER}/invocations", kserve))
    for url, body in places:
        command = [program, "-sN", "-H", "Content-Type: application/json", "--data-binary", body(ENDLESS), url]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            lines = [process.stdout.readline() for _ in range(6)]
            process.terminate()
        assert all(is_part(json.loads(it.removeprefix(b"data: "))) for it in lines[::2]), lines


def main():
    for check in (grpc_stream, http_events, curl):
        check()
        print(check.__name__)


if __name__ == "__main__":
    main()
