"""The flavour of TorchServe's archives: a handler that gets the requests of a run as a list, and gives a list of
answers."""

import importlib
import io
import json
import os
import sys

import numpy as np

from muster_python import faults, model_archive, torchserve_bodies, torchserve_toolkit
from muster_python.lane import Answer, Refusal
from muster_python.tensors import BYTES
from muster_python.torchserve_context import Context
from muster_python.triton_config import ModelConfig, given_config

_BODY = "body"

# Tells the server that bodies go through as they are, and all headers with them.
_NOTE, _WITH_HEADERS = "muster_script", "headers"

_JSON, _TEXT, _BYTES = "application/json", "text/plain; charset=utf-8", "application/octet-stream"

# How long a run may last, as the server reads it.
_TIMEOUT = "EXECUTION_TIMEOUT_SECONDS"

# How long requests wait for others where the archive does not say, in milliseconds.
_DELAY = 100

# What an archive's configuration says of its server, which is this one.
_OF_SERVER = {"minWorkers", "maxWorkers", "parallelType", "parallelLevel", "deviceIds", "deviceType", "jobQueueSize"}


def load(load):
    """Imports the handler."""
    manifest = model_archive.manifest(load["file"])
    directory = model_archive.model_directory(load["file"])
    # As in TorchServe: handlers open files by their names.
    sys.path.insert(0, directory)
    os.chdir(directory)
    torchserve_toolkit.offer()
    settings = _settings(manifest, directory)
    return Model(_Entry(manifest["model"]["handler"]), manifest, directory, settings, load)


def _settings(manifest, directory):
    """What the archive's own configuration says."""
    name = manifest["model"].get("configFile")
    if not name:
        return {}
    path = os.path.join(directory, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        settings = json.loads(text)
    except ValueError:
        try:
            import yaml
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{sys.executable} lacks yaml, which '{path}' is read with: {sys.executable} -m pip install pyyaml",
                name="yaml",
            ) from error
        settings = yaml.safe_load(text)
    if not isinstance(settings or {}, dict):
        raise ValueError(f"'{path}': expected keys and values, as minWorkers: 1")
    return settings or {}


class _Entry:
    """What a handler is: a function, or a class with the methods `initialize` and `handle`."""

    def __init__(self, handler):
        file, _, function = handler.partition(":")
        name = os.path.basename(file).removesuffix(".py")
        module = _imported(name, handler)
        self._function = getattr(module, function or "handle", None)
        if self._function is None:
            self._class = _only_class(module, handler, function)

    def open(self, context):
        """Makes one for an instance. What it returns takes the requests of a run and the context."""
        if self._function is not None:
            self._function(None, context)
            return self._function
        handler = self._class()
        handler.initialize(context)
        return handler.handle


def _imported(name, handler):
    """The module of a handler: its file in the archive, or one of TorchServe's."""
    if name == torchserve_toolkit.BASE or name in torchserve_toolkit.SHIPPED:
        try:
            return importlib.import_module(f"ts.torch_handler.{name}")
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "ts":
                raise
            raise ModuleNotFoundError(
                f"handler '{handler}' is of the package torchserve, which {sys.executable} lacks: "
                f"{sys.executable} -m pip install torchserve",
                name="torchserve",
            ) from error
    return importlib.import_module(name)


def _only_class(module, handler, function):
    """The class of a handler's module that handles requests."""
    if function:
        raise AttributeError(f"handler '{handler}': its module has no function {function}")
    classes = torchserve_toolkit.list_classes_from_module(module)
    if module.__name__ == f"ts.torch_handler.{torchserve_toolkit.BASE}":
        classes = [module.BaseHandler]
    classes = [it for it in classes if callable(getattr(it, "handle", None))]
    if len(classes) != 1:
        found = ", ".join(it.__name__ for it in classes) or "none"
        raise AttributeError(
            f"handler '{handler}': expected a function handle(data, context), or one class with initialize(context) and "
            f"handle(data, context), found {found}"
        )
    return classes[0]


