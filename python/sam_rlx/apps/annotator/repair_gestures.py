"""Gestures that repair masks by hand: what is painted stays on top of later answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator import repair
from sam_rlx.apps.annotator.class_gestures import ClassGestures
from sam_rlx.apps.annotator.gestures import (
    Area,
    Coordinate,
    Flag,
    Number,
    Numbers,
    OptionalArea,
    OptionalFrame,
    OptionalNumber,
    OptionalPath,
    PathField,
    Radius,
    SmoothRadius,
    gesture,
)
from sam_rlx.apps.annotator.limits import MAX_SPLIT
from sam_rlx.apps.annotator.tracks import sampled
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Document,
    Mask,
    Object,
    PackedMask,
    Point,
    Prompt,
    Start,
    Stroke,
)
from sam_rlx.errors import InvalidArgumentError

_KEPT = 64  # masks at the size of previews


class RepairGestures(ClassGestures):
    """Strokes, lasso, fill, smooth, split and merge, on an image or on a frame of a clip."""

    hw: Any  # (H, W) of the masks

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # By the mask and the size: the mask, and what it is at that size.
        self._shrunk: dict[Any, tuple[PackedMask, NDArray[np.bool_]]] = {}
        # By item: numbers of the objects of earlier runs, which a program has not begun again.
        self._earlier = {
            key: {one.number for one in document.objects}
            for key, document in self.project.history.documents.items()
        }
        self._said = 0, 0  # number of an object that it did, and how many prompts it said again

    def frame_of(self, frame: int | None) -> int:
        """Return the frame that a gesture means; `InvalidArgumentError` if there is none."""
        raise NotImplementedError

    def on_masks(self, frame: int) -> None:
        """Tell views of the masks of a frame."""

    # ---------------------------------------------------------------- programs that run again

    def repeats(self, prompt: Prompt | Callable[[Object], Prompt], *, begins: bool = False) -> bool:
        """Tell whether a program says what it said to an object in an earlier run; choose that.

        A notebook that is run again goes on with the work that was kept: it makes no object twice,
        and gives none a prompt twice. Views mean what they do. `prompt` may depend on the object.
        `begins`: the prompt begins an object in any case, also while there is a current one.
        """
        if self._asks[0] is not None:
            return False
        said = prompt if callable(prompt) else lambda _: prompt
        one = None if begins else self.selected
        if one is None:
            earlier = self._earlier.get(self.key, set())
            objects = (o for o in self.document.objects if o.number in earlier)
            one = next((o for o in objects if _is_said(o, 0, said(o))), None)
            if one is None:
                return False
            earlier.remove(one.number)
            self._select(one.number)
            self._said = one.number, 0
        number, count = self._said
        if number != one.number or not _is_said(one, count, said(one)):
            self._said = 0, 0
            return False
        self._said = number, count + 1
        self.broadcast(None)
        return True

    # ---------------------------------------------------------------- pixels of others

    def others_on(self, number: int, frame: int) -> list[PackedMask]:
        """Return the masks of a frame whose pixels an object leaves alone."""
        if not self.others_stay:
            return []
        return [
            one.masks[frame].packed
            for one in self.document.objects
            if one.number != number and frame in one.masks
        ]

    def composed(
        self, answer: PackedMask, number: int, frame: int, strokes: Sequence[Stroke]
    ) -> PackedMask:
        """Return an answer without the pixels of others, and with strokes on top of it."""
        others = [one for one in self.others_on(number, frame) if _meet(one.box, answer.box)]
        if not others and not strokes:
            return answer
        left = answer.without(others)
        if not strokes:
            return left
        mask = left.to_mask()
        for stroke in strokes:
            stroke.over(mask)
        return PackedMask.of(mask)

    def composed_small(self, answer: PackedMask, one: Object, frame: int) -> PackedMask:
        """Return `composed` of an answer on a smaller grid, for previews."""
        strokes = one.strokes_on(frame)
        around = _scaled(answer.box, answer.hw, self.hw)
        others = [each for each in self.others_on(one.number, frame) if _meet(each.box, around)]
        if not others and not strokes:
            return answer
        mask, hw = answer.to_mask(), answer.hw
        for each in others:
            mask &= ~self._small(each, hw)
        for stroke in strokes:
            mask &= ~self._small(stroke.take, hw)
            mask |= self._small(stroke.add, hw)
        return PackedMask.of(mask)

    def _small(self, mask: PackedMask, hw: tuple[int, int]) -> NDArray[np.bool_]:
        """Return a mask on a smaller grid; the last ones are kept."""
        known = self._shrunk.pop((id(mask), hw), None)
        if known is None or known[0] is not mask:
            known = (mask, sampled(mask, hw))
        self._shrunk[id(mask), hw] = known
        while len(self._shrunk) > _KEPT:
            del self._shrunk[next(iter(self._shrunk))]
        return known[1]

    # ---------------------------------------------------------------- strokes

    @gesture("brush, eraser", key="B, E")
    def do_stroke(
        self,
        path: PathField,
        radius: Radius,
        add: Flag = True,
        object: OptionalNumber = None,
        frame: OptionalFrame = None,
    ) -> None:
        """Paint along a path, or erase; without a current object the brush begins one."""
        painted = repair.stroke(self.hw, path, radius)
        self._add_or_take("stroke", "brush" if add else "eraser", painted, add, object, frame)

    @gesture("lasso", key="L")
    def do_lasso(
        self,
        path: PathField,
        add: Flag = True,
        object: OptionalNumber = None,
        frame: OptionalFrame = None,
    ) -> None:
        """Add what a closed path encloses, or take it away."""
        if len(path) < 3:
            raise InvalidArgumentError(f"path: expected at least 3 positions, found {len(path)}")
        inside = repair.lasso(self.hw, path)
        self._add_or_take("lasso", "lasso" if add else "cut out", inside, add, object, frame)

    def _add_or_take(
        self,
        kind: str,
        title: str,
        pixels: NDArray[np.bool_],
        add: bool,
        object: int | None,
        frame: int | None,
    ) -> None:
        at = self.frame_of(frame)
        given = {"add" if add else "take": pixels}
        if object is None and self.repeats(lambda one: self._stroke(kind, one, at, **given)):
            return
        one = self._selected_free() if object is None else self._free(object)
        if one is None and not add:
            raise InvalidArgumentError(f"{kind}: expected a current object, found none")
        self._paint(kind, title, one, at, **given)

    def _paint(
        self,
        kind: str,
        title: str,
        one: Object | None,
        frame: int,
        add: NDArray[np.bool_] | None = None,
        take: NDArray[np.bool_] | None = None,
    ) -> None:
        """Put pixels on top of an object's mask, and take others away; None begins an object."""
        begun = self.new_object() if one is None else one
        stroke = self._stroke(kind, begun, frame, add, take)
        known = begun.masks.get(frame)
        mask = np.zeros(self.hw, np.bool_) if known is None else known.to_mask()
        stroke.over(mask)
        painted = with_hand(begun, frame, mask, stroke)
        if one is None:
            self._begin(title, painted)
        else:
            self._put(f"{title}: {one.name}", painted)
        self.on_masks(frame)
        self.broadcast(self._asks[1])

    def _stroke(
        self,
        kind: str,
        one: Object,
        frame: int,
        add: NDArray[np.bool_] | None = None,
        take: NDArray[np.bool_] | None = None,
    ) -> Stroke:
        """Return what an object is painted with: pixels of others stay theirs."""
        empty = PackedMask(self.hw, (0, 0, 0, 0), b"")
        if add is not None:
            add = add.copy()
            _take(add, self.others_on(one.number, frame))
        return Stroke(
            one.next_prompt,
            frame,
            kind,
            empty if add is None else PackedMask.of(add),
            empty if take is None else PackedMask.of(take),
        )

    # ---------------------------------------------------------------- the whole mask

    def _known(self, object: int | None, frame: int | None) -> tuple[Object, int, Any]:
        """Return an object that may be changed, its frame, and its mask there."""
        one, at = self._free(object), self.frame_of(frame)
        if at not in one.masks:
            raise InvalidArgumentError(f"{one.name}: expected a mask on frame {at}, found none")
        return one, at, one.masks[at].to_mask()

    @gesture("fill holes, drop crumbs")
    def do_fill(
        self,
        area: OptionalArea = None,
        crumbs: Area = 0.0,
        object: OptionalNumber = None,
        frame: OptionalFrame = None,
    ) -> None:
        """Fill the holes of at most `area` pixels, by default the largest hole.

        Parts of at most `crumbs` pixels are taken away, but for the largest part.
        """
        one, at, mask = self._known(object, frame)
        add, take = repair.holes(mask, area), repair.crumbs(mask, crumbs)
        self._paint("fill", "fill", one, at, add, take)

    @gesture("smooth")
    def do_smooth(
        self,
        radius: SmoothRadius = 2.0,
        object: OptionalNumber = None,
        frame: OptionalFrame = None,
    ) -> None:
        """Open and close the mask by a disc: thin parts and thin gaps go."""
        one, at, mask = self._known(object, frame)
        after = repair.smooth(mask, radius)
        self._paint("smooth", "smooth", one, at, after & ~mask, mask & ~after)

    @gesture("split", key="X")
    def do_split(
        self,
        line: OptionalPath = None,
        object: OptionalNumber = None,
        frame: OptionalFrame = None,
    ) -> None:
        """Cut the mask along a line, or into its connected parts: the largest keeps the number."""
        one, at, mask = self._known(object, frame)
        pieces = repair.connected(mask) if line is None else repair.split(mask, line)
        if len(pieces) < 2:
            raise InvalidArgumentError(f"{one.name}: expected several parts, found one")
        if len(pieces) > MAX_SPLIT:
            raise InvalidArgumentError(
                f"{one.name}: expected at most {MAX_SPLIT} parts, found {len(pieces)}: fill drops "
                "small ones"
            )
        empty = PackedMask(self.hw, (0, 0, 0, 0), b"")
        rest = PackedMask.of(mask & ~pieces[0])
        kept = with_hand(one, at, pieces[0], Stroke(one.next_prompt, at, "split", empty, rest))
        others = [self._piece(one, at, piece) for piece in pieces[1:]]

        def change(document: Document) -> Document:
            document = document.with_objects(kept)
            return document.with_objects(*self._numbered(document, others))

        self._edit(f"split {one.name}", change)
        self.on_masks(at)
        self.broadcast(self._asks[1])

    def _piece(self, one: Object, frame: int, piece: NDArray[np.bool_]) -> Object:
        packed = PackedMask.of(piece)
        return replace(
            self.new_object(prompts=(Start(1, frame, packed),)),
            class_number=one.class_number,
            masks={frame: Mask(packed, one.masks[frame].score, "hand")},
        )

    @gesture("merge", key="M")
    def do_merge(self, objects: Numbers) -> None:
        """Make several objects one: the first of them, on every frame."""
        chosen = [self._free(number) for number in dict.fromkeys(objects)]
        if len(chosen) < 2:
            raise InvalidArgumentError("objects: expected at least two numbers, found fewer")
        first, *others = chosen
        merged = self.merged(first, others)
        gone = [one.number for one in others]

        def change(document: Document) -> Document:
            for one in chosen:
                if document.get(one.number) is not one:
                    raise InvalidArgumentError(f"{one.name}: expected it as it was, found it gone")
            return document.without(*gone).with_objects(merged)

        self._edit(f"merge {len(chosen)} objects", change)
        self._select(first.number)
        for frame in sorted(merged.masks):
            self.on_masks(frame)
        self.broadcast(self._asks[1])

    def merged(self, first: Object, others: Sequence[Object]) -> Object:
        """Return an object with the masks of others too; what it had stays below them."""
        empty = PackedMask(self.hw, (0, 0, 0, 0), b"")
        for frame in sorted({frame for one in others for frame in one.masks}):
            packed = [one.masks[frame].packed for one in others if frame in one.masks]
            add = np.zeros(self.hw, np.bool_)
            _add(add, packed)
            known = first.masks.get(frame)
            mask = add.copy()
            _add(mask, [] if known is None else [known.packed])
            stroke = Stroke(first.next_prompt, frame, "merge", PackedMask.of(add), empty)
            first = with_hand(first, frame, mask, stroke)
        return first

    # ---------------------------------------------------------------- points

    @gesture("move a point, or a box")
    def do_move_point(
        self,
        number: Number,
        x: Coordinate,
        y: Coordinate,
        object: OptionalNumber = None,
    ) -> None:
        """Move a prompt of the current object, a box by its middle, and answer again."""
        one = self._free(object)
        moved = [_moved(each, x, y) if each.number == number else each for each in one.prompts]
        self._check_prompt(one, number)
        self.answer_again("move a point", one, tuple(moved), number)

    @gesture("take a point away", key="Delete over it")
    def do_remove_point(self, number: Number, object: OptionalNumber = None) -> None:
        """Take a point or box of the current object away, and answer again.

        An object of which nothing is left then goes.
        """
        one = self._free(object)
        self._check_prompt(one, number)
        rest = tuple(each for each in one.prompts if each.number != number)
        self.answer_again("take a point away", one, rest, number)

    def _check_prompt(self, one: Object, number: int) -> None:
        there = [o.number for o in one.prompts if isinstance(o, (Point, BoxPrompt))]
        if number not in there:
            said = ", ".join(map(str, there[:20])) or "none"
            raise InvalidArgumentError(
                f"number: expected a point or box of {one.name} ({said}), found {number}"
            )

    def answer_again(self, title: str, one: Object, given: tuple[Prompt, ...], number: int) -> None:
        """Answer other prompts of an object; `number` is that of the one that has changed."""
        raise NotImplementedError


