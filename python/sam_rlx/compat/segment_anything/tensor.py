"""Arrays that answer to the few tensor methods which programs call on results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.compat.errors import expects


class TensorArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with ``cpu``, ``detach``, ``numpy`` and ``to``; nothing moves or converts."""

    def cpu(self) -> "TensorArray":
        """Return the array itself: it is in main memory already."""
        return self

    def detach(self) -> "TensorArray":
        """Return the array itself: there are no gradients."""
        return self

    def numpy(self) -> NDArray[Any]:
        """Return a plain view."""
        return self.view(np.ndarray)


@expects("an array")
def as_tensor(array: NDArray[Any]) -> TensorArray:
    """View an array as a `TensorArray`."""
    return array.view(TensorArray)


@expects("an array of numbers")
def to_array(values: Any, dtype: Any) -> NDArray[Any] | None:
    """Return a contiguous array of `dtype` for an array or CPU tensor, and None for None."""
    return None if values is None else np.ascontiguousarray(values, dtype=dtype)
