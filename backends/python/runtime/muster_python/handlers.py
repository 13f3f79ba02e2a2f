"""The flavour of scripts for SageMaker's TensorFlow Serving container: `input_handler` and `output_handler` around a
model of the server, or `handler`, which asks that model itself. A request is one body, and so is an answer."""

import collections
import functools
import io
import json
import re

import numpy as np

from muster_python import faults, script, script_codecs, talk
from muster_python.coroutines import Waiter
from muster_python.lane import RunFailed
from muster_python.packed import pack
from muster_python.tensors import BYTES

# What a client may say of the model, in the header of its custom attributes.
_ATTRIBUTE = re.compile(r"(tfs-[a-z-]+)=([^,=]+)")

# Parameters of a request with what the server knows of the model between the handlers.
_MODEL, _ENDPOINT, _REST_PORT, _GRPC_PORT = "around", "endpoint", "rest_port", "grpc_port"


def load(load):
    """Imports the script and looks at its functions."""
    module = script.imported(load)
    handler = getattr(module, "handler", None)
    pair = [getattr(module, it, None) for it in ("input_handler", "output_handler")]
    if handler is None and None in pair:
        raise TypeError("expected a function handler, or both input_handler and output_handler")
    return Model(handler, pair, load)


class Model:
    """The functions of a script. They are the same for all instances."""

    def __init__(self, handler, pair, load):
        self._handler, self._pair, self._load = handler, pair, load
        self.loaded = {
            "completed": script.completed(load) if load["auto_complete"] else None,
            "notes": [script.NOTE],
        }

    def instance(self, info):
        return Instance(self._handler, self._pair, self._load["name"])


class Instance:
    """The functions, and who waits for those that are coroutines."""

    def __init__(self, handler, pair, name):
        self._handler, self._pair, self._name = handler, pair, name
        self._waiter = Waiter()

    def execute(self, run):
        """An answer for each of the calls."""
        return [self._answer(it) for it in run.calls()]

    def finalize(self):
        self._waiter.close()

    def _answer(self, call):
        try:
            body = script.body_of(call)
            target = Target(call.about["parameters"])
            context = _context(call.about["parameters"], target, len(body))
            body, content_type = self._handled(io.BytesIO(body), context, target)
            return script.answered(script.bytes_of(body), content_type or script_codecs.JSON, 200, {})
        except BaseException as error:
            faults.log(error, f"a request to '{self._name}'")
            if faults.is_out_of_memory(error):
                raise RunFailed(faults.describe(error)) from error
            text = json.dumps({"error": faults.readable(script.text_of(error))})
            return script.answered(text.encode(), script_codecs.JSON, 500, {})

    def _handled(self, data, context, target):
        """What the script returns: the body of the answer and its type."""
        if self._handler is not None:
            return self._waiter.value(self._handler(data, context))
        before, behind = self._pair
        asked = _sent(self._waiter.value(before(data, context)))
        response = Response(*target.ask(asked), url=context.rest_uri)
        return self._waiter.value(behind(response, context))


class Target:
    """The model that a request is for, and what is asked of it."""

    def __init__(self, parameters):
        said = dict(_ATTRIBUTE.findall(parameters.get("custom_attributes", "")))
        self.endpoint = parameters.get(_ENDPOINT)
        # As the client names them: `None` for what it does not name.
        self.named, self.version, self.asked_method = map(
            said.get, ("tfs-model-name", "tfs-model-version", "tfs-method")
        )
        self.model = self.named if self.named and not self.endpoint else parameters.get(_MODEL)
        self.method = self.asked_method or "predict"

    def ask(self, body):
        """Body and status of the model's answer to that body. No socket lies between."""
        if self.model is None:
            raise RuntimeError("no model lies beside the script: its handlers stand around none")
        running, calls = talk.running()
        array = np.empty(1, object)
        array[0] = body
        said, segments = pack([("body", BYTES, array)])
        version = None if self.version is None else int(self.version)
        asked = {"calls": calls, "model": self.model, "version": version, "rest": self.method, "inputs": said}
        (part,) = running.ask("Infer", asked, segments)
        return part.outputs[0].array().item(), part.parameters["status"]


_Context = collections.namedtuple(
    "Context",
    "model_name, model_version, method, rest_uri, grpc_port, channel, custom_attributes, request_content_type, "
    "accept_header, content_length",
)


class Context(_Context):
    """What handlers are told of a request."""

    __slots__ = ()

    @property
    def channel(self):
        """A channel to the server's gRPC port, made when it is first asked for."""
        return _channel(self.grpc_uri)

    @property
    def grpc_uri(self):
        if self.grpc_port is None:
            raise RuntimeError("the server has no gRPC port: start it with --grpc-port")
        return f"localhost:{self.grpc_port}"


@functools.lru_cache(maxsize=None)
def _channel(address):
    import grpc

    return grpc.insecure_channel(address)


def _context(parameters, target, length):
    """What handlers are told of a request with these parameters."""
    version = f"/versions/{target.version}" if target.version else ""
    return Context(
        model_name=target.endpoint or target.named,
        model_version=target.version,
        method=target.asked_method,
        rest_uri=f"http://localhost:{parameters.get(_REST_PORT, '')}/v1/models/{target.model}{version}:{target.method}",
        grpc_port=parameters.get(_GRPC_PORT),
        channel=None,
        custom_attributes=parameters.get("custom_attributes"),
        request_content_type=parameters.get("content_type") or script_codecs.JSON,
        accept_header=parameters.get("accept") or script_codecs.JSON,
        content_length=length,
    )


def _sent(made):
    """What `input_handler` has made as the bytes of a body."""
    if hasattr(made, "read"):
        made = made.read()
    if isinstance(made, (dict, list)):
        return json.dumps(made).encode()
    return script.bytes_of(made)


class Response:
    """The model's answer, as the package `requests` has answers."""

    def __init__(self, content, status_code, url):
        self.content, self.status_code, self.url = content, status_code, url
        self.headers = {"Content-Type": script_codecs.JSON}
        self.encoding = "utf-8"

    @property
    def text(self):
        return self.content.decode(self.encoding, "replace")

    @property
    def ok(self):
        return self.status_code < 400

    def json(self, **options):
        return json.loads(self.content, **options)

    def raise_for_status(self):
        if not self.ok:
            raise _http_error()(f"{self.status_code} for url: {self.url}: {self.text}")

    def __bool__(self):
        return self.ok


def _http_error():
    """The exception of `requests`, which scripts that catch it have."""
    try:
        from requests import HTTPError
    except ImportError:
        return OSError
    return HTTPError
