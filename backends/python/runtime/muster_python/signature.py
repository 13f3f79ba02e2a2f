"""The annotations of a function → inputs and outputs. Each has a name, a type, a shape, and the way from an array to
a value and back."""

import dataclasses
import inspect
import json
import typing
from collections import abc
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from muster_python import InvalidInput
from muster_python.tensors import BF16, BYTES, KINDS, kind_of

_KINDS = {it.name: it for it in KINDS if it is not BF16}
_KINDS["BYTES"] = BYTES

# What a function that yields its results may be annotated to return.
_ITERATORS = (abc.Iterator, abc.Iterable, abc.Generator, abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator)

# The name of a result that has none of its own.
_OUTPUT = "output"


class Port(NamedTuple):
    """One input or output."""

    name: str
    kind: Any
    # Its shape; of a batched function the shape of one row. `None`: any.
    dims: Optional[list]
    # Array → what the function is given.
    read: Callable
    # What the function has returned → array.
    write: Callable
    is_optional: bool = False

    def config(self):
        """As a configuration has it. Any shape has one dimension there: a configuration cannot say it."""
        dims = [-1] if self.dims is None else self.dims or [1]
        config = {"name": self.name, "data_type": self.kind.config, "dims": dims}
        return {**config, "optional": True} if self.is_optional else config

    def spec(self):
        """As the wire has it, where it may have any shape."""
        dims = [None if it < 0 else it for it in self.dims or []]
        any_rank = self.dims is None
        return {
            "name": self.name,
            "dtype": self.kind.wire,
            "dims": dims,
            "any_rank": any_rank,
            "optional": self.is_optional,
        }


class Group(NamedTuple):
    """An argument, or a result, that is an object with a port for each of its fields."""

    argument: str
    type: type
    ports: list


class _Value(NamedTuple):
    """What an annotation without its name says."""

    kind: Any
    dims: Optional[list]
    read: Callable
    write: Callable


class Signature:
    """What a function takes and gives. Annotations that say nothing are arrays of FP32 of any shape.

    Raises `TypeError` for annotations that no tensor can be.
    """

    def __init__(self, function, is_batched):
        self._is_batched = is_batched
        # Annotations may be texts: `from __future__ import annotations`.
        hints = typing.get_type_hints(function, include_extras=True)
        # Ports, and groups of them, in the order of the arguments.
        self._arguments = []
        for name, it in inspect.signature(function).parameters.items():
            if it.kind in (it.VAR_POSITIONAL, it.VAR_KEYWORD):
                raise TypeError(f"predict has '*{name}': each input has to have a name")
            has_default = it.default is not it.empty
            self._arguments.append(self._argument(name, hints.get(name, np.ndarray), has_default))
        result, is_iterator = _item(hints.get("return", np.ndarray))
        # Does it give any number of results, one by one?
        self.streams = is_iterator or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        if self.streams and is_batched:
            raise TypeError("predict is batched and yields its results: it can give many results to one request only")
        self._result = self._outputs(result)
        self.inputs = _flat(self._arguments)
        self.outputs = _flat(self._result if isinstance(self._result, list) else [self._result])
        for ports, what in ((self.inputs, "inputs"), (self.outputs, "outputs")):
            names = [it.name for it in ports]
            twice = next((it for it in names if 1 < names.count(it)), None)
            if twice:
                raise TypeError(f"predict has two {what} called '{twice}'")

    def arguments(self, arrays):
        """Arrays by name → what the function is called with. `InvalidInput` for what an argument cannot be."""
        made = {}
        for it in self._arguments:
            if isinstance(it, Group):
                fields = {port.name: _read(port, arrays) for port in it.ports if port.name in arrays}
                _check_missing(it.ports, arrays)
                made[it.argument] = it.type(**fields)
            elif it.name in arrays:
                made[it.name] = _read(it, arrays)
            else:
                _check_missing([it], arrays)
        return made

    def arrays(self, result):
        """What the function has returned → arrays by name."""
        if isinstance(self._result, Group):
            values = [getattr(result, it.name) for it in self._result.ports]
        elif isinstance(self._result, list):
            values = list(result)
            if len(values) != len(self._result):
                raise TypeError(f"predict returned {len(values)} values, expected {len(self._result)}")
        else:
            values = [result]
        return {port.name: _write(port, value) for port, value in zip(self.outputs, values)}

    def _argument(self, name, hint, has_default):
        hint, may_be_none = _without_none(hint)
        if _is_record(hint):
            return self._group(name, hint)
        return self._port(name, hint, has_default or may_be_none)

    def _outputs(self, hint):
        if hint is type(None):
            raise TypeError("predict returns None by its annotation: expected what its outputs are")
        if _is_record(hint):
            return self._group(_OUTPUT, hint)
        if typing.get_origin(hint) is tuple:
            parts = typing.get_args(hint)
            return [self._port(f"{_OUTPUT}_{at}", it, False) for at, it in enumerate(parts)]
        return self._port(_OUTPUT, hint, False)

    def _group(self, name, record):
        hints = typing.get_type_hints(record, include_extras=True)
        defaults = _defaults(record)
        ports = []
        for field, hint in hints.items():
            hint, may_be_none = _without_none(hint)
            ports.append(self._port(field, hint, field in defaults or may_be_none))
        return Group(name, record, ports)

    def _port(self, name, hint, is_optional):
        value = _value(hint)
        if value is None:
            raise TypeError(
                f"'{name}' of predict is {hint}, expected an array (np.ndarray, Tensor['FP32', -1, 4]), str, bytes, "
                "int, float, bool, dict, a list of one of these, or a dataclass of such fields"
            )
        if self._is_batched:
            value = _of_batch(name, hint, value)
        return Port(name, value.kind, value.dims, value.read, value.write, is_optional)


