"""What programs ask about the weights of a network: names, shapes and counts, not numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import CPU


def dtype() -> Any:
    """Return float32 as the program knows it: of PyTorch where that is imported."""
    torch: Any = sys.modules.get("torch")
    return getattr(torch, "float32", None) or np.dtype(np.float32)


def device() -> Any:
    """Return the CPU as the program knows it."""
    torch: Any = sys.modules.get("torch")
    return torch.device("cpu") if hasattr(torch, "device") else CPU


class Parameter:
    """One weight of a network: what it is called and how large it is.

    Parameters
    ----------
    name : str
        Its name.
    shape : tuple of int
        Its shape.
    frozen : set of str
        Names that the program has frozen, of all parameters of the network.
    refuse : callable
        Raises the error about training, for what the program called.
    """

    shape: tuple[int, ...]

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        frozen: set[str],
        refuse: Callable[[str], NoReturn],
    ) -> None:
        vars(self).update(_name=name, shape=shape, _frozen=frozen, _refuse=refuse)

    @property
    def requires_grad(self) -> bool:
        """Whether the program has not frozen it, as upstream; to set True is an error."""
        return vars(self)["_name"] not in vars(self)["_frozen"]

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value:
            self._stop(f"requires_grad = {value!r}")
        vars(self)["_frozen"].add(vars(self)["_name"])

    def numel(self) -> int:
        """Return how many numbers it has."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """Always float32."""
        return dtype()

    @property
    def device(self) -> Any:
        """Always the CPU."""
        return device()

    @property
    def is_cuda(self) -> bool:
        """Always False."""
        return False

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Return it; True is an error."""
        self.requires_grad = requires_grad
        return self

    def _stop(self, called: str) -> NoReturn:
        refuse: Callable[[str], NoReturn] = vars(self)["_refuse"]
        refuse(f"{vars(self)['_name']}.{called}")

    def __repr__(self) -> str:
        return f"<Parameter {vars(self)['_name']} {self.shape}>"

    def __getattr__(self, name: str) -> NoReturn:
        self._stop(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "requires_grad":
            self._stop(f"{name} = {value!r}")
        super().__setattr__(name, value)


__dir__ = public_names(__name__)
