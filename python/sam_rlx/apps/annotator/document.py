"""The objects of an image and their history: values that never change, so undo is exact."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.limits import MAX_OBJECTS, MAX_UNDO, MAX_UNDO_BYTES

Box: TypeAlias = tuple[float, float, float, float]
Color: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class PackedMask:
    """A mask (H, W) as the bits of its box.

    Attributes
    ----------
    hw : (int, int)
        Height and width of the whole grid.
    box : (int, int, int, int)
        (x0, y0, x1, y1), the end excluded; all 0 for an empty mask.
    bits : uint8 (y1 - y0, (x1 - x0 + 7) // 8)
        As ``numpy.packbits`` gives them along the rows.
    """

    hw: tuple[int, int]
    box: tuple[int, int, int, int]
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> "PackedMask":
        """Pack a mask bool (H, W)."""
        hw = (mask.shape[0], mask.shape[1])
        box = _core.mask_to_box(np.ascontiguousarray(mask))
        x0, y0, x1, y1 = box.x0, box.y0, box.x1, box.y1
        if not mask[y0, x0 : x1 + 1].any():  # an empty mask has the box 0, 0, 0, 0 too
            return cls(hw, (0, 0, 0, 0), np.zeros((0, 0), np.uint8))
        part = mask[y0 : y1 + 1, x0 : x1 + 1]
        return cls(hw, (x0, y0, x1 + 1, y1 + 1), np.packbits(part, axis=1))

    def to_mask(self) -> NDArray[np.bool_]:
        """Return a new bool (H, W)."""
        mask = np.zeros(self.hw, np.bool_)
        x0, y0, x1, y1 = self.box
        if self.bits.size:
            rows = np.unpackbits(self.bits, axis=1, count=x1 - x0)
            mask[y0:y1, x0:x1] = rows.view(np.bool_)
        return mask

    def every(self, step: int) -> "PackedMask":
        """Return each `step`-th pixel of each `step`-th row."""
        return self if step == 1 else PackedMask.of(self.to_mask()[::step, ::step])

    def head(self, number: int) -> dict[str, Any]:
        """Return what a message says of the mask; `bits` are its buffer."""
        height, width = self.hw
        return {"id": number, "size": [width, height], "box": list(self.box)}


@dataclass(frozen=True, eq=False)
class Segment:
    """One object of an image.

    Attributes
    ----------
    number : int
        Chosen once, from 1.
    name, color
        As shown.
    points, labels
        Clicks (x, y) in pixels, and 1 or 0 for each.
    box : tuple, optional
        (x0, y0, x1, y1) in pixels.
    start : PackedMask, optional
        The mask that it began with, which later clicks correct.
    text : str, optional
        What found it.
    candidates : tuple of PackedMask
        The answers to its prompts, at the size of the image.
    scores : tuple of float
        Predicted IoU of each; with a text the score of the finding.
    candidate : int
        The chosen one.
    """

    number: int
    name: str
    color: Color
    points: tuple[tuple[float, float], ...] = ()
    labels: tuple[int, ...] = ()
    box: Box | None = None
    start: PackedMask | None = None
    text: str | None = None
    candidates: tuple[PackedMask, ...] = ()
    scores: tuple[float, ...] = ()
    candidate: int = 0

    @property
    def packed(self) -> PackedMask:
        """The chosen mask, packed."""
        return self.candidates[self.candidate]

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The chosen mask: a new bool (H, W)."""
        return self.packed.to_mask()

    @property
    def score(self) -> float:
        """The score of the chosen mask."""
        return self.scores[self.candidate]

    def __repr__(self) -> str:
        height, width = self.packed.hw
        prompts = [f"{len(self.points)} points"] if self.points else []
        prompts += ["box"] if self.box else []
        prompts += [f"text {self.text!r}"] if self.text else []
        given = ", ".join(prompts) or "a mask"
        return f"<{self.name!r}: {given}; score {self.score:.3f}, mask {width} x {height}>"


@dataclass(frozen=True, eq=False)
class Document:
    """Objects, and the index of the one that prompts change; None: they begin a new one."""

    objects: tuple[Segment, ...] = ()
    current: int | None = None
    next_number: int = 1

    @property
    def selected(self) -> Segment | None:
        """The current object."""
        return None if self.current is None else self.objects[self.current]

    def added(self, *segments: Segment, current: bool = True) -> "Document":
        """Return this with objects behind the others."""
        objects = (*self.objects, *segments)
        fields.at_most("objects", len(objects), MAX_OBJECTS)
        number = max([self.next_number, *(one.number + 1 for one in segments)])
        return Document(objects, len(objects) - 1 if current else None, number)

    def changed(self, index: int, **values: Any) -> "Document":
        """Return this with one object changed."""
        objects = list(self.objects)
        objects[index] = replace(objects[index], **values)
        return replace(self, objects=tuple(objects))

    def without(self, index: int) -> "Document":
        """Return this without one object; none is current then if it was."""
        objects = self.objects[:index] + self.objects[index + 1 :]
        current = self.current
        if current is not None and current >= index:
            current = None if current == index else current - 1
        return replace(self, objects=objects, current=current)

    def select(self, index: int | None) -> "Document":
        """Return this with another current object."""
        return replace(self, current=index)


@dataclass
class History:
    """Documents, one behind the other. `base` is what "cancel" goes back to.

    The oldest ones are forgotten when they are too many, or the masks too large that they alone
    have.
    """

    document: Document = field(default_factory=Document)
    base: Document = field(default_factory=Document)
    _before: deque[Document] = field(default_factory=deque)
    _after: list[Document] = field(default_factory=list)
    _bytes: deque[int] = field(default_factory=deque)  # that each of `_before` alone has

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier document."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """Whether there is a document that was undone."""
        return bool(self._after)

    def put(self, document: Document) -> None:
        """Go on to a document; if its objects are other ones this can be undone."""
        if document.objects != self.document.objects:
            self._keep(self.document, document)
            self._after.clear()
        self.document = document

    def settle(self) -> None:
        """Make the current objects what "cancel" goes back to."""
        self.base = self.document

    def undo(self) -> None:
        """Go back by one, if there is one."""
        if self._before:
            self._after.append(self.document)
            self.document = self._before.pop()
            self._bytes.pop()

    def redo(self) -> None:
        """Take back the last `undo`, if there is one."""
        if self._after:
            document = self._after.pop()
            self._keep(self.document, document)
            self.document = document

    def _keep(self, before: Document, after: Document) -> None:
        shared = {mask for one in after.objects for mask in one.candidates}
        alone = {mask for one in before.objects for mask in one.candidates} - shared
        self._before.append(before)
        self._bytes.append(sum(mask.bits.nbytes for mask in alone))
        while len(self._before) > MAX_UNDO or sum(self._bytes) > MAX_UNDO_BYTES:
            self._before.popleft()
            self._bytes.popleft()
