"""A payment as text → the row of numbers that the model `fraud` takes.

A text is a row of CSV in the order of `NAMES`, or a JSON object with these names. What is missing is NaN: `fraud` knows
what to do with it.
"""

import json

import numpy as np
import triton_python_backend_utils as pb_utils

NAMES = ["Time"] + [f"V{it}" for it in range(1, 29)] + ["Amount"]


def parse(text):
    """The 30 numbers of one payment. A `ValueError` says what is wrong with it."""
    text = text.strip()
    if text.startswith("{"):
        given = json.loads(text)
        unknown = sorted(set(given) - set(NAMES))
        if unknown:
            raise ValueError(f"unknown field '{unknown[0]}', expected {', '.join(NAMES)}")
        values = [given.get(it) for it in NAMES]
    else:
        values = text.split(",")
        if len(values) != len(NAMES):
            raise ValueError(f"{len(values)} values, expected {len(NAMES)}: {', '.join(NAMES)}")
    return [_number(name, value) for name, value in zip(NAMES, values)]


def _number(name, value):
    if value is None or (isinstance(value, str) and not value.strip()):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}, expected a number") from None


class TritonPythonModel:
    def execute(self, requests):
        """One response for each request: one that is wrong gets an error, and the others get their rows."""
        return [self.answer(it) for it in requests]

    def answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "payment").as_numpy()
        try:
            rows = [parse(it.decode("utf-8")) for it in texts.reshape(-1)]
        except ValueError as error:
            wrong = pb_utils.TritonError(f"payment: {error}", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=wrong)
        row = pb_utils.Tensor("row", np.array(rows, np.float32).reshape(-1, len(NAMES)))
        return pb_utils.InferenceResponse([row])
