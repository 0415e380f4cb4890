"""How the values of an image file are stored, where Pillow shows others: told before it decodes.

Pillow spreads values of few bits over 0 to 255, those of 12 bits over 0 to 65535, turns some files
round in which 0 is white, and has no mode for integers of 8 bits with a sign or 32 bits without.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx.errors import InvalidArgumentError

# Tags of TIFF.
_BITS, _PHOTOMETRIC, _DESCRIPTION, _SAMPLES, _SOFTWARE = 258, 262, 270, 277, 305
_SAMPLE_FORMAT = 339  # 1: unsigned, 2: signed, 3: float
_NO_DATA = 42113  # of GDAL
# The code stream of JPEG 2000: its two first markers, and where the bits of a value are from there.
_CODE_STREAM = b"\xff\x4f\xff\x51"
_BITS_AT = 42
_HEADERS = 1 << 16  # bytes in which the code stream begins
# Raw modes of grey PNG files of few bits, and the most that they hold.
_PNG_MOST = {"L;1": 1, "L;2": 3, "L;4": 15}
_MODES_OF_8_BITS = ("L", "LA", "RGB", "RGBA", "RGBX", "CMYK")


class Storage(NamedTuple):
    """What a file holds of the page that is open.

    Attributes
    ----------
    most, full : int
        The largest value that the file can hold, and what Pillow makes of it.
    dtype : str
        What Pillow's values mean, bit by bit; "" if they are numbers as they are.
    is_turned : bool
        Whether Pillow has turned values round, since 0 is white.
    white_is_zero : bool
        Whether the file says that 0 is white.
    values_count : bool
        Whether the writer of the file is known to store labels as they are, though it says so.
    no_data : float, optional
        The value that says that nothing is known of a pixel (GDAL).
    lost_bits : bool
        Whether Pillow keeps the upper 8 of more bits.
    """

    most: int = 1
    full: int = 1
    dtype: str = ""
    is_turned: bool = False
    white_is_zero: bool = False
    values_count: bool = False
    no_data: float | None = None
    lost_bits: bool = False

    def values(self, image: Any) -> NDArray[Any]:
        """Return what the file holds of a grey PIL image, (H, W)."""
        values = np.asarray(image)
        if self.is_turned:
            values = ~values
        if self.most != self.full:
            wide = values.astype(np.uint64) * np.uint64(self.most) + np.uint64(self.full // 2)
            return (wide // np.uint64(self.full)).astype(np.uint16)
        return values.view(self.dtype) if self.dtype else values


def storage_of(image: Any) -> Storage:
    """Tell how the open page of a PIL image is stored, best before it is loaded.

    Raises
    ------
    InvalidArgumentError
        Pillow reads a part of what the file holds: planes and scales of FITS, channels of TIFF.
    """
    if image.format == "FITS":
        raise InvalidArgumentError(
            "image: expected a format that Pillow reads whole, found FITS (it passes over BZERO, "
            "BSCALE, planes and compression): give the array of "
            "astropy.io.fits.getdata(file)[::-1], scaled to 0 to 1"
        )
    tags = getattr(image, "tag_v2", None)
    if tags is not None and image.format == "TIFF":
        return _of_tiff(image, tags)
    tiles = getattr(image, "tile", None) or [(None, None, None, None)]
    codec, raw = tiles[0][0], tiles[0][3]
    if image.format == "PNG":
        clear = image.info.get("transparency")
        no_data = float(clear) if isinstance(clear, int) and image.mode != "P" else None
        most = _PNG_MOST.get(raw, 1) if image.mode == "L" else 1
        return Storage(most, 255 if most > 1 else 1, no_data=no_data, lost_bits=_is_16(image, raw))
    if image.format == "PPM" and isinstance(raw, tuple) and isinstance(raw[-1], int):
        full = 65535 if image.mode == "I" else 255
        if raw[-1] != full and image.mode in ("L", "I"):
            return Storage(raw[-1], full)
        return Storage(lost_bits=raw[-1] > full)
    if image.format == "JPEG2000" and getattr(image, "fp", None) is not None:
        return _of_jpeg_2000(image)
    two_bytes = codec == "SGI16" or (codec == "sgi_rle" and raw[-1] == 2)
    return Storage(lost_bits=two_bytes or _is_16(image, raw))


def _is_16(image: Any, raw: Any) -> bool:
    return image.mode in _MODES_OF_8_BITS and ";16" in str(raw)


def _of_tiff(image: Any, tags: Any) -> Storage:
    channels = tags.get(_SAMPLES, 1)
    photometric = tags.get(_PHOTOMETRIC)
    if channels > len(image.getbands()) and photometric in (0, 1):
        raise InvalidArgumentError(
            f"image: expected channels that Pillow reads, found {channels} of which it reads "
            f"{len(image.getbands())}: the package tifffile reads all; give one or three as array"
        )
    bits, form = _first(tags.get(_BITS, 1)), _first(tags.get(_SAMPLE_FORMAT, 1))
    white = photometric == 0
    few = image.mode == "L" and bits in (2, 4)
    most = (1 << bits) - 1 if few else 1
    dtype = {("L", 2, 8): "int8", ("I", 1, 32): "uint32"}.get((image.mode, form, bits), "")
    software, words = (str(tags.get(tag, "")) for tag in (_SOFTWARE, _DESCRIPTION))
    known = software.startswith("tifffile") or words.startswith(("ImageJ=", '{"shape"'))
    raw = image.tile[0][3] if getattr(image, "tile", None) else ""
    return Storage(
        most=most,
        full=255 if few else 1,
        dtype=dtype,
        is_turned=white and image.mode in ("1", "L"),
        white_is_zero=white,
        values_count=known,
        no_data=_number(tags.get(_NO_DATA)),
        lost_bits=_is_16(image, raw),
    )


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and value else value


def _number(text: Any) -> float | None:
    """Return GDAL's no-data value, which is a text."""
    try:
        return float(str(text).rstrip("\0 "))
    except ValueError:
        return None


def _of_jpeg_2000(image: Any) -> Storage:
    """Return how JPEG 2000 is stored: Pillow moves values up to 8 or 16 bits."""
    position = image.fp.tell()
    image.fp.seek(0)
    head = image.fp.read(_HEADERS)
    image.fp.seek(position)
    at = head.find(_CODE_STREAM) + _BITS_AT
    bits = (head[at] & 0x7F) + 1 if _BITS_AT <= at < len(head) else 8
    held = 16 if image.mode.startswith("I") else 8
    if image.mode in ("L", "I;16", "I") and bits < held:
        most = (1 << bits) - 1
        return Storage(most, most << (held - bits))
    return Storage(lost_bits=bits > held)
