"""Lets the SageMaker SDK's `right_size` ask a recommender, unmodified.

Usage: recommender_sdk.py URL MODEL BODIES        of `muster recommend --serve`, a model, and a directory of bodies.
"""

import os
import sys
import tarfile
import tempfile

URL, MODEL, BODIES = sys.argv[1:4]
os.environ |= {
    "AWS_ENDPOINT_URL_SAGEMAKER": URL,
    "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": URL,
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "y",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "SAGEMAKER_TELEMETRY_OPT_OUT": "true",
}

import boto3  # noqa: E402
from sagemaker import Session  # noqa: E402
from sagemaker.inference_recommender.inference_recommender_mixin import ModelLatencyThreshold, Phase  # noqa: E402
from sagemaker.model import Model  # noqa: E402
from sagemaker.parameter import CategoricalParameter  # noqa: E402

ROLE = "arn:aws:iam::111111111111:role/mine"


def archive(folder, source):
    """As the SDK's users have models and payloads: in an archive."""
    path = os.path.join(folder, os.path.basename(source) + ".tar.gz")
    with tarfile.open(path, "w:gz") as file:
        for name in sorted(os.listdir(source)):
            file.add(os.path.join(source, name), arcname=name)
    return f"file://{path}"


def main():
    session = Session(boto_session=boto3.Session(), default_bucket="bucket")
    with tempfile.TemporaryDirectory() as folder:
        model = Model(
            name="sleeper", image_uri="muster", model_data=archive(folder, MODEL), role=ROLE, sagemaker_session=session
        )
        common = {
            "sample_payload_url": archive(folder, BODIES),
            "supported_content_types": ["application/json"],
            "framework": "XGBOOST",
        }
        # Verbose: the lines of the job are printed as they come, by way of CloudWatch Logs.
        model.right_size(
            **common,
            job_name="advanced",
            hyperparameter_ranges=[
                {
                    "instance_types": CategoricalParameter(["local.cpu1"]),
                    "MUSTER_DEFAULT_INSTANCE_COUNT": CategoricalParameter(["1", "2"]),
                }
            ],
            phases=[Phase(duration_in_seconds=5, initial_number_of_users=2, spawn_rate=0)],
            traffic_type="PHASES",
            max_invocations=1_000_000,
            model_latency_thresholds=[ModelLatencyThreshold(percentile="P95", value_in_milliseconds=1000)],
            max_tests=2,
            max_parallel_tests=1,
        )
        best = model.inference_recommendations[0]
        parameters = {it["Key"]: it["Value"] for it in best["ModelConfiguration"]["EnvironmentParameters"]}
        assert parameters["MUSTER_DEFAULT_INSTANCE_COUNT"] == "2", best
        # The model is there already; the SDK goes on with it. A default job, asked for every two minutes.
        model.right_size(**common, job_name="default", supported_instance_types=["local.cpu1"], log_level="Quiet")
        assert model.inference_recommendations[0]["Metrics"]["MaxInvocations"] > 0, model.inference_recommendations
        print("right_size")


if __name__ == "__main__":
    main()
