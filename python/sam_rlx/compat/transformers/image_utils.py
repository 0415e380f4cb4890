"""Images from files, the web and base64 text."""

from __future__ import annotations

import base64
import binascii
import io
import urllib.request
from pathlib import Path
from typing import Any

from sam_rlx._internal.arrays.pil import is_pil
from sam_rlx._internal.packages import optional
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.errors import InvalidArgumentError

_WEB = ("http://", "https://")
_SECONDS = 60.0  # that a server may take where nothing is said


def load_image(image: Any, timeout: float | None = None) -> Any:
    """Return an upright RGB image.

    Parameters
    ----------
    image : str or PIL.Image.Image
        Name of a file, URL, base64 text (also with ``data:image/...;base64,`` before it), or an
        image.
    timeout : float, optional
        Seconds that a server may take. Default: 60.

    Returns
    -------
    PIL.Image.Image
        Mode RGB, turned as its EXIF tag says.

    Raises
    ------
    InvalidArgumentError
        The text is none of these. A `ValueError`.
    ArgumentTypeError
        Something else. A `TypeError`.
    """
    pillow = optional("load_image", "PIL.Image", "pillow")
    operations = optional("load_image", "PIL.ImageOps", "pillow")
    if isinstance(image, str):
        image = pillow.open(_source(image, timeout))
    elif not is_pil(image):
        raise ArgumentTypeError(
            "image: expected a file name, URL, base64 text or PIL image, found "
            f"{type(image).__name__}"
        )
    return operations.exif_transpose(image).convert("RGB")


def fetched(url: str, timeout: float | None = None) -> io.BytesIO:
    """Return what a server answers, as a file; an error of the connection is an `OSError`."""
    with urllib.request.urlopen(url, timeout=_SECONDS if timeout is None else timeout) as answer:
        return io.BytesIO(answer.read())


def is_url(text: str) -> bool:
    """Tell whether a text names something on a server."""
    return text.startswith(_WEB)


def _source(text: str, timeout: float | None) -> Any:
    if is_url(text):
        return fetched(text, timeout)
    if _is_file(text):
        return text
    encoded = text.partition(",")[2] if text.startswith("data:image/") else text
    pillow = optional("load_image", "PIL.Image", "pillow")
    try:
        file = io.BytesIO(base64.decodebytes(encoded.encode()))
        pillow.open(file).verify()
    except (binascii.Error, pillow.UnidentifiedImageError) as error:
        raise InvalidArgumentError(
            "image: expected a URL, the name of a file that is there or base64 text of an image, "
            f"found {text[:80]!r}: {error}"
        ) from error
    file.seek(0)
    return file


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than names are, or with a zero byte
        return False


__dir__ = public_names(__name__)
