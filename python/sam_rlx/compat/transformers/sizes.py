"""Sizes as transformers' settings name them, and what an image becomes by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentAttributeError
from sam_rlx.errors import InvalidArgumentError

Hw = tuple[int, int]

_TOGETHER = (
    {"height", "width"},
    {"shortest_edge"},
    {"shortest_edge", "longest_edge"},
    {"longest_edge"},
    {"max_height", "max_width"},
    {"min_pixels", "max_pixels"},
)


@dataclass(eq=False)
class SizeDict:
    """A size by the names of its sides, which are keys and attributes; those not given are None.

    Attributes
    ----------
    height, width, longest_edge, shortest_edge, max_height, max_width, min_pixels, max_pixels
        Pixels, int or None.
    """

    height: int | None = None
    width: int | None = None
    longest_edge: int | None = None
    shortest_edge: int | None = None
    max_height: int | None = None
    max_width: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None

    def __getitem__(self, key: str) -> int | None:
        if key not in vars(self):
            raise KeyError(f"Key {key} not found in SizeDict.")
        side: int | None = vars(self)[key]
        return side

    def __setitem__(self, key: str, value: int | None) -> None:
        if key not in vars(self):
            raise KeyError(f"Key {key} is not a valid field of SizeDict.")
        setattr(self, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a side, or `default` where it is not given."""
        return default if vars(self).get(key) is None else vars(self)[key]

    def __contains__(self, key: object) -> bool:
        return vars(self).get(key) is not None  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield names and numbers of the sides that are given: ``dict(size)``."""
        named = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ((name, side) for name, side in named if side is not None)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (dict, SizeDict)):
            return dict(self) == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


def as_size(value: Any, name: str, *, square: bool = True) -> SizeDict | None:
    """Return a size for a number, a pair (height, width) or a dictionary; None for None.

    Parameters
    ----------
    value : int, pair or dict
        As `SizeDict` or transformers' files have it.
    name : str
        Of the setting, for errors.
    square : bool
        Whether a number is both sides; else it is the shortest edge.
    """
    if value is None or isinstance(value, SizeDict):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"height": value, "width": value} if square else {"shortest_edge": value}
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    if isinstance(value, Mapping) or type(value).__name__ == "SizeDict":
        value = dict(value)
    if not isinstance(value, dict) or set(value) not in _TOGETHER:
        together = [sorted(names) for names in _TOGETHER]
        raise InvalidArgumentError(
            f"{name}: expected a number, (height, width) or a dict with one of the sets of keys "
            f"{together}, found {value!r}"
        )
    return SizeDict(**value)


def longest_edge_hw(hw: Hw, size: SizeDict) -> Hw:
    """Return the size of an image whose longer side becomes ``size.longest_edge``, as SAM does."""
    if not size.longest_edge:
        raise ArgumentAttributeError(
            f"size: expected the key 'longest_edge', found {dict(size)}; upstream raises "
            "AttributeError here"
        )
    scale = size.longest_edge * 1.0 / max(hw)
    return int(hw[0] * scale + 0.5), int(hw[1] * scale + 0.5)


def named_hw(hw: Hw, size: SizeDict) -> Hw:
    """Return the size of an image by the names of sides, as image processors but SAM's do."""
    height, width = hw
    if size.shortest_edge:
        return _shortest_edge_hw(hw, size.shortest_edge, size.longest_edge)
    if size.max_height and size.max_width:
        scale = min(size.max_height / height, size.max_width / width)
        return int(height * scale), int(width * scale)
    if size.height and size.width:
        return size.height, size.width
    raise InvalidArgumentError(
        "size: expected 'height' and 'width', 'max_height' and 'max_width' or 'shortest_edge', "
        f"found {dict(size)}"
    )


def _shortest_edge_hw(hw: Hw, edge: int, longest: int | None) -> Hw:
    """Return the size whose shorter side is `edge`, or less where the longer has a limit."""
    short, long = min(hw), max(hw)
    exact = None
    if longest and long / short * edge > longest:
        exact = longest * short / long
        edge = round(exact)
    if short == edge:
        return hw
    # With a limit the longer side follows from the shorter one before it was rounded.
    other = int((exact or edge) * long / short)
    return (other, edge) if hw[0] > hw[1] else (edge, other)


__dir__ = public_names(__name__)
