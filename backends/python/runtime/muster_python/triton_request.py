"""Requests, responses and errors, as models of Triton's interface see them."""

import json

from muster_python import bls, faults
from muster_python.triton_tensor import Tensor, TritonModelException

# Codes of errors, by their numbers in Triton's interface, as the wire calls them.
CODES = (
    "Unknown",
    "Internal",
    "NotFound",
    "InvalidArg",
    "Unavailable",
    "Unsupported",
    "AlreadyExists",
    "Cancelled",
)

_COMPLETE_FINAL = 1
_RELEASE_ALL, _RELEASE_RESCHEDULE = 1, 2


class TritonError:
    """An error of one request: a text and a code."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message, code=INTERNAL):
        if not isinstance(message, str):
            raise TypeError(f"message of a TritonError: expected str, found type {type(message)}")
        if code not in range(len(CODES)):
            raise TritonModelException(f"code of a TritonError is {code!r}, expected one of its constants")
        self._message, self._code = message, code

    def message(self):
        return self._message

    def code(self):
        return self._code


class PreferredMemory:
    """Where a model would like its outputs to be. They are in the memory of the host, whatever it asks for."""

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        self.preferred_memory_type, self.preferred_device_id = preferred_memory_type, preferred_device_id


class InferenceTrace:
    """The trace of a request."""

    def __init__(self, context=None):
        self._context = context

    def get_context(self):
        """Of OpenTelemetry, as JSON. `None` without a trace."""
        return self._context


class InferenceRequest:
    """A request: one that has come, or one that a model makes."""

    __slots__ = (
        "_inputs", "_request_id", "_correlation_id", "_flags", "_timeout", "_parameters", "_output_names",
        "_model_name", "_model_version", "_trace", "_preferred_memory", "_is_cancelled", "_hold",
    )  # fmt: skip

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name=None,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ):
        if not isinstance(correlation_id, (int, str)):
            raise TritonModelException("Correlation ID must be integer or string")
        for name, value, kind in (
            ("flags", flags, int),
            ("timeout", timeout, int),
            ("model_version", model_version, int),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} of an InferenceRequest: expected {kind.__name__}, found type {type(value)}")
        for name, value in (("correlation_id", correlation_id), ("timeout", timeout), ("flags", flags)):
            if isinstance(value, int) and not 0 <= value < 1 << 64:
                raise TritonModelException(f"{name} is {value}, expected 0 or more, and at most 64 bits")
        if not -(1 << 63) <= model_version < 1 << 63:
            raise TritonModelException(f"model_version is {model_version}, expected at most 64 bits")
        for name, value in (
            ("inputs", inputs),
            ("requested_output_names", requested_output_names),
            ("model_name", model_name),
        ):
            if value is None:
                raise TypeError(f"InferenceRequest needs '{name}'")
        request_id, model_name = _text("request_id", request_id), _text("model_name", model_name)
        requested_output_names = [_text("requested_output_names", it) for it in requested_output_names]
        whose = f"for request with id '{request_id}' and model name '{model_name}' should not be empty."
        if any(it is None for it in inputs):
            raise TritonModelException(f"Input tensor {whose}")
        for tensor in inputs:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"inputs: expected Tensor, found type {type(tensor)}")
        if any(it == "" for it in requested_output_names):
            raise TritonModelException(f"Requested output name {whose}")
        self._inputs, self._output_names = list(inputs), set(requested_output_names)
        self._request_id, self._correlation_id = request_id, correlation_id
        self._model_name, self._model_version = model_name, model_version
        self._flags, self._timeout = flags, timeout
        self._preferred_memory, self._trace = preferred_memory, trace or InferenceTrace()
        self._parameters = checked_parameters(parameters)
        self._is_cancelled = self._hold = None

    @classmethod
    def _incoming(cls, call, load, replies):
        """The request of a call that has come. `replies`: what its senders send goes there."""
        self, about = cls.__new__(cls), call.about
        self._inputs = [Tensor._incoming(it) for it in call.inputs]
        self._output_names = call.outputs
        self._request_id = about["id"]
        self._correlation_id = about["correlation"] or 0
        self._flags, self._timeout = about["flags"], about["timeout_us"]
        self._parameters = about["parameters"]
        self._model_name, self._model_version = load["name"], load["version"]
        self._trace, self._preferred_memory = about.get("trace"), None
        self._is_cancelled, self._hold = call.is_cancelled, Hold(replies)
        return self

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._request_id

    def correlation_id(self):
        return self._correlation_id

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        if not isinstance(flags, int) or not 0 <= flags < 1 << 32:
            raise TypeError(f"flags are {flags!r}, expected TRITONSERVER_REQUEST_FLAG_SEQUENCE_START and _END")
        self._flags = flags

    def timeout(self):
        """In microseconds. Zero: the client has set none."""
        return self._timeout

    def parameters(self):
        """As JSON."""
        return json.dumps(self._parameters)

    def requested_output_names(self):
        return set(self._output_names)

    def trace(self):
        return self._trace if isinstance(self._trace, InferenceTrace) else InferenceTrace(self._trace)

    def is_cancelled(self):
        """Does nobody wait for the response any more?"""
        return self._is_cancelled is not None and self._is_cancelled()

    def set_release_flags(self, flags):
        """What becomes of the request behind its run: it is over, or it is run once more."""
        if flags not in (_RELEASE_ALL, _RELEASE_RESCHEDULE):
            raise TritonModelException(
                f"release flags are {flags}, expected TRITONSERVER_REQUEST_RELEASE_ALL or "
                "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"
            )
        if self._hold is None:
            raise TritonModelException("set_release_flags: only a request that has come is released")
        self._hold.replies.reschedule(flags == _RELEASE_RESCHEDULE)

    def get_response_sender(self):
        """Another way than the list to answer this request, for any thread."""
        if self._hold is None:
            raise TritonModelException("get_response_sender: only a request that has come has a sender")
        self._hold.replies.has_sender = True
        return InferenceResponseSender(self._hold, self._is_cancelled)

    def exec(self, decoupled=False):
        """The response of the model that this request is for. Blocking. With `decoupled`, an iterator of responses."""
        return bls.execute(self, decoupled)

    def async_exec(self, decoupled=False):
        """The same, to be awaited."""
        return bls.execute_async(self, decoupled)


class Hold:
    """Whoever has it may answer a request by a sender. With the last one goes the chance to."""

    __slots__ = ("replies",)

    def __init__(self, replies):
        self.replies = replies

    def __del__(self):
        self.replies.drop()


class InferenceResponseSender:
    """Sends the responses of a request."""

    def __init__(self, hold, is_cancelled):
        self._hold, self._is_cancelled = hold, is_cancelled

    def send(self, response=None, flags=0):
        """Sends a response, and says which was the last one: both in one call, or in two."""
        if flags not in (0, _COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if response is None and flags == 0:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if response is not None and not isinstance(response, InferenceResponse):
            raise TritonModelException(f"send: expected an InferenceResponse, found type {type(response)}")
        self._hold.replies.send(response, flags == _COMPLETE_FINAL)

    def is_cancelled(self):
        return self._is_cancelled()


class InferenceResponse:
    """Outputs, or an error, and parameters."""

    __slots__ = ("_output_tensors", "_error", "_parameters")

    def __init__(self, output_tensors=(), error=None, parameters=None):
        output_tensors = [] if output_tensors is None else list(output_tensors)
        for tensor in output_tensors:
            if tensor is None:
                raise TritonModelException("Output tensor for inference response should not be empty.")
            if not isinstance(tensor, Tensor):
                raise TritonModelException(f"output_tensors: expected Tensor, found type {type(tensor)}")
        if error is not None and not isinstance(error, TritonError):
            raise TritonModelException(f"error: expected TritonError, found type {type(error)}")
        self._output_tensors, self._error = output_tensors, error
        self._parameters = checked_parameters(parameters)

    def output_tensors(self):
        return self._output_tensors

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        """As JSON; empty text where there are none."""
        return json.dumps(self._parameters) if self._parameters else ""


def _text(name, value):
    """Text as it is, or as its bytes say it: elements of BYTES are given as names, too."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if not isinstance(value, str):
        raise TypeError(f"{name} of an InferenceRequest: expected str, found type {type(value)}")
    return value


def checked_parameters(parameters):
    """A dictionary of parameters that can be sent."""
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise TritonModelException(f"Expect parameters to be a dictionary, got {type(parameters)}")
    if not parameters:
        return {}
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found type {type(key)}")
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)}"
            )
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise TritonModelException(f"parameter '{key}' is {value}, expected at most 64 bits")
    try:
        json.dumps(parameters, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise TritonModelException(f"parameters have a text that is not UTF-8: {faults.describe(error)}") from error
    return dict(parameters)
