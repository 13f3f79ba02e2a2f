"""The flavour of pickled objects: a file of joblib, of pickle or of skops that holds an estimator of scikit-learn, or
anything else with its methods. To open such a file is to run what it says."""

import json
import sys
import zipfile

import numpy as np

from muster_python import faults
from muster_python.estimator_ports import Ports
from muster_python.lane import Answer, Refusal, RunFailed
from muster_python.triton_config import ModelConfig, given_config

# What rows can be wrong in. All else is the model's fault.
_OF_INPUT = (ValueError, TypeError)

# Most rows of a request where the configuration does not say. Each request is a call of its own, unless it says
# `dynamic_batching`.
_ROWS = 65_536

# A note of the server's engine for trees, too: which library a model is of.
_LIBRARY = "trained_by"

# Tells the server that NaN is a value that is missing, so that `null` of JSON is NaN.
_MISSING = "muster_missing"


def load(load):
    """Opens the file."""
    return Model(opened(load["file"]), load)


def opened(path):
    """The object in a file."""
    try:
        if zipfile.is_zipfile(path):
            from skops import io

            return io.load(path, trusted=io.get_untrusted_types(file=path))
        try:
            import joblib
        except ImportError:
            import pickle

            with open(path, "rb") as file:
                return pickle.load(file)
        return joblib.load(path)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        package = {"sklearn": "scikit-learn"}.get(package, package)
        raise ModuleNotFoundError(
            f"'{path}' needs a package that {sys.executable} does not have ({error}): "
            f"{sys.executable} -m pip install {package}",
            name=error.name,
        ) from error


class Model:
    """An estimator, and what it says of itself."""

    def __init__(self, estimator, load):
        self._estimator = estimator
        config = given_config(load)
        self._ports = Ports(estimator, config)
        has_shapes = any(it["dims"] for it in [*config["input"], *config["output"]])
        if not has_shapes and not int(config["max_batch_size"]):
            config["max_batch_size"] = _ROWS
        self._is_batched = 0 < int(config["max_batch_size"])
        self.loaded = {
            "completed": _completed(config) if load["auto_complete"] else None,
            "spec": self._ports.spec(),
            "version": _version(estimator),
            "notes": _notes(estimator),
        }

    def instance(self, info):
        """The estimator. What it answers does not depend on who asked before."""
        return Instance(self._ports, self._is_batched)


class Instance:
    """One estimator that answers."""

    def __init__(self, ports, is_batched):
        self._ports, self._is_batched = ports, is_batched

    def execute(self, run):
        """An answer or a refusal for each of the calls."""
        calls = run.calls()
        if self._is_batched and 1 < len(calls):
            wanted = list(dict.fromkeys(name for it in calls for name in it.outputs))
            try:
                outputs = self._ports.answer(run.inputs, wanted)
            except _OF_INPUT:
                # One of the requests is wrong. The others are asked without it.
                return [self._answer(it) for it in calls]
            return _split(outputs, run.rows())
        return [self._answer(it) for it in calls]

    def finalize(self):
        pass

    def _answer(self, call):
        try:
            return Answer(self._ports.answer(call.inputs, call.outputs))
        except _OF_INPUT as error:
            return Refusal("InvalidArg", faults.describe(error))
        except BaseException as error:
            faults.log(error, "the estimator")
            if faults.is_out_of_memory(error):
                raise RunFailed(faults.describe(error)) from error
            return Refusal("Internal", faults.describe(error))


def _split(outputs, rows):
    """The rows of all calls → an answer for each."""
    answers, start = [], 0
    for many in rows:
        answers.append(Answer([(name, kind, it[start : start + many]) for name, kind, it in outputs]))
        start += many
    return answers


def _completed(config):
    """The configuration that is given. The server fills its inputs and outputs in by the specification."""
    completed = ModelConfig(json.dumps(config)).as_dict()
    completed["backend"] = "python"
    for place in ("input", "output"):
        if not completed[place]:
            del completed[place]
    return json.dumps(completed)


def _notes(estimator):
    library = [[_LIBRARY, "scikit-learn"]] if _module(estimator) == "sklearn" else []
    return [*library, [_MISSING, "true"]]


def _module(estimator):
    return type(estimator).__module__.split(".")[0]


def _version(estimator):
    """What runs the model, with the version of its library."""
    text = f"Python {sys.version.split()[0]}, numpy {np.__version__}"
    library = sys.modules.get(_module(estimator))
    version = getattr(library, "__version__", None)
    return f"{text}, {library.__name__} {version}" if version else text
