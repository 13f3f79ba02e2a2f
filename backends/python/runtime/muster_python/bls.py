"""Requests of a model to other models of the server, and how those are loaded."""

from muster_python import talk
from muster_python.packed import pack
from muster_python.triton_tensor import Tensor, TritonModelException

_OUTSIDE = "BLS is only supported during the 'execute' function."

_SEQUENCE_FLAGS = 0b11


def execute(request, decoupled):
    """The response to a request to another model; of a decoupled one, an iterator of responses. Blocking."""
    answers = _ask(request, decoupled)
    return Responses(answers) if decoupled else _single(answers)


def execute_async(request, decoupled):
    """The same, to be awaited. The request is on its way at once."""
    import asyncio

    # Without a running loop, this raises before anything is asked.
    loop = asyncio.get_running_loop()
    answers = _ask(request, decoupled)
    return loop.create_task(_begun(answers) if decoupled else _single_async(answers))


def _ask(request, decoupled):
    """Sends the request."""
    running = talk.running()
    if running is None or not running[1]:
        raise TritonModelException(_OUTSIDE)
    inputs = [(it._name, it._kind, it._elements()) for it in request._inputs]
    said, segments = pack(inputs)
    correlation = request._correlation_id
    # Larger numbers go as texts.
    if isinstance(correlation, int) and not -(1 << 63) <= correlation < 1 << 63:
        correlation = str(correlation)
    body = {
        "calls": running[1],
        "model": request._model_name,
        "version": _version(request._model_version),
        "id": request._request_id,
        "correlation": correlation or None,
        "flags": request._flags & _SEQUENCE_FLAGS,
        "timeout_us": request._timeout,
        "parameters": request._parameters,
        "outputs": list(request._output_names),
        "inputs": said,
        "decoupled": bool(decoupled),
    }
    return running[0].ask("Infer", body, segments)


def _version(version):
    """As the server takes it. -1, or an empty text, for the one that clients get who name none."""
    if isinstance(version, str):
        version = int(version) if version else -1
    return None if version < 0 else version


def _single(answers):
    """The one response."""
    try:
        parts = list(answers)
    except talk.Failed as error:
        return _failed(error)
    except BaseException:
        answers.cancel()
        raise
    return _of_parts(parts)


async def _single_async(answers):
    try:
        parts = [it async for it in answers]
    except talk.Failed as error:
        return _failed(error)
    except BaseException:
        # The task was cancelled: nobody waits.
        answers.cancel()
        raise
    return _of_parts(parts)


async def _begun(answers):
    """An iterator of responses, once the first is there: a loop that takes it does not hold others up."""
    responses = Responses(answers)
    await answers.begin()
    return responses


def _of_parts(parts):
    from muster_python.triton_request import InferenceResponse

    return _response(parts[0]) if parts else InferenceResponse([])


def _response(part):
    from muster_python.triton_request import InferenceResponse

    response = InferenceResponse([Tensor._incoming(it) for it in part.outputs])
    response._parameters = part.parameters
    return response


def _failed(error):
    """A response that says why there is none."""
    from muster_python.triton_request import CODES, InferenceResponse, TritonError

    return InferenceResponse([], TritonError(str(error), CODES.index(error.code)))


class Responses:
    """The responses of a decoupled model, one after the other. An error is the last of them."""

    def __init__(self, answers):
        self._answers = answers

    def __iter__(self):
        return self

    def __next__(self):
        """Blocking."""
        try:
            return _response(next(self._answers))
        except talk.Failed as error:
            return _failed(error)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return _response(await self._answers.__anext__())
        except talk.Failed as error:
            return _failed(error)

    def cancel(self):
        """No more of them are wanted."""
        self._answers.cancel()

    def __del__(self):
        # Cancelling writes to a socket, and whoever drops an iterator may hold any lock: the talk does it later.
        self._answers.drop()


def load_model(model_name, config="", files=None):
    """Loads a model, and returns once it serves. `files`: contents by `file:<version>/<name>`, with a `config`."""
    files = {} if files is None else files
    if not isinstance(files, dict):
        raise TypeError(f"files: expected a dictionary of bytes by path, found type {type(files)}")
    for name, content in files.items():
        if not isinstance(name, str) or not isinstance(content, (bytes, bytearray, memoryview)):
            raise TypeError(f"files: expected bytes by path, found {type(content)} for {name!r}")
    segments = [memoryview(it).cast("B") for it in files.values()]
    named = [[name, len(it)] for name, it in zip(files, segments)]
    _control({"Load": {"model": model_name, "config": config, "files": named}}, segments)


def unload_model(model_name, unload_dependents=False):
    """Unloads a model; with the members of the ensemble that it is, if that is wanted."""
    _control({"Unload": {"model": model_name, "dependents": bool(unload_dependents)}})


def is_model_ready(model_name, model_version=""):
    """Does that model serve, in that version or in any?"""
    return _control({"IsReady": {"model": model_name, "version": _version(model_version)}})


def _control(verb, segments=()):
    ((name, body),) = verb.items()
    if not isinstance(body["model"], str):
        raise TypeError(f"model_name: expected str, found type {type(body['model'])}")
    running = talk.running()
    if running is None:
        raise TritonModelException(
            f"model '{body['model']}': a model asks the server in initialize and execute, and while it serves, but "
            "neither in auto_complete_config nor in finalize"
        )
    try:
        return running[0].ask("Control", {"verb": verb}, segments).value()
    except talk.Failed as error:
        raise TritonModelException(str(error)) from error
