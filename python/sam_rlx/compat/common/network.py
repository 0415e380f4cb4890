"""What programs ask of upstream's networks about where and how they run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.printable import with_model
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.descriptions import Parameter
from sam_rlx.compat.common.devices import OnCpu, check_device
from sam_rlx.compat.common.errors import ArgumentAttributeError
from sam_rlx.compat.common.state_dicts import (
    EmptyModel,
    LoadResult,
    StateDictError,
    write_arrays,
)
from sam_rlx.errors import CheckpointError, UnsupportedError
from sam_rlx.model import Model, load_model

# Ends of names that are no parameters upstream but buffers.
_BUFFERS = (
    "running_mean",
    "running_var",
    "num_batches_tracked",
    "positional_encoding_gaussian_matrix",
    "freqs_cis",
)
_FLOAT32 = ("float32", "torch.float32", "torch.float", "<class 'numpy.float32'>")


def _refuse_training(called: str) -> NoReturn:
    raise UnsupportedError(
        f"{called}: expected a network that only runs, found what trains it; train with upstream's "
        "package, and load the checkpoint that it writes here"
    )


class WithModel:
    """Something that has a `model`, which is one of ours or has one, or a `predictor` with one."""

    def __repr__(self) -> str:
        found: Any = vars(self).get("predictor", self)
        while not isinstance(found, (Model, EmptyModel)):
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
    # Those of them that a class sets when it is made.
    _MADE: ClassVar[frozenset[str]] = frozenset({"image_size"})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and (name not in self._MADE or name in vars(self)):
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

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield names, as the file of the weights has them, and descriptions of the parameters."""
        begin = f"{prefix}." if prefix else ""
        frozen = vars(self).setdefault("_frozen", set())
        for name, shape in self._shapes():
            if not name.endswith(_BUFFERS):
                yield begin + name, Parameter(name, shape, frozen, _refuse_training)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield descriptions of the parameters, whose numbers are not to be had."""
        for _, each in self.named_parameters():
            yield each

    def _shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and shapes of the weights: those of the state dict, else of the file."""
        found = vars(self).get("_state_shapes")
        if found is None:
            model = self.model
            listed = _core.list_tensors(model.source, model.key)
            found = [(name, tuple(shape)) for name, _, shape in listed]
        return list(found)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Take weights by upstream's names, which tell the size of the network.

        Parameters
        ----------
        state_dict : dict of str to array or tensor
            As ``torch.load`` gives it for upstream's checkpoint.
        strict : bool
            Whether tensors that the network lacks are an error.
        assign : bool
            Without effect.

        Returns
        -------
        LoadResult
            No keys that are missing, and those that the network lacks.

        Raises
        ------
        RuntimeError
            Tensors are missing, or are those of another network.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "state_dict.safetensors"
            write_arrays(path, state_dict, self._metadata())
            try:
                self.model = self._load(str(path), bool(strict))
            except (CheckpointError, UnsupportedError) as error:
                found = str(error).replace(str(path), "load_state_dict")
                raise StateDictError(found) from error
        shapes = [(str(name), tuple(np.shape(value))) for name, value in state_dict.items()]
        vars(self)["_state_shapes"] = shapes
        self._loaded()
        return LoadResult([], [] if strict else self.model.report()["unexpected"])

    def _load(self, path: str, strict: bool) -> Model:
        """Load a file of the kind of network that this is."""
        return load_model(path, variant=self.model.variant, strict=strict)

    def _metadata(self) -> dict[str, str]:
        """Return what tells the sizes of weights, where tensors alone do not."""
        return {}

    def _loaded(self) -> None:
        """Hand new weights to the parts that have their own."""

    def eval(self) -> Self:
        """Return the network: it is always ready to run."""
        return self

    def float(self) -> Self:
        """Return the network."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all parameters; gradients are an `UnsupportedError`. Returns the network."""
        if requires_grad:
            _refuse_training("requires_grad_")
        for each in self.parameters():
            each.requires_grad_(False)
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
