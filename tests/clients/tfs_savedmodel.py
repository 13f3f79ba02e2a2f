"""Drives SavedModels with TensorFlow Serving's own stubs, unmodified, and with requests, as that server's tutorials do.

Usage: tfs_savedmodel.py GRPC_HOST:PORT HTTP_HOST:PORT PROTO_FOLDER FIXTURES
of a server with the models half_plus_two, examples, signatures, keras and picture of the folder FIXTURES, which it has
from a file of models: half_plus_two has the label `stable`.
"""

import json
import pathlib
import sys
import tempfile
import threading

import numpy as np
import requests
from tfs_client import Stubs, given, make_modules, ndarray, refused


def check_first_request(http):
    """The request of the page "TensorFlow Serving with Docker"."""
    data = json.dumps({"instances": [1.0, 2.0, 5.0]})
    reply = requests.post(f"{http}/v1/models/half_plus_two:predict", data=data, timeout=10)
    assert reply.json() == {"predictions": [2.5, 3.0, 4.5]}, reply.text
    status = requests.get(f"{http}/v1/models/half_plus_two", timeout=10).json()
    [version] = status["model_version_status"]
    assert (version["state"], version["status"]["error_code"]) == ("AVAILABLE", "OK"), status


def check_rows(http, fixtures):
    """The request of the tutorial "Train and serve a TensorFlow model", with and without a version."""
    expected = json.loads((fixtures / "keras.json").read_text())
    data = json.dumps({"signature_name": "serving_default", "instances": expected["rows"][0:3]})
    headers = {"content-type": "application/json"}
    for version in ["", "/versions/1"]:
        json_response = requests.post(f"{http}/v1/models/keras{version}:predict", data=data, headers=headers, timeout=10)
        predictions = json.loads(json_response.text)["predictions"]
        np.testing.assert_allclose(predictions, expected["answers"][0:3], rtol=0, atol=1e-6)
        assert np.argmax(predictions[0]) == np.argmax(expected["answers"][0])


def check_picture(http):
    """As the program for ResNet does: once to warm up, then several times on the same picture."""
    predict_request = json.dumps({"instances": np.ones((1, 8, 8, 1)).tolist()})
    answers = []
    for _ in range(11):
        response = requests.post(f"{http}/v1/models/picture:predict", data=predict_request, timeout=10)
        response.raise_for_status()
        answers.append(response.json()["predictions"][0])
    assert all(it == answers[0] for it in answers), answers


def predict(stubs, model, signature="", **inputs):
    request = stubs.predict.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for name, (kind, array) in inputs.items():
        request.inputs[name].CopyFrom(given(stubs, kind, array, raw=kind != "string"))
    return request


def check_predict(stubs):
    """As the program for MNIST does: many requests at once, each with a callback, and what they say counted."""
    done, lock, right = threading.Semaphore(0), threading.Lock(), [0]

    def callback_for(expected):
        def callback(future):
            if future.exception() is None and np.allclose(ndarray(future.result().outputs["y"]), expected):
                with lock:
                    right[0] += 1
            done.release()
        return callback

    for number in range(64):
        x = np.array([[number]], dtype=np.float32)
        future = stubs.prediction.Predict.future(predict(stubs, "half_plus_two", "serving_default", x=("fp32", x)), 5.0)
        future.add_done_callback(callback_for(x / 2 + 2))
    for _ in range(64):
        done.acquire()
    assert right[0] == 64, right

    x = np.array([[1, 2, 3], [-1, 0, 4]], dtype=np.float32)
    for signature, expected in [("", x * 2), ("square", x * x), ("scaled", x * 2.5 + 1)]:
        response = stubs.prediction.Predict(predict(stubs, "signatures", signature, x=("fp32", x)), timeout=10)
        np.testing.assert_allclose(ndarray(response.outputs["y"]), expected, rtol=1e-6)
        assert response.model_spec.signature_name == (signature or "serving_default"), response.model_spec
    left, right = np.array([b"a\0", b"\xff"], dtype=object), np.array([b"b", b""], dtype=object)
    request = predict(stubs, "signatures", "join", left=("string", left), right=("string", right))
    response = stubs.prediction.Predict(request, timeout=10)
    assert list(response.outputs["joined"].string_val) == [b"a\0b", b"\xff"], response
    unknown = predict(stubs, "signatures", "nothing", x=("fp32", x))
    refused("FAILED_PRECONDITION", lambda: stubs.prediction.Predict(unknown, timeout=10))
    labelled = predict(stubs, "half_plus_two", x=("fp32", x[:, :1]))
    labelled.model_spec.version_label = "stable"
    assert stubs.prediction.Predict(labelled, timeout=10).model_spec.version.value == 1


