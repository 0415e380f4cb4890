"""The one reader of arrays of other libraries: every argument that takes an array goes through it.

The table of what it takes and refuses is in docs/images.md, "Arrays of other libraries".
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.errors import InvalidArgumentError

_MAX_VALUES = 1 << 32  # those of the largest image
_MAX_OBJECTS = 1 << 24  # Python objects that are looked at one by one
_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__")
_ON_GPU = "__cuda_array_interface__"
_FROM_GPU = ("get", "copy_to_host", "numpy")  # CuPy, Numba, warp
# Units that say what a number counts, not how much of something it is.
_UNITS = {"", "dimensionless", "pix", "pixel", "adu", "electron", "ct", "count", "DN", "dn", "ph"}
# What holds values and gives them to NumPy not at all, or as something else; known by a method.
_WAYS_OUT = {
    "pixel_array": "its .pixel_array, which pydicom decodes",
    "get_fdata": "its .get_fdata()",
    "GetPixelIDTypeAsString": "SimpleITK.GetArrayViewFromImage(it)",
    "to_ndarray": 'its .to_ndarray(format="rgb24")',
}
# Numbers of few bits, of the package ml_dtypes; NumPy computes with none of them.
_SMALL_FLOATS = ("bfloat16", "float8_", "float6_", "float4_")
_SMALL_INTEGERS = ("int4", "uint4", "int2", "uint2")


def is_array(values: Any) -> bool:
    """Tell whether an object gives an array to NumPy: no list, no text, no bytes."""
    if isinstance(values, np.ndarray) or has(values, _ON_GPU):
        return True
    if isinstance(values, (str, bytes, bytearray, list, tuple)):
        return False
    if any(has(values, protocol) for protocol in _PROTOCOLS):
        return True
    try:
        return memoryview(values).ndim > 1
    except (TypeError, ValueError):
        return False


def has(values: Any, attribute: str) -> bool:
    """Tell whether an object has an attribute; whatever its own code raises means no."""
    try:
        return hasattr(values, attribute)
    except Exception:
        return False


def as_array(name: str, values: Any, most: int = _MAX_VALUES) -> NDArray[Any]:
    """Return what other libraries hold as a NumPy array of the same numbers.

    Raises
    ------
    InvalidArgumentError
        The library does not give its values to NumPy, or others than it holds; there are more than
        `most`, some are masked, or they have a unit that means something.
    """
    try:
        array = _read(name, values)
    except (MemoryError, InvalidArgumentError):
        raise
    except Exception as error:  # of the other library, or of an object that only looks so
        raise InvalidArgumentError(
            f"{name}: expected an array that NumPy can read, found {type(values).__name__}: {error}"
        ) from error
    if array.size > most:  # of one value that is repeated, such an array takes no memory
        raise InvalidArgumentError(
            f"{name}: expected at most {most} values, found shape {array.shape}"
        )
    if array.dtype == object and array.size <= _MAX_OBJECTS:
        return _of_objects(array)
    if array.dtype.name.startswith(_SMALL_FLOATS):
        return array.astype(np.float32)
    return array.astype(np.int8) if array.dtype.name in _SMALL_INTEGERS else array


def described(array: NDArray[Any]) -> str:
    """Return the dtype of an array that is not taken, and a way out where there is one."""
    if array.dtype != object:
        return f"dtype {array.dtype}"
    kinds = sorted({type(entry).__name__ for entry in array.ravel()[:1000]})
    return (
        f"dtype object, of {', '.join(kinds[:4])}: give .astype(float) where all are numbers, "
        ".tolist() of nested columns"
    )


def unwrapped(value: Any) -> Any:
    """Return a cell of an Arrow table as the Python value that it holds; all else as it is."""
    return value.as_py() if has(value, "as_py") else value


def refuse_other_library(name: str, values: Any) -> None:
    """Refuse what gives its values by a method of its own, with words that tell it."""
    for method, way_out in _WAYS_OUT.items():
        if not isinstance(values, np.ndarray) and has(type(values), method):
            found = f"{type(values).__name__} of {type(values).__module__.partition('.')[0]}"
            raise InvalidArgumentError(f"{name}: expected an array, found {found}: give {way_out}")


def _read(name: str, values: Any) -> NDArray[Any]:
    if type(values) is np.ndarray:
        return values
    refuse_other_library(name, values)
    values = _on_host(_without_unit(name, _without_mask(name, unwrapped(values))))
    if isinstance(values, (list, tuple)):
        return np.asarray(_plain(name, values))
    only_dlpack = has(values, "__dlpack__") and not any(
        has(values, protocol) for protocol in _PROTOCOLS[:3]
    )
    array = np.from_dlpack(values) if only_dlpack else np.asarray(values)
    return _as_declared(name, values, array)


def _plain(name: str, values: Any) -> Any:
    """Return nested lists in which other libraries' numbers are NumPy's."""
    if isinstance(values, (list, tuple)):
        return [_plain(name, value) for value in values]
    foreign = type(values).__module__ not in ("builtins", "numpy")
    return _read(name, values) if foreign and (is_array(values) or has(values, "as_py")) else values


def _without_mask(name: str, values: Any) -> Any:
    """Take off a mask that hides nothing: NumPy's or astropy's."""
    is_numpy = isinstance(values, np.ma.MaskedArray)
    if not is_numpy and not (isinstance(values, np.ndarray) and has(values, "unmasked")):
        return values
    if np.any(values.mask):
        raise InvalidArgumentError(
            f"{name}: expected values that are all there, found a masked array: .filled(value) "
            "says what is there"
        )
    return values.data if is_numpy else values.unmasked


def _without_unit(name: str, values: Any) -> Any:
    """Take off a unit that only says what is counted: of astropy, pint or unyt."""
    unit = next((key for key in ("unit", "units") if has(values, key)), None)
    number = next((key for key in ("value", "magnitude") if has(values, key)), None)
    if unit is None or number is None:
        return values
    found = str(getattr(values, unit))
    if found not in _UNITS:
        raise InvalidArgumentError(
            f"{name}: expected numbers without a unit, found {found!r}: give .{number}, where "
            "it is what is expected"
        )
    return getattr(values, number)


def _on_host(values: Any) -> Any:
    """Bring a tensor into memory, without its gradients."""
    if has(values, "detach"):  # PyTorch, Paddle
        values = values.detach().cpu()
        return values.float() if str(values.dtype) == "torch.bfloat16" else values
    if has(values, _ON_GPU):
        method = next((each for each in _FROM_GPU if has(values, each)), None)
        return values if method is None else getattr(values, method)()
    return values


def _as_declared(name: str, values: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers that a library means where it gives NumPy the bits of them."""
    declared = str(getattr(values, "dtype", "")).rpartition(".")[2]
    if "float" not in declared.lower() or array.dtype.kind not in "iu":
        return array
    if declared == "bfloat16" and array.dtype.itemsize == 2:  # Paddle
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    raise InvalidArgumentError(
        f"{name}: expected numbers, found {declared} that NumPy gets as {array.dtype}: give it as "
        "float32"
    )


def _of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are numbers, or arrays of one shape, as an array of numbers."""
    entries = [unwrapped(entry) for entry in array.ravel()]
    if entries and all(isinstance(entry, (int, float, np.number, np.bool_)) for entry in entries):
        return np.array(entries).reshape(array.shape)
    if not entries or not all(isinstance(entry, (list, tuple, np.ndarray)) for entry in entries):
        return array
    parts = [as_array("entry", entry) for entry in entries]
    if len({part.shape for part in parts}) > 1 or any(
        part.dtype.kind not in "biuf" for part in parts
    ):
        return array
    return np.stack(parts).reshape(*array.shape, *parts[0].shape)
