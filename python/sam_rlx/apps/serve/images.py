"""Images of strangers, and images and masks as text of JSON."""

import base64
import io as streams
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.media.image_files import open_image
from sam_rlx.apps.annotator.sources import encoded
from sam_rlx.errors import InvalidArgumentError


def read_upright(contents: bytes, most_pixels: int, **options: Any) -> NDArray[np.uint8]:
    """Return an image file as `io.read_image` does, if it has no more pixels than `most_pixels`.

    The size is known before anything is unpacked.
    """
    check_size(contents, most_pixels)
    return io.read_image(streams.BytesIO(contents), **options)


def check_size(contents: bytes, most_pixels: int) -> None:
    """Refuse what is no image, or has more pixels; nothing is unpacked."""
    with open_image(streams.BytesIO(contents)) as image:
        width, height = image.size
    if width * height > most_pixels:
        raise InvalidArgumentError(
            f"image: expected at most {most_pixels} pixels, found {width} x {height}"
        )


def bounded(score: float) -> float:
    """Return a score as protocols have it, 0 to 1: predicted IoU may lie a little beside that."""
    return min(max(float(score), 0.0), 1.0)


def png_text(mask: NDArray[np.bool_]) -> str:
    """Return a mask as the base64 of a PNG file with 0 and 255."""
    pixels = mask.astype(np.uint8) * np.uint8(255)
    return base64.b64encode(encoded(pixels, "PNG")).decode("ascii")
