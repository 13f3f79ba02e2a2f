"""Tensors as a talk carries them: what is said of them, and their bytes one behind the other."""

import numpy as np

from muster_python.tensors import BY_WIRE, BYTES, Input, join_bytes, split_bytes


def pack(tensors):
    """Tensors as name, kind and array → what is said of them, and their bytes one behind the other."""
    said, segments = [], []
    for name, kind, array in tensors:
        # A view of numbers, where that is possible.
        data = join_bytes(array) if kind is BYTES else memoryview(np.ascontiguousarray(array).reshape(-1).view("u1"))
        said.append({"name": name, "dtype": kind.wire, "dims": list(array.shape), "len": len(data)})
        segments.append(data)
    return said, segments


def unpack(said, data):
    """The tensors whose bytes these are."""
    inputs, at = [], 0
    for it in said:
        kind, dims, end = BY_WIRE[it["dtype"]], it["dims"], at + it["len"]
        if kind is BYTES:
            array = split_bytes(bytes(data[at:end])).reshape(dims)
        else:
            # A copy: elements begin where they may, and the model may write to them.
            array = np.frombuffer(bytearray(data[at:end]), kind.numpy).reshape(dims)
        inputs.append(Input(it["name"], kind, dims, array))
        at = end
    return inputs