def _flat(arguments):
    return [port for it in arguments for port in (it.ports if isinstance(it, Group) else [it])]


def _is_record(hint):
    is_tuple = isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
    return dataclasses.is_dataclass(hint) or is_tuple


def _defaults(record):
    """Names of the fields that may be left out."""
    if not dataclasses.is_dataclass(record):
        return set(record._field_defaults)
    fields = dataclasses.fields(record)
    missing = dataclasses.MISSING
    return {it.name for it in fields if (it.default, it.default_factory) != (missing, missing)}


def _item(hint):
    """`Iterator[X]` and its like → X, and whether it was one."""
    if (typing.get_origin(hint) or hint) not in _ITERATORS:
        return hint, False
    return (*typing.get_args(hint), np.ndarray)[0], True


def _without_none(hint):
    """`Optional[X]` → X, and whether it was one."""
    # The second is `X | None`, from Python 3.10 on.
    if typing.get_origin(hint) is not typing.Union and type(hint).__name__ != "UnionType":
        return hint, False
    parts = [it for it in typing.get_args(hint) if it is not type(None)]
    return (parts[0], True) if len(parts) == 1 else (hint, False)


def _value(hint):
    """What an annotation says. `None` if it is none of ours."""
    if hint is np.ndarray or hint is Any:
        return _array("FP32", None)
    if typing.get_origin(hint) is typing.Annotated:
        base, kind, *rest = typing.get_args(hint)
        return _array(kind, rest[0] if rest else None) if base is np.ndarray else None
    scalar = _SCALARS.get(hint)
    if scalar is not None:
        kind, read, write = scalar
        return _Value(kind, [1], lambda it: read(_one(it)), lambda it: _filled(kind, [write(it)]))
    items = typing.get_args(hint)
    if typing.get_origin(hint) is list and len(items) == 1 and items[0] in _SCALARS:
        kind, read, write = _SCALARS[items[0]]
        return _Value(
            kind, [-1], lambda it: [read(x) for x in it.ravel().tolist()], lambda it: _filled(kind, map(write, it))
        )
    return None


def _array(kind, dims):
    name = kind.upper() if isinstance(kind, str) else np.dtype(kind).name.upper().replace("FLOAT", "FP")
    name = {"OBJECT": "BYTES", "STRING": "BYTES"}.get(name, name)
    if name not in _KINDS:
        raise TypeError(f"'{kind}' is no type of tensors, expected one of {', '.join(_KINDS)}")
    kind = _KINDS[name]
    return _Value(
        kind, None if dims is None else [int(it) for it in dims], lambda it: it, lambda it: _cast(kind, it)
    )


def _of_batch(name, hint, value):
    """The same of one row."""
    if value.dims is None:
        return value
    if value.dims[0] != -1:
        raise TypeError(
            f"'{name}' of predict is {hint}, and predict is batched: its first dimension is the rows of all requests, "
            "and has to be -1 (of texts or numbers: list[str], list[int])"
        )
    row = value.dims[1:]
    if row:
        return value._replace(dims=row)

    # A row of a configuration has at least one dimension.
    def write(it):
        array = value.write(it)
        return array.reshape(len(array), 1)

    def read(it):
        return value.read(it.reshape(len(it)))

    return value._replace(dims=row, read=read, write=write)


def _read(port, arrays):
    try:
        return port.read(arrays[port.name])
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"input '{port.name}': {error}") from error


def _write(port, value):
    try:
        return port.write(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"output '{port.name}': {error}") from error


def _check_missing(ports, arrays):
    for it in ports:
        if it.name not in arrays and not it.is_optional:
            raise InvalidInput(f"input '{it.name}' is missing")


def _one(array):
    if array.size != 1:
        raise ValueError(f"{array.size} elements, expected one")
    return array.item()


def _filled(kind, items):
    items = list(items)
    array = np.empty(len(items), kind.numpy)
    array[:] = items
    return array


def _cast(kind, value):
    """An array of that type, of a value that can be one without a loss of what kind of number it is."""
    array = np.asarray(value)
    if kind is BYTES:
        return array if kind_of(array) is BYTES else array.astype(object)
    if not np.can_cast(array.dtype, kind.numpy, "same_kind"):
        raise TypeError(f"an array of {array.dtype}, expected {kind.name} as predict is annotated")
    return array.astype(kind.numpy, copy=False)


def _text(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected text of UTF-8: {error}") from error


def _json(data):
    try:
        return json.loads(data)
    except ValueError as error:
        raise ValueError(f"expected JSON: {error}") from error


def _written(value):
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value):
    """What JSON does not know."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value)} cannot be written as JSON")


def _encoded(value):
    if not isinstance(value, str):
        raise TypeError(f"{type(value)}, expected str")
    return value.encode("utf-8")


# Types of single values: the type of their tensor, and the way from and to one element of it.
_SCALARS = {
    str: (BYTES, _text, _encoded),
    bytes: (BYTES, bytes, bytes),
    int: (_KINDS["INT64"], int, int),
    float: (_KINDS["FP64"], float, float),
    bool: (_KINDS["BOOL"], bool, bool),
    dict: (BYTES, _json, _written),
}
