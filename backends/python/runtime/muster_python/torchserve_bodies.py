"""Bodies of requests → what handlers of TorchServe get: values by name, and the content type of each."""

import json
import os
import re
from urllib.parse import unquote_to_bytes

from muster_python.script_codecs import plain_type

# A body that has no parts of its own.
_BODY = "body"

_FORM, _PARTS = "application/x-www-form-urlencoded", "multipart/form-data"


def values(body, content_type):
    """Values by name, and content types by name. A body that is no form is the only value, `body`."""
    kind = plain_type(content_type)
    if kind == _FORM:
        fields = [(name, "", value) for name, value in _fields(body)]
    elif kind == _PARTS:
        fields = list(_parts(body, content_type))
    else:
        fields = [(_BODY, content_type or "", body)]
    types = {name: {"content-type": said} for name, said, _ in fields}
    return {name: _decoded(value, said) for name, said, value in fields}, types


def _decoded(value, content_type):
    """JSON and text as Python has them, unless handlers want bytes; what cannot be read stays bytes."""
    if os.environ.get("TS_DECODE_INPUT_REQUEST", "true") == "true":
        try:
            if plain_type(content_type) == "application/json":
                return json.loads(value.decode("utf-8"))
            if content_type.startswith("text"):
                return value.decode("utf-8")
        except (ValueError, RecursionError):
            pass
    return bytearray(value)


def _fields(body):
    """Names and values of a form in one line."""
    for pair in filter(None, body.split(b"&")):
        name, _, value = pair.partition(b"=")
        name, value = (unquote_to_bytes(it.replace(b"+", b" ")) for it in (name, value))
        yield name.decode("utf-8", "replace"), value


def _parts(body, content_type):
    """Name, content type and bytes of each part of a form."""
    boundary = _parameter(content_type, "boundary")
    if boundary is None:
        raise ValueError(f"content type {content_type}: it names no boundary")
    # Each boundary stands at the beginning of a line, that of the first part perhaps of the body.
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"))
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return
        head, _, value = piece.partition(b"\r\n\r\n")
        lines = [it.partition(":") for it in head.decode("utf-8", "replace").split("\r\n")]
        said = {name.strip().lower(): text.strip() for name, _, text in lines}
        name = _parameter(said.get("content-disposition", ""), "name")
        if name is not None:
            yield name, said.get("content-type", ""), value
    raise ValueError(f"content type {content_type}: the body does not end with its boundary")


def _parameter(header, name):
    """A parameter of a header: a word, or a text in quotes."""
    found = re.search(rf';\s*{name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))', header, re.IGNORECASE)
    if found is None:
        return None
    return found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1])
