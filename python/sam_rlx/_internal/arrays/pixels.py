"""Values of images: from any type and range to 8 bits."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.errors import InvalidArgumentError, MediaWarning

IMAGE = (
    "a uint8, uint16 or [0, 1] float image (H, W), (H, W, 1|3|4) or (1|3|4, H, W), or a PIL image"
)
WAY_OUT = "io.read_image(file, stretch=True) maps the values that are used to 0 to 255"
_USED_SHARE = 0.1  # an image that uses less of the range is nearly black or flat
_MAX_UINT16 = 65535
# How far a float may lie beyond [0, 1]: a quarter of a step of 8 bits, which changes no pixel.
_ROUNDING = 1e-3
_MAX_VALUES = 1 << 32  # those of the largest image


def as_array(name: str, values: Any, most: int = _MAX_VALUES) -> NDArray[Any]:
    """Return what other libraries hold as a NumPy array: also tensors with gradients, or bfloat16.

    Raises
    ------
    InvalidArgumentError
        The library does not give its values to NumPy, there are more than `most`, or some are
        masked.
    """
    if isinstance(values, np.ndarray):
        array = values
    else:
        try:
            if hasattr(values, "detach"):  # a tensor of PyTorch
                values = values.detach().cpu()
                if str(values.dtype) == "torch.bfloat16":
                    values = values.float()
            array = np.asarray(values)
        except MemoryError:
            raise
        except Exception as error:  # of the other library, or of an object that only looks so
            raise InvalidArgumentError(
                f"{name}: expected an array that NumPy can read, found {type(values).__name__}: "
                f"{error}"
            ) from error
    if array.size > most:  # of one value that is repeated, such an array takes no memory
        raise InvalidArgumentError(
            f"{name}: expected at most {most} values, found shape {array.shape}"
        )
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise InvalidArgumentError(
                f"{name}: expected values that are all there, found a masked array"
            )
        array = array.data
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def from_pil(image: Any) -> NDArray[Any]:
    """Read a PIL image; modes of more than 8 bits keep their values, others become 8-bit RGB."""
    if image.mode.startswith("I") or image.mode == "F":
        return np.asarray(image)
    # Pillow undoes a multiplied alpha in one step only, and warns of a palette with many alphas.
    between = {"La": "LA"}.get(image.mode)
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        between = "RGBA"
    try:
        return np.asarray((image.convert(between) if between else image).convert("RGB"))
    except ValueError as error:
        way_out = "; PIL.ImageCms converts it" if image.mode == "LAB" else ""
        raise InvalidArgumentError(
            f"image: expected a PIL image that can become RGB, found mode {image.mode!r}{way_out}"
        ) from error


def to_uint8(
    image: NDArray[Any], stretch: Any = False, way_out: str = WAY_OUT
) -> NDArray[np.uint8]:
    """Bring values to 0 to 255.

    Parameters
    ----------
    image : ndarray
        uint8, which stays; uint16 (divided by 257); float in [0, 1] (times 255), or beyond it by
        rounding, up to 0.001. With `stretch` any numbers.
    stretch : bool or (low, high)
        True: the lowest and highest finite value become 0 and 255. A pair: these do, and what is
        beyond is clipped. NaN becomes 0.
    way_out : str
        What messages advise for values of another range.

    Raises
    ------
    InvalidArgumentError
        The type or range is another one.

    Warns
    -----
    MediaWarning
        Less than a tenth of the range of uint16 or of [0, 1] is used.
    """
    if stretch is not False:
        return _stretched(image, stretch)
    if image.dtype == np.uint8:
        pixels: NDArray[np.uint8] = image
        return pixels
    if image.dtype.kind == "u" and image.dtype.itemsize == 2:
        _warn_of_small_range(image, _MAX_UINT16, image.dtype.name, way_out)
        return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if image.dtype.kind != "f":
        found = f"dtype {image.dtype}"
        if image.dtype.kind in "iu":
            found = f"{found} with values {image.min()} to {image.max()}; {way_out}"
        raise InvalidArgumentError(f"image: expected {IMAGE}, found {found}")
    low, high = image.min(), image.max()
    if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING):
        raise InvalidArgumentError(
            f"image: expected float values in [0, 1], found {_range(image)}; {way_out}"
        )
    _warn_of_small_range(image, 1.0, "float", way_out)
    scaled: NDArray[np.float32] = image.astype(np.float32) * np.float32(255.0)
    whole: NDArray[np.float32] = np.rint(scaled)
    return whole.clip(0.0, 255.0).astype(np.uint8)


def from_mode_i(image: NDArray[Any], way_out: str = WAY_OUT) -> NDArray[Any]:
    """Return values of PIL's 32-bit mode as uint16, which is what most such files hold."""
    if image.size and (image.min() < 0 or image.max() > _MAX_UINT16):
        raise InvalidArgumentError(
            f"image: expected values 0 to {_MAX_UINT16} in a PIL image of mode 'I', found "
            f"{image.min()} to {image.max()}; {way_out}"
        )
    return image.astype(np.uint16)


def _text(value: Any) -> str:
    """Return a number, with as many digits as it takes to tell it from its neighbours."""
    short = f"{float(value):g}"
    return short if float(short) == float(value) or not math.isfinite(value) else str(value)


def _range(image: NDArray[Any]) -> str:
    """Say which values a float image has."""
    finite = image[np.isfinite(image)]
    lost = image.size - finite.size
    if not finite.size:
        return f"only NaN or infinity ({lost} values)"
    text = f"{_text(finite.min())} to {_text(finite.max())}"
    return f"{lost} of {image.size} values that are NaN or infinity beside {text}" if lost else text


def _warn_of_small_range(image: NDArray[Any], full: float, kind: str, way_out: str) -> None:
    low, high = image.min(), image.max()
    if 0.0 < float(high) - float(low) < _USED_SHARE * full:
        warnings.warn(
            f"image: {kind} values are read as 0 to {_text(full)}, and those of this image, "
            f"{_text(low)} to {_text(high)}, are less than a tenth of it; {way_out}",
            MediaWarning,
            stacklevel=5,
        )


def _stretched(image: NDArray[Any], stretch: Any) -> NDArray[np.uint8]:
    if image.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"image: expected numbers, found dtype {image.dtype}")
    values = image.astype(np.float64)
    if stretch is True:
        finite = values[np.isfinite(values)]
        if not finite.size:
            raise InvalidArgumentError(f"image: expected numbers, found {_range(values)}")
        low, high = float(finite.min()), float(finite.max())
        high = high if high > low else math.nextafter(low, math.inf)
    else:
        low, high = _limits(stretch)
    with np.errstate(invalid="ignore"):
        shares = np.clip((values - low) / (high - low), 0.0, 1.0)
    return np.rint(255.0 * np.nan_to_num(shares, nan=0.0)).astype(np.uint8)


def _limits(stretch: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in stretch)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"stretch: expected True, False or (low, high), found {stretch!r}"
        ) from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgumentError(f"stretch: expected low < high, found {stretch!r}")
    return low, high
