"""What processors and models give: dictionaries whose values are attributes too."""

from __future__ import annotations

import enum
from collections import OrderedDict, UserDict
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.errors import ArgumentKeyError
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.common.tensors import as_result, is_torch
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_KINDS = ("pt", "np")


class BatchFeature(UserDict[str, Any]):
    """A dictionary of arrays or tensors, whose keys are attributes too.

    Parameters
    ----------
    data : dict, optional
        Arrays, tensors, numbers or nested lists of numbers by name.
    tensor_type : str, optional
        What values become: "pt" tensors, "np" arrays. Default: they stay as they are.
    skip_tensor_conversion : list of str, optional
        Names of values that stay as they are all the same.

    Raises
    ------
    InvalidArgumentError
        A kind has another name, or the rows of a list have different lengths.
    """

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        tensor_type: str | None = None,
        skip_tensor_conversion: Any = None,
    ) -> None:
        super().__init__(data)
        self.skip_tensor_conversion = skip_tensor_conversion
        self.convert_to_tensors(tensor_type)

    def __getitem__(self, item: str) -> Any:
        if not isinstance(item, str):
            raise ArgumentKeyError(
                f"BatchFeature: expected the name of a value, found {item!r}; upstream has no "
                "integers here either"
            )
        return self.data[item]

    def __getattr__(self, item: str) -> Any:
        data = vars(self).get("data", {})
        if item in data:
            return data[item]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {item!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.data = state["data"]
        self.skip_tensor_conversion = None

    def convert_to_tensors(
        self, tensor_type: str | None = None, skip_tensor_conversion: Any = None
    ) -> Self:
        """Make all values tensors or arrays, in place; parameters and errors are those above."""
        kind = tensor_kind(tensor_type)
        skipped = skip_tensor_conversion or self.skip_tensor_conversion or ()
        if kind is not None:
            for key, value in self.data.items():
                if key not in skipped and _is_numbers(value):
                    self.data[key] = _converted(key, value, kind)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Make values of floating point another type, in place; the device is always the CPU.

        Parameters
        ----------
        *args, **kwargs
            A device, a type of floating point, or both: "cpu", ``torch.float16``, and names
            `device`, `dtype`, `non_blocking`.

        Raises
        ------
        UnsupportedError
            Another device.
        InvalidArgumentError
            The first argument is neither.
        """
        device, dtype = _target(args, kwargs)
        check_device(device)
        if dtype is not None:
            self.data = {key: _cast(value, dtype) for key, value in self.data.items()}
        return self


def tensor_kind(tensor_type: Any) -> str | None:
    """Return "pt" or "np" for the name of a kind of tensors or upstream's constant; None for None.

    Another one is an `InvalidArgumentError`.
    """
    name: str | None = tensor_type.value if isinstance(tensor_type, enum.Enum) else tensor_type
    if name is not None and name not in _KINDS:
        raise InvalidArgumentError(
            f"return_tensors: expected one of {list(_KINDS)} or None, found {name!r}"
        )
    return name


def _first(value: Any) -> Any:
    """Return the first of all numbers, arrays or tensors in nested lists; 0 if there is none."""
    while isinstance(value, (list, tuple)):
        value = value[0] if value else 0
    return value


def _is_numbers(value: Any) -> bool:
    first = _first(value)
    return is_torch(first) or isinstance(first, (np.ndarray, np.number, int, float))


def _converted(key: str, value: Any, kind: str) -> Any:
    if is_torch(value) and kind == "pt":
        return value
    try:
        array = np.asarray([np.asarray(part) for part in value] if _is_nested(value) else value)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{key}: expected values of one shape, found {error}; return_tensors=None leaves them "
            "as they are"
        ) from error
    if kind == "np":
        return array.view(np.ndarray)
    if array.dtype == np.float64 and type(_first(value)) is float:
        array = array.astype(np.float32)  # as PyTorch makes Python's numbers tensors
    return as_result(array)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and not np.isscalar(value[0])


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return the device and the type that are asked for."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    if device is None and args:
        first, *others = args
        if _is_dtype(first):
            return None, first
        if not isinstance(first, (str, int)) and type(first).__name__ != "device":
            raise InvalidArgumentError(
                f"BatchFeature.to: expected a device or a type of floating point, found {first!r}"
            )
        device = first
        dtype = others[0] if others and _is_dtype(others[0]) else dtype
    return device, dtype


def _is_dtype(value: Any) -> bool:
    return str(value).startswith("torch.") or isinstance(value, (np.dtype, type))


def _cast(value: Any, dtype: Any) -> Any:
    if is_torch(value):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(part, dtype) for part in value)
    is_float = isinstance(value, TensorArray) and value.dtype.kind == "f"
    return value.to(dtype) if is_float else value


class ModelOutput(OrderedDict[str, Any]):
    """Named values of a model, which are attributes and the parts of a tuple too.

    A subclass lists its names in `fields`. Values of None are left out of the dictionary and
    of the tuple; as attributes they are None.

    Parameters
    ----------
    *args, **kwargs
        Values in the order of `fields`, or by name.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(self.fields, args, strict=False)) | kwargs
        unknown = [name for name in given if self.fields and name not in self.fields]
        if unknown or len(args) > len(self.fields):
            raise TypeError(
                f"{type(self).__name__}: expected values of {list(self.fields)}, found "
                f"{unknown or len(args)}"
            )
        names = self.fields or tuple(given)
        super().__init__((name, given[name]) for name in names if given.get(name) is not None)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return super().__getitem__(name)
        if name in type(self).fields:
            return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.fields and name not in self:
            super().__setattr__(name, value)
        elif value is not None:
            self[name] = value
        elif name in self:
            super().__delitem__(name)

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the values that are there, in order."""
        return tuple(self.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return _output, (type(self), dict(self))

    def __repr__(self) -> str:
        names = self.fields or tuple(self)
        values = ", ".join(f"{name}={self.get(name)!r}" for name in names)
        return f"{type(self).__name__}({values})"

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse what upstream refuses: the names of an output stay."""
        raise UnsupportedError(
            f"{type(self).__name__}: expected a value to be set by its name, found a call that "
            "changes which names there are"
        )

    __delitem__ = setdefault = pop = update = _refuse


def _output(kind: type[ModelOutput], values: dict[str, Any]) -> ModelOutput:
    """Make an output again, from a pickle or for a copy."""
    return kind(**values)


__dir__ = public_names(__name__)
