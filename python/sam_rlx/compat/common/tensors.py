"""What drop-ins give and take: tensors of PyTorch where the program uses it, else arrays."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.compat.common.tensor import as_tensor, shared


def is_torch(value: Any) -> bool:
    """Tell whether a value is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_result(array: NDArray[Any]) -> Any:
    """Return what a program gets where upstream gives a tensor.

    Once the program has imported PyTorch that is a tensor, which shares the memory of the array;
    else a `TensorArray`.
    """
    torch: Any = sys.modules.get("torch")
    has_tensors = hasattr(torch, "from_numpy")  # PyTorch may be in the middle of its import
    return shared(torch, array.view(np.ndarray)) if has_tensors else as_tensor(array)


def numbers(value: Any) -> NDArray[Any]:
    """Return an array or CPU tensor as an array, integers as they are and other numbers as floats.

    A list becomes float32, as ``torch.tensor`` makes it.
    """
    if getattr(value, "requires_grad", False):
        value = value.detach()
    array = np.asarray(value)
    listed = isinstance(value, (list, tuple)) and array.dtype == np.float64
    return array.astype(np.float32) if listed else array
