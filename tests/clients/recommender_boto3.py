"""Asks a recommender for jobs with boto3, as programs do that know nothing of muster.

Usage: recommender_boto3.py URL MODEL BODIES      of `muster recommend --serve` or of a server with the facade and jobs,
a model, and a directory of bodies.
"""

import os
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError
from botocore.waiter import WaiterModel, create_waiter_with_client

URL, MODEL, BODIES = sys.argv[1:4]
ROLE = "arn:aws:iam::111111111111:role/mine"
GROUP = "/aws/sagemaker/InferenceRecommendationsJobs"


def client(name):
    # Nothing but the variables says that the endpoints are not AWS's.
    return boto3.client(name, config=Config(retries={"max_attempts": 0}, read_timeout=30))


def request(name, seconds=3, **input_config):
    ranges = [{"Name": "MUSTER_DEFAULT_INSTANCE_COUNT", "Value": ["1", "2"]}]
    configuration = {
        "InstanceType": "local.cpu1",
        "EnvironmentParameterRanges": {"CategoricalParameterRanges": ranges},
    }
    phase = {"InitialNumberOfUsers": 2, "SpawnRate": 0, "DurationInSeconds": seconds}
    payload = {"SamplePayloadUrl": f"file://{BODIES}", "SupportedContentTypes": ["application/json"]}
    return {
        "JobName": name,
        "JobType": "Advanced",
        "RoleArn": ROLE,
        "InputConfig": {
            "ModelName": "sleeper",
            "JobDurationInSeconds": 7200,
            "TrafficPattern": {"TrafficType": "PHASES", "Phases": [phase]},
            "ResourceLimit": {"MaxNumberOfTests": 2, "MaxParallelOfTests": 1},
            "EndpointConfigurations": [configuration],
            "ContainerConfig": {"Domain": "MACHINE_LEARNING", "Task": "OTHER", "PayloadConfig": payload},
            **input_config,
        },
        "StoppingConditions": {
            "MaxInvocations": 1_000_000,
            "ModelLatencyThresholds": [{"Percentile": "P95", "ValueInMilliseconds": 1000}],
            "FlatInvocations": "Continue",
        },
        "Tags": [{"Key": "a", "Value": "b"}],
    }


def finished(sagemaker, wanted="COMPLETED"):
    """A waiter of botocore's: the service has none for these jobs."""
    acceptors = [
        {"matcher": "path", "argument": "Status", "expected": wanted, "state": "success"},
        *(
            {"matcher": "path", "argument": "Status", "expected": status, "state": "failure"}
            for status in ["COMPLETED", "FAILED", "STOPPED"]
            if status != wanted
        ),
    ]
    operation = "DescribeInferenceRecommendationsJob"
    config = {"operation": operation, "delay": 1, "maxAttempts": 60, "acceptors": acceptors}
    model = WaiterModel({"version": 2, "waiters": {"Finished": config}})
    return create_waiter_with_client("Finished", model, sagemaker)


def a_model(sagemaker):
    container = {"Image": "muster", "ModelDataUrl": f"file://{MODEL}", "Environment": {"OMP_NUM_THREADS": "1"}}
    made = sagemaker.create_model(ModelName="sleeper", PrimaryContainer=container, ExecutionRoleArn=ROLE)
    described = sagemaker.describe_model(ModelName="sleeper")
    assert described["ModelArn"] == made["ModelArn"] and described["PrimaryContainer"] == container, described
    assert described["CreationTime"].year > 2020 and described["ExecutionRoleArn"] == ROLE, described
    try:
        sagemaker.create_model(ModelName="sleeper", PrimaryContainer=container, ExecutionRoleArn=ROLE)
        raise AssertionError("expected ValidationException")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "ValidationException", error
        assert "Cannot create already existing model" in str(error), error


