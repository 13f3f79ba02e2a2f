"""The flavour of SageMaker's scripts: an `inference.py` with `model_fn`, `input_fn`, `predict_fn`, `output_fn`, or
`transform_fn`. A request is one body, and so is an answer."""

import contextlib
import inspect
import json
import os
from typing import NamedTuple

import numpy as np

from muster_python import faults, script_codecs, script_defaults, script_toolkit
from muster_python.coroutines import Waiter
from muster_python.lane import Answer, Refusal, RunFailed
from muster_python.script_context import Context
from muster_python.source import import_model
from muster_python.tensors import BYTES
from muster_python.triton_config import ModelConfig, given_config

# The arguments of each function, without the context, which is the last where a function takes one more.
_ARGUMENTS = {
    "pre_model_fn": ("model_dir",),
    "model_fn": ("model_dir",),
    "model_warmup_fn": ("model_dir", "model"),
    "transform_fn": ("model", "data", "content_type", "accept"),
    "input_fn": ("data", "content_type"),
    "predict_fn": ("data", "model"),
    "output_fn": ("prediction", "accept"),
}

_BODY = "body"

# Tells the server that bodies go through as they are.
NOTE = ["muster_script", _BODY]

_TEXT = "text/plain; charset=utf-8"

# Parameters of a request that are no headers, and the headers that they stand for.
_OF_HEADERS = {
    "content_type": "Content-Type",
    "accept": "Accept",
    "custom_attributes": "X-Amzn-SageMaker-Custom-Attributes",
}


def load(load):
    """Imports the script and looks at its functions."""
    module = imported(load)
    functions = {name: _function(module, name) for name in _ARGUMENTS if hasattr(module, name)}
    others = [it for it in ("input_fn", "predict_fn", "output_fn") if it in functions]
    if "transform_fn" in functions and others:
        raise TypeError(
            f"the script defines transform_fn, which does what {', '.join(others)} do: define one or the other"
        )
    return Model(functions, load)


def imported(load):
    """The module of the script. What lies beside it goes before all else."""
    code = os.path.dirname(load["file"])
    script_toolkit.offer()
    library = os.path.join(code, "lib")
    return import_model(load, first=[code] + ([library] if os.path.isdir(library) else []))


class _Function(NamedTuple):
    """A function of the script."""

    call: object
    takes_context: bool


def _function(module, name):
    """One function of the script, with the number of its arguments checked."""
    function, expected = getattr(module, name), _ARGUMENTS[name]
    parameters = inspect.signature(function).parameters
    if any(it.kind is it.VAR_POSITIONAL for it in parameters.values()):
        return _Function(function, False)
    if len(parameters) - len(expected) not in (0, 1):
        raise TypeError(
            f"{name} takes {len(parameters)} arguments, expected {name}({', '.join(expected)}), or one more "
            "for the context"
        )
    return _Function(function, len(parameters) > len(expected))


class Model:
    """The functions of a script, and what they say of themselves."""

    def __init__(self, functions, load):
        self._functions, self._load = functions, load
        self.loaded = {
            "completed": completed(load) if load["auto_complete"] else None,
            "notes": [NOTE],
            # A script may return a generator at any time.
            "streams": True,
        }

    def instance(self, info):
        """One more model, made by the script."""
        return Instance(self._functions, self._load, info["device"])


def completed(load):
    """The configuration of a model that takes a body and gives one."""
    config = ModelConfig(json.dumps(given_config(load)))
    config.add_input({"name": _BODY, "data_type": BYTES.config, "dims": [1]})
    config.add_output({"name": _BODY, "data_type": BYTES.config, "dims": [1]})
    return json.dumps(config.as_dict())


