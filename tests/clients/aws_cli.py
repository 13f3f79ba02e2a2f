"""Calls SageMaker's runtime with the command line of AWS, each time in a process of its own.

Usage: aws_cli.py URL SPOOL       of a server with --aws-facade, --async-spool SPOOL and the model `type_fp32`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

URL, SPOOL = sys.argv[1:3]
ENVIRONMENT = os.environ | {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "y",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
}


def aws(operation, *arguments):
    # The command lies beside the interpreter of its environment.
    command = os.path.join(os.path.dirname(sys.executable), "aws")
    whole = [sys.executable, command, "sagemaker-runtime", operation, "--endpoint-url", URL, *arguments]
    return subprocess.run(whole, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)


def invoke_endpoint(folder):
    body, out = os.path.join(folder, "body.json"), os.path.join(folder, "out.json")
    with open(body, "w") as file:
        file.write('{"instances": [[1, 2, 3]]}')
    given = ["--body", f"fileb://{body}", "--content-type", "application/json", out]
    done = aws("invoke-endpoint", "--endpoint-name", "type_fp32", *given)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["InvokedProductionVariant"] == "AllTraffic" and said["ContentType"] == "application/json", said
    with open(out) as file:
        assert "predictions" in json.load(file)


def invoke_endpoint_fails_with_the_name_of_the_exception(folder):
    out = os.path.join(folder, "none")
    done = aws("invoke-endpoint", "--endpoint-name", "type_fp32", "--body", "e30=", out)
    assert done.returncode != 0 and "(ModelError)" in done.stderr and "(400)" in done.stderr, done.stderr


def invoke_endpoint_async(folder):
    os.makedirs(os.path.join(SPOOL, "data"), exist_ok=True)
    with open(os.path.join(SPOOL, "data", "row.json"), "w") as file:
        file.write('{"instances": [[1, 2, 3]]}')
    given = ["--input-location", "s3://data/row.json", "--content-type", "application/json"]
    done = aws("invoke-endpoint-async", "--endpoint-name", "type_fp32", *given)
    assert done.returncode == 0, done.stderr
    path = os.path.join(SPOOL, *json.loads(done.stdout)["OutputLocation"].removeprefix("s3://").split("/"))
    until = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.01)
    with open(path) as file:
        assert "predictions" in json.load(file)


def main():
    with tempfile.TemporaryDirectory() as folder:
        checks = [invoke_endpoint, invoke_endpoint_fails_with_the_name_of_the_exception, invoke_endpoint_async]
        for check in checks:
            check(folder)
            print(check.__name__)


if __name__ == "__main__":
    main()
