"""Reads the document of a server, checks it, makes a client of it with openapi-python-client, and calls each model.

Usage: openapi_client.py URL [samples]      `samples`: the server has the models of model_repository and no others.
"""

import importlib
import pathlib
import subprocess
import sys
import tempfile

import httpx
import jsonschema
from openapi_spec_validator import OpenAPIV31SpecValidator, validate


def answered(url, document):
    """Every body that is an example is answered, and the answer is what the document says."""
    schemas = document["components"]["schemas"]
    checked = []
    for path, operations in document["paths"].items():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" not in content:
                continue
            name = operation["operationId"]
            jsonschema.validate(content["example"], schemas[f"{name}_request"])
            reply = httpx.post(url + path, json=content["example"], timeout=60)
            assert reply.status_code == 200, f"{path}: {reply.status_code} {reply.text}"
            jsonschema.validate(reply.json(), schemas[f"{name}_reply"])
            checked.append((operation["tags"][0], name, content["example"]))
    for model in document["x-muster"]["models"]:
        example = model["example"]
        if example is None:
            continue
        types = {"content-type": example["content_type"], "accept": example["accept"]}
        reply = httpx.request(example["method"], url + example["path"], json=example["body"], headers=types, timeout=60)
        assert reply.status_code == 200, f"{model['name']}: {reply.text}"
    return checked


def generated(document, folder):
    """A package of a client, made of the document."""
    file, package = folder / "openapi.json", folder / "generated_client"
    file.write_text(document)
    program = [sys.executable, "-m", "openapi_python_client"]
    options = ["--path", file, "--output-path", package, "--meta", "none"]
    done = subprocess.run([*program, "generate", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    return importlib.import_module("generated_client")


def call(client, tag, name, body):
    """Calls an operation of one model with a body, through the types of the client."""
    module = importlib.import_module(f"generated_client.api.{tag}.{name}")
    models = importlib.import_module("generated_client.models")
    request = getattr(models, "".join(it.capitalize() for it in name.split("_")) + "Request")
    reply = module.sync_detailed(client=client, body=request.from_dict(body))
    assert reply.status_code == 200 and reply.parsed is not None, f"{name}: {reply}"
    return reply.parsed


def samples(client):
    """The samples, as a person writes the calls."""
    from generated_client.api.digits import infer_digits
    from generated_client.api.fraud import tensorflow_predict_fraud
    from generated_client.api.payment import infer_payment
    from generated_client.api.payment_row import infer_payment_row
    from generated_client.api.k_serve_v_2 import model_metadata, server_live
    from generated_client.api.sentiment import pipeline_sentiment
    from generated_client import models

    assert server_live.sync_detailed(client=client).status_code == 200
    metadata = model_metadata.sync("fraud", client=client)
    assert (metadata.name, metadata.inputs[0].shape) == ("fraud", [-1, 30]), metadata
    image = models.InferDigitsRequestInputsItem(name="image", datatype="FP32", shape=[1, 1, 8, 8], data=[0.5] * 64)
    reply = infer_digits.sync(client=client, body=models.InferDigitsRequest(inputs=[image]))
    assert reply.model_name == "digits" and abs(sum(reply.outputs[0].data) - 1) < 1e-4, reply
    rows = models.TensorflowPredictFraudRequest(instances=[[0.0] * 30, [1.0] * 30])
    reply = tensorflow_predict_fraud.sync(client=client, body=rows)
    assert [len(it) for it in reply.predictions] == [1, 1], reply
    text = models.PipelineSentimentRequest(inputs="I am super happy right now.")
    (classes,) = pipeline_sentiment.sync(client=client, body=text)
    assert classes[0].label == "POSITIVE", classes
    # The samples in Python, of one payment as text.
    text = ",".join(map(str, range(30)))
    payment = models.InferPaymentRequestInputsItem(name="payment", datatype="BYTES", shape=[1, 1], data=[text])
    reply = infer_payment.sync(client=client, body=models.InferPaymentRequest(inputs=[payment]))
    assert 0 <= reply.outputs[0].data[0] <= 1, reply
    payment = models.InferPaymentRowRequestInputsItem(name="payment", datatype="BYTES", shape=[1, 1], data=[text])
    reply = infer_payment_row.sync(client=client, body=models.InferPaymentRowRequest(inputs=[payment]))
    assert reply.outputs[0].data == list(range(30)), reply
    # A failure has its type.
    wrong = models.InferDigitsRequest(inputs=[])
    reply = infer_digits.sync_detailed(client=client, body=wrong)
    assert reply.status_code == 400 and "image" in reply.parsed.error, reply


def main():
    url = sys.argv[1]
    text = httpx.get(f"{url}/openapi.json", timeout=60).text
    document = httpx.get(f"{url}/openapi.json", timeout=60).json()
    validate(document, cls=OpenAPIV31SpecValidator)
    calls = answered(url, document)
    with tempfile.TemporaryDirectory() as folder:
        package = generated(text, pathlib.Path(folder))
        client = package.Client(base_url=url, timeout=60)
        if "samples" in sys.argv:
            for tag, name, body in calls:
                call(client, tag, name, body)
            samples(client)
    models = [it["name"] for it in document["x-muster"]["models"]]
    print(f"{len(document['paths'])} addresses, {len(calls)} examples of {', '.join(models)}")


if __name__ == "__main__":
    main()
