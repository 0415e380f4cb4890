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

from sam_rlx._internal.media.image_files import pillow

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
class Run:
    """Letters that follow each other, and a font that can show them."""

    text: str
    font: Any


@dataclass(frozen=True)
class Caption:
    """Text as it can be drawn: runs from left to right."""

    runs: tuple[Run, ...]

    @property
    def text(self) -> str:
        """All that is written."""
        return "".join(run.text for run in self.runs)


def fitted(words: str, size: int, fonts: Iterable[Path] | None = None) -> Caption:
    r"""Return words as they can be drawn, with a font for each script.

    Marks of Latin letters go where ASCII is left then. Other letters need a font of this machine;
    those that no font has become ``\xdf``, ``\u72d7`` or ``\U0001f415``.

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
        return Caption((Run(escaped(simple, ""), own),))
    chosen = _choose(frozenset(c for c in words if not c.isascii()), fonts)
    runs: list[tuple[str, Path | None]] = []
    for letter in words:
        path = chosen.get(letter)
        if runs and unicodedata.combining(letter):
            path = runs[-1][1]
        if runs and runs[-1][1] == path:
            runs[-1] = (runs[-1][0] + letter, path)
        elif len(runs) > 1 and runs[-1][0].isspace() and runs[-2][1] == path:
            # A space between words of one script belongs to them: their order may be another one.
            runs[-2:] = [(runs[-2][0] + runs[-1][0] + letter, path)]
        else:
            runs.append((letter, path))
    return Caption(
        tuple(
            Run(escaped(text, chosen), own if path is None else _load(path, size))
            for text, path in runs
        )
    )


def _choose(letters: frozenset[str], fonts: Iterable[Path] | None) -> dict[str, Path]:
    """Return a font for each letter that one has: of few fonts, those with many of them first."""
    has: dict[Path, frozenset[str]] = {}
    for path in installed() if fonts is None else fonts:
        has[path] = _shown(path, letters)
        if has[path] == letters:
            break
    chosen: dict[str, Path] = {}
    left = letters
    while left and has:
        best = max(has, key=lambda path: len(has[path] & left))
        found = has.pop(best) & left
        if not found:
            break
        chosen |= dict.fromkeys(found, best)
        left -= found
    return chosen


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
