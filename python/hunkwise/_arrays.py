"""Arrays of any library as memory that the native half can read: address, number of values, dtype.

NumPy arrays and torch tensors of the host are read where they lie, as is anything with DLPack on the host (JAX, CuPy's
host arrays). Lists are converted. What is not contiguous is copied once for reading and refused for writing.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Triple = tuple[int, int, str]

FLOATS = ("float32", "bfloat16", "float16")


class Array:
    """An array with the memory that it keeps alive."""

    __slots__ = ("address", "dtype", "owner", "shape", "size")

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], dtype: str) -> None:
        self.owner = owner
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.size = 1
        for length in shape:
            self.size *= length

    def triple(self) -> Triple:
        return self.address, self.size, self.dtype


def is_torch(value: Any) -> bool:
    """True for a tensor of torch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def read(value: Any, name: str) -> Array:
    """Any array, to be read."""
    if is_torch(value):
        return _of_tensor(value, name, writes=False)
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        return _of_dlpack(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if array.dtype == np.float64 and not isinstance(value, np.ndarray):
        # A list of Python floats; an array of float64 is not narrowed behind its owner's back.
        array = array.astype(np.float32)
    return _of_numpy(np.ascontiguousarray(array) if array.ndim else array, name)


def floats(value: Any, name: str) -> Array:
    """An array of float32, bfloat16 or float16."""
    array = read(value, name)
    if array.dtype not in FLOATS:
        raise TypeError(f"{name} is {array.dtype}; float32, bfloat16 and float16 are read: convert it")
    return array


def mask(value: Any, name: str) -> Array:
    """An array of 0 and 1, of any dtype, as bytes."""
    array = read(value, name)
    if array.dtype == "bool":
        return Array(array.owner, array.address, array.shape, "uint8")
    values = as_numpy(array)
    is_one = values == 1
    wrong = ~(is_one | (values == 0))
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}{list(place)} is {values[place]}; a mask is 0 or 1")
    return _of_numpy(is_one.view(np.uint8), name)


def integers(value: Any, name: str) -> Array:
    """An array of integers, as int64."""
    array = read(value, name)
    if array.dtype == "int64":
        return array
    values = as_numpy(array)
    if values.dtype.kind not in "iu" and values.size:
        raise TypeError(f"{name} is {array.dtype}, not of integers")
    return _of_numpy(np.ascontiguousarray(values, dtype=np.int64), name)


def write(value: Any, name: str) -> Array:
    """An array to be written where it lies: contiguous, writable, on the host."""
    if is_torch(value):
        return _of_tensor(value, name, writes=True)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} is {type(value).__name__}; a NumPy array or torch tensor can be written to")
    if not value.flags.c_contiguous:
        raise ValueError(f"{name} is not contiguous; give one that is")
    if not value.flags.writeable:
        raise ValueError(f"{name} is read-only")
    return _of_numpy(value, name)


def as_numpy(array: Array) -> np.ndarray[Any, Any]:
    """The values of an array that is not bfloat16."""
    if is_torch(array.owner):
        values: np.ndarray[Any, Any] = array.owner.detach().numpy()
        return values
    owner: np.ndarray[Any, Any] = array.owner
    return owner


def _of_numpy(array: np.ndarray[Any, Any], name: str) -> Array:
    if not array.dtype.isnative:
        raise TypeError(f"{name} has bytes in the other order ({array.dtype}); convert it")
    return Array(array, array.ctypes.data, array.shape, array.dtype.name)


def _of_tensor(tensor: Any, name: str, *, writes: bool) -> Array:
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} is on {tensor.device}; the host's backend reads host memory: give {name}.cpu()")
    if tensor.layout is not sys.modules["torch"].strided:
        raise TypeError(f"{name} is {tensor.layout}; only strided tensors are read")
    if not tensor.is_contiguous():
        if writes:
            raise ValueError(f"{name} is not contiguous; give one that is")
        tensor = tensor.contiguous()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return Array(tensor, tensor.data_ptr(), tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _of_dlpack(value: Any, name: str) -> Array:
    kind, _ = value.__dlpack_device__()
    if int(kind) != 1:
        raise ValueError(f"{name} is not in host memory; copy it to the host")
    if str(getattr(value, "dtype", "")) == "bfloat16":
        # NumPy has no bfloat16; the bits are the same.
        owner = np.asarray(value)
        return Array(owner, owner.ctypes.data, owner.shape, "bfloat16")
    return _of_numpy(np.ascontiguousarray(np.from_dlpack(value)), name)