def a_job(sagemaker):
    asked = request("first")
    made = sagemaker.create_inference_recommendations_job(**asked)
    assert made["JobArn"].endswith(":inference-recommendations-job/first"), made
    finished(sagemaker).wait(JobName="first")
    job = sagemaker.describe_inference_recommendations_job(JobName="first")
    for field in ["JobName", "JobType", "RoleArn", "InputConfig", "StoppingConditions"]:
        assert job[field] == asked[field], job
    assert job["CreationTime"] < job["CompletionTime"] <= job["LastModifiedTime"], job
    best, other = job["InferenceRecommendations"]
    assert best["RecommendationId"].startswith("first/") and len(best["RecommendationId"]) == len("first/") + 8
    # What was tried, then what is in effect besides.
    tried, *in_effect = best["ModelConfiguration"]["EnvironmentParameters"]
    assert tried == {"Key": "MUSTER_DEFAULT_INSTANCE_COUNT", "ValueType": "String", "Value": "2"}, job
    assert "MUSTER_DEFAULT_INTRA_OP_THREADS" in [it["Key"] for it in in_effect], job
    metrics, endpoint = best["Metrics"], best["EndpointConfiguration"]
    assert metrics["MaxInvocations"] > other["Metrics"]["MaxInvocations"] > 0 < metrics["ModelLatency"], job
    assert metrics["CpuUtilization"] > 0 < metrics["MemoryUtilization"] < 100, metrics
    # As many machines as a million a minute take.
    assert endpoint["InitialInstanceCount"] == -(-1_000_000 // metrics["MaxInvocations"]), endpoint
    assert endpoint["InstanceType"] == "local.cpu1" and endpoint["VariantName"], endpoint


def errors_have_types(sagemaker):
    errors = sagemaker.exceptions
    for error, operation, arguments in [
        (errors.ResourceInUse, "create_inference_recommendations_job", request("first")),
        (errors.ResourceNotFound, "describe_inference_recommendations_job", {"JobName": "none"}),
        (errors.ResourceNotFound, "stop_inference_recommendations_job", {"JobName": "none"}),
        (errors.ResourceNotFound, "list_inference_recommendations_job_steps", {"JobName": "none"}),
        (errors.ResourceNotFound, "describe_model", {"ModelName": "none"}),
    ]:
        try:
            getattr(sagemaker, operation)(**arguments)
            raise AssertionError(f"{operation}: expected {error.__name__}")
        except error as raised:
            assert raised.response["ResponseMetadata"]["HTTPStatusCode"] == 400, raised.response
    try:
        sagemaker.create_inference_recommendations_job(**request("-x", ModelName="none"))
        raise AssertionError("expected ValidationException")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "ValidationException", error
        assert "Value '-x' at 'jobName'" in str(error), error


def lists_and_pages(sagemaker):
    for name in ["second", "third", "fourth"]:
        sagemaker.create_inference_recommendations_job(**request(name, seconds=600))

    def names(**arguments):
        paginator = sagemaker.get_paginator("list_inference_recommendations_jobs")
        pages = paginator.paginate(PaginationConfig={"PageSize": 1}, **arguments)
        return [job["JobName"] for page in pages for job in page["InferenceRecommendationsJobs"]]

    assert names() == ["fourth", "third", "second", "first"], names()
    assert names(SortBy="Name", SortOrder="Ascending") == ["first", "fourth", "second", "third"]
    assert names(NameContains="ir") == ["third", "first"]
    assert names(StatusEquals="COMPLETED") == ["first"]
    assert names(ModelNameEquals="none") == []
    first = sagemaker.describe_inference_recommendations_job(JobName="first")
    assert "first" not in names(CreationTimeAfter=first["CompletionTime"])
    paginator = sagemaker.get_paginator("list_inference_recommendations_job_steps")
    pages = list(paginator.paginate(JobName="first", PaginationConfig={"PageSize": 1}))
    steps = [step for page in pages for step in page["Steps"]]
    assert [len(page["Steps"]) for page in pages] == [1, 1], pages
    for step in steps:
        assert (step["Status"], step["StepType"]) == ("COMPLETED", "BENCHMARK"), step
        assert step["InferenceBenchmark"]["Metrics"]["MaxInvocations"] > 0, step
    assert not sagemaker.list_inference_recommendations_job_steps(JobName="first", Status="FAILED")["Steps"]


def jobs_are_stopped(sagemaker):
    for name in ["fourth", "third"]:
        sagemaker.stop_inference_recommendations_job(JobName=name)
        assert sagemaker.describe_inference_recommendations_job(JobName=name)["Status"] == "STOPPED"
    sagemaker.stop_inference_recommendations_job(JobName="second")
    assert sagemaker.describe_inference_recommendations_job(JobName="second")["Status"] in ["STOPPING", "STOPPED"]
    finished(sagemaker, "STOPPED").wait(JobName="second")


def what_fails_says_why(sagemaker):
    asked = request("failing")
    asked["InputConfig"]["EndpointConfigurations"][0]["InstanceType"] = "ml.c5.xlarge"
    sagemaker.create_inference_recommendations_job(**asked)
    try:
        finished(sagemaker).wait(JobName="failing")
        raise AssertionError("expected a failure")
    except WaiterError as error:
        assert "ml.c5.xlarge" in error.last_response["FailureReason"], error.last_response


def logs_are_read(_):
    logs = client("logs")
    stream = {"logGroupName": GROUP, "logStreamName": "first/execution"}
    page = logs.get_log_events(**stream, startFromHead=True, limit=1)
    said = []
    while page["events"]:
        said += [event["message"] for event in page["events"]]
        page = logs.get_log_events(**stream, startFromHead=True, limit=1, nextToken=page["nextForwardToken"])
    assert any("requests/min" in line for line in said), said
    try:
        logs.get_log_events(logGroupName=GROUP, logStreamName="none/execution")
        raise AssertionError("expected ResourceNotFoundException")
    except logs.exceptions.ResourceNotFoundException:
        pass


def main():
    os.environ |= {
        "AWS_ENDPOINT_URL_SAGEMAKER": URL,
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": URL,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    sagemaker = client("sagemaker")
    for check in [a_model, a_job, errors_have_types, lists_and_pages, jobs_are_stopped, what_fails_says_why, logs_are_read]:
        try:
            check(sagemaker)
        except ClientError as error:
            raise AssertionError(f"{check.__name__}: {error}") from error
        print(check.__name__)


if __name__ == "__main__":
    main()
