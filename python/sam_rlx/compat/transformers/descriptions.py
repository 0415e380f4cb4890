"""What programs ask about the weights of a model: names, shapes and counts, not numbers."""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn, Self

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import CPU
from sam_rlx.compat.transformers.refusals import refuse

# Ends of names that are no parameters upstream but buffers.
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_ENCODING = "positional_embedding"


def dtype() -> Any:
    """Return float32 as the program knows it: of PyTorch where that is imported."""
    torch: Any = sys.modules.get("torch")
    return getattr(torch, "float32", None) or np.dtype(np.float32)


def device() -> Any:
    """Return the CPU as the program knows it."""
    torch: Any = sys.modules.get("torch")
    return torch.device("cpu") if hasattr(torch, "device") else CPU


class Parameter:
    """One weight of a model: what it is called and how large it is.

    Parameters
    ----------
    name : str
        Its name.
    shape : tuple of int
        Its shape.
    frozen : set of str
        Names that the program has frozen, of all parameters of the model.
    """

    shape: tuple[int, ...]

    def __init__(self, name: str, shape: tuple[int, ...], frozen: set[str]) -> None:
        vars(self).update(_name=name, shape=shape, _frozen=frozen)

    @property
    def requires_grad(self) -> bool:
        """Whether the program has not frozen it, as upstream; to set True is an error."""
        return vars(self)["_name"] not in vars(self)["_frozen"]

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value:
            refuse("training", f"{vars(self)['_name']}.requires_grad = {value!r}")
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

    def __repr__(self) -> str:
        return f"<Parameter {vars(self)['_name']} {self.shape}>"

    def __getattr__(self, name: str) -> NoReturn:
        refuse("training", f"{vars(self)['_name']}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "requires_grad":
            refuse("training", f"{vars(self)['_name']}.{name} = {value!r}")
        super().__setattr__(name, value)


def parameters_of(path: str, is_sam: bool, frozen: set[str]) -> list[tuple[str, Parameter]]:
    """Return the parameters of a file by name, in the order of the file.

    Parameters
    ----------
    path : str
        The file or folder of the weights.
    is_sam : bool
        Whether the encoding of points is a parameter: of SAM and SAM-HQ.
    frozen : set of str
        Names of those that the program has frozen; more are added as it freezes them.
    """
    found = []
    for name, _, shape in _core.list_tensors(path):
        if name.endswith(_BUFFERS) or (name.endswith(_ENCODING) and not is_sam):
            continue
        found.append((name, Parameter(name, tuple(shape), frozen)))
    return found


__dir__ = public_names(__name__)
