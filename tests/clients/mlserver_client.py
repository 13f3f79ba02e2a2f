"""Drives a server with what MLServer's Python package offers to clients: its codecs over REST and gRPC, and its
command `mlserver infer`.

Usage: mlserver_client.py HTTP_HOST:PORT GRPC_HOST:PORT      of a server with the models two_outputs and type_string.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

import grpc
import numpy as np
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.grpc import converters
from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceStub
from mlserver.types import InferenceRequest, InferenceResponse, RequestOutput

A, B = (np.random.default_rng(it).normal(size=(3, 4)).astype(np.float32) for it in (1, 2))
TEXTS = ["plain", "ünïcode", "x"]


def numbers():
    # The package marks what it encoded with parameters of its own, which mean nothing to other servers.
    inputs = [NumpyCodec.encode_input("a", A), NumpyCodec.encode_input("b", B)]
    return InferenceRequest(id="7", inputs=inputs, outputs=[RequestOutput(name="sum")])


def check_numbers(response):
    assert response.model_name == "two_outputs" and response.id == "7", response
    (output,) = response.outputs
    np.testing.assert_allclose(NumpyCodec.decode_output(output).reshape(3, 4), A + B, rtol=1e-6)


def post(address, model, request):
    url = f"http://{address}/v2/models/{model}/infer"
    body = json.dumps(request.model_dump(exclude_none=True)).encode()
    sent = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent) as reply:
        return InferenceResponse.model_validate_json(reply.read())


def check_rest(address):
    check_numbers(post(address, "two_outputs", numbers()))


def check_strings(address):
    texts = InferenceRequest(inputs=[StringCodec.encode_input("input", TEXTS, use_bytes=False)])
    texts.inputs[0].shape = [1, 3]
    (output,) = post(address, "type_string", texts).outputs
    assert StringCodec.decode_output(output) == TEXTS, output


def check_grpc(address):
    with grpc.insecure_channel(address) as channel:
        request = converters.ModelInferRequestConverter.from_types(
            numbers(), model_name="two_outputs", model_version=None)
        reply = GRPCInferenceServiceStub(channel).ModelInfer(request)
    check_numbers(converters.ModelInferResponseConverter.to_types(reply))


def check_command(address):
    """One request a line in, one response a line out."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = os.path.join(folder, "in.txt"), os.path.join(folder, "out.txt")
        with open(given, "w") as file:
            for _ in range(3):
                file.write(json.dumps(numbers().model_dump(exclude_none=True)) + "\n")
        command = os.path.join(os.path.dirname(sys.executable), "mlserver")
        subprocess.run([command, "infer", "-u", address, "-m", "two_outputs", "-i", given, "-o", got],
                       check=True, stdout=sys.stderr)
        with open(got) as file:
            lines = file.readlines()
        assert len(lines) == 3, lines
        for line in lines:
            (output,) = json.loads(line)["outputs"]
            np.testing.assert_allclose(np.reshape(output["data"], (3, 4)), A + B, rtol=1e-6)


def main():
    http, rpc = sys.argv[1:3]
    for check, address in [(check_rest, http), (check_strings, http), (check_command, http), (check_grpc, rpc)]:
        check(address)
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