class Model:
    """An archive, and what it says of itself."""

    def __init__(self, entry, manifest, directory, settings, load):
        self._entry, self._manifest, self._directory = entry, manifest, directory
        self._settings, self._load = settings, load
        self.loaded = {
            "completed": json.dumps(self._completed()) if load["auto_complete"] else None,
            "notes": [[_NOTE, _WITH_HEADERS]],
            # A handler may send parts of an answer at any time.
            "streams": True,
        }

    def instance(self, info):
        """One more handler."""
        device, rows = info["device"], json.loads(info["instance"]["config"]).get("max_batch_size", 0)
        properties = {
            "model_dir": self._directory,
            "gpu_id": device["Gpu"] if isinstance(device, dict) else None,
            "batch_size": max(rows, 1),
            "server_name": "muster",
            "server_version": self._load.get("server_version", ""),
            "limit_max_image_pixels": True,
        }
        context = Context(self._load["name"], properties, self._manifest, self._settings)
        return Instance(self._entry, context, rows > 0)

    def _completed(self):
        given = given_config(self._load)
        config = ModelConfig(json.dumps(given))
        config.add_input({"name": _BODY, "data_type": BYTES.config, "dims": [1]})
        config.add_output({"name": _BODY, "data_type": BYTES.config, "dims": [1]})
        completed = config.as_dict()
        rows, delay = self._number("batchSize", 1), self._number("maxBatchDelay", _DELAY)
        seconds = self._number("responseTimeout", 0)
        if rows > 1 and not completed["max_batch_size"]:
            completed["max_batch_size"] = rows
            if not any(it in completed for it in ("dynamic_batching", "sequence_batching")):
                completed["dynamic_batching"] = {"max_queue_delay_microseconds": delay * 1000}
        if seconds:
            completed["parameters"].setdefault(_TIMEOUT, {"string_value": str(seconds)})
        ignored = sorted(_OF_SERVER & self._settings.keys())
        if ignored:
            said = ", ".join(ignored)
            faults.say("INFO", f"not applied: {said} of the archive; instance_group says how many run where")
        return completed

    def _number(self, name, default):
        """A number of the archive's configuration."""
        value = self._settings.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"the archive's configuration has {name}: {value!r}, expected a whole number")
        return value


