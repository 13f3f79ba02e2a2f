"""Reads answers in parts with boto3 from a server that stands in for SageMaker's runtime.

Usage: parts_boto3.py URL      of a server whose only model is decoupled, as `parts.py` has it.
"""

import json
import os
import sys

import boto3
from botocore.config import Config

ROW = [1.0, 2.0, 3.0, 4.0]

# More than anybody reads.
ENDLESS = 1 << 40


def ask(runtime, parts, **more):
    given = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": ROW}
    body = json.dumps({"inputs": [given], "parameters": {"parts": parts}})
    return runtime.invoke_endpoint_with_response_stream(
        EndpointName="m", Body=body, ContentType="application/json", **more
    )


def is_part(payload):
    text = payload.decode()
    assert text.startswith("data: ") and text.endswith("\n\n"), text
    return json.loads(text.removeprefix("data: "))["outputs"][0]["data"] == ROW


def main():
    os.environ |= {
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": sys.argv[1],
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    runtime = boto3.client("sagemaker-runtime", config=Config(retries={"max_attempts": 0}, read_timeout=70))
    response = ask(runtime, 3, Accept="text/event-stream")
    assert response["ContentType"].startswith("text/event-stream"), response
    parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
    assert len(parts) == 3 and all(map(is_part, parts)), parts
    print("each part is one of the stream")

    # The answer has no end: each part comes before the last is sent.
    stream = ask(runtime, ENDLESS)["Body"]
    for _, event in zip(range(5), stream):
        assert is_part(event["PayloadPart"]["Bytes"]), event
    stream.close()
    print("and arrives before the last is sent")

    body = "".join(f"[{it},0,0,0]\n" for it in range(3))
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName="m", Body=body, ContentType="application/jsonlines", Accept="application/jsonlines"
    )
    lines = b"".join(event["PayloadPart"]["Bytes"] for event in response["Body"]).splitlines()
    assert [json.loads(it)[0] for it in lines] == [0, 1, 2] * 3, lines
    print("lines come as they are")


if __name__ == "__main__":
    main()
