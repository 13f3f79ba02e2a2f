"""The models of ONNX's own operator tests, as the package `onnx` carries them, against ONNX Runtime in Python.

    python3 tests/peers/onnx_operators.py [target/debug/muster]

Takes onnx==1.16.2 (the last versions have no files of these tests), onnxruntime of the version that muster runs, NumPy and
tritonclient[http]. Serves every model of tensors that ONNX Runtime opens, with no configuration, asks for its example by
KServe's JSON and binary forms, and compares: answers must have the same types, shapes and numbers. A scalar is one
element, as in Triton. What is summed depends in its last bit on where its memory begins: 1e-6 of the largest number is
allowed. Operators that draw numbers are compared by type and shape.
"""

import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import tritonclient.http as triton
from onnx import numpy_helper
from tritonclient.utils import np_to_triton_dtype

ROOT = Path(__file__).resolve().parents[2]
MUSTER = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/muster"
NODES = Path(onnx.__file__).parent / "backend/test/data/node"
RANDOM = ("bernoulli", "dropout", "training_dropout", "random")


def tensors(folder, kind):
    """The tensors of an example by their place; nothing where one is a sequence or optional."""
    found = []
    for at in range(len(list(folder.glob(f"{kind}_*.pb")))):
        proto = onnx.TensorProto()
        try:
            proto.ParseFromString((folder / f"{kind}_{at}.pb").read_bytes())
            found.append(numpy_helper.to_array(proto))
        except Exception:
            return None
    return found


class Case:
    """A model, its example, and what ONNX Runtime answers."""

    def __init__(self, folder):
        self.name, self.file = folder.name, folder / "model.onnx"
        self.outcome = None
        model = onnx.load(self.file)
        ports = [*model.graph.input, *model.graph.output]
        values = tensors(folder / "test_data_set_0", "input")
        if values is None or any(it.type.WhichOneof("value") != "tensor_type" for it in ports):
            self.outcome = "not of tensors"
            return
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(self.file, options, providers=["CPUExecutionProvider"])
        except Exception:
            self.outcome = "ONNX Runtime does not open it"
            return
        self.names = [it.name for it in session.get_outputs()]
        self.inputs = dict(zip((it.name for it in session.get_inputs()), values))
        try:
            self.expected = session.run(None, self.inputs)
        except Exception:
            self.outcome = "ONNX Runtime does not run it"
            return
        if any(np_to_triton_dtype(it.dtype) is None for it in [*values, *self.expected]):
            self.outcome = "a type that KServe does not have"

    def ask(self, client, binary):
        inputs = []
        for name, value in self.inputs.items():
            tensor = triton.InferInput(name, value.shape, np_to_triton_dtype(value.dtype))
            tensor.set_data_from_numpy(np.ascontiguousarray(value).reshape(value.shape), binary_data=binary)
            inputs.append(tensor)
        outputs = [triton.InferRequestedOutput(it, binary_data=binary) for it in self.names]
        reply = client.infer(self.name, inputs, outputs=outputs)
        return [reply.as_numpy(it) for it in self.names]

    def compare(self, given):
        """What differs, or nothing."""
        for name, one, other in zip(self.names, self.expected, given):
            one = one.reshape(one.shape or 1)
            if other is None or one.shape != other.shape or one.dtype.kind != other.dtype.kind:
                shape = None if other is None else (other.dtype, other.shape)
                return f"output '{name}': {shape} instead of {(one.dtype, one.shape)}"
            if any(it in self.name for it in RANDOM):
                continue
            if one.dtype == object:
                texts = [it.decode() if isinstance(it, bytes) else str(it) for it in other.ravel()]
                if texts != [str(it) for it in one.ravel()]:
                    return f"output '{name}': other texts"
            elif one.dtype.kind == "f":
                finite = np.abs(one[np.isfinite(one)])
                most = 1e-6 * finite.max(initial=0)
                if not np.allclose(other, one, rtol=0, atol=most, equal_nan=True):
                    return f"output '{name}': other numbers"
            elif not np.array_equal(one, other):
                return f"output '{name}': other numbers"
        return None


def has_no_json(case):
    """16-bit floats have no JSON in KServe's clients, and JSON has no NaN."""
    values = [*case.inputs.values(), *case.expected]
    floats = [it for it in values if it.dtype.kind == "f"]
    return any(it.dtype == np.float16 for it in values) or not all(np.isfinite(it).all() for it in floats)


def start(repository, log):
    ports = [f"--{it}-port=0" for it in ("http", "grpc", "sagemaker", "metrics")]
    server = subprocess.Popen(
        [MUSTER, "serve", "--model-repository", repository, "--exit-on-error=false", "--strict-readiness=false", *ports],
        stdout=log, stderr=subprocess.STDOUT,
    )
    while True:
        text = Path(log.name).read_text()
        if "ready to serve" in text:
            return server, text.split("listening service=http address=")[1].split()[0]
        if server.poll() is not None:
            sys.exit(f"the server has ended:\n{text[-2000:]}")


def main():
    cases = [Case(it) for it in sorted(NODES.iterdir()) if (it / "model.onnx").exists()]
    asked = [it for it in cases if it.outcome is None]
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "models"
        for case in asked:
            (repository / case.name / "1").mkdir(parents=True)
            (repository / case.name / "1/model.onnx").write_bytes(case.file.read_bytes())
        with open(Path(folder) / "log", "w") as log:
            server, address = start(repository, log)
            client = triton.InferenceServerClient(address)
            index = json.load(urllib.request.urlopen(urllib.request.Request(
                f"http://{address}/v2/repository/index", method="POST", data=b"")))
            reasons = {it["name"]: it.get("reason") for it in index if it.get("state") != "READY"}
            for case in asked:
                if case.name in reasons:
                    case.outcome = f"NOT LOADED: {reasons[case.name]}"
                    continue
                for binary in (True, False):
                    if not binary and has_no_json(case):
                        continue
                    try:
                        wrong = case.compare(case.ask(client, binary))
                    except Exception as error:
                        wrong = str(error)
                    if wrong:
                        case.outcome = f"{'binary' if binary else 'JSON'}: {wrong}"
                        break
                else:
                    case.outcome = "the same"
            server.terminate()
            server.wait()
    known = Counter(it.outcome for it in cases if it not in asked)
    same = [it for it in asked if it.outcome == "the same"]
    for case in asked:
        if case.outcome != "the same":
            print(f"{case.name}: {case.outcome}")
    print(f"{len(cases)} models; {', '.join(f'{count} {what}' for what, count in known.items())}")
    print(f"{len(same)} of {len(asked)} answer the same")
    return 0 if len(same) == len(asked) else 1


if __name__ == "__main__":
    sys.exit(main())
