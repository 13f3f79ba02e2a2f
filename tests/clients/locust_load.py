"""Load on an endpoint of SageMaker's runtime from Locust, in the form of the script that AWS publishes for it: each user
calls `invoke_endpoint` of boto3 without retries, and each call is a request of Locust's statistics.

Usage: REGION=us-east-1 CONTENT_TYPE=application/json PAYLOAD='..' locust -f locust_load.py -H https://my-ep --headless ..

The endpoint's name is the last part of the host. Where the calls go is boto3's business: set
AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME for a server that is not AWS's. TEXTS=FILE in place of PAYLOAD sends each line of a
file in turn, as Hugging Face's container takes texts, and FILES=FILE:FILE each file as it is, as a picture or a sound.
Run with an interpreter instead, it checks itself: `locust_load.py URL ENDPOINT PAYLOAD`, `locust_load.py --hf URL
ENDPOINT FILE`, or `locust_load.py --files URL ENDPOINT FILE..`, has four users until they have made a hundred requests,
or for `--seconds` so long, and fails where one request does. REQUESTS says how many.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

REGION = os.environ.get("REGION", "us-east-1")
CONTENT_TYPE = os.environ.get("CONTENT_TYPE", "application/json")
PAYLOAD = os.environ.get("PAYLOAD", "")
TEXTS = os.environ.get("TEXTS")
FILES = os.environ.get("FILES")
REQUESTS = os.environ.get("REQUESTS")
LIMIT = 100  # seconds


def payloads():
    """The bodies of all calls, without end."""
    if FILES is not None:
        return itertools.cycle([pathlib.Path(name).read_bytes() for name in FILES.split(":")])
    if TEXTS is None:
        return itertools.repeat(PAYLOAD)
    with open(TEXTS) as file:
        lines = [line for line in map(str.strip, file) if line]
    return itertools.cycle([json.dumps({"inputs": line, "parameters": {"truncation": True}}) for line in lines])


if __name__ != "__main__":
    import boto3
    import gevent
    from botocore.config import Config
    from locust import User, constant, events, task

    class EndpointClient:
        """Invokes an endpoint, and tells Locust how that went."""

        def __init__(self, host, environment):
            self.endpoint = host.rstrip("/").split("/")[-1]
            self.environment = environment
            self.request = environment.events.request
            self.payloads = payloads()
            config = Config(retries={"max_attempts": 0, "mode": "standard"})
            self.runtime = boto3.client("sagemaker-runtime", region_name=REGION, config=config)

        def send(self):
            event = {
                "request_type": "InvokeEndpoint",
                "name": "SageMaker",
                "response_length": 0,
                "response": None,
                "context": {},
                "exception": None,
            }
            started = time.perf_counter()
            try:
                response = self.runtime.invoke_endpoint(
                    EndpointName=self.endpoint, Body=next(self.payloads), ContentType=CONTENT_TYPE
                )
                event["response"] = response["Body"].read()
                event["response_length"] = len(event["response"])
            except Exception as error:  # Whatever it is, it is a failed request.
                event["exception"] = error
            event["response_time"] = (time.perf_counter() - started) * 1000
            self.request.fire(**event)

    @events.init.add_listener
    def end_after_requests(environment, **_):
        """Ends all after REQUESTS. A user who did so would be ended first, and nobody would end the rest."""

        def wait():
            while environment.stats.total.num_requests < int(REQUESTS):
                gevent.sleep(0.02)
            environment.runner.quit()

        if REQUESTS is not None:
            gevent.spawn(wait)

    class EndpointUser(User):
        """One of those who wait for nothing between two calls."""

        wait_time = constant(0)

        def __init__(self, environment):
            super().__init__(environment)
            self.client = EndpointClient(self.host, environment)

        @task
        def invoke(self):
            self.client.send()


def main():
    parser = argparse.ArgumentParser()
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--hf", action="store_const", dest="form", const="TEXTS", default="PAYLOAD")
    form.add_argument("--files", action="store_const", dest="form", const="FILES")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("url")
    parser.add_argument("endpoint")
    parser.add_argument("payload", nargs="+")
    given = parser.parse_args()
    environment = os.environ | {
        "REGION": "us-east-1",
        "CONTENT_TYPE": "application/x-image" if given.form == "FILES" else "application/json",
        given.form: ":".join(given.payload),
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": given.url,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if given.seconds is None:
        environment.setdefault("REQUESTS", "100")
    seconds = given.seconds or LIMIT
    users = ["--headless", "-u", "4", "-r", "4", "-t", f"{seconds}s", "--json", "--exit-code-on-error", "1"]
    whole = [sys.executable, "-m", "locust", "-f", __file__, "-H", f"https://{given.endpoint}", *users]
    done = subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=seconds + 20)
    assert done.returncode == 0, done.stderr
    (statistics,) = json.loads(done.stdout)
    count, failures = statistics["num_requests"], statistics["num_failures"]
    assert count >= int(environment.get("REQUESTS", "1")) and failures == 0, statistics
    print(f"{count} requests of 4 users, no failures")


if __name__ == "__main__":
    main()
