"""Calls SageMaker's runtime with boto3, as programs do that know nothing of muster.

Usage: aws_boto3.py URL SPOOL       of a server with --aws-facade, --async-spool SPOOL, the model `digits`, and several
others; its default model is `fraud`.
"""

import json
import os
import sys
import time
import uuid

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError
from rows import FRAUD, ORDINARY

URL, SPOOL = sys.argv[1:3]


def client(**config):
    # Nothing but the variable says that the endpoint is not AWS's.
    return boto3.client("sagemaker-runtime", config=Config(retries={"max_attempts": 0}, read_timeout=70, **config))


def invoke_endpoint(runtime):
    response = runtime.invoke_endpoint(
        EndpointName="fraud",
        Body=f"{FRAUD}\n{ORDINARY}\n".encode(),
        ContentType="text/csv",
        Accept="application/json",
        CustomAttributes="trace=7",
        InferenceId="my-id",
    )
    fraud, ordinary = json.loads(response["Body"].read())["predictions"]
    assert fraud[0] > 0.9 > 0.1 > ordinary[0], (fraud, ordinary)
    assert response["ContentType"] == "application/json"
    assert response["InvokedProductionVariant"] == "AllTraffic"
    assert response["CustomAttributes"] == "trace=7"
    uuid.UUID(response["ResponseMetadata"]["RequestId"])
    # An endpoint whose name is no model's is the default model; a variant is given back.
    response = runtime.invoke_endpoint(
        EndpointName="my-ep", Body=FRAUD, ContentType="text/csv", TargetVariant="blue"
    )
    assert float(response["Body"].read()) > 0.9
    assert response["InvokedProductionVariant"] == "blue"
    response = runtime.invoke_endpoint(
        EndpointName="my-ep", TargetModel="type_fp32", Body=b'{"instances": [[1, 2, 3]]}', ContentType="application/json"
    )
    assert "predictions" in json.loads(response["Body"].read())


def a_body_without_a_type(runtime):
    response = runtime.invoke_endpoint(EndpointName="type_fp32", Body=b'{"instances": [[1, 2, 3]]}')
    assert "predictions" in json.loads(response["Body"].read())


def errors_have_types(runtime):
    try:
        runtime.invoke_endpoint(EndpointName="fraud", Body=b"1,2,x", ContentType="text/csv", InferenceId="my-id")
        raise AssertionError("expected ModelError")
    except runtime.exceptions.ModelError as error:
        response = error.response
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 424, response
        assert response["OriginalStatusCode"] == 400, response
        assert json.loads(response["OriginalMessage"])["request_id"] == "my-id", response
        assert response["LogStreamArn"].startswith("arn:aws:logs:"), response
        assert "(400)" in response["Error"]["Message"], response
    try:
        runtime.invoke_endpoint_async(EndpointName="fraud", InputLocation="https://example.org/x")
        raise AssertionError("expected ValidationError")
    except runtime.exceptions.ValidationError as error:
        assert "https://example.org/x" in str(error), error
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400, error.response


def invoke_endpoint_with_response_stream(runtime):
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName="fraud", Body=FRAUD, ContentType="text/csv", Accept="application/jsonlines", CustomAttributes="a=b"
    )
    assert response["ContentType"].startswith("application/jsonlines"), response
    assert response["InvokedProductionVariant"] == "AllTraffic" and response["CustomAttributes"] == "a=b"
    parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
    assert json.loads(b"".join(parts))[0] > 0.9, parts
    try:
        runtime.invoke_endpoint_with_response_stream(EndpointName="fraud", Body=b"x", ContentType="text/csv")
        raise AssertionError("expected ModelError")
    except runtime.exceptions.ModelError as error:
        assert error.response["OriginalStatusCode"] == 400, error.response


def in_spool(location):
    assert location.startswith("s3://"), location
    return os.path.join(SPOOL, *location.removeprefix("s3://").split("/"))


def note(response):
    """What became of an invocation, as soon as that is known."""
    path = in_spool(response["OutputLocation"]) + ".json"
    until = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.01)
    with open(path) as file:
        return json.load(file)


def invoke_endpoint_async(runtime):
    os.makedirs(os.path.join(SPOOL, "data"))
    with open(os.path.join(SPOOL, "data", "rows.csv"), "w") as file:
        file.write(f"{FRAUD}\n{ORDINARY}\n")
    response = runtime.invoke_endpoint_async(
        EndpointName="fraud",
        InputLocation="s3://data/rows.csv",
        ContentType="text/csv",
        Accept="application/json",
        InferenceId="my-id",
        RequestTTLSeconds=60,
        InvocationTimeoutSeconds=30,
        S3OutputPathExtension="team/",
    )
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 202 and response["InferenceId"] == "my-id"
    assert response["FailureLocation"].startswith("s3://")
    said = note(response)
    assert said["invocationStatus"] == "Completed", said
    assert said["responseParameters"]["outputLocation"] == response["OutputLocation"], said
    assert said["requestParameters"]["inputLocation"] == "s3://data/rows.csv", said
    with open(in_spool(response["OutputLocation"])) as file:
        assert json.load(file)["predictions"][0][0] > 0.9
    # With a body of its own.
    response = runtime.invoke_endpoint_async(EndpointName="fraud", Body=FRAUD.encode(), ContentType="text/csv")
    assert note(response)["invocationStatus"] == "Completed"
    response = runtime.invoke_endpoint_async(EndpointName="fraud", InputLocation="s3://data/none")
    said = note(response)
    assert said["invocationStatus"] == "Failed" and "s3://data/none" in said["failureReason"], said
    assert os.path.exists(in_spool(response["FailureLocation"]))


def a_body_of_25_mebibytes(runtime):
    # Spaces are no part of the JSON, and are sent all the same.
    body = b'{"instances": [[1, 2, 3]]}'
    body += b" " * ((25 << 20) - len(body))
    response = runtime.invoke_endpoint(EndpointName="type_fp32", Body=body, ContentType="application/json")
    assert "predictions" in json.loads(response["Body"].read())


def main():
    os.environ |= {
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": URL,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    runtime = client()
    checks = [
        invoke_endpoint,
        a_body_without_a_type,
        errors_have_types,
        invoke_endpoint_with_response_stream,
        invoke_endpoint_async,
        a_body_of_25_mebibytes,
    ]
    for check in checks:
        try:
            check(runtime)
        except (ClientError, EventStreamError) as error:
            raise AssertionError(f"{check.__name__}: {error}") from error
        print(check.__name__)


if __name__ == "__main__":
    main()
