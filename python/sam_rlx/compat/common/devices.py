"""The one device, and its spellings."""

from __future__ import annotations

import re
import warnings
from typing import Any, Self

from sam_rlx._internal.public import public_names
from sam_rlx.errors import UnsupportedError


class DeviceWarning(UserWarning):
    """A program asks for a device that is not used."""


class Device(str):
    """The name of a device, with the attributes of PyTorch's devices that programs read."""

    __slots__ = ()
    type = "cpu"


CPU = Device("cpu")
_CPU = re.compile(r"cpu(:(0|[1-9]\d?))?")  # what PyTorch takes for it


# Whether any device is taken, and those that a warning has told about.
_taken: list[set[str]] = []


def take_any() -> None:
    """Take any device from now on, with one warning: all is computed on the CPU."""
    if not _taken:
        _taken.append(set())


def _warn_once(device: str) -> None:
    if not _taken[0]:  # one warning for all
        _taken[0].add(device)
        warnings.warn(
            f"device {device!r}: sam_rlx computes on the CPU", DeviceWarning, stacklevel=3
        )


def check_device(device: Any) -> None:
    """Raise `UnsupportedError` for any device but the CPU: ``"cpu"``, ``"cpu:0"`` or None."""
    if device is None or _CPU.fullmatch(str(device)):
        return
    if _taken:
        _warn_once(str(device))
    else:
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
        """Raise `UnsupportedError`: there is no such device, unless any is taken."""
        check_device("cuda")
        return self


__dir__ = public_names(__name__)
