"""Values of images: from any type and range to 8 bits."""

import math
import warnings
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.foreign import described
from sam_rlx.errors import InvalidArgumentError, MediaWarning

# The range of values that becomes 0 to 255: as for `to_uint8`.
Stretch: TypeAlias = bool | Literal["channels"] | tuple[float, float]

IMAGE = (
    "a uint8, uint16 or [0, 1] float image (H, W), (H, W, 1|3|4) or (1|3|4, H, W), or a PIL image"
)
OF_FILES = (
    "stretch=True maps the values that are used to 0 to 255, stretch=(low, high) a known range"
)
_USED_SHARE = 0.1  # an image that uses less of the range is nearly black or flat
_MAX_UINT16 = 65535
# How far a float may lie beyond [0, 1]: a quarter of a step of 8 bits, which changes no pixel.
_ROUNDING = 1e-3
_BLOCK = 1 << 16  # values that are converted at once
_ROWS = 64  # of a PIL image that are copied at once
_SAMPLE = 1 << 16  # pixels of which the used range is told
_OUTLIERS = 10_000  # one value of so many at either end may be a hot pixel


def from_pil(image: Any) -> NDArray[Any]:
    """Read a PIL image; modes of more than 8 bits keep their values, others become 8-bit RGB."""
    if image.mode.startswith("I") or image.mode == "F":
        return np.asarray(image)
    # Pillow undoes a multiplied alpha in one step only, and warns of a palette with many alphas.
    between = {"La": "LA"}.get(image.mode)
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        between = "RGBA"
    image.load()  # which may turn it
    rgb = np.empty((image.height, image.width, 3), np.uint8)
    try:
        for top in range(0, image.height, _ROWS):
            rows = image.crop((0, top, image.width, min(top + _ROWS, image.height)))
            rows = rows.convert(between) if between else rows
            rgb[top : top + _ROWS] = np.asarray(rows if rows.mode == "RGB" else rows.convert("RGB"))
    except ValueError as error:
        way_out = "; PIL.ImageCms converts it" if image.mode == "LAB" else ""
        raise InvalidArgumentError(
            f"image: expected a PIL image that can become RGB, found mode {image.mode!r}{way_out}"
        ) from error
    return rgb


def to_uint8(
    image: NDArray[Any],
    stretch: Stretch = False,
    *,
    way_out: str = "",
    no_data: float | None = None,
) -> NDArray[np.uint8]:
    """Bring values to 0 to 255.

    Parameters
    ----------
    image : ndarray (H, W, C)
        uint8, which stays; uint16 (divided by 257); float in [0, 1] (times 255), or beyond it by
        rounding, up to 0.001. With `stretch` any numbers.
    stretch : bool, "channels" or (low, high)
        True: the lowest and highest finite value become 0 and 255; ``"channels"``: those of each
        channel. A pair: these do, and what is beyond is clipped. NaN becomes 0.
    way_out : str
        What messages advise for values of another range. "": a line of NumPy.
    no_data : float, optional
        What says that nothing is known of a pixel: it takes no part in ranges, and becomes 0 where
        `stretch` is given or values are floats.

    Raises
    ------
    InvalidArgumentError
        The type or range is another one.

    Warns
    -----
    MediaWarning
        Less than a tenth of the range of uint16 or of [0, 1] is used.
    """
    absent = None if no_data is None else _absent(image, no_data)
    if isinstance(stretch, str) and stretch == "channels":
        channels = np.split(image, image.shape[2], axis=2)
        return np.concatenate([_stretched(each, True, absent) for each in channels], axis=2)
    if stretch is not False:
        return _stretched(image, stretch, absent)
    if image.dtype == np.uint8:
        pixels: NDArray[np.uint8] = image
        return pixels
    known = image if absent is None else image[~absent]
    if image.dtype.kind == "u" and image.dtype.itemsize == 2:
        _warn_of_small_range(image, absent, _MAX_UINT16, way_out)
        return _of_uint16(image)
    if image.dtype.kind != "f":
        found = described(image)
        if image.dtype.kind in "iu":
            found += f" with values {image.min()} to {image.max()}; {way_out or _by_numpy(known)}"
        raise InvalidArgumentError(f"image: expected {IMAGE}, found {found}")
    pixels, low, high = _of_floats(image, absent)
    if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING):
        raise InvalidArgumentError(
            f"image: expected float values in [0, 1], found {_range(known)}; "
            f"{way_out or _by_numpy(known)}"
        )
    _warn_of_small_range(image, absent, 1.0, way_out)
    return pixels


