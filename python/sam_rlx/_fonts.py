"""Fonts for captions: Pillow's own for ASCII, one of the machine's for other scripts.

What no font can show is written as escaped code points, never as question marks.
"""

import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sam_rlx.io import pillow

_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "/System/Library/Fonts",
    "/Library/Fonts",
    "~/Library/Fonts",
    "C:/Windows/Fonts",
)
_SUFFIXES = (".ttf", ".otf", ".ttc")
# In names of fonts that are not the plain ones.
_STYLES = ("bold", "italic", "oblique", "mono", "light", "condensed", "thin", "black", "math")
_MAX_FONTS = 400
# No font has a glyph for this code point.
_NONE = "\uffff"


@dataclass(frozen=True)
class Caption:
    """Text that a font can show, and the font."""

    text: str
    font: Any


def fitted(words: str, size: int, fonts: Iterable[Path] | None = None) -> Caption:
    r"""Return words as they can be drawn.

    Marks of Latin letters go where ASCII is left then. Other letters need a font of this machine;
    those that it lacks become ``\xdf``, ``\u72d7`` or ``\U0001f415``.

    Parameters
    ----------
    words : str
        What a mask is called.
    size : int
        Height of the letters in pixels.
    fonts : iterable of paths, optional
        Files to choose from, in this order. Default: those in the usual folders.
    """
    simple = _without_marks(words)
    own = _own(size)
    if simple.isascii():
        return Caption(escaped(simple, ""), own)
    letters = frozenset(c for c in words if not c.isascii())
    best, shown = own, frozenset[str]()
    for path in installed() if fonts is None else fonts:
        found = _shown(path, letters)
        if len(found) > len(shown):
            best, shown = _load(path, size), found
        if shown == letters:
            break
    return Caption(escaped(words, shown), best)


def escaped(words: str, shown: Iterable[str]) -> str:
    """Return words with backslash escapes for all but printable ASCII and what is `shown`."""
    kept = frozenset(shown)
    return "".join(
        c
        if c in kept or (c.isascii() and c.isprintable())
        else c.encode("unicode_escape").decode("ascii")
        for c in words
    )


def _without_marks(words: str) -> str:
    decomposed = unicodedata.normalize("NFKD", words)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


@cache
def installed() -> tuple[Path, ...]:
    """Return the font files of the usual folders, plain ones first."""
    found: list[Path] = []
    for folder in _FOLDERS:
        for root, _, names in os.walk(Path(folder).expanduser()):
            found += [Path(root, name) for name in names if name.lower().endswith(_SUFFIXES)]

    def order(path: Path) -> tuple[bool, str, str]:
        name = path.name.lower()
        return any(style in name for style in _STYLES), name, str(path)

    return tuple(sorted(found, key=order)[:_MAX_FONTS])


@cache
def _shown(path: Path, letters: frozenset[str]) -> frozenset[str]:
    """Return the letters that a font has, and that Pillow can lay out."""
    try:
        font = _load(path, 16)
        missing = _drawn(font, _NONE)
        return frozenset(c for c in letters if _is_laid_out(c) and _drawn(font, c) != missing)
    except (OSError, ValueError):  # a damaged file, or a kind that FreeType cannot draw
        return frozenset()


def _drawn(font: Any, letter: str) -> tuple[Any, bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


@cache
def _own(size: int) -> Any:
    """Return Pillow's own font, which has ASCII alone."""
    return pillow("ImageFont").load_default(size)


def _load(path: Path, size: int) -> Any:
    return pillow("ImageFont").truetype(str(path), size)


def _is_laid_out(letter: str) -> bool:
    """Whether single glyphs from left to right are the script, or a library arranges them."""
    category = unicodedata.category(letter)
    if category[0] == "C":
        return False
    simple = unicodedata.bidirectional(letter) in ("L", "EN", "ON", "ES", "ET", "CS", "WS")
    return (simple and category[0] != "M") or bool(pillow("features").check("raqm"))
