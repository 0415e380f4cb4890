"""Images as transformers loads them: paths, addresses, base64."""

from __future__ import annotations

import base64
import io
import urllib.request
from pathlib import Path
from typing import Any

from sam_rlx._internal.media.image_files import pillow
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.errors import InvalidArgumentError


def load_image(image: Any, timeout: float | None = None) -> Any:
    """Load an image, upright and in RGB.

    Parameters
    ----------
    image : str or PIL image
        A path, an address that begins with ``http://`` or ``https://``, or base64, also behind
        ``data:image/png;base64,``.
    timeout : float, optional
        Seconds for each wait for an address. Default: no end.

    Returns
    -------
    PIL image

    Raises
    ------
    InvalidArgumentError
        A text is none of these.
    TypeError
        Neither a text nor a PIL image.
    OSError
        An address gives nothing, or a file is no image.
    """
    images = pillow("Image")
    if isinstance(image, str):
        image = images.open(_source(image, timeout)) if _is_known(image) else _decoded(image)
    elif not isinstance(image, images.Image):
        raise ArgumentTypeError(
            "image: expected a path, an address, base64 or a PIL image, found "
            f"{type(image).__name__}"
        )
    return pillow("ImageOps").exif_transpose(image).convert("RGB")


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _is_known(text: str) -> bool:
    try:
        return _is_address(text) or Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, or with a zero: base64, or nothing
        return False


def _source(text: str, timeout: float | None) -> Any:
    if not _is_address(text):
        return text
    with urllib.request.urlopen(text, timeout=timeout) as answer:
        return io.BytesIO(answer.read())


def _decoded(text: str) -> Any:
    data = text.split(",")[1] if text.startswith("data:image/") else text
    try:
        return pillow("Image").open(io.BytesIO(base64.decodebytes(data.encode())))
    except (ValueError, OSError) as error:
        raise InvalidArgumentError(
            f"image: expected a path, an address or base64, found {text[:60]!r}: {error}"
        ) from error


__dir__ = public_names(__name__)
