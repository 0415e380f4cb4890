"""The one device, and its spellings."""

from __future__ import annotations

import re
from typing import Any, Self

from sam_rlx._internal.public import public_names
from sam_rlx.errors import UnsupportedError


class Device(str):
    """The name of a device, with the attributes of PyTorch's devices that programs read."""

    __slots__ = ()
    type = "cpu"


CPU = Device("cpu")
_CPU = re.compile(r"cpu(:(0|[1-9]\d?))?")  # what PyTorch takes for it


def check_device(device: Any) -> None:
    """Raise `UnsupportedError` for any device but the CPU: ``"cpu"``, ``"cpu:0"`` or None."""
    if device is not None and not _CPU.fullmatch(str(device)):
        raise UnsupportedError(f"device: expected 'cpu', found {str(device)!r}")


class OnCpu:
    """Something that is on the CPU and stays there.

    Attributes
    ----------
    device : str
        Always ``"cpu"``.
    """

    device = CPU

    def cpu(self) -> Self:
        """Return the same: it is in main memory already."""
        return self

    def cuda(self, *_args: Any, **_kwargs: Any) -> Self:
        """Raise `UnsupportedError`: there is no such device."""
        raise UnsupportedError("device: expected 'cpu', found 'cuda'")


__dir__ = public_names(__name__)
