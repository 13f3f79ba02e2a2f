"""Drives a server with TensorFlow Serving's own stubs, unmodified, and with requests over its REST API.

Usage: tfs_client.py GRPC_HOST:PORT HTTP_HOST:PORT PROTO_FOLDER
of a server with the models type_* (an identity each), two_outputs, digits (which has labels) and fraud (one number).

The stubs import modules that TensorFlow generates from its definitions. They are made here from the definitions in
PROTO_FOLDER, which have the same names and numbers.
"""

import importlib
import pathlib
import sys
import tempfile

import grpc
import numpy as np
import requests
from grpc_tools import protoc

TYPES = {
    # name: number, numpy's type of the same width, list of elements
    "bool": (10, np.bool_, "bool_val"),
    "uint8": (4, np.uint8, "int_val"),
    "uint16": (17, np.uint16, "int_val"),
    "uint32": (22, np.uint32, "uint32_val"),
    "uint64": (23, np.uint64, "uint64_val"),
    "int8": (6, np.int8, "int_val"),
    "int16": (5, np.int16, "int_val"),
    "int32": (3, np.int32, "int_val"),
    "int64": (9, np.int64, "int64_val"),
    "fp16": (19, np.float16, "half_val"),
    "bf16": (14, np.uint16, "half_val"),
    "fp32": (1, np.float32, "float_val"),
    "fp64": (2, np.float64, "double_val"),
    "string": (7, object, "string_val"),
}


def make_modules(protos, into):
    """Makes the modules below `tensorflow` and `xla` that the stubs import."""
    files = [it for folder in ["tensorflow", "xla"] for it in sorted((protos / folder).rglob("*.proto"))]
    files = [str(it.relative_to(protos)) for it in files]
    status = protoc.main(["protoc", f"--proto_path={protos}", f"--python_out={into}", *files])
    assert status == 0, "the definitions are not compiled"
    sys.path.insert(0, into)


class Stubs:
    """The modules of tensorflow-serving-api, which can be imported once there are those of TensorFlow."""

    def __init__(self, address):
        for name in ["classification", "get_model_metadata", "get_model_status", "inference", "model_management",
                     "predict", "regression", "prediction_service_pb2_grpc", "model_service_pb2_grpc"]:
            module = name if name.endswith("grpc") else f"{name}_pb2"
            setattr(self, name, importlib.import_module(f"tensorflow_serving.apis.{module}"))
        self.tensor = importlib.import_module("tensorflow.core.framework.tensor_pb2").TensorProto
        self.example = importlib.import_module("tensorflow.core.example.example_pb2").Example
        channel = grpc.insecure_channel(address)
        self.prediction = self.prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.models = self.model_service_pb2_grpc.ModelServiceStub(channel)


def bits(array):
    return array.view(np.uint16) if array.dtype == np.float16 else array


def given(stubs, kind, array, raw):
    """A tensor as clients make it: its memory, or a list of its elements."""
    number, _, values = TYPES[kind]
    tensor = stubs.tensor(dtype=number)
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if raw:
        tensor.tensor_content = array.tobytes()
    else:
        flat = bits(array).ravel().tolist()
        getattr(tensor, values).extend(flat)
    return tensor


def ndarray(tensor):
    """A tensor as clients read it, tf.make_ndarray among them."""
    kind = next(it for it, (number, *_) in TYPES.items() if number == tensor.dtype)
    _, dtype, values = TYPES[kind]
    shape = [it.size for it in tensor.tensor_shape.dim]
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype=dtype).reshape(shape)
    listed = list(getattr(tensor, values))
    if values == "half_val":
        return np.array(listed, dtype=np.uint16).view(dtype).reshape(shape)
    return np.array(listed, dtype=dtype).reshape(shape)


