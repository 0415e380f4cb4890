"""What a file of another program says: objects by image, all of it checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.media.mask_files import read_labels
from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator.json_reader import read_json
from sam_rlx.apps.annotator.limits import MAX_FRAMES, MAX_OBJECTS, MAX_SIDE
from sam_rlx.apps.annotator.repair import lasso
from sam_rlx.apps.annotator.turned import cosine_and_sine, turned
from sam_rlx.apps.annotator.values import PackedMask
from sam_rlx.errors import InvalidArgumentError

MAX_BYTES = 1 << 30  # of one file
MAX_FILES = 1_000_000
_MAX_NAME = 200
_MAX_DEPTH = 100

Size: TypeAlias = tuple[int, int]
# Takes the name of an image, or its stem; returns its size (H, W), None for one that is not open.
SizeOf: TypeAlias = Callable[[str], "Size | None"]


@dataclass(frozen=True, eq=False)
class FoundObject:
    """An object of a file: its class, mask, and what else is said of it.

    `track` is the same for what is one object on several frames or in several parts.
    """

    category: str
    mask: PackedMask
    track: str = ""
    note: str = ""
    name: str = ""


@dataclass(eq=False)
class FoundStill:
    """An image of a file, or a frame of a clip, with its objects."""

    name: str
    objects: list[FoundObject] = field(default_factory=list)
    key: str = ""
    frame: int | None = None

    def add(self, where: str, one: FoundObject) -> None:
        """Add an object, up to the limit; the parts of one track are joined."""
        if one.track:
            for at, known in enumerate(self.objects):
                if known.track == one.track and known.category == one.category:
                    joined = known.mask.to_mask() | one.mask.to_mask()
                    self.objects[at] = replace(known, mask=PackedMask.of(joined))
                    return
        if len(self.objects) >= MAX_OBJECTS:
            raise InvalidArgumentError(f"{where}: expected at most {MAX_OBJECTS} objects")
        self.objects.append(one)


def text_of(path: Path) -> str:
    """Return the text of a file of UTF-8."""
    if path.stat().st_size > MAX_BYTES:
        raise InvalidArgumentError(f"{path.name}: expected at most {MAX_BYTES} bytes, found more")
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{path.name}: expected a text of UTF-8, found {error}"
        ) from None


def json_of(path: Path) -> Any:
    """Return what a file of JSON says."""
    try:
        return read_json(text_of(path))
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{path.name}: expected JSON, found {error}") from error


def xml_of(path: Path) -> ElementTree.Element:
    """Return the root of a file of XML, which declares no types and entities."""
    text = text_of(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidArgumentError(f"{path.name}: expected XML without declarations, found some")
    try:
        root = ElementTree.fromstring(text)  # no entities: see above
    except (ElementTree.ParseError, RecursionError, ValueError) as error:
        raise InvalidArgumentError(f"{path.name}: expected XML, found {error}") from error
    depth, level = 0, [root]
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise InvalidArgumentError(f"{path.name}: expected at most {_MAX_DEPTH} levels")
        level = [child for each in level for child in each]
    return root


def entry(where: str, value: Any) -> dict[str, Any]:
    """Return an object of JSON."""
    if not isinstance(value, dict):
        raise wrong(where, "an object of JSON", value)
    return value


def entries(where: str, value: Any) -> list[dict[str, Any]]:
    """Return a list of objects of JSON."""
    if not isinstance(value, list):
        raise wrong(where, "a list", value)
    return [entry(f"{where}[{at}]", one) for at, one in enumerate(value)]


def name_in(where: str, value: Any) -> str:
    """Return a name: a text of UTF-8 that is not empty and has no control characters."""
    right = isinstance(value, str) and value.strip() and len(value) <= _MAX_NAME
    if not right or any(ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in value):
        raise wrong(where, f"a name of at most {_MAX_NAME} letters", value)
    return str(value).strip()


def whole(where: str, value: Any, low: int = 0, high: int = MAX_FRAMES) -> int:
    """Return an integer, also of a text."""
    if isinstance(value, str) and value.strip().lstrip("-").isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise wrong(where, f"an integer from {low} to {high}", value)
    return value


def numbers(where: str, value: Any, count: int | None = None) -> list[float]:
    """Return finite numbers."""
    right = isinstance(value, (list, tuple)) and (count is None or len(value) == count)
    if not right or not all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and abs(one) < 1e9
        for one in value
    ):
        raise wrong(where, "numbers" if count is None else f"{count} numbers", value)
    return [float(one) for one in value]


def points(where: str, value: Any) -> list[tuple[float, float]]:
    """Return positions, [[x, y], ...]."""
    if not isinstance(value, list):
        raise wrong(where, "positions", value)
    found = [numbers(where, one, 2) for one in value]
    return [(one[0], one[1]) for one in found]


def size(where: str, height: Any, width: Any) -> Size:
    """Return (H, W)."""
    return whole(where, height, 1, MAX_SIDE), whole(where, width, 1, MAX_SIDE)


def is_here(where: str, name: str, hw: Size, size_of: SizeOf) -> bool:
    """Tell whether an image is open; `InvalidArgumentError` if that has another size.

    Nothing is made of the masks of others: a file may say any size.
    """
    known = size_of(name)
    if known is not None and known != hw:
        raise InvalidArgumentError(
            f"{where}: expected masks of {known[1]} x {known[0]} pixels, found {hw[1]} x {hw[0]}"
        )
    return known is not None


def size_of_clip(where: str, size_of: SizeOf) -> Size:
    """Return the size (H, W) of the clip whose frames a file has."""
    known = size_of("")
    if known is None:
        raise InvalidArgumentError(f"{where}: expected a clip for it, found images")
    return known


def wrong(where: str, expected: str, found: Any) -> InvalidArgumentError:
    """Return the error for a value that is something else."""
    return InvalidArgumentError(f"{where}: expected {expected}, found {shown(found)[:80]}")


def polygon_mask(hw: Size, rings: Sequence[Sequence[tuple[float, float]]]) -> PackedMask:
    """Return the mask of rings by the even-odd rule: pixels whose middle is inside."""
    mask = np.zeros(hw, np.bool_)
    for ring in rings:
        if len(ring) >= 3:
            mask ^= lasso(hw, ring)
    return PackedMask.of(mask)


def middles_mask(hw: Size, ring: Sequence[tuple[float, float]]) -> PackedMask:
    """Return the mask of a ring through the middles of its outermost pixels, counted from 0.

    Pixels whose middle is inside, and those that a side passes straight or at 45 degrees.
    """
    if not ring:
        return PackedMask(hw, (0, 0, 0, 0), b"")
    mask = lasso(hw, [(x + 0.5, y + 0.5) for x, y in ring])
    for (ax, ay), (bx, by) in zip(ring, [*ring[1:], ring[0]], strict=True):
        dx, dy = abs(bx - ax), abs(by - ay)
        if max(dx, dy) < 2 * MAX_SIDE and (dx == 0 or dy == 0 or dx == dy):
            count = int(max(dx, dy)) + 1
            x = np.rint(np.linspace(ax, bx, count)).astype(np.int64)
            y = np.rint(np.linspace(ay, by, count)).astype(np.int64)
            there = (x >= 0) & (x < hw[1]) & (y >= 0) & (y < hw[0])
            mask[y[there], x[there]] = True
    return PackedMask.of(mask)


def box_mask(hw: Size, x0: float, y0: float, x1: float, y1: float) -> PackedMask:
    """Return the mask of a box: pixels whose middle is inside."""
    return polygon_mask(hw, [[(x0, y0), (x1, y0), (x1, y1), (x0, y1)]])


def turned_box_mask(
    hw: Size,
    box: tuple[float, float, float, float],
    about: tuple[float, float],
    degrees: float,
) -> PackedMask:
    """Return the mask of a box (x0, y0, x1, y1) that is turned clockwise about a point."""
    if degrees % 360 == 0:
        return box_mask(hw, *box)
    (x0, y0, x1, y1), (x, y) = box, about
    offsets = [(a - x, b - y) for a, b in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
    return polygon_mask(hw, [turned(about, offsets, degrees)])


def ellipse_mask(
    hw: Size, middle: tuple[float, float], radii: tuple[float, float], degrees: float = 0.0
) -> PackedMask:
    """Return the mask of an ellipse, turned clockwise: pixels whose middle is inside."""
    mask = np.zeros(hw, np.bool_)
    if min(radii) <= 0:
        return PackedMask.of(mask)
    (x, y), reach = middle, max(radii)
    top, bottom = (int(np.clip(y + side, 0, hw[0])) for side in (-reach - 1, reach + 1))
    left, right = (int(np.clip(x + side, 0, hw[1])) for side in (-reach - 1, reach + 1))
    cos, sin = cosine_and_sine(degrees)
    dy, dx = np.ogrid[top:bottom, left:right]
    dy, dx = dy + 0.5 - y, dx + 0.5 - x
    along, across = (dx * cos + dy * sin) / radii[0], (dy * cos - dx * sin) / radii[1]
    mask[top:bottom, left:right] = along**2 + across**2 <= 1
    return PackedMask.of(mask)


def row_mask(where: str, hw: Size, counts: Sequence[int], box: Sequence[int]) -> PackedMask:
    """Return the mask of run lengths along the rows of a box (x, y, width, height)."""
    x, y, width, height = box
    if x + width > hw[1] or y + height > hw[0] or not width or not height:
        raise wrong(where, f"a box inside of {hw[1]} x {hw[0]}", list(box))
    rest = width * height - sum(counts)
    if rest < 0:
        raise wrong(where, f"runs of {width * height} pixels", sum(counts))
    padded = [*counts, rest] if len(counts) % 2 == 0 else [*counts, 0, rest]
    part = _core.rle_decode(np.array(padded, np.uint32), (width, height)).T
    mask = np.zeros(hw, np.bool_)
    mask[y : y + height, x : x + width] = part
    return PackedMask.of(mask)


def column_mask(where: str, value: Any, hw: Size | None = None) -> PackedMask:
    """Return the mask of COCO's run lengths, compressed or not."""
    found = entry(where, value)
    sides = found.get("size")
    if not isinstance(sides, list) or len(sides) != 2:
        raise wrong(f"{where}.size", "[H, W]", sides)
    own = size(f"{where}.size", sides[0], sides[1])
    if hw is not None and own != hw:
        raise wrong(f"{where}.size", f"{hw[0]} x {hw[1]}", sides)
    counts = found.get("counts")
    try:
        if isinstance(counts, str):
            codes = _core.rle_from_string(counts.encode("ascii"))
        else:
            listed = [whole(where, one, 0, own[0] * own[1]) for one in counts or ()]
            codes = np.array(listed, np.uint32)
        if int(codes.sum(dtype=np.uint64)) != own[0] * own[1]:
            raise wrong(f"{where}.counts", f"runs of {own[0] * own[1]} pixels", "others")
        return PackedMask.of(_core.rle_decode(codes, own))
    except (UnicodeEncodeError, TypeError) as error:
        raise wrong(f"{where}.counts", "run lengths", counts) from error


def labels_of(path: Path) -> NDArray[Any]:
    """Return the labels of an image file: (H, W)."""
    with path.open("rb") as file:
        labels: NDArray[Any] = read_labels(file)[0]
    return labels