class Instance:
    """One model, and the functions around it."""

    def __init__(self, functions, load, device):
        self._functions, self._load = functions, load
        self._waiter = Waiter()
        number = device["Gpu"] if isinstance(device, dict) else None
        where = "cpu" if number is None else f"cuda:{number}"
        self._properties = {
            "model_dir": load["directory"],
            "gpu_id": number,
            "batch_size": 1,
            "server_name": "muster",
            "server_version": load.get("server_version", ""),
        }
        self._accept = os.environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT") or script_codecs.JSON
        flavor = load["options"].get("SCRIPT_FLAVOR") or load.get("script_flavor")
        self._make(script_defaults.by_name(flavor, where), where)

    def execute(self, run):
        """An answer or a refusal for each of the calls."""
        return [self._answer(it) for it in run.calls()]

    def finalize(self):
        self._waiter.close()

    def _make(self, defaults, where):
        """Makes the model, and finds the functions that the script does not have."""
        context, directory = self._context(), self._load["directory"]
        self._call("pre_model_fn", context, directory)
        defines = "model_fn" in self._functions
        if defines:
            self._model = self._call("model_fn", context, directory)
        defaults = defaults or script_defaults.of_directory(directory, defines, where)
        if not defines:
            self._model = defaults.model(directory)
        self._defaults = defaults or script_defaults.of_model(self._model, where)
        self._call("model_warmup_fn", context, directory, self._model)

    def _context(self, call=None):
        """A context of this call, or of the load."""
        if call is None:
            return Context(self._load["name"], self._properties)
        given = call.about["parameters"]
        headers = {_OF_HEADERS.get(name, name): str(value) for name, value in given.items()}
        return Context(self._load["name"], self._properties, call.about["id"], headers)

    def _answer(self, call):
        """One request by itself."""
        context = self._context(call)
        try:
            result, content_type = self._transform(call, context)
            pieces = self._pieces(result) if call.streams else None
            if pieces is not None:
                return self._send(call, context, pieces, content_type)
            body = self._body(result)
        except BaseException as error:
            # What a client has done wrong is no matter of the log.
            if (_status(error) or 500) >= 500:
                faults.log(error, f"a request to '{self._load['name']}'")
            if faults.is_out_of_memory(error):
                raise RunFailed(faults.describe(error)) from error
            return self._refusal(error)
        return answered(body, content_type, *_said(context))

    def _pieces(self, result):
        """The pieces of a body that the script gives one by one. `None` where it gives all of it."""
        if inspect.isasyncgen(result):
            return self._waiter.each(result)
        return result if inspect.isgenerator(result) else None

    def _send(self, call, context, pieces, content_type):
        """Sends each piece as a part of the answer, the first with all that is said beside the body."""

        def answers():
            with contextlib.closing(pieces):
                first = True
                for piece in pieces:
                    body = self._body(piece)
                    yield answered(body, content_type, *_said(context)) if first else Answer(_outputs(body))
                    first = False

        if not call.send_each(answers(), text_of):
            return answered(b"", content_type, *_said(context))
        call.end()
        return None

    def _transform(self, call, context):
        """What the script returns as the body of the answer, and its type."""
        headers = context.get_all_request_header(0)
        content_type = headers.get("Content-Type")
        accept = headers.get("Accept")
        if not accept or accept.strip() == script_codecs.ANY:
            accept = self._accept
        data = script_codecs.text_of(body_of(call), content_type)
        if "transform_fn" in self._functions:
            result = self._call("transform_fn", context, self._model, data, content_type, accept)
        else:
            result = self._steps(context, data, content_type, accept)
        if isinstance(result, tuple):
            result, said = result[0], result[1]
        else:
            said = context.get_response_content_type(0) or script_codecs.parse_accept(accept)[0]
        context.get_response_headers(0).pop("content-type", None)
        return result, said

    def _steps(self, context, data, content_type, accept):
        """The three functions, or the defaults in their places."""
        made = self._step("input_fn", self._defaults.input, 415, context, data, content_type)
        prediction = self._step("predict_fn", self._defaults.predict, 500, context, made, self._model)
        return self._step("output_fn", self._defaults.output, 406, context, prediction, accept)

    def _step(self, name, default, unsupported, context, *arguments):
        """A function of the script, or the default. A format that it does not know has that status."""
        try:
            return self._call(name, context, *arguments) if name in self._functions else default(*arguments)
        except Exception as error:
            # Of this runtime, or of the toolkit that is installed.
            if type(error).__name__ != "UnsupportedFormatError":
                raise
            raise script_codecs.GenericInferenceToolkitError(unsupported, str(error)) from error

    def _call(self, name, context, *arguments):
        """What a function of the script returns; nothing, if the script has none of that name."""
        function = self._functions.get(name)
        if function is None:
            return None
        if function.takes_context:
            arguments = (*arguments, context)
        return self._waiter.value(function.call(*arguments))

    def _body(self, result):
        """What a script returns as the bytes of a body: at once or piece by piece."""
        if inspect.isgenerator(result):
            return b"".join(self._body(it) for it in result)
        if inspect.isasyncgen(result):
            return b"".join(self._body(it) for it in self._waiter.value(_collected(result)))
        return bytes_of(result)

    def _refusal(self, error):
        """What the client is told of an exception."""
        status = _status(error)
        if status is not None:
            return answered(faults.readable(str(error.message)).encode(), _TEXT, status, {})
        text = faults.readable(text_of(error))
        refused = self._defaults.refusal(error, text)
        if refused is None:
            return Refusal("Internal", text)
        status, content_type, body = refused
        return answered(body.encode(), content_type, status, {})


def body_of(call):
    """The body of a request."""
    return call.inputs[0].array().item() if call.inputs else b""


def bytes_of(result):
    """What a script returns as the bytes of a body."""
    if isinstance(result, str):
        return result.encode("utf-8")
    if isinstance(result, (bytes, bytearray, memoryview)):
        return bytes(result)
    raise TypeError(f"the script returned {type(result)}, expected str, bytes, or a tuple of one and its content type")


def _said(context):
    """The status and the headers that the script has set."""
    (processor,) = context.request_processor
    return processor.status, {str(name): str(it) for name, it in processor.response_headers.items()}


def _outputs(body):
    array = np.empty(1, object)
    array[0] = body
    return [(_BODY, BYTES, array)]


def answered(body, content_type, status, headers):
    """An answer with that body, and what is said beside it."""
    parameters = {"content_type": faults.readable(str(content_type)), "status": int(status)}
    if headers:
        parameters["headers"] = json.dumps(headers)
    return Answer(_outputs(body), parameters)


def _status(error):
    """The status that an exception has of its own; `None` where it has none."""
    status = getattr(error, "status_code", None) or getattr(error, "error_code", None)
    return status if isinstance(status, int) and hasattr(error, "message") else None


def text_of(error):
    """The text of an exception; its type, where it has none."""
    try:
        return str(error) or type(error).__name__
    except BaseException:
        return faults.describe(error)


async def _collected(parts):
    return [it async for it in parts]