def _is_said(one: Object, at: int, prompt: Prompt) -> bool:
    """Tell whether a prompt of an object says the same as another one."""
    return len(one.prompts) > at and replace(one.prompts[at], number=prompt.number) == prompt


def _moved(one: Prompt, x: float, y: float) -> Prompt:
    if isinstance(one, Point):
        return replace(one, x=x, y=y)
    if isinstance(one, BoxPrompt):
        x0, y0, x1, y1 = one.box
        half_width, half_height = (x1 - x0) / 2, (y1 - y0) / 2
        return replace(one, box=(x - half_width, y - half_height, x + half_width, y + half_height))
    return one


def with_hand(one: Object, frame: int, mask: NDArray[np.bool_], stroke: Stroke) -> Object:
    """Return an object with a mask made by hand, and the stroke that made it."""
    known = one.masks.get(frame)
    score = 1.0 if known is None else known.score
    made = Mask(PackedMask.of(mask), score, "hand")
    return replace(one, prompts=(*one.prompts, stroke), masks={**one.masks, frame: made})


def _take(mask: NDArray[np.bool_], others: Sequence[PackedMask]) -> None:
    """Take the pixels of others from a mask, in place."""
    for one in others:
        x0, y0, x1, y1 = one.box
        mask[y0:y1, x0:x1] &= ~one.part()


def _add(mask: NDArray[np.bool_], others: Sequence[PackedMask]) -> None:
    for one in others:
        x0, y0, x1, y1 = one.box
        mask[y0:y1, x0:x1] |= one.part()


def _scaled(box: Sequence[int], hw: tuple[int, int], to: tuple[int, int]) -> tuple[int, ...]:
    """Return a box of a small grid on a larger one, with room for a pixel."""
    y, x = to[0] / hw[0], to[1] / hw[1]
    x0, y0, x1, y1 = box
    return int((x0 - 1) * x), int((y0 - 1) * y), int((x1 + 1) * x) + 1, int((y1 + 1) * y) + 1


def _meet(a: Sequence[int], b: Sequence[int]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
