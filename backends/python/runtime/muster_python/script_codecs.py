"""Bodies ↔ arrays by their content type, and errors with a status: what SageMaker's scripts lean on."""

import io
import json

import numpy as np

JSON = "application/json"
JSON_LINES = "application/jsonlines"
CSV = "text/csv"
NPY = "application/x-npy"
NPZ = "application/x-npz"
LIBSVM = "text/libsvm"
OCTET_STREAM = "application/octet-stream"
ANY = "*/*"

# Bodies of these types are text; so is `text/*`.
UTF8_TYPES = [JSON, CSV]

# Types that a prediction can be written as.
ENCODED = (JSON, CSV, NPY)


class BaseInferenceToolkitError(Exception):
    """An error with a status: scripts raise it, or classes of their own made of it."""

    def __init__(self, status_code, message, phrase):
        super().__init__(status_code, message, phrase)
        self.status_code, self.message, self.phrase = status_code, message, phrase


class GenericInferenceToolkitError(BaseInferenceToolkitError):
    """The same with texts that may be left out."""

    def __init__(self, status_code, message=None, phrase=None):
        message = message or "Invalid Request"
        super().__init__(status_code, message, phrase or message)


class UnsupportedFormatError(Exception):
    """A content type that nothing here reads, or writes."""

    def __init__(self, content_type, expected=(JSON, CSV, NPY, NPZ)):
        super().__init__(
            f"content type {content_type} is not supported, expected {', '.join(expected)}; for others define "
            "input_fn, which reads a request, or output_fn, which writes an answer"
        )


class PredictionException(Exception):
    """An error with a status, as scripts for Multi Model Server raise it."""

    def __init__(self, message, error_code=500):
        super().__init__(message)
        self.message, self.error_code = message, error_code


def plain_type(content_type):
    """`Text/CSV; charset=utf-8` → `text/csv`."""
    return (content_type or "").split(";")[0].strip().lower()


def is_text(content_type):
    """Are bodies of that type text?"""
    kind = plain_type(content_type)
    return kind.startswith("text/") or kind in (JSON, JSON_LINES)


def text_of(body, content_type):
    """The text of a body, if its type is one of text and it is as its charset says; else the bytes."""
    if not is_text(content_type):
        return body
    charset = "utf-8"
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'")
    try:
        return body.decode(charset)
    except (LookupError, UnicodeDecodeError):
        return body


def parse_accept(accept):
    """The content types of an Accept header, in their order."""
    return accept.replace(" ", "").split(",")


def decode(obj, content_type):
    """A body → an array."""
    kind = plain_type(content_type)
    if kind == JSON:
        return np.array(json.loads(obj))
    if kind == CSV:
        text = obj if isinstance(obj, str) else obj.decode("utf-8")
        return np.genfromtxt(io.StringIO(text), dtype=None, delimiter=",", encoding="utf-8")
    if kind == NPY:
        # Pickled objects would be code of the client's.
        return np.load(io.BytesIO(obj), allow_pickle=False)
    if kind == NPZ:
        import scipy.sparse

        return scipy.sparse.load_npz(io.BytesIO(obj))
    raise UnsupportedFormatError(content_type)


def encode(array_like, content_type):
    """An array, or what is like one → a body."""
    kind = plain_type(content_type)
    if kind == JSON:
        return json.dumps(array_like, default=_listed)
    if kind == CSV:
        stream = io.StringIO()
        np.savetxt(stream, array_like, delimiter=",", fmt="%s")
        return stream.getvalue()
    if kind == NPY:
        stream = io.BytesIO()
        np.save(stream, array_like)
        return stream.getvalue()
    raise UnsupportedFormatError(content_type, ENCODED)


def _listed(value):
    """What JSON does not know."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value)} cannot be written as JSON")
