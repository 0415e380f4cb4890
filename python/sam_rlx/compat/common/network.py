"""What programs ask of upstream's networks about where and how they run."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from sam_rlx._internal.printable import with_model
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentAttributeError
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

_FLOAT32 = ("float32", "torch.float32", "torch.float", "<class 'numpy.float32'>")


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


class WithModel:
    """Something that has a `model`, which is one of ours or has one, or a `predictor` with one."""

    def __repr__(self) -> str:
        found: Any = vars(self).get("predictor", self)
        while not isinstance(found, Model):
            found = found.model
        return with_model(self, found)


class Network(WithModel, OnCpu):
    """Methods of PyTorch's modules that change nothing here: a network runs on the CPU in float32.

    Attributes
    ----------
    training : bool
        Always False.
    """

    training = False
    # Attributes of upstream's that are settings of the weights here: they cannot be set later.
    _FIXED: ClassVar[frozenset[str]] = frozenset({"image_size"})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and (name != "image_size" or name in vars(self)):
            raise ArgumentAttributeError(
                f"{type(self).__name__}.{name}: expected no change once the model is loaded, found "
                f"{value!r}; builders and sam_rlx.load_model take settings"
            )
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise ArgumentAttributeError(
            f"{type(self).__name__}.{name}: expected one of the names that docs/compat.md lists, "
            "found another; layers and weights are not to be had here"
        )

    def eval(self) -> Self:
        """Return the network: it is always ready to run."""
        return self

    def float(self) -> Self:
        """Return the network."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Return the network; gradients are an `UnsupportedError`."""
        if requires_grad:
            raise UnsupportedError("requires_grad_: expected False, found True: nothing is trained")
        return self

    def to(self, *targets: Any, device: Any = None, dtype: Any = None, **_: Any) -> Self:
        """Return the network; another device or type is an `UnsupportedError`."""
        for target in (*targets, dtype):
            found = str(target)
            if found in _FLOAT32 or target is None or isinstance(target, bool):
                continue
            if found.startswith(("torch.", "<class")) or target is dtype:
                raise UnsupportedError(
                    f"dtype: expected float32, found {found}; load_model(path, precision=) of "
                    "sam_rlx takes others"
                )
            check_device(target)
        check_device(device)
        return self


__dir__ = public_names(__name__)