def _blocks(image: NDArray[Any]) -> Iterator[slice]:
    """Return the blocks of rows of an image, so small that temporary arrays stay in caches."""
    rows = max(1, _BLOCK // image[0].size)
    return (slice(top, top + rows) for top in range(0, len(image), rows))


def _of_uint16(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the nearest of v / 257, without a division and in 16 bits: exact for all values."""
    pixels = np.empty(image.shape, np.uint8)
    for rows in _blocks(image):
        values = image[rows]
        quotients = values >> np.uint16(1)
        quotients += np.uint16(64)
        quotients >>= np.uint16(7)
        np.subtract(values, quotients, out=quotients)
        quotients += np.uint16(128)
        quotients >>= np.uint16(8)
        pixels[rows] = quotients
    return pixels


def _of_floats(
    image: NDArray[Any], absent: NDArray[np.bool_] | None
) -> tuple[NDArray[np.uint8], float, float]:
    """Return what floats in [0, 1] become, and the lowest and highest of them, NaN if one is."""
    pixels = np.empty(image.shape, np.uint8)
    low, high = 0.0, 0.0
    blocks = list(_blocks(image))
    scaled = np.empty((blocks[0].stop, *image.shape[1:]), np.float32)
    for rows in blocks:
        part = image[rows]
        if absent is not None:
            part = np.where(absent[rows][:, :, np.newaxis], 0.0, part)
        low, high = np.minimum(low, part.min()), np.maximum(high, part.max())
        with np.errstate(invalid="ignore", over="ignore"):  # beyond the range, which is refused
            part = part.astype(np.float32, copy=False)
            values = np.multiply(part, np.float32(255.0), out=scaled[: len(part)])
            pixels[rows] = np.rint(values, out=values)
    return pixels, float(low), float(high)


def _absent(image: NDArray[Any], no_data: float) -> NDArray[np.bool_]:
    """Return the pixels (H, W) of which no channel is known."""
    found = np.isnan(image) if math.isnan(no_data) else np.equal(image, no_data)
    return np.asarray(np.all(found, axis=2))


def _by_numpy(image: NDArray[Any]) -> str:
    """Return the line that brings values to a range that is taken."""
    if not np.isfinite(image).all():
        return "numpy.nan_to_num(image) puts numbers there"
    low, high = image.min(), image.max()
    if image.dtype.kind in "iu" and low >= 0 and high <= 255:
        return "image.astype(numpy.uint8) if these are 8 bits"
    return (
        f"numpy.interp(image, ({_text(low)}, {_text(high)}), (0, 1)) brings them to [0, 1], as any "
        "two limits do"
    )


def from_mode_i(image: NDArray[Any], way_out: str = "") -> NDArray[Any]:
    """Return values of PIL's 32-bit mode as uint16, which is what most such files hold."""
    if image.size and (image.min() < 0 or image.max() > _MAX_UINT16):
        raise InvalidArgumentError(
            f"image: expected values 0 to {_MAX_UINT16} in a PIL image of mode 'I', found "
            f"{image.min()} to {image.max()}; {way_out or _by_numpy(image)}"
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


def _warn_of_small_range(
    image: NDArray[Any], absent: NDArray[np.bool_] | None, full: float, way_out: str
) -> None:
    step = math.ceil(math.sqrt(image.shape[0] * image.shape[1] / _SAMPLE))
    sample = image[::step, ::step]
    sample = sample.ravel() if absent is None else sample[~absent[::step, ::step]].ravel()
    if not sample.size or sample.min() == sample.max():
        return
    low, high, most = sample.min(), sample.max(), "those of this image"
    if float(high) - float(low) >= _USED_SHARE * full:
        outliers = sample.size // _OUTLIERS or int(sample.size >= _OUTLIERS // 10)
        ends = (outliers, sample.size - 1 - outliers)
        (low, high), most = np.partition(sample, ends)[list(ends)], "nearly all of this image"
    if float(high) - float(low) < _USED_SHARE * full:
        kind = image.dtype.name if full > 1 else "float"
        warnings.warn(
            f"image: {kind} values are read as 0 to {_text(full)}, and {most}, {_text(low)} to "
            f"{_text(high)}, are less than a tenth of it; "
            f"{way_out or _by_numpy(np.array([low, high]))}",
            MediaWarning,
            stacklevel=6,
        )


def _stretched(
    image: NDArray[Any], stretch: Any, absent: NDArray[np.bool_] | None
) -> NDArray[np.uint8]:
    if image.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"image: expected numbers, found {described(image)}")
    low, high = _extremes(image, absent) if stretch is True else _limits(stretch)
    pixels = np.empty(image.shape, np.uint8)
    for rows in _blocks(image):
        values = image[rows].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            shares = np.clip((values - low) / (high - low), 0.0, 1.0)
        shares = np.nan_to_num(shares, copy=False, nan=0.0)
        if absent is not None:
            shares[absent[rows]] = 0.0
        pixels[rows] = np.rint(255.0 * shares)
    return pixels


def _extremes(image: NDArray[Any], absent: NDArray[np.bool_] | None) -> tuple[float, float]:
    """Return the lowest and the highest finite value."""
    low, high = math.inf, -math.inf
    for rows in _blocks(image):
        values = image[rows] if absent is None else image[rows][~absent[rows]]
        values = values.astype(np.float64)
        finite = values[np.isfinite(values)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    if low > high:
        raise InvalidArgumentError(f"image: expected numbers, found {_range(image)}")
    return low, high if high > low else math.nextafter(low, math.inf)


def _limits(stretch: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in stretch)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"stretch: expected True, False, 'channels' or (low, high), found {stretch!r}"
        ) from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgumentError(f"stretch: expected low < high, found {stretch!r}")
    return low, high
