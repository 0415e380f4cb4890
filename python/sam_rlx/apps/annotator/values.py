"""What people make: a project, its documents, their objects. Values that never change.

An image is a clip of one frame, 0. Whoever changes something makes a new value, which shares what
stays; `changes_between` tells what differs, part by part, and `History` keeps that.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.apps.annotator.limits import MAX_OBJECTS
from sam_rlx.apps.annotator.shelf import Shelf, Shelved
from sam_rlx.errors import InvalidArgumentError

Box: TypeAlias = tuple[float, float, float, float]
Color: TypeAlias = tuple[int, int, int]
How: TypeAlias = Literal["click", "text", "everything", "tracked", "hand", "checked", "file"]
State: TypeAlias = Literal["new", "begun", "done", "left out", "unreadable"]
Kind: TypeAlias = Literal["image", "clip"]

OBJECT = "object"  # the class that is there from the beginning

PROJECT = ""  # the key of changes that belong to no item
_SMALL = 128  # bytes of bits that are never deflated


class PackedMask:
    """A mask (H, W) as the bits of its box. Its value never changes.

    Parameters
    ----------
    hw : (int, int)
        Height and width of the whole grid.
    box : (int, int, int, int)
        (x0, y0, x1, y1), the end excluded; all 0 for an empty mask.
    bits : bytes
        As ``numpy.packbits`` gives them along the rows: y1 - y0 times (x1 - x0 + 7) // 8 bytes.
    """

    __slots__ = ("_hash", "_stored", "box", "hw")

    def __init__(self, hw: tuple[int, int], box: tuple[int, int, int, int], bits: bytes) -> None:
        self.hw = hw
        self.box = box
        self._stored: tuple[bytes | Shelved, bool] = bits, False  # whether they are deflated
        self._hash: int | None = None

    @property
    def bits(self) -> bytes:
        """The bits of the box."""
        data, is_deflated = self._stored
        found = data.read() if isinstance(data, Shelved) else data
        return zlib.decompress(found) if is_deflated else found

    @property
    def is_empty(self) -> bool:
        """Whether it has no box."""
        return self.box[0] == self.box[2]

    @property
    def nbytes(self) -> int:
        """The bytes that the bits take in memory."""
        data, _ = self._stored
        return 0 if isinstance(data, Shelved) else len(data)

    def fold(self) -> None:
        """Keep the bits deflated: nobody shows the mask. Each use inflates them."""
        data, is_deflated = self._stored
        if not is_deflated and isinstance(data, bytes) and len(data) > _SMALL:
            small = zlib.compress(data, 2)  # 3.7 times as fast as level 6, 1.27 times as large
            if len(small) < len(data):
                self._stored = small, True

    def shelve(self, shelf: Shelf) -> None:
        """Keep the bits, deflated, on a shelf; `OSError` where that has no room."""
        self.fold()
        data, is_deflated = self._stored
        if isinstance(data, bytes) and len(data) > _SMALL:
            self._stored = shelf.put(data), is_deflated

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PackedMask):
            return NotImplemented
        same = (self.hw, self.box) == (other.hw, other.box) and hash(self) == hash(other)
        return same and self.bits == other.bits

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.hw, self.box, self.bits))
        return self._hash

    def __repr__(self) -> str:
        return f"<mask {self.hw[1]} x {self.hw[0]}, box {self.box}>"

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> "PackedMask":
        """Pack a mask bool (H, W)."""
        return cls.placed(mask, (0, 0), (mask.shape[0], mask.shape[1]))

    @classmethod
    def placed(
        cls, part: NDArray[np.bool_], corner: tuple[int, int], hw: tuple[int, int]
    ) -> "PackedMask":
        """Pack a part bool (h, w) of a mask of size `hw`, whose first pixel is at (x, y)."""
        found = _core.mask_to_box(np.ascontiguousarray(part))
        (x0, y0), (x1, y1) = (found.x0, found.y0), (found.x1 + 1, found.y1 + 1)
        part = part[y0:y1, x0:x1]
        if not part[:1].any():  # an empty mask has the box of one pixel too
            return cls(hw, (0, 0, 0, 0), b"")
        x, y = corner
        return cls(hw, (x0 + x, y0 + y, x1 + x, y1 + y), np.packbits(part, axis=1).tobytes())

    def to_mask(self) -> NDArray[np.bool_]:
        """Return a new bool (H, W)."""
        mask = np.zeros(self.hw, np.bool_)
        x0, y0, x1, y1 = self.box
        mask[y0:y1, x0:x1] = self.part()
        return mask

    def part(self) -> NDArray[np.bool_]:
        """Return the pixels of the box: bool (y1 - y0, x1 - x0)."""
        if self.is_empty:
            return np.zeros((0, 0), np.bool_)
        width = self.box[2] - self.box[0]
        return np.unpackbits(self._rows(), axis=1, count=width).view(np.bool_)

    def _rows(self) -> NDArray[np.uint8]:
        """Return the bits of the box, which is not empty, a row of bytes each."""
        return np.frombuffer(self.bits, np.uint8).reshape(self.box[3] - self.box[1], -1)

    def without(self, others: Sequence["PackedMask"]) -> "PackedMask":
        """Return the pixels that none of the others, of the same grid, has."""
        left, top = self.box[:2]
        part = self.part()
        for one in (each.within(self.box) for each in others):
            x0, y0, x1, y1 = one.box
            if not one.is_empty:
                part[y0 - top : y1 - top, x0 - left : x1 - left] &= ~one.part()
        return PackedMask.placed(part, (left, top), self.hw)

    def run_lengths(self) -> NDArray[np.uint32]:
        """Return COCO's run lengths of the whole grid; only the box is looked at."""
        height, width = self.hw
        if self.is_empty:
            return np.array([height * width], np.uint32)
        x0, y0, x1, y1 = self.box
        counts = _core.rle_encode(np.ascontiguousarray(self.part()))
        return _core.mask_in_image(counts, (y1 - y0, x1 - x0), (y0, x0), 1, self.hw)

    def coarse(self, step: int) -> "PackedMask":
        """Return this on a grid of cells of `step` x `step` pixels: those with a pixel of it.

        A thin part stays, whichever pixels it has.
        """
        if step == 1:
            return self
        height, width = (-(-side // step) for side in self.hw)
        if self.is_empty:
            return PackedMask((height, width), (0, 0, 0, 0), b"")
        x0, y0, x1, y1 = self.box
        left, top = x0 // step, y0 // step
        right, bottom = -(-x1 // step), -(-y1 // step)
        room = ((y0 - top * step, bottom * step - y1), (x0 - left * step, right * step - x1))
        rows = np.pad(self._rows(), (room[0], (0, 0))).reshape(bottom - top, step, -1)
        packed = np.bitwise_or.reduce(rows, axis=1)
        pixels = np.pad(np.unpackbits(packed, axis=1, count=x1 - x0), ((0, 0), room[1]))
        cells = pixels.reshape(bottom - top, right - left, step)
        bits = np.packbits(cells.any(axis=2), axis=1).tobytes()
        return PackedMask((height, width), (left, top, right, bottom), bits)

    def within(self, box: tuple[int, int, int, int]) -> "PackedMask":
        """Return what lies in a box (x0, y0, x1, y1) of the grid."""
        x0, y0 = max(self.box[0], box[0]), max(self.box[1], box[1])
        x1, y1 = min(self.box[2], box[2]), min(self.box[3], box[3])
        if x0 >= x1 or y0 >= y1:
            return PackedMask(self.hw, (0, 0, 0, 0), b"")
        if (x0, y0, x1, y1) == self.box:
            return self
        part = self.part()[y0 - self.box[1] : y1 - self.box[1], x0 - self.box[0] : x1 - self.box[0]]
        return PackedMask(self.hw, (x0, y0, x1, y1), np.packbits(part, axis=1).tobytes())

    def head(self, number: int) -> dict[str, Any]:
        """Return what a message says of the mask; `bits` are its buffer."""
        height, width = self.hw
        return {"id": number, "size": [width, height], "box": list(self.box)}


@dataclass(frozen=True)
class Mask:
    """The mask of an object on a frame: its pixels, its score, and how it came about."""

    packed: PackedMask
    score: float
    how: How
    since: int = 0  # of a tracked one: the last version of `Object.asked` that it follows from

    def to_mask(self) -> NDArray[np.bool_]:
        """Return a new bool (H, W)."""
        return self.packed.to_mask()


@dataclass(frozen=True)
class Point:
    """A click at (x, y) in pixels: label 1 inside of the object, 0 outside of it."""

    number: int
    frame: int
    x: float
    y: float
    label: int


@dataclass(frozen=True)
class BoxPrompt:
    """A box (x0, y0, x1, y1) in pixels around the object."""

    number: int
    frame: int
    box: Box


@dataclass(frozen=True)
class Text:
    """What found the object; an example has the text "example"."""

    number: int
    frame: int
    text: str


@dataclass(frozen=True)
class Start:
    """A mask that the object began with, which later clicks correct."""

    number: int
    frame: int
    mask: PackedMask


@dataclass(frozen=True)
class Stroke:
    """What a person painted over the answers: pixels added, and pixels taken away.

    Attributes
    ----------
    kind : str
        The gesture: stroke, lasso, fill, smooth, split, merge.
    add, take : PackedMask
        Of the whole grid. They come on top of every answer, in the order of the prompts.
    """

    number: int
    frame: int
    kind: str
    add: PackedMask
    take: PackedMask

    def over(self, mask: NDArray[np.bool_]) -> None:
        """Paint on a mask (H, W), in place."""
        x0, y0, x1, y1 = self.take.box
        mask[y0:y1, x0:x1] &= ~self.take.part()
        x0, y0, x1, y1 = self.add.box
        mask[y0:y1, x0:x1] |= self.add.part()


@dataclass(frozen=True)
class Gone:
    """The object is out of sight: from this frame on it has no mask, until a later prompt."""

    number: int
    frame: int


Prompt: TypeAlias = Point | BoxPrompt | Text | Start | Stroke | Gone


def next_number(prompts: Iterable[Prompt]) -> int:
    """Return the number of the prompt that follows others."""
    return max((one.number for one in prompts), default=0) + 1


@dataclass(frozen=True)
class Object:
    """One object of an image or clip.

    Attributes
    ----------
    number : int
        From 1, never used again within its document.
    name, color
        As shown; `color` is RGB, 0 to 255.
    class_number : int
        Of the project's classes.
    note : str
        Of a person.
    locked : bool
        Whether prompts, strokes and tracking leave it alone.
    prompts : tuple of Point, BoxPrompt, Text, Start, Stroke, Gone
        In the order in which they came, each with a number and a frame.
    masks : mapping of int to Mask
        By frame; an image has the frame 0.
    candidates : tuple of Mask
        The answers to a single click, without strokes; `candidate` is the index of the chosen one.
    asked : tuple of (int, int)
        Of a track: frames whose prompts changed, each with the version of that change, from 1.
    """

    number: int
    name: str
    color: Color
    class_number: int = 1
    note: str = ""
    prompts: tuple[Prompt, ...] = ()
    masks: Mapping[int, Mask] = field(default_factory=dict, hash=False)
    candidates: tuple[Mask, ...] = ()
    candidate: int = 0
    locked: bool = False
    asked: tuple[tuple[int, int], ...] = ()

    @property
    def version(self) -> int:
        """The last version of `asked`."""
        return max((version for _, version in self.asked), default=0)

    def points_on(self, frame: int) -> list[Point]:
        """Return the clicks on a frame."""
        return [one for one in self.prompts if isinstance(one, Point) and one.frame == frame]

    def box_on(self, frame: int) -> Box | None:
        """Return the box of a frame: the last one."""
        boxes = [one for one in self.prompts if isinstance(one, BoxPrompt) and one.frame == frame]
        return boxes[-1].box if boxes else None

    def start_on(self, frame: int) -> PackedMask | None:
        """Return the mask that the object began with on a frame."""
        starts = [one for one in self.prompts if isinstance(one, Start) and one.frame == frame]
        return starts[-1].mask if starts else None

    def strokes_on(self, frame: int) -> list[Stroke]:
        """Return what was painted on a frame."""
        return [one for one in self.prompts if isinstance(one, Stroke) and one.frame == frame]

    @property
    def next_prompt(self) -> int:
        """The number of its next prompt."""
        return next_number(self.prompts)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Clicks (x, y) in pixels, on all frames."""
        return tuple((one.x, one.y) for one in self.prompts if isinstance(one, Point))

    @property
    def labels(self) -> tuple[int, ...]:
        """1 or 0 for each of `points`."""
        return tuple(one.label for one in self.prompts if isinstance(one, Point))

    @property
    def box(self) -> Box | None:
        """(x0, y0, x1, y1) in pixels: the last one."""
        boxes = [one.box for one in self.prompts if isinstance(one, BoxPrompt)]
        return boxes[-1] if boxes else None

    @property
    def text(self) -> str | None:
        """What found it."""
        return next((one.text for one in self.prompts if isinstance(one, Text)), None)

    @property
    def packed(self) -> PackedMask:
        """The mask of the first frame that has one, packed."""
        return self.masks[min(self.masks)].packed

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The mask of the first frame that has one: a new bool (H, W)."""
        return self.packed.to_mask()

    @property
    def score(self) -> float:
        """The score of `mask`."""
        return self.masks[min(self.masks)].score

    def __repr__(self) -> str:
        given = [f"{len(self.points)} points"] if self.points else []
        given += ["box"] if self.box else []
        given += [f"text {self.text!r}"] if self.text else []
        said = f"<{self.name!r}, number {self.number}: {', '.join(given) or 'a mask'}"
        if len(self.masks) != 1:
            return f"{said}; masks on {len(self.masks)} frames>"
        height, width = self.packed.hw
        return f"{said}; score {self.score:.3f}, mask {width} x {height}>"


@dataclass(frozen=True)
class Document:
    """The objects of one item, by number, and what everything mode found there.

    Attributes
    ----------
    objects : tuple of Object
        In the order of their numbers.
    found : tuple of Mask
        Masks of everything mode, from large to small, of which people pick.
    next_number : int
        Of the next object. It only grows.
    """

    objects: tuple[Object, ...] = ()
    found: tuple[Mask, ...] = ()
    next_number: int = 1

    def get(self, number: int | None) -> Object | None:
        """Return the object of a number."""
        return next((one for one in self.objects if one.number == number), None)

    def with_objects(self, *objects: Object) -> "Document":
        """Return this with objects added, or changed where their numbers are taken."""
        known = {one.number: one for one in (*self.objects, *objects)}
        if len(known) > MAX_OBJECTS:
            raise InvalidArgumentError(
                f"objects: expected at most {MAX_OBJECTS}, found {len(known)}"
            )
        ordered = tuple(known[number] for number in sorted(known))
        following = max([self.next_number, *(one.number + 1 for one in objects)])
        return replace(self, objects=ordered, next_number=following)

    def without(self, *numbers: int) -> "Document":
        """Return this without some objects."""
        return replace(self, objects=tuple(o for o in self.objects if o.number not in numbers))


@dataclass(frozen=True)
class ClassDef:
    """A class of objects.

    Attributes
    ----------
    number : int
        From 1.
    name, color
        As shown; no two classes have one name.
    digit : str
        The digit or letter that chooses it, "" for none.
    """

    number: int
    name: str
    color: Color
    digit: str = ""


@dataclass(frozen=True)
class Item:
    """An image or clip of a project.

    Attributes
    ----------
    key : str
        From its content: `identity.key_of`.
    path : str
        Relative to the project, with ``/``, NFC; a name where there is no file.
    kind : {"image", "clip"}
    hw : (int, int), optional
        Height and width; None before it was read.
    frames : int
        1 for an image.
    state : str
        new, begun, done, left out, unreadable; `reason` says why it cannot be read.
    stat : (int, int)
        Size in bytes and time of change in nanoseconds when the key was taken; 0, 0 for no file.
    """

    key: str
    path: str
    kind: Kind = "image"
    hw: tuple[int, int] | None = None
    frames: int = 1
    state: State = "new"
    reason: str = ""
    stat: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Project:
    """Classes, and items in their order."""

    classes: tuple[ClassDef, ...] = (ClassDef(1, OBJECT, (255, 64, 64), "1"),)
    items: tuple[Item, ...] = ()

    def class_of(self, one: Object) -> ClassDef:
        """Return the class of an object: the first one if its own is gone."""
        return self.class_numbered(one.class_number) or self.classes[0]

    def class_numbered(self, number: int) -> ClassDef | None:
        """Return the class of a number."""
        return next((one for one in self.classes if one.number == number), None)

    def class_named(self, name: str) -> ClassDef | None:
        """Return the class of a name."""
        return next((one for one in self.classes if one.name == name), None)

    def item(self, key: str) -> Item | None:
        """Return the item of a key."""
        return next((one for one in self.items if one.key == key), None)


def masks_of(part: object) -> list[PackedMask]:
    """Return the masks of an object, with those of its prompts and answers, or of another part."""
    if isinstance(part, Mask):
        return [part.packed]
    if isinstance(part, Object):
        starts = [one.mask for one in part.prompts if isinstance(one, Start)]
        strokes = [one for one in part.prompts if isinstance(one, Stroke)]
        painted = [mask for one in strokes for mask in (one.add, one.take)]
        shown = [one.packed for one in (*part.masks.values(), *part.candidates)]
        return [*shown, *starts, *painted]
    if isinstance(part, tuple):
        return [one.packed for one in part if isinstance(one, Mask)]
    return []


def fold_document(document: Document) -> None:
    """Keep the masks of a document deflated: nobody shows it."""
    for part in (*document.objects, document.found):
        for mask in masks_of(part):
            mask.fold()


# ------------------------------------------------------------------ what differs

Part: TypeAlias = Object | Mask | ClassDef | Item | tuple[Mask, ...] | tuple[str, ...]
PartKey: TypeAlias = int | str | tuple[int, int]
What: TypeAlias = Literal["object", "mask", "found", "class", "item", "order"]


@dataclass(frozen=True)
class Change:
    """One part before and after an edit; None where it is not there.

    Attributes
    ----------
    document : str
        The key of the item, or `PROJECT`.
    what : {"object", "mask", "found", "class", "item", "order"}
        An object here is without its masks, each of which is a part of its own.
    key : int, (int, int) or str
        The number of an object or class; number and frame of a mask; of an item its key.
    before, after
        The part.
    """

    document: str
    what: What
    key: PartKey
    before: Any
    after: Any

    @property
    def reversed(self) -> "Change":
        """The change back."""
        return replace(self, before=self.after, after=self.before)


def changes_between(key: str, before: Document, after: Document) -> list[Change]:
    """Return what differs between two documents of an item."""
    old = {one.number: one for one in before.objects}
    new = {one.number: one for one in after.objects}
    found: list[Change] = []
    for number in sorted(old.keys() | new.keys()):
        a, b = old.get(number), new.get(number)
        if a is not b:
            found += _object_changes(key, number, a, b)
    if before.found != after.found:
        found.append(Change(key, "found", "", before.found or None, after.found or None))
    return found


def _object_changes(
    key: str, number: int, before: Object | None, after: Object | None
) -> Iterator[Change]:
    a = None if before is None else replace(before, masks={})
    b = None if after is None else replace(after, masks={})
    if a != b:
        yield Change(key, "object", number, a, b)
    old = {} if before is None else before.masks
    new = {} if after is None else after.masks
    for frame in sorted(old.keys() | new.keys()):
        one, other = old.get(frame), new.get(frame)
        if one is not other and one != other:
            yield Change(key, "mask", (number, frame), one, other)


def project_changes(before: Project, after: Project) -> list[Change]:
    """Return what differs between two projects. The changes of an item belong to its document."""
    found: list[Change] = []
    for what, old, new in (
        ("class", _by_number(before.classes), _by_number(after.classes)),
        ("item", _by_key(before.items), _by_key(after.items)),
    ):
        for key in [*old, *(key for key in new if key not in old)]:
            a, b = old.get(key), new.get(key)
            if a != b:
                document = str(key) if what == "item" else PROJECT
                found.append(Change(document, what, key, a, b))  # type: ignore[arg-type]
    old_order, new_order = ([one.key for one in each.items] for each in (before, after))
    if old_order != new_order[: len(old_order)]:
        found.append(Change(PROJECT, "order", "", tuple(old_order), tuple(new_order)))
    return found


def _by_number(classes: Iterable[ClassDef]) -> dict[Any, Any]:
    return {one.number: one for one in classes}


def _by_key(items: Iterable[Item]) -> dict[Any, Any]:
    return {one.key: one for one in items}


def changed_document(document: Document, changes: Iterable[Change]) -> Document:
    """Return a document after changes of its own."""
    objects: dict[int, Object] = {one.number: one for one in document.objects}
    masks: dict[int, dict[int, Mask]] = {}
    found, following = document.found, document.next_number
    heads: dict[int, Object | None] = {}
    for change in changes:
        if change.what == "object":
            assert isinstance(change.key, int)
            heads[change.key] = change.after
            following = max(following, change.key + 1)
        elif change.what == "mask":
            assert isinstance(change.key, tuple)
            number, frame = change.key
            if number not in masks:
                masks[number] = dict(objects[number].masks) if number in objects else {}
            if change.after is None:
                masks[number].pop(frame, None)
            else:
                masks[number][frame] = change.after
        elif change.what == "found":
            found = change.after or ()
    for number, head in heads.items():
        if head is None:
            objects.pop(number, None)
        else:
            kept = objects[number].masks if number in objects else {}
            objects[number] = replace(head, masks=kept)
    for number, known in masks.items():
        if number in objects:
            objects[number] = replace(objects[number], masks=known)
    return Document(tuple(objects[number] for number in sorted(objects)), found, following)


def changed_project(project: Project, changes: Iterable[Change]) -> Project:
    """Return a project after changes of its classes and items; new ones come last."""
    changes = list(changes)
    classes, items = _by_number(project.classes), _by_key(project.items)
    for change in changes:
        known = {"class": classes, "item": items}.get(change.what)
        if known is None:
            continue
        if change.after is None:
            known.pop(change.key, None)
        else:
            known[change.key] = change.after
    order = next((one.after for one in changes if one.what == "order"), None) or ()
    named = [key for key in order if key in items]
    ordered = {key: items[key] for key in [*named, *(key for key in items if key not in order)]}
    return Project(
        tuple(sorted(classes.values(), key=lambda one: one.number)), tuple(ordered.values())
    )
