"""The flavour of MLflow's folders: an `MLmodel` with the flavor `python_function`. MLflow's own package of the model's
environment opens the folder, and reads and writes bodies, as `mlflow models serve` does."""

import json
import os
import sys

import numpy as np

from muster_python import faults
from muster_python.lane import Answer, Refusal, RunFailed
from muster_python.tensors import BYTES
from muster_python.triton_config import ModelConfig, given_config

_BODY = "body"

# Tells the server that bodies go through as they are.
_NOTE = "muster_script"

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


def load(load):
    """Opens the folder."""
    directory = os.path.dirname(load["file"])
    # As for those who serve models with MLflow: what the model asks of its environment may depend on it.
    os.environ.setdefault("_MLFLOW_IS_IN_SERVING_ENVIRONMENT", "true")
    try:
        import mlflow
        from mlflow.pyfunc import scoring_server
    except ModuleNotFoundError as error:
        raise _without(error, directory, "mlflow-skinny" if error.name == "mlflow" else error.name) from error
    if not hasattr(scoring_server, "invocations"):
        raise ImportError(
            f"{sys.executable} has mlflow {mlflow.__version__}, which cannot answer bodies by itself, expected 2.9 or later"
        )
    open_model = getattr(scoring_server, "load_model_with_mlflow_config", mlflow.pyfunc.load_model)
    try:
        model = open_model(directory)
    except ModuleNotFoundError as error:
        raise _without(error, directory, error.name) from error
    return Model(model, scoring_server, mlflow.__version__, load)


def _without(error, directory, package):
    """The same error, with the command that installs what is missing."""
    requirements = os.path.join(directory, "requirements.txt")
    wanted = f"-r '{requirements}'" if os.path.isfile(requirements) else package
    text = f"{sys.executable} lacks a package that '{directory}' needs ({error}): {sys.executable} -m pip install {wanted}"
    return ModuleNotFoundError(text, name=error.name)


class Model:
    """An opened folder, and what it says of itself."""

    def __init__(self, model, server, version, load):
        self._model, self._server, self._name = model, server, load["name"]
        config = ModelConfig(json.dumps(given_config(load)))
        config.add_input({"name": _BODY, "data_type": BYTES.config, "dims": [1]})
        config.add_output({"name": _BODY, "data_type": BYTES.config, "dims": [1]})
        self.loaded = {
            "completed": json.dumps(config.as_dict()) if load["auto_complete"] else None,
            "notes": [[_NOTE, _BODY]],
            "version": f"Python {sys.version.split()[0]}, mlflow {version}",
        }

    def instance(self, info):
        """The model: a process has one."""
        return Instance(self._model, self._server, self._name)


class Instance:
    """A model that answers bodies."""

    def __init__(self, model, server, name):
        self._model, self._server, self._name = model, server, name
        self._schema = model.metadata.get_input_schema()

    def execute(self, run):
        """An answer or a refusal for each of the calls."""
        return [self._answer(it) for it in run.calls()]

    def finalize(self):
        pass

    def _answer(self, call):
        """One request by itself."""
        body = call.inputs[0].array().item() if call.inputs else b""
        content_type = str(call.about["parameters"].get("content_type") or _JSON)
        try:
            result = self._server.invocations(body, content_type, self._model, self._schema)
        except BaseException as error:
            return self._refusal(error)
        return _answered(result.response, result.mimetype, result.status)

    def _refusal(self, error):
        """What the client is told of an exception."""
        said = _said(error)
        status = 500 if said is None else error.get_http_status_code()
        if 500 <= status or "stack_trace" in (said or ()):
            faults.log(error, f"a request to '{self._name}'")
        if faults.is_out_of_memory(error):
            raise RunFailed(faults.describe(error)) from error
        if said is None:
            return Refusal("Internal", faults.describe(error))
        # Places in the code are for the log.
        trace = said.pop("stack_trace", None)
        if trace:
            faults.say("ERROR", trace[-16_384:])
        return _answered(json.dumps(said), _JSON, status)


def _said(error):
    """What MLflow says of one of its exceptions. `None` for any other."""
    if not hasattr(error, "serialize_as_json") or not hasattr(error, "get_http_status_code"):
        return None
    return json.loads(error.serialize_as_json())


def _answered(text, content_type, status):
    array = np.empty(1, object)
    array[0] = text.encode("utf-8")
    content_type = _TEXT if content_type == "text/plain" else content_type
    return Answer([(_BODY, BYTES, array)], {"content_type": content_type, "status": int(status)})
