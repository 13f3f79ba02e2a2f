"""The models that are served, one request for each, and whether an answer to it is right."""

import base64
import json
import math
import struct
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER_LENGTH = "Inference-Header-Content-Length"


# Letters of Python's `struct` by the types of KServe.
LETTERS = {"FP32": "f", "INT64": "q"}


@dataclass(frozen=True)
class Case:
    """A model of one input and one output, of floats, with one row in and out."""

    name: str
    file: Path
    input: str
    output: str
    shape: tuple
    values: list
    expected: list
    tolerance: float
    # Of the input.
    datatype: str = "FP32"

    def rows(self):
        """The values as nested lists, as the shape has them."""
        nested = [shortest(it) if self.datatype == "FP32" else it for it in self.values]
        for size in reversed(self.shape[1:]):
            nested = [nested[at : at + size] for at in range(0, len(nested), size)]
        return nested

    def is_right(self, values):
        """Are these the expected values?"""
        most = self.tolerance
        return len(values) == len(self.expected) and all(
            math.isclose(given, wanted, rel_tol=most, abs_tol=most)
            for given, wanted in zip(values, self.expected)
        )


def shortest(value):
    """A 32-bit float with as few digits as tell it from its neighbours."""
    return float(f"{value:.9g}")


def identity():
    """Sixteen floats that come back as they are."""
    values = list(struct.unpack("16f", struct.pack("16f", *(math.sqrt(n) for n in range(1, 17)))))
    file = ROOT / "backends/onnxruntime/tests/models/identity/FP32.onnx"
    return Case("identity", file, "x", "y", (1, 16), values, values, 1e-6)


def fixture(name):
    """A model of the fixtures with its first expectation, which is of one row."""
    expectation = json.loads((ROOT / f"tests/fixtures/expected/{name}.json").read_text())
    first = expectation["cases"][0]
    ((given, tensor),) = first["inputs"].items()
    ((output, wanted),) = first["outputs"].items()
    file = ROOT / f"tests/fixtures/models/{name}/1/model.onnx"
    shape = tuple(tensor["shape"])
    values, expected = numbers(tensor), numbers(wanted)
    return Case(name, file, given, output, shape, values, expected, first["rtol"], tensor["datatype"])


def numbers(tensor):
    """The values of a tensor whose bytes are base64."""
    raw, letter = base64.b64decode(tensor["raw"]), LETTERS[tensor["datatype"]]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(letter)}{letter}", raw))


def case(name):
    """The case of a model by its name."""
    return identity() if name == "identity" else fixture(name)


def flat(nested):
    """The numbers of nested lists, in order."""
    if not isinstance(nested, list):
        return [nested]
    return [value for item in nested for value in flat(item)]


@dataclass(frozen=True)
class Protocol:
    """A way to put a request: its name in tables, and the path at a peer and at muster."""

    name: str
    path: str
    muster_path: str

    def at_muster(self):
        """The same at muster."""
        return Protocol(self.name, self.muster_path, self.muster_path)

    def body(self, case):
        """The request and its headers besides the length."""
        if self.name == "json":
            return json.dumps({"instances": case.rows()}).encode(), {}
        tensor = {"name": case.input, "shape": list(case.shape), "datatype": case.datatype}
        if self.name == "KServe JSON":
            return json.dumps({"inputs": [tensor | {"data": flat(case.rows())}]}).encode(), {}
        raw = struct.pack(f"<{len(case.values)}{LETTERS[case.datatype]}", *case.values)
        tensor["parameters"] = {"binary_data_size": len(raw)}
        head = {"parameters": {"binary_data_output": True}, "inputs": [tensor]}
        header = json.dumps(head).encode()
        return header + raw, {HEADER_LENGTH: str(len(header))}

    def values(self, body, header_length):
        """The values of an answer; `header_length` is that of its JSON where binary data follow."""
        if header_length is not None:
            raw = body[int(header_length) :]
            return list(struct.unpack(f"<{len(raw) // 4}f", raw))
        answer = json.loads(body)
        if self.name == "json":
            return flat(answer["predictions"] if isinstance(answer, dict) else answer)
        return flat(answer["outputs"][0]["data"])

    def problem(self, case, port, timeout=5):
        """Asks once: what is wrong with the answer, or nothing. `OSError` where there is none."""
        body, headers = self.body(case)
        kind = "application/octet-stream" if headers else "application/json"
        connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            path = self.path.format(model=case.name)
            connection.request("POST", path, body, {"Content-Type": kind, **headers})
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            return f"status {reply.status}: {text[:200].decode(errors='replace')}"
        values = self.values(text, reply.getheader(HEADER_LENGTH))
        return None if case.is_right(values) else f"wrong values: {values[:8]}"


INFER = "/v2/models/{model}/infer"
JSON = Protocol("json", "/predict", "/v1/models/{model}:predict")
KSERVE_JSON = Protocol("KServe JSON", INFER, INFER)
KSERVE_BINARY = Protocol("KServe binary", INFER, INFER)
