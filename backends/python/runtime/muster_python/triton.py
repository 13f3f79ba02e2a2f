"""The flavour of Triton's Python models: a class `TritonPythonModel` with `initialize`, `execute` and `finalize`."""

import contextlib
import json
from types import CoroutineType

import triton_python_backend_utils as pb_utils

from muster_python import faults
from muster_python.coroutines import Waiter
from muster_python.lane import AGAIN, Refusal, RunFailed
from muster_python.source import import_model
from muster_python.triton_config import ModelConfig, given_config, is_decoupled
from muster_python.triton_replies import ManyReplies, OneReply, outcome
from muster_python.triton_request import InferenceRequest, InferenceResponse, TritonModelException


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
    keeps_state, streams = "sequence_batching" in config, bool(is_decoupled(config))
    loaded = {"completed": completed, "keeps_state": keeps_state, "streams": streams}
    return Model(model, load, {**loaded, "tells_readiness": hasattr(model, "is_ready")})


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
        instance = DecoupledInstance if self.loaded["streams"] else Instance
        return instance(self._class, self._load, info)


class Instance:
    """One object of the user's class."""

    def __init__(self, user_class, load, info):
        self._name, self._load = info["instance"]["name"], load
        batching = json.loads(info["instance"]["config"]).get("sequence_batching", {})
        self._iterates = batching.get("iterative_sequence", False)
        self._waiter = Waiter()
        self._model = user_class()
        if hasattr(self._model, "initialize"):
            self._model.initialize(_arguments(load, info))

    def execute(self, run):
        """An answer or a refusal for each of the calls."""
        replies = []
        try:
            with self._failing():
                # Nothing keeps the requests here: whoever has one may still send its response.
                returned = self._returned(run, replies)
                return [self._answer(*it) for it in zip(replies, returned)]
        except RunFailed as error:
            # Requests that were answered by then have their responses.
            if all(it.response is None for it in replies):
                raise
            failed = Refusal("Internal", str(error))
            return [failed if it.response is None else outcome(it.response) for it in replies]
        finally:
            for reply in replies:
                reply.close()

    @contextlib.contextmanager
    def _failing(self):
        """What fails in this block fails the run."""
        try:
            yield
        except BaseException as error:
            raise RunFailed(self._failed(error)) from error

    def _failed(self, error):
        """What clients are told of an exception of the model."""
        doing = f"Failed to process the request(s) for model '{self._name}'"
        faults.log(error, doing)
        return f"{doing}, message: {faults.describe(error)}"

    def is_ready(self):
        """Does the model say that it can serve? On a thread of its own."""
        said = self._model.is_ready()
        if type(said) is CoroutineType:
            import asyncio

            said = asyncio.run(said)
        if not isinstance(said, bool):
            raise TritonModelException(f"is_ready() must return a boolean value, found type {type(said)}")
        return said

    def finalize(self):
        """Lets the model clean up."""
        try:
            if hasattr(self._model, "finalize"):
                self._model.finalize()
        finally:
            self._waiter.close()

    def _returned(self, run, replies):
        """What the model returns, a response or `None` for each request. `replies` gets what senders send."""
        calls = run.calls()
        replies.extend(OneReply(self._iterates) for _ in calls)
        requests = [InferenceRequest._incoming(*it) for it in zip(calls, [self._load] * len(calls), replies)]
        returned = self._waiter.value(self._model.execute(requests))
        if returned is None and all(it.has_sender for it in replies):
            return [None] * len(replies)
        if not isinstance(returned, list):
            raise TritonModelException(f"Expected a list in the execute return, found type '{type(returned)}'.")
        if len(returned) != len(replies):
            raise TritonModelException(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{len(replies)}, and InferenceResponse(s) size is:{len(returned)}"
            )
        return returned

    def _answer(self, reply, response):
        """One response, on the way to its client: it is waited for where a sender is to send it."""
        if reply.is_rescheduled:
            return self._round(reply, response)
        if response is None:
            response = reply.wait()
            if response is None:
                text = "returned None for it, and no response was sent by get_response_sender()"
                return Refusal("Internal", f"execute of '{self._name}' {text}")
        elif not isinstance(response, InferenceResponse):
            raise TritonModelException(
                "Expected an 'InferenceResponse' object in the execute function return list, "
                f"found type '{type(response)}'."
            )
        elif reply.response is not None:
            # The client gets the first. The other requests of the run have done nothing wrong.
            text = "Unable to send response. Non-decoupled model cannot send more than one response."
            faults.say("ERROR", f"'{self._name}': {text} The returned one is dropped.")
            response = reply.response
        return outcome(response)

    def _round(self, reply, response):
        """What becomes of a request that is to be run once more."""
        if response is None and reply.response is None:
            return AGAIN
        if response is not None:
            text = "Expected a None object in the execute function return list for reschduled request"
        else:
            text = "a request that is rescheduled has been answered by its response sender"
        return Refusal("Internal", f"'{self._name}': {text}")


class DecoupledInstance(Instance):
    """An object of the user's class that answers a request by any number of responses, at any time."""

    def execute(self, run):
        with self._failing():
            replies = self._begin(run)
        return [AGAIN if it.is_rescheduled else None for it in replies]

    def _begin(self, run):
        calls = run.calls()
        replies = [ManyReplies(it, self._name, self._iterates) for it in calls]
        requests = [InferenceRequest._incoming(*it) for it in zip(calls, [self._load] * len(calls), replies)]
        returned = self._model.execute(requests)
        for reply in replies:
            reply.has_run()
        if type(returned) is CoroutineType:
            self._waiter.begin(returned, lambda error: self._end(error, replies))
            return replies
        if returned is not None:
            raise TritonModelException(
                f"Python model '{self._name}' is using the decoupled mode and the execute function must return None."
            )
        self._end(None, replies)
        return replies

    def _end(self, error, replies):
        """`execute` has ended. Requests that a coroutine which fails has not answered to their end are told."""
        if error is None:
            for reply in replies:
                reply.leave_run()
            return
        text = self._failed(error)
        for reply in replies:
            reply.fail(text)


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
