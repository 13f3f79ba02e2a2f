#!/usr/bin/env python3
"""The SageMaker Python SDK's local mode, unmodified, against the image: deploy, predict, batch transform, delete.

Needs a Docker engine on this machine and its root, and two environments, since the packages do not get on with each other:
    python3 -m venv sdk && sdk/bin/pip install -r tests/container/requirements-sdk.txt
    python3 -m venv compose && compose/bin/pip install --no-deps -r tests/container/requirements-compose.txt
    PATH=$PATH:$PWD/compose/bin sdk/bin/python tests/container/sagemaker_sdk.py --image muster
"""

import argparse
import json
import os
import tarfile
import tempfile
from pathlib import Path

# Before the SDK is imported: it asks a host of Amazon's otherwise.
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
os.environ.setdefault("SAGEMAKER_TELEMETRY_OPT_OUT", "true")

import boto3  # noqa: E402
from sagemaker.deserializers import CSVDeserializer, JSONDeserializer  # noqa: E402
from sagemaker.local import LocalSession  # noqa: E402
from sagemaker.model import Model  # noqa: E402
from sagemaker.predictor import Predictor  # noqa: E402
from sagemaker.serializers import CSVSerializer, JSONSerializer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 30
ROWS = [[float(row + column) / 7 for column in range(WIDTH)] for row in range(5)]
# Which model of the archive answers, in the way of TensorFlow Serving's container.
ENVIRONMENT = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "fraud"}


def archive(folder):
    """The sample models as the platform takes them."""
    path = folder / "model.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for model in ["fraud", "digits"]:
            file.add(ROOT / "model_repository" / model, arcname=model)
    return f"file://{path}"


def session():
    """A session of the SDK that knows no Amazon."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
    local = LocalSession(boto_session=boto3.Session(**keys))
    local.config = {"local": {"local_code": True}}
    return local


def model(image, folder):
    """The SDK's model of this image."""
    role = "arn:aws:iam::111111111111:role/x"
    return Model(
        image_uri=image, model_data=archive(folder), role=role, sagemaker_session=session(),
        predictor_cls=Predictor, env=dict(ENVIRONMENT),
    )


def check_predictions(image, folder):
    """An endpoint answers JSON and CSV with the same numbers, and the model that an attribute names."""
    made = model(image, folder)
    predictor = made.deploy(1, "local", serializer=JSONSerializer(), deserializer=JSONDeserializer())
    try:
        as_json = predictor.predict({"instances": ROWS})["predictions"]
        as_json = [it[0] if isinstance(it, list) else it for it in as_json]
        assert len(as_json) == len(ROWS) and all(0 <= it <= 1 for it in as_json), as_json
        predictor.serializer, predictor.deserializer = CSVSerializer(), CSVDeserializer(accept="text/csv")
        as_csv = [float(it[0]) for it in predictor.predict(ROWS)]
        assert all(abs(a - b) < 1e-6 for a, b in zip(as_json, as_csv, strict=True)), (as_json, as_csv)
        attributes = {"CustomAttributes": "tfs-model-name=digits"}
        predictor.serializer, predictor.deserializer = JSONSerializer(), JSONDeserializer()
        digits = predictor.predict({"instances": [[[[0.0] * 8] * 8]]}, initial_args=attributes)
        assert digits["predictions"], digits
    finally:
        predictor.delete_endpoint()
    return f"{len(as_json)} rows, the same as JSON and as CSV; another model by tfs-model-name"


def check_transform(image, folder):
    """A batch transform writes one line for each record of each file."""
    source, target = folder / "in", folder / "out"
    source.mkdir()
    counts = {"a.csv": 40, "b.csv": 7}
    for name, count in counts.items():
        rows = [ROWS[row % len(ROWS)] for row in range(count)]
        (source / name).write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    transformer = model(image, folder).transformer(
        1, "local", strategy="MultiRecord", output_path=f"file://{target}", accept="text/csv",
        assemble_with="Line", env=dict(ENVIRONMENT),
    )
    # A local job is over when the call is; to wait for it would ask Amazon for its log.
    transformer.transform(f"file://{source}", content_type="text/csv", split_type="Line", wait=False, logs=False)
    for name, count in counts.items():
        # Local mode ends every reply with one more end of line, whether it has one or not.
        lines = [it for it in (target / f"{name}.out").read_text().splitlines() if it]
        assert len(lines) == count and all(0 <= float(it) <= 1 for it in lines), (name, len(lines))
    return f"{sum(counts.values())} records of {len(counts)} files, a line each"


def main():
    """Runs every check and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", default="muster")
    options = parser.parse_args()
    told = {}
    for check in (check_predictions, check_transform):
        with tempfile.TemporaryDirectory(prefix="muster-sdk-", ignore_cleanup_errors=True) as folder:
            told[check.__name__] = check(options.image, Path(folder))
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
