"""The flavour of Triton's Python models: a class `TritonPythonModel` with `initialize`, `execute` and `finalize`."""

import json

import triton_python_backend_utils as pb_utils

from muster_python import faults, metrics
from muster_python.coroutines import Waiter
from muster_python.lane import Answer, Refusal, RunFailed
from muster_python.source import import_model
from muster_python.triton_config import ModelConfig, given_config
from muster_python.triton_request import CODES, InferenceRequest, InferenceResponse, TritonModelException


def load(load):
    """Imports the model and lets it complete its configuration."""
    pb_utils.get_model_dir = lambda: load["version_directory"]
    module = import_model(load)
    return of(getattr(module, "TritonPythonModel", None), load)


def of(model, load):
    """The model of a class."""
    if model is None:
        raise AttributeError(f"'{load['file']}' defines no class TritonPythonModel")
    if not hasattr(model, "execute"):
        raise AttributeError(f"Python model {load['file']} does not implement `execute` method.")
    completed = _completed(model, load)
    config = json.loads(completed or load["config"] or "{}")
    if config.get("model_transaction_policy", {}).get("decoupled"):
        raise TritonModelException(
            f"model '{load['name']}' is decoupled (model_transaction_policy), which is not supported yet: "
            "a request has one response"
        )
    return Model(model, load, {"completed": completed, "keeps_state": "sequence_batching" in config})


def _completed(model, load):
    """The configuration as the model completes it, as JSON. `None` if it has nothing to say."""
    complete = getattr(model, "auto_complete_config", None)
    if complete is None or not load["auto_complete"]:
        return None
    completed = complete(ModelConfig(json.dumps(given_config(load))))
    if not isinstance(completed, ModelConfig):
        raise TritonModelException(
            f"auto_complete_config function in model '{load['name']}' must return a valid pb.ModelConfig object: "
            f"it returned {type(completed)}"
        )
    return json.dumps(completed.as_dict())


class Model:
    """A class of the user, and what it says of itself."""

    def __init__(self, user_class, load, loaded):
        self._class, self._load, self.loaded = user_class, load, loaded

    def instance(self, info):
        """One more object of it, initialised."""
        return Instance(self._class, self._load, info)


class Instance:
    """One object of the user's class."""

    def __init__(self, user_class, load, info):
        self._name, self._load = info["instance"]["name"], load
        self._waiter = Waiter()
        self._model = user_class()
        if hasattr(self._model, "initialize"):
            self._model.initialize(_arguments(load, info))

    def execute(self, run):
        """An answer or a refusal for each of the calls."""
        requests = [InferenceRequest._incoming(it, self._load) for it in run.calls()]
        try:
            return self._answers(requests, self._waiter.value(self._model.execute(requests)))
        except BaseException as error:
            doing = f"Failed to process the request(s) for model '{self._name}'"
            faults.log(error, doing)
            raise RunFailed(f"{doing}, message: {faults.describe(error)}") from error
        finally:
            for request in requests:
                request._close()
            metrics.settle()

    def finalize(self):
        """Lets the model clean up."""
        try:
            if hasattr(self._model, "finalize"):
                self._model.finalize()
        finally:
            self._waiter.close()

    def _answers(self, requests, returned):
        """What the model has returned, checked, and what it has sent by senders."""
        if returned is None and all(it._sent is not None for it in requests):
            returned = [None] * len(requests)
        if not isinstance(returned, list):
            raise TritonModelException(f"Expected a list in the execute return, found type '{type(returned)}'.")
        if len(returned) != len(requests):
            raise TritonModelException(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size is:{len(returned)}"
            )
        return [self._answer(*it) for it in zip(requests, returned)]

    def _answer(self, request, response):
        """One response, on the way to its client."""
        if response is None:
            response = request._sent
            if response is None:
                text = "returned None for it, and no response was sent by get_response_sender()"
                return Refusal("Internal", f"execute of '{self._name}' {text}")
        elif not isinstance(response, InferenceResponse):
            raise TritonModelException(
                "Expected an 'InferenceResponse' object in the execute function return list, "
                f"found type '{type(response)}'."
            )
        elif request._sent is not None:
            # The client gets the first. The other requests of the run have done nothing wrong.
            text = "Unable to send response. Non-decoupled model cannot send more than one response."
            faults.say("ERROR", f"'{self._name}': {text} The returned one is dropped.")
            response = request._sent
        if response._error is not None:
            return Refusal(CODES[response._error.code()], response._error.message())
        outputs = [(it._name, it._kind, it._elements()) for it in response._output_tensors]
        return Answer(outputs, response._parameters)


def _arguments(load, info):
    """What `initialize` is given."""
    instance, device = info["instance"], info["device"]
    is_gpu = isinstance(device, dict)
    groups = json.loads(instance["config"]).get("instance_group") or [{}]
    is_of_model = all(it.get("kind") == "KIND_MODEL" for it in groups)
    return {
        "model_config": instance["config"],
        "model_instance_kind": "GPU" if is_gpu else "MODEL" if is_of_model else "CPU",
        "model_instance_name": instance["name"],
        "model_instance_device_id": str(device["Gpu"] if is_gpu else 0),
        "model_repository": load["directory"],
        "model_version": str(load["version"]),
        "model_name": load["name"],
    }
