"""Tensors in the memory of a lane ↔ arrays. The server writes inputs into the first half, this process writes outputs
into the second half."""

import mmap
import os
import struct
from typing import NamedTuple

import numpy as np

# Tensors begin at multiples of it.
_ALIGN = 64

_LENGTH = struct.Struct("<I")


class Kind(NamedTuple):
    """A type of elements, as the wire, a configuration, Triton's interface and numpy call it."""

    wire: str
    config: str
    number: int
    numpy: np.dtype

    @property
    def name(self):
        """As users write it: `FP32`."""
        return self.config[len("TYPE_") :]


# numpy has no BF16: arrays of it have its bits as 16-bit numbers.
BF16 = Kind("Bf16", "TYPE_BF16", 14, np.dtype("uint16"))
BYTES = Kind("Bytes", "TYPE_STRING", 13, np.dtype(object))

KINDS = (
    Kind("Bool", "TYPE_BOOL", 1, np.dtype("bool")),
    Kind("Uint8", "TYPE_UINT8", 2, np.dtype("uint8")),
    Kind("Uint16", "TYPE_UINT16", 3, np.dtype("uint16")),
    Kind("Uint32", "TYPE_UINT32", 4, np.dtype("uint32")),
    Kind("Uint64", "TYPE_UINT64", 5, np.dtype("uint64")),
    Kind("Int8", "TYPE_INT8", 6, np.dtype("int8")),
    Kind("Int16", "TYPE_INT16", 7, np.dtype("int16")),
    Kind("Int32", "TYPE_INT32", 8, np.dtype("int32")),
    Kind("Int64", "TYPE_INT64", 9, np.dtype("int64")),
    Kind("Fp16", "TYPE_FP16", 10, np.dtype("float16")),
    Kind("Fp32", "TYPE_FP32", 11, np.dtype("float32")),
    Kind("Fp64", "TYPE_FP64", 12, np.dtype("float64")),
    BYTES,
    BF16,
)
BY_WIRE = {it.wire: it for it in KINDS}
BY_CONFIG = {it.config: it for it in KINDS}
_BY_NUMPY = {it.numpy: it for it in KINDS if it is not BF16}


def kind_of(array):
    """The kind of an array's elements. `None` if no tensor can have them."""
    kind = _BY_NUMPY.get(array.dtype)
    if kind is None and array.dtype.kind == "S":
        return BYTES
    return kind


class Input:
    """One input of one call. Its array is made when it is asked for."""

    __slots__ = ("name", "kind", "dims", "_array", "_make")

    def __init__(self, name, kind, dims, array=None, make=None):
        self.name, self.kind, self.dims = name, kind, dims
        self._array, self._make = array, make

    def array(self):
        """The elements. The array belongs to the model: it is a copy, and stays as it is after the run."""
        if self._array is None:
            self._array, self._make = self._make(), None
        return self._array

    def rows(self, start, end):
        """These rows of it, as an input of their own."""
        dims = [end - start, *self.dims[1:]]
        if self._array is None:
            return Input(self.name, self.kind, dims, make=lambda: self.array()[start:end])
        return Input(self.name, self.kind, dims, self._array[start:end])


class TooLarge(Exception):
    """Outputs that do not fit into the memory of the lane."""


class Arena:
    """The memory of one lane's tensors. `file` is the memory's file, which is closed; the memory stays."""

    def __init__(self, file):
        try:
            self._memory = mmap.mmap(file, os.fstat(file).st_size)
        finally:
            os.close(file)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._half = len(self._memory) // 2
        self._end = self._half

    def inputs(self, placed):
        """The inputs of a run, of one copy of all their bytes."""
        if not placed:
            return []
        start = min(it["at"] for it in placed)
        copy = self._bytes[start : max(it["at"] + it["len"] for it in placed)].copy()
        return [_input(it, copy, it["at"] - start) for it in placed]

    def begin_outputs(self):
        """Forgets the outputs of the run before."""
        self._end = self._half

    def put(self, name, kind, array):
        """Copies an output behind those that are there. Its place comes back, as the wire says it."""
        if kind is BYTES:
            data = join_bytes(array)
            place = self._room(name, len(data))
            self._memory[place : place + len(data)] = data
            return _placed(name, kind, array, place, len(data))
        place = self._room(name, array.nbytes)
        if array.nbytes:
            np.copyto(np.ndarray(array.shape, kind.numpy, self._memory, place), array)
        return _placed(name, kind, array, place, array.nbytes)

    def _room(self, name, length):
        """Where so many bytes begin."""
        place = -(-self._end // _ALIGN) * _ALIGN
        left = len(self._memory) - place
        if left < length:
            raise TooLarge(
                f"output '{name}' has {length} bytes, and there is room for {max(left, 0)} of {self._half}: "
                "start the server with larger --worker-arena-bytes"
            )
        self._end = place + length
        return place


def _input(placed, copy, at):
    """One input, at that place of the copy."""
    kind, dims = BY_WIRE[placed["dtype"]], placed["dims"]
    if kind is BYTES:
        data = copy[at : at + placed["len"]]
        return Input(placed["name"], kind, dims, make=lambda: split_bytes(data.tobytes()).reshape(dims))
    return Input(placed["name"], kind, dims, np.ndarray(dims, kind.numpy, copy, at))


def _placed(name, kind, array, at, length):
    return {"name": name, "dtype": kind.wire, "dims": list(array.shape), "at": at, "len": length}


def split_bytes(data):
    """Elements of BYTES, each behind its length → an array of one dimension, of `bytes`."""
    items, at, end = [], 0, len(data)
    while at < end:
        if end < at + 4:
            raise ValueError(f"BYTES: {end - at} bytes at the end, where a length of 4 bytes is expected")
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4
        if end < at + length:
            raise ValueError(f"BYTES: an element of {length} bytes, where {end - at} are left")
        items.append(data[at : at + length])
        at += length
    array = np.empty(len(items), object)
    array[:] = items
    return array


def join_bytes(array):
    """An array of objects, or of `S` → its elements, each behind its length. Text becomes UTF-8."""
    parts = []
    for item in np.ravel(array).tolist():
        if not isinstance(item, bytes):
            item = bytes(item) if isinstance(item, (bytearray, memoryview)) else str(item).encode("utf-8")
        parts.append(_LENGTH.pack(len(item)))
        parts.append(item)
    return b"".join(parts)
