"""What helpers give back: tensors of PyTorch for such tensors, and arrays for all else."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.compat.common.tensor import as_tensor


def is_torch(value: Any) -> bool:
    """Tell whether a value is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def like(result: NDArray[Any], *arguments: Any) -> Any:
    """Return a result as a tensor of PyTorch if an argument is one, else as a `TensorArray`."""
    if any(is_torch(value) for value in arguments):
        return sys.modules["torch"].from_numpy(np.ascontiguousarray(result))
    return as_tensor(result)


def numbers(value: Any) -> NDArray[Any]:
    """Return an array or CPU tensor as an array, integers as they are and other numbers as floats.

    A list becomes float32, as ``torch.tensor`` makes it.
    """
    if getattr(value, "requires_grad", False):
        value = value.detach()
    array = np.asarray(value)
    listed = isinstance(value, (list, tuple)) and array.dtype == np.float64
    return array.astype(np.float32) if listed else array