def check_examples(stubs, http):
    request = stubs.regression.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "examples", "regress_x_to_y"
    for x in [2.0, 4.0]:
        request.input.example_list.examples.add().features.feature["x"].float_list.value.append(x)
    response = stubs.prediction.Regress(request, timeout=10)
    assert [it.value for it in response.result.regressions] == [3.0, 4.0], response
    classify = stubs.classification.ClassificationRequest(input=request.input)
    classify.model_spec.name, classify.model_spec.signature_name = "examples", "classify_with_labels"
    response = stubs.prediction.Classify(classify, timeout=10)
    rows = [[(it.label, it.score) for it in row.classes] for row in response.result.classifications]
    assert rows == [[("no", -1.0), ("yes", 2.0)], [("no", -3.0), ("yes", 4.0)]], rows

    several = stubs.inference.MultiInferenceRequest(input=request.input)
    several.tasks.add(model_spec=request.model_spec, method_name="tensorflow/serving/regress")
    several.tasks.add(model_spec=classify.model_spec, method_name="tensorflow/serving/classify")
    first, second = stubs.prediction.MultiInference(several, timeout=10).results
    assert [it.value for it in first.regression_result.regressions] == [3.0, 4.0], first
    assert second.classification_result.classifications[0].classes[1].label == "yes", second

    body = {"signature_name": "regress_x_to_y", "examples": [{"x": 2.0}, {"x": 4.0}]}
    reply = requests.post(f"{http}/v1/models/examples:regress", json=body, timeout=10)
    assert reply.json() == {"results": [3.0, 4.0]}, reply.text
    body["signature_name"] = "classify_with_labels"
    reply = requests.post(f"{http}/v1/models/examples:classify", json=body, timeout=10)
    assert reply.json()["results"][0] == [["no", -1.0], ["yes", 2.0]], reply.text


def check_metadata(stubs, http, fixtures):
    expected = json.loads((fixtures / "metadata.json").read_text())["signatures"]
    request = stubs.get_model_metadata.GetModelMetadataRequest()
    request.model_spec.name = "signatures"
    request.metadata_field.append("signature_def")
    response = stubs.prediction.GetModelMetadata(request, timeout=10)
    signatures = stubs.get_model_metadata.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures), response
    assert sorted(signatures.signature_def) == sorted(expected), list(signatures.signature_def)
    shape = signatures.signature_def["square"].inputs["x"].tensor_shape
    assert [it.size for it in shape.dim] == [-1, 3], shape
    metadata = requests.get(f"{http}/v1/models/signatures/metadata", timeout=10).json()
    assert metadata["metadata"]["signature_def"]["signature_def"] == expected, metadata


def check_reload(stubs, fixtures):
    """Another list of models takes the place of the one that there is."""
    status = stubs.get_model_status.GetModelStatusRequest()
    status.model_spec.name = "again"
    refused("NOT_FOUND", lambda: stubs.models.GetModelStatus(status, timeout=10))
    request = stubs.model_management.ReloadConfigRequest()
    for name in ["half_plus_two", "again"]:
        config = request.config.model_config_list.config.add()
        config.name, config.base_path, config.model_platform = name, str(fixtures / "half_plus_two"), "tensorflow"
    response = stubs.models.HandleReloadConfigRequest(request, timeout=60)
    assert response.status.error_code == 0, response
    [version] = stubs.models.GetModelStatus(status, timeout=10).model_version_status
    assert version.state == stubs.get_model_status.ModelVersionStatus.AVAILABLE, version
    x = np.array([[5]], dtype=np.float32)
    response = stubs.prediction.Predict(predict(stubs, "again", x=("fp32", x)), timeout=10)
    assert ndarray(response.outputs["y"]) == [[4.5]], response
    gone = predict(stubs, "signatures", x=("fp32", np.ones((1, 3), np.float32)))
    refused("NOT_FOUND", lambda: stubs.prediction.Predict(gone, timeout=10))


def main():
    address, http = sys.argv[1], f"http://{sys.argv[2]}"
    protos, fixtures = map(pathlib.Path, sys.argv[3:])
    check_first_request(http)
    check_rows(http, fixtures)
    check_picture(http)
    with tempfile.TemporaryDirectory() as into:
        make_modules(protos, into)
        stubs = Stubs(address)
        check_predict(stubs)
        check_examples(stubs, http)
        check_metadata(stubs, http, fixtures)
        check_reload(stubs, fixtures)
    print("TensorFlow Serving's stubs and the programs of its tutorials find what they expect of SavedModels")


if __name__ == "__main__":
    main()
