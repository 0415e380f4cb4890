"""Devices and types of floating point that programs ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.transformers.notes import warn_once
from sam_rlx.compat.transformers.refusals import WORDS, DeviceRefusedError
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_FLOATS = {"half": "float16", "float": "float32", "double": "float64"}


def require_cpu(called: str, target: Any) -> None:
    """Raise `DeviceRefusedError` for another device than the CPU."""
    try:
        check_device(target)
    except UnsupportedError as error:
        raise DeviceRefusedError(f"{called}: {WORDS['device']}") from error


def is_dtype(target: Any) -> bool:
    """Tell whether a value is a type of floating point and no device."""
    if isinstance(target, (type, np.dtype)):
        return True
    name = str(target)
    return name.startswith("torch.") or name in ("float32", "bfloat16", "float16", "auto")


def precision_of(called: str, dtype: Any) -> str | None:
    """Return the precision of `load_model` for a type of floating point; None: as the file has it.

    float16 and bfloat16 warn once: results stay float32.

    Raises
    ------
    InvalidArgumentError
        It is no such type.
    """
    name = str(np.dtype(dtype)) if isinstance(dtype, type) else str(dtype)
    name = name.removeprefix("torch.")
    name = _FLOATS.get(name, name)
    if name in ("None", "auto"):
        return None
    if name == "float16":
        warn_once("float16: sam_rlx computes it as float32")
        return None
    if name == "bfloat16":
        warn_once("bfloat16: of the large weights alone; results stay float32")
    elif name != "float32":
        raise InvalidArgumentError(
            f"{called}: expected float32, bfloat16 or float16, found {dtype!r}"
        )
    return name


__dir__ = public_names(__name__)
