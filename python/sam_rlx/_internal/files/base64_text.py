"""One door for base64: contents of files as text, of tables and of requests."""

import base64
import binascii
import re
from typing import Any

from sam_rlx.errors import InvalidArgumentError

_PART = 1 << 22  # letters, a multiple of 4
_SHOWN = 50
_SPACES = " \t\r\n"
# How base64 of images begins: JPEG, PNG, GIF, WebP, BMP, TIFF, HEIF and AVIF, JPEG 2000.
_BEGINNINGS = (
    *("/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "Qk", "SUkq", "TU0AK", "AAAA", "/0//UQ"),
)
_LEAST = 64  # letters of a file; shorter texts are names
_START = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def is_base64(text: str) -> bool:
    """Tell whether a text is an image's file as base64, or a ``data:`` address, and not a path."""
    if text[:5].lower() == "data:":
        return True
    start = text[:_LEAST]
    return (
        len(start) == _LEAST
        and start.startswith(_BEGINNINGS)
        and _START.fullmatch(text[: 4 * _LEAST]) is not None
    )


def from_base64(name: str, text: Any) -> bytes:
    """Return the bytes of a file that is base64, as such or as a ``data:`` address.

    Line ends, as ``base64 FILE`` writes them, are passed over.

    Raises
    ------
    InvalidArgumentError
        It is something else; its text is not in the words.
    """
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{name}: expected an image as base64, found none")
    if text[:5].lower() == "data:":
        head, _, text = text.partition(",")
        if not head.lower().endswith(";base64"):
            raise InvalidArgumentError(
                f"{name}: expected base64 behind data:, found {head[:_SHOWN]!r}"
            )
    try:
        # In parts, between which other threads run.
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        if any(space in part for part in parts for space in _SPACES):
            text = "".join(text.split())
            parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        if any("=" in part for part in parts[:-1]):
            raise ValueError("more behind its end")
        return b"".join([base64.b64decode(part, validate=True) for part in parts])
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"{name}: expected base64, found {error}") from error
