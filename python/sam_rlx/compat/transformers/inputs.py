"""Arrays and tensors that programs give to models, as the core takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, ArgumentTypeError
from sam_rlx.compat.common.tensors import is_torch

_WIDENED = ("torch.bfloat16", "torch.float16")


def array_of(where: str, value: Any) -> NDArray[Any]:
    """Return an array or tensor as an array; bfloat16 and float16 become float32.

    Raises
    ------
    TypeError
        It is neither.
    """
    array: NDArray[Any]
    if is_torch(value):
        tensor = value.detach().cpu()
        array = (tensor.float() if str(tensor.dtype) in _WIDENED else tensor).numpy()
    elif isinstance(value, np.ndarray):
        array = value.view(np.ndarray)
    else:
        raise ArgumentTypeError(
            f"{where}: expected a tensor or an array, found {type(value).__name__}"
        )
    return array.astype(np.float32) if array.dtype == np.float16 else array


def floats_of(where: str, value: Any) -> NDArray[np.float32]:
    """Return an array or tensor of float32, which networks take alone.

    Raises
    ------
    RuntimeError
        Its numbers are of another type.
    """
    array = array_of(where, value)
    if array.dtype != np.float32:
        raise ArgumentRuntimeError(f"{where}: expected float32, found {array.dtype}")
    return np.ascontiguousarray(array)


def coordinates_of(where: str, value: Any) -> NDArray[np.float64]:
    """Return coordinates of any type of numbers as float64, which holds them exactly."""
    array = array_of(where, value)
    if array.dtype.kind not in "fiub":
        raise ArgumentRuntimeError(f"{where}: expected numbers, found {array.dtype}")
    return np.ascontiguousarray(array, np.float64)


__dir__ = public_names(__name__)