class Instance:
    """A handler that is initialized."""

    def __init__(self, entry, context, is_batched):
        self._context, self._is_batched = context, is_batched
        self._handle = entry.open(context)

    def execute(self, run):
        """An answer for each of the calls. The handler gets the bodies of all of them at once."""
        calls, answers, requests = run.calls(), {}, []
        for call in calls:
            try:
                requests += [(call, *self._read(call, row)) for row in range(self._rows(call))]
            except ValueError as error:
                answers[call] = self._failed(call, 400, "BadRequestException", faults.readable(str(error)))
        if requests:
            self._run(requests, answers)
        return [answers[it] for it in calls]

    def finalize(self):
        pass

    def _rows(self, call):
        return call.rows if self._is_batched else 1

    def _read(self, call, row):
        """The values of one request, and what its handler can ask of its head."""
        given = call.about["parameters"]
        content_type = str(given.get("content_type") or "")
        body = call.inputs[0].array().reshape(-1)[row] if call.inputs else b""
        values, types = torchserve_bodies.values(body, content_type)
        headers = {name: str(it) for name, it in given.items() if name != "content_type"}
        if content_type:
            headers["Content-Type"] = content_type
        return values, {**types, "explain": "False", **headers, "url_path": ""}

    def _run(self, requests, answers):
        """Puts an answer for each call beside it: `None` where it was sent in parts."""
        calls = list(dict.fromkeys(call for call, _, _ in requests))
        places = {call: [at for at, it in enumerate(requests) if it[0] is call] for call in calls}
        begun = set()

        def send(results):
            for call, at in places.items():
                if not call.streams:
                    raise RuntimeError("the answers of this run cannot be sent in parts")
                bodies = [_body(results[it]) for it in at]
                call.send(Answer(self._outputs(bodies)) if call in begun else self._answer(bodies, at[0]))
                begun.add(call)

        ids = [call.about["id"] or str(at) for at, (call, _, _) in enumerate(requests)]
        self._context.begin(ids, [headers for _, _, headers in requests], send)
        try:
            bodies = self._bodies([values for _, values, _ in requests])
        except _Failed as failure:
            status, text = failure.args
            for call in calls:
                answers[call] = None
                if call in begun:
                    call.end(Refusal("Internal", text))
                else:
                    answers[call] = self._failed(call, status, "InternalServerException", text)
            return
        finally:
            self._context.send_parts = None
        for call, at in places.items():
            of_call = [bodies[it] for it in at]
            if call in begun:
                call.send(Answer(self._outputs(of_call)), is_last=True)
                answers[call] = None
            else:
                answers[call] = self._answer(of_call, at[0])

    def _bodies(self, data):
        """Bodies of the answers, and the types that they have by themselves."""
        try:
            result = self._handle(data, self._context)
        except BaseException as error:
            status = getattr(error, "error_code", None)
            if isinstance(status, int) and hasattr(error, "message"):
                raise _Failed(status, faults.readable(str(error.message))) from error
            if isinstance(error, _Failed):
                raise
            faults.log(error, f"a run of '{self._context.model_name}'")
            if faults.is_out_of_memory(error) or "CUDA" in faults.describe(error):
                raise _Failed(507, "Out of resources") from error
            raise _Failed(503, "Prediction failed") from error
        if not isinstance(result, list):
            faults.say("ERROR", f"the handler returned {type(result)}, expected a list")
            raise _Failed(503, "Invalid model predict output")
        if len(result) != len(data):
            faults.say("ERROR", f"the handler returned {len(result)} answers for {len(data)} requests")
            raise _Failed(503, "number of batch response mismatched")
        return [_body(it) for it in result]

    def _answer(self, bodies, at):
        """The answer of a call, with what the handler has said of the request at that place, the first of the call."""
        processor = self._context.request_processor[at]
        headers = {str(name): str(it) for name, it in processor.response_headers.items()}
        said = next((it for name, it in headers.items() if name.lower() == "content-type"), bodies[0][1])
        headers = {name: it for name, it in headers.items() if name.lower() != "content-type"}
        return self._replied(bodies, said, processor.status, headers)

    def _failed(self, call, status, kind, text):
        body = json.dumps({"code": status, "type": kind, "message": text}, indent=2) + "\n"
        return self._replied([(body.encode("utf-8"), _JSON)] * self._rows(call), _JSON, status, {})

    def _replied(self, bodies, content_type, status, headers):
        parameters = {"content_type": faults.readable(content_type), "status": int(status)}
        if headers:
            parameters["headers"] = json.dumps(headers)
        return Answer(self._outputs(bodies), parameters)

    def _outputs(self, bodies):
        array = np.empty(len(bodies), object)
        array[:] = [it for it, _ in bodies]
        return [(_BODY, BYTES, array.reshape(-1, 1) if self._is_batched else array)]


class _Failed(Exception):
    """A run without answers: its status and its text."""


def _body(value):
    """What a handler returns for one request → the bytes of a body, and their type."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value), _BYTES
    if isinstance(value, str):
        return value.encode("utf-8"), _TEXT
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        stream = io.BytesIO()
        torch.save(value, stream)
        return stream.getvalue(), _BYTES
    try:
        return json.dumps(value, indent=2).encode("utf-8"), _JSON
    except (TypeError, ValueError) as error:
        faults.say("ERROR", f"the handler returned {type(value)}, which JSON does not know: {faults.describe(error)}")
        raise _Failed(503, "Unsupported model output data type.") from error
