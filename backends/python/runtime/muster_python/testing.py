"""Runs a model without a server, in this process: for tests of models."""

import json
import os

import numpy as np

from muster_python.lane import Refusal, Run
from muster_python.tensors import Input, kind_of


class Refused(Exception):
    """The model has answered with an error: its `code` and its text."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def run(model, inputs, *, config=None, parameters=None, outputs=None):
    """What a model answers to one request: arrays by name of output.

    `model` is a class `TritonPythonModel`, or a class or a function of plain models. `inputs` are arrays by name.
    `config` is the configuration, as a dictionary. `outputs` are the names of the outputs that are asked for. Raises
    what the model raises, or `Refused`.
    """
    load = {
        "name": "model",
        "version": 1,
        "file": "model.py",
        "directory": os.getcwd(),
        "version_directory": os.getcwd(),
        "options": {},
        "config": json.dumps(config) if config else None,
        "auto_complete": True,
    }
    loaded = _loaded(model, load)
    completed = loaded.loaded["completed"] or load["config"] or json.dumps({"name": "model"})
    ports = json.loads(completed).get("output") or loaded.loaded.get("spec", {}).get("outputs", [])
    asked = outputs or [it["name"] for it in ports]
    given = [_input(name, np.asarray(it)) for name, it in inputs.items()]
    about = {"id": "", "parameters": parameters or {}, "correlation": None, "flags": 0, "timeout_us": 0}
    call = {"rows": _rows(given, json.loads(completed)), "outputs": asked, "about": about}
    instance = loaded.instance({"instance": {"name": "model_0", "config": completed}, "device": "Cpu"})
    try:
        (answer,) = instance.execute(Run(given, [call], lambda: False))
    finally:
        instance.finalize()
    if isinstance(answer, Refusal):
        raise Refused(answer.code, answer.text)
    return {name: array for name, _, array in answer.outputs if not asked or name in asked}


def _loaded(model, load):
    if hasattr(model, "execute"):
        from muster_python import triton

        return triton.of(model, load)
    from muster_python import simple

    return simple.of(model, load)


def _input(name, array):
    kind = kind_of(array)
    if kind is None:
        raise TypeError(f"input '{name}' is an array of {array.dtype}, expected numbers, or objects of bytes")
    return Input(name, kind, list(array.shape), np.array(array, kind.numpy, order="C"))


def _rows(inputs, config):
    return inputs[0].dims[0] if config.get("max_batch_size") and inputs else 1
