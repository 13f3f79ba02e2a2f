"""Tensors as models of Triton's interface see them, and DLPack."""

import ctypes

import numpy as np

from muster_python.tensors import BF16, BYTES, kind_of


class TritonModelException(Exception):
    """What is wrong with a model's use of this interface. Models raise it, too."""

    # Where users know it from.
    __module__ = "triton_python_backend_utils"


# Places and codes in DLPack's structure `DLTensor`: the code of the type of its elements.
_TYPE_CODE = 20
_UINT, _BFLOAT = 1, 4

# Devices whose memory the processor reads.
_CPU, _CUDA_HOST = 1, 3


class Tensor:
    """A name and an array."""

    __slots__ = ("_name", "_kind", "_array", "_input")

    def __init__(self, name, array):
        if not isinstance(name, str):
            raise TypeError(f"name of a Tensor: expected str, found type {type(name)}")
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        array = np.asarray(array)
        kind = kind_of(array)
        if kind is None:
            hint = ": use dtype=object for texts" if array.dtype.kind == "U" else ""
            raise TritonModelException(f"tensor '{name}': data type {array.dtype} is not supported{hint}")
        self._name, self._kind, self._array, self._input = name, kind, array, None

    @classmethod
    def _incoming(cls, given):
        """An input of a request. Its array is made when it is asked for."""
        return cls._of(given.name, given.kind, None, given)

    @classmethod
    def _of(cls, name, kind, array, given=None):
        self = cls.__new__(cls)
        self._name, self._kind, self._array, self._input = name, kind, array, given
        return self

    def _elements(self):
        """The array; of BF16, its bits."""
        if self._array is None:
            self._array = self._input.array()
        return self._array

    def name(self):
        return self._name

    def as_numpy(self):
        if self._kind is BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        return self._elements()

    def shape(self):
        return list(self._elements().shape if self._input is None else self._input.dims)

    def triton_dtype(self):
        """The number of its type."""
        return self._kind.number

    def is_cpu(self):
        return True

    def to_dlpack(self):
        """A capsule of DLPack, with the memory of this tensor."""
        return self.__dlpack__()

    def __dlpack__(self, stream=None, **others):
        if self._kind is BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        array = self._elements()
        if not array.flags.writeable or not array.flags.c_contiguous:
            array = np.array(array, order="C")
        capsule = array.__dlpack__()
        if self._kind is BF16:
            _set_type_code(capsule, _UINT, _BFLOAT)
        return capsule

    def __dlpack_device__(self):
        return (_CPU, 0)

    @staticmethod
    def from_dlpack(name, tensor):
        """A tensor of a capsule of DLPack, or of an object with `__dlpack__` and `__dlpack_device__`."""
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        if type(tensor).__name__ != "PyCapsule":
            if not hasattr(tensor, "__dlpack__") or not hasattr(tensor, "__dlpack_device__"):
                raise TritonModelException(
                    "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and "
                    f"`__dlpack_device__` attributes: it is {type(tensor)}"
                )
            device = tensor.__dlpack_device__()[0]
            if device not in (_CPU, _CUDA_HOST):
                raise TritonModelException(
                    f"tensor '{name}' is on a device of DLPack's type {int(device)}: only memory of the host is "
                    "supported. Copy it there first, as with .cpu()"
                )
            tensor = tensor.__dlpack__()
        is_bfloat = _set_type_code(tensor, _BFLOAT, _UINT)
        array = np.from_dlpack(_Capsule(tensor))
        if not array.flags.c_contiguous:
            raise TritonModelException(
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                "supported."
            )
        kind = BF16 if is_bfloat else kind_of(array)
        if kind is None:
            raise TritonModelException(f"tensor '{name}': data type {array.dtype} is not supported")
        return Tensor._of(name, kind, array)


class _Capsule:
    """A capsule as numpy takes it."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (_CPU, 0)


def _set_type_code(capsule, old, new):
    """Changes the type of a capsule's elements, if it is the old one. Was it? numpy has no type of BF16."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        address = get(capsule, b"dltensor")
    except ValueError as error:
        raise TritonModelException(f"a capsule that is no unused one of DLPack: {error}") from error
    code = ctypes.c_uint8.from_address(address + _TYPE_CODE)
    if code.value != old or ctypes.c_uint8.from_address(address + _TYPE_CODE + 1).value != 16:
        return False
    code.value = new
    return True
