"""Runs a model without a server, in this process: for tests of models."""

import json
import os
import threading

import numpy as np

from muster_python.lane import Call, Refusal, Run
from muster_python.tensors import Input, kind_of


class Refused(Exception):
    """The model has answered with an error: its `code` and its text."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def run(model, inputs, *, config=None, parameters=None, outputs=None):
    """What a model answers to one request: arrays by name of output; a list of such where it is decoupled.

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
    parts = _Parts() if loaded.loaded.get("streams") else None

    def make(_, rows):
        return Call(rows, asked, call["rows"], about, lambda: False, parts, lambda given, _: given)

    instance = loaded.instance({"instance": {"name": "model_0", "config": completed}, "device": "Cpu"})
    try:
        (answer,) = instance.execute(Run(given, [call], make))
        if parts is not None and answer is None:
            parts.wait()
    finally:
        instance.finalize()
    if isinstance(answer, Refusal):
        raise Refused(answer.code, answer.text)
    answers = [answer.outputs] if answer is not None else parts.outputs
    arrays = [{name: array for name, _, array in it if not asked or name in asked} for it in answers]
    return arrays[0] if parts is None else arrays


class _Parts:
    """The answer to a request, part by part, without a server."""

    def __init__(self):
        self.outputs, self._error, self._end = [], None, threading.Event()

    @property
    def has_ended(self):
        return self._end.is_set()

    def send(self, outputs, parameters, is_last=False):
        if not self.has_ended:
            self.outputs.append(outputs)
            if is_last:
                self.end()
            return True
        return False

    def end(self, error=None):
        is_first = not self.has_ended
        self._error = self._error if self.has_ended else error
        self._end.set()
        return is_first

    drop = end

    def wait(self):
        """Until the answer has ended."""
        self._end.wait()
        if self._error is not None:
            raise Refused(self._error["code"], self._error["text"])


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
