"""Drives a server with the clients of KServe's Python package: REST and gRPC of the open inference protocol.

Usage: kserve_client.py HTTP_HOST:PORT GRPC_HOST:PORT      of a server with the models two_outputs and type_string.
"""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


def given(name, array, datatype, binary):
    port = InferInput(name=name, shape=list(array.shape), datatype=datatype)
    port.set_data_from_numpy(array, binary_data=binary)
    return port


def numbers(binary):
    a, b = (np.random.default_rng(it).normal(size=(3, 4)).astype(np.float32) for it in (1, 2))
    inputs = [given("a", a, "FP32", binary), given("b", b, "FP32", binary)]
    return a, b, InferRequest(model_name="two_outputs", infer_inputs=inputs, request_id="7")


def check_reply(reply, a, b):
    outputs = {it.name: it.as_numpy() for it in reply.outputs}
    np.testing.assert_allclose(outputs["sum"].reshape(3, 4), a + b, rtol=1e-6)
    np.testing.assert_allclose(outputs["difference"].reshape(3, 4), a - b, rtol=1e-6)
    assert reply.model_name == "two_outputs" and reply.id == "7", reply


async def check_rest(address):
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    url = f"http://{address}"
    assert await client.is_server_live(url) and await client.is_server_ready(url)
    assert await client.is_model_ready(url, "two_outputs")
    for binary in (False, True):
        a, b, request = numbers(binary)
        check_reply(await client.infer(url, request, model_name="two_outputs"), a, b)
    await client.close()


async def check_grpc(address):
    client = InferenceGRPCClient(url=address)
    assert await client.is_server_live() and await client.is_server_ready()
    assert await client.is_model_ready("two_outputs")
    for binary in (False, True):
        a, b, request = numbers(binary)
        check_reply(await client.infer(request), a, b)
    await client.close()


async def main():
    await check_rest(sys.argv[1])
    print("check_rest passed")
    await check_grpc(sys.argv[2])
    print("check_grpc passed")


if __name__ == "__main__":
    asyncio.run(main())