def sample(kind):
    _, dtype, _ = TYPES[kind]
    if kind == "string":
        return np.array([[b"a\0", b"", b"\xff"], [b"x" * 300, b"y", "ü".encode()]], dtype=object)
    if kind == "bool":
        return np.array([[True, False, True], [False, False, True]])
    if kind in ("fp16", "fp32", "fp64"):
        return np.array([[0.1, -np.inf, 2], [np.nan, -0.0, 65504]], dtype=dtype)
    if kind == "bf16":
        return np.array([[0x3F80, 0xC000, 0], [0x7F80, 1, 0x8000]], dtype=np.uint16)
    limits = np.iinfo(dtype)
    return np.array([[limits.min, limits.max, 1], [2, 3, limits.max // 2]], dtype=dtype)


def names(stubs, model):
    """The only input and output of a model, by its metadata."""
    request = stubs.get_model_metadata.GetModelMetadataRequest()
    request.model_spec.name = model
    request.metadata_field.append("signature_def")
    response = stubs.prediction.GetModelMetadata(request, timeout=10)
    signatures = stubs.get_model_metadata.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures), response
    signature = signatures.signature_def["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict", signature
    assert response.model_spec.name == model and response.model_spec.version.value == 1, response
    return signature.inputs, signature.outputs


def refused(code, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == getattr(grpc.StatusCode, code), error
        return error.details()
    raise AssertionError("it was not refused")


def check_every_type_in_both_encodings(stubs):
    for kind in TYPES:
        model, array = f"type_{kind}", sample(kind)
        inputs, outputs = names(stubs, model)
        (name, info), (output, _) = next(iter(inputs.items())), next(iter(outputs.items()))
        assert info.dtype == TYPES[kind][0], (kind, info)
        for raw in [False] if kind == "string" else [False, True]:
            request = stubs.predict.PredictRequest()
            request.model_spec.name = model
            request.model_spec.signature_name = "serving_default"
            request.inputs[name].CopyFrom(given(stubs, kind, array, raw))
            response = stubs.prediction.Predict(request, timeout=10)
            read = ndarray(response.outputs[output])
            assert read.dtype == array.dtype, (kind, read.dtype)
            np.testing.assert_array_equal(read, array, err_msg=kind)
            assert response.model_spec.version.value == 1, response.model_spec
            # As many clients read it.
            assert len(getattr(response.outputs[output], TYPES[kind][2])) == array.size, kind


def pair(stubs, filter=()):
    request = stubs.predict.PredictRequest()
    request.model_spec.name = "two_outputs"
    request.model_spec.version.value = 1
    for name, value in [("a", 2.0), ("b", 1.0)]:
        # One element stands for all.
        tensor = given(stubs, "fp32", np.array([[value]], dtype=np.float32), raw=False)
        tensor.tensor_shape.dim[1].size = 4
        request.inputs[name].CopyFrom(tensor)
    request.output_filter.extend(filter)
    return request


def check_filters_versions_and_errors(stubs):
    response = stubs.prediction.Predict(pair(stubs, ["sum"]), timeout=10)
    assert list(response.outputs) == ["sum"], response
    assert list(response.outputs["sum"].float_val) == [3.0] * 4, response
    predict = lambda request: lambda: stubs.prediction.Predict(request, timeout=10)
    assert "'sums'" in refused("INVALID_ARGUMENT", predict(pair(stubs, ["sums"])))
    request = pair(stubs)
    request.model_spec.version.value = 9
    refused("NOT_FOUND", predict(request))
    request = pair(stubs)
    request.model_spec.version_label = "stable"
    assert "label 'stable'" in refused("INVALID_ARGUMENT", predict(request))
    request = pair(stubs)
    request.model_spec.signature_name = "other"
    refused("FAILED_PRECONDITION", predict(request))
    request = pair(stubs)
    request.inputs["a"].dtype = 2
    assert "input 'a'" in refused("INVALID_ARGUMENT", predict(request))
    request = pair(stubs)
    del request.inputs["b"]
    assert "missing required input(s) ['b']" in refused("INVALID_ARGUMENT", predict(request))


def digits(stubs, fields):
    images = np.random.default_rng(1).uniform(0, 16, (2, 64)).astype(np.float32)
    for image in images:
        fields.add().features.feature["image"].float_list.value.extend(image)
    return images


def check_examples(stubs, http):
    request = stubs.classification.ClassificationRequest()
    request.model_spec.name = "digits"
    images = digits(stubs, request.input.example_list.examples)
    response = stubs.prediction.Classify(request, timeout=10)
    rows = [[(it.label, it.score) for it in row.classes] for row in response.result.classifications]
    assert len(rows) == 2 and all(len(row) == 10 and row[3][0] for row in rows), rows
    assert abs(sum(score for _, score in rows[0]) - 1) < 1e-5, rows
    body = {"examples": [{"image": image.tolist()} for image in images]}
    reply = requests.post(f"{http}/v1/models/digits:classify", json=body, timeout=10)
    assert reply.status_code == 200, reply.text
    for row, other in zip(rows, reply.json()["results"], strict=True):
        assert [label for label, _ in row] == [label for label, _ in other]
        np.testing.assert_allclose([score for _, score in row], [score for _, score in other], rtol=1e-4, atol=1e-6)

    request = stubs.regression.RegressionRequest()
    request.model_spec.name = "fraud"
    listed = request.input.example_list_with_context
    listed.examples.add()
    listed.examples.add().features.feature["input"].float_list.value.extend([0.5] * 30)
    listed.context.features.feature["input"].float_list.value.extend([-0.5] * 30)
    response = stubs.prediction.Regress(request, timeout=10)
    values = [it.value for it in response.result.regressions]
    assert len(values) == 2 and response.model_spec.version.value == 1, response
    body = {"context": {"input": [-0.5] * 30}, "examples": [{}, {"input": [0.5] * 30}]}
    reply = requests.post(f"{http}/v1/models/fraud:regress", json=body, timeout=10)
    np.testing.assert_allclose(reply.json()["results"], values, rtol=1e-4)
    wrong = stubs.classification.ClassificationRequest(model_spec=request.model_spec, input=request.input)
    assert "label" in refused("INVALID_ARGUMENT", lambda: stubs.prediction.Classify(wrong, timeout=10))

    several = stubs.inference.MultiInferenceRequest(input=request.input)
    for _ in range(2):
        several.tasks.add(model_spec=request.model_spec, method_name="tensorflow/serving/regress")
    response = stubs.prediction.MultiInference(several, timeout=10)
    results = [[it.value for it in one.regression_result.regressions] for one in response.results]
    np.testing.assert_allclose(results, [values, values], rtol=1e-4)


def check_status(stubs):
    request = stubs.get_model_status.GetModelStatusRequest()
    request.model_spec.name = "fraud"
    response = stubs.models.GetModelStatus(request, timeout=10)
    [status] = response.model_version_status
    available = stubs.get_model_status.ModelVersionStatus.AVAILABLE
    assert (status.version, status.state, status.status.error_code) == (1, available, 0), status
    request.model_spec.name = "none"
    refused("NOT_FOUND", lambda: stubs.models.GetModelStatus(request, timeout=10))


def check_rest(http):
    def post(path, status=200, **arguments):
        reply = requests.post(f"{http}/v1/models/{path}", timeout=10, **arguments)
        assert reply.status_code == status, (path, reply.status_code, reply.text)
        assert status == 200 or list(reply.json()) == ["error"], reply.text
        return reply.json()

    rows = [{"a": [1, 2, 3, 4], "b": [1, 1, 1, 1]}] * 2
    answer = post("two_outputs/versions/1:predict", json={"instances": rows})
    assert answer["predictions"][1]["sum"] == [2.0, 3.0, 4.0, 5.0], answer
    columns = {name: [row[name] for row in rows] for name in "ab"}
    answer = post("two_outputs:predict", json={"inputs": columns})
    assert answer["outputs"]["difference"] == [[0.0, 1.0, 2.0, 3.0]] * 2, answer
    text = '{"instances": [[NaN, Infinity, -1]]}'
    answer = post("type_fp32:PREDICT", data=text)
    [values] = answer["predictions"]
    assert np.isnan(values[0]) and values[1:] == [np.inf, -1.0], answer
    answer = post("type_string:predict", json={"inputs": [["a", {"b64": "/w=="}, "ü"]]})
    assert answer == {"outputs": [["a", {"b64": "/w=="}, "ü"]]}, answer
    post("two_outputs/versions/7:predict", 404, json={"instances": rows})
    post("two_outputs/labels/stable:predict", 400, json={"instances": rows})
    post("two_outputs/versions/1/labels/stable:predict", 400, json={"instances": rows})
    post("two_outputs:guess", 400, json={})
    error = post("two_outputs:predict", 400, json={"instances": [rows[0], {"a": [1, 2, 3, 4]}]})
    assert "instances[1]" in error["error"] and "'b'" in error["error"], error
    status = requests.get(f"{http}/v1/models/fraud", timeout=10).json()
    assert status["model_version_status"][0]["state"] == "AVAILABLE", status
    metadata = requests.get(f"{http}/v1/models/fraud/metadata", timeout=10).json()
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["input"]["dtype"] == "DT_FLOAT", metadata


def main():
    address, http, protos = sys.argv[1], f"http://{sys.argv[2]}", pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as into:
        make_modules(protos, into)
        stubs = Stubs(address)
        check_every_type_in_both_encodings(stubs)
        check_filters_versions_and_errors(stubs)
        check_examples(stubs, http)
        check_status(stubs)
        check_rest(http)
    print("TensorFlow Serving's stubs and REST clients find what they expect")


if __name__ == "__main__":
    main()
