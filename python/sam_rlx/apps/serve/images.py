"""Images of strangers, and images and masks as text of JSON."""

import base64
import binascii
import io as streams
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.media.image_files import open_image
from sam_rlx.apps.annotator.sources import encoded
from sam_rlx.errors import InvalidArgumentError

_PART = 1 << 22  # letters of base64, a multiple of 4


def image_bytes(name: str, text: Any) -> bytes:
    """Return the bytes of an image file that is base64, as such or as a ``data:`` address."""
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{name}: expected an image as base64, found none")
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        if not head.endswith(";base64"):
            raise InvalidArgumentError(f"{name}: expected base64 behind data:, found {head[:50]!r}")
    try:
        # In parts, between which other threads run.
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        if any("=" in part for part in parts[:-1]):
            raise ValueError("more behind its end")
        return b"".join([base64.b64decode(part, validate=True) for part in parts])
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"{name}: expected base64, found {error}") from error


def read_upright(contents: bytes, most_pixels: int, **options: Any) -> NDArray[np.uint8]:
    """Return an image file as `io.read_image` does, if it has no more pixels than `most_pixels`.

    The size is known before anything is unpacked.
    """
    with open_image(streams.BytesIO(contents)) as image:
        width, height = image.size
    if width * height > most_pixels:
        raise InvalidArgumentError(
            f"image: expected at most {most_pixels} pixels, found {width} x {height}"
        )
    return io.read_image(streams.BytesIO(contents), **options)


def png_text(mask: NDArray[np.bool_]) -> str:
    """Return a mask as the base64 of a PNG file with 0 and 255."""
    pixels = mask.astype(np.uint8) * np.uint8(255)
    return base64.b64encode(encoded(pixels, "PNG")).decode("ascii")
