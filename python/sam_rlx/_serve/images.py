"""Images and masks as text of JSON."""

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._interactive.sources import encoded
from sam_rlx.errors import InvalidArgumentError


def image_bytes(name: str, text: Any) -> bytes:
    """Return the bytes of an image file that is base64, as such or as a ``data:`` address."""
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{name}: expected an image as base64, found none")
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        if not head.endswith(";base64"):
            raise InvalidArgumentError(f"{name}: expected base64 behind data:, found {head[:50]!r}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"{name}: expected base64, found {error}") from error


def png_text(mask: NDArray[np.bool_]) -> str:
    """Return a mask as the base64 of a PNG file with 0 and 255."""
    pixels = mask.astype(np.uint8) * np.uint8(255)
    return base64.b64encode(encoded(pixels, "PNG")).decode("ascii")
