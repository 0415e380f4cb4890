"""Classes, strokes, points and answers of an image: exact, undone and redone, and never in the way
of other objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.apps.annotator import repair
from sam_rlx.apps.annotator.classes import HUES, next_color
from sam_rlx.errors import InvalidArgumentError, StateError
from sam_rlx.widget import SegmentWidget

FIRST, SECOND = (60, 60), (150, 100)
HW = (151, 203)


@pytest.fixture
def widget(model: sam_rlx.Model, image: np.ndarray) -> Iterator[SegmentWidget]:
    made = SegmentWidget(model, image, project=False)
    yield made
    made.close()


def state(widget: SegmentWidget) -> Any:
    return [
        (one.number, one.name, one.class_number, one.locked, one.note, one.mask.tobytes())
        for one in widget.objects
    ], [(one.number, one.name, one.digit) for one in widget.classes]


def test_a_stroke_stays_on_top_of_later_clicks(widget: SegmentWidget, image: np.ndarray) -> None:
    predictor = sam_rlx.ImagePredictor(widget._model)
    predictor.set_image(image)
    widget.click(*FIRST)
    widget.stroke([(100, 20), (120, 40)], 5)
    widget.stroke([(60, 60)], 9, add=False)
    painted = repair.stroke(HW, [(100, 20), (120, 40)], 5)
    erased = repair.stroke(HW, [(60, 60)], 9)
    widget.click(FIRST[0] + 10, FIRST[1])
    points, labels = [FIRST, (FIRST[0] + 10, FIRST[1])], [1, 1]
    found = predictor.predict(point_coords=points, point_labels=labels, multimask_output=False)
    assert (widget.objects[0].mask == (found.masks[0] | painted) & ~erased).all()
    seen = [state(widget)]
    for _ in range(4):
        widget.undo()
        seen.append(state(widget))
    assert widget.objects == []
    for wanted in reversed(seen[:-1]):
        widget.redo()
        assert state(widget) == wanted


def test_a_brush_begins_an_object_and_an_eraser_does_not(widget: SegmentWidget) -> None:
    with pytest.raises(InvalidArgumentError, match="stroke: expected a current object"):
        widget.stroke([(5, 5)], 3, add=False)
    widget.lasso([(10, 10), (30, 10), (30, 40)])
    assert (widget.objects[0].mask == repair.lasso(HW, [(10, 10), (30, 10), (30, 40)])).all()
    for path, radius in (([], 3), ([(1, 2, 3)], 3), ([(0, float("nan"))], 3), ([(1, 1)], 0.5)):
        with pytest.raises((InvalidArgumentError, ValueError)):
            widget._session.call("stroke", path=path, radius=radius)


def test_others_stay(widget: SegmentWidget, image: np.ndarray) -> None:
    widget.lasso([(40, 40), (70, 40), (70, 80), (40, 80)])
    first = widget.objects[0].mask
    widget.commit()
    widget.stroke([(60, 60)], 30)
    assert not (widget.objects[1].mask & first).any()
    widget.click(*FIRST)
    assert not (widget.objects[1].mask & first).any()
    assert (widget.objects[0].mask == first).all()
    widget.undo()
    widget.others_stay(False)
    widget.stroke([(60, 60)], 10)
    assert (widget.objects[1].mask & first).any()


def test_fill_smooth_split_and_merge(widget: SegmentWidget) -> None:
    mask = np.zeros(HW, np.bool_)
    mask[20:60, 20:90] = True
    mask[30:40, 30:40] = mask[50:53, 60:63] = False
    mask[100:110, 100:120] = mask[140, 140] = True
    widget.start(mask)
    widget.select(1)
    widget.fill()
    assert widget.objects[0].mask[30:40, 30:40].all()
    assert not widget.objects[0].mask[50:53, 60:63].any()
    widget.fill(1000, crumbs=1)
    assert widget.objects[0].mask[50:53, 60:63].all()
    assert not widget.objects[0].mask[140, 140]
    before = widget.objects[0].mask
    widget.smooth(3)
    assert (widget.objects[0].mask == repair.smooth(before, 3)).all()
    whole = widget.objects[0].mask
    widget.split()
    assert [one.mask.sum() for one in widget.objects] == sorted(
        (one.mask.sum() for one in widget.objects), reverse=True
    )
    assert len(widget.objects) == 2
    widget.split([(55, 0), (55, 150)])
    assert len(widget.objects) == 3
    widget.merge([1, 2, 3])
    assert [one.number for one in widget.objects] == [1]
    assert (widget.objects[0].mask == whole).all()
    with pytest.raises(InvalidArgumentError, match="objects: expected at least two"):
        widget.merge([1])
    for _ in range(6):
        widget.undo()
    assert (widget.objects[0].mask == mask).all()


def test_locked_objects_are_left_alone(widget: SegmentWidget) -> None:
    widget.click(*FIRST)
    before = widget.objects[0].mask
    widget.lock()
    prompt = widget.objects[0].prompts[0].number
    for change in (
        lambda: widget.click(*SECOND),
        lambda: widget.box(1, 1, 50, 50),
        lambda: widget.stroke([(5, 5)], 3),
        lambda: widget.fill(),
        lambda: widget.smooth(),
        lambda: widget.split(),
        lambda: widget.delete(1),
        lambda: widget.candidate(1),
        lambda: widget.move_point(prompt, 1, 1),
        lambda: widget.remove_point(prompt),
    ):
        with pytest.raises(StateError, match="not locked, found a locked one"):
            change()
    assert (widget.objects[0].mask == before).all()
    widget.lock(1, False)
    widget.delete(1)
    assert widget.objects == []


def test_moved_and_removed_points_are_answered(widget: SegmentWidget, image: np.ndarray) -> None:
    predictor = sam_rlx.ImagePredictor(widget._model)
    predictor.set_image(image)

    def wanted(*points: tuple[float, float]) -> np.ndarray:
        found = predictor.predict(
            point_coords=list(points),
            point_labels=[1] * len(points),
            multimask_output=len(points) == 1,
        )
        return np.asarray(found.masks[found.best().index])

    widget.click(*FIRST)
    widget.click(FIRST[0] + 15, FIRST[1])
    first, second = (one.number for one in widget.objects[0].prompts)
    widget.move_point(second, FIRST[0], FIRST[1] + 12)
    moved = (FIRST[0], FIRST[1] + 12)
    assert (widget.objects[0].mask == wanted(FIRST, moved)).all()
    widget.remove_point(first)
    assert (widget.objects[0].mask == wanted(moved)).all()
    assert len(widget.objects[0].candidates) == 3
    with pytest.raises(InvalidArgumentError, match="number: expected a point or box"):
        widget.remove_point(99)
    widget.remove_point(second)
    assert widget.objects == []
    widget.undo()
    widget.select(1)
    widget.stroke([(5, 5)], 4)
    widget.remove_point(second)
    assert (widget.objects[0].mask == repair.stroke(HW, [(5, 5)], 4)).all()


def test_an_answer_is_chosen_below_strokes(widget: SegmentWidget) -> None:
    widget.click(*FIRST)
    widget.stroke([(190, 10)], 6)
    painted = repair.stroke(HW, [(190, 10)], 6)
    for index in range(3):
        widget.candidate(index)
        answer = widget.objects[0].candidates[index].to_mask()
        assert (widget.objects[0].mask == answer | painted).all()


def test_classes(widget: SegmentWidget) -> None:
    assert [(one.name, one.digit) for one in widget.classes] == [("object", "1")]
    cell = widget.class_add("cell")
    widget.click(*FIRST)
    assert widget.objects[0].class_number == cell
    assert widget.objects[0].name == "cell 1"
    widget.set_class(1)
    assert widget.objects[0].name == "object 1"
    widget.commit()
    widget.click(*SECOND)
    widget.rename(2, "the second")
    widget.set_class(cell)
    assert [one.name for one in widget.objects] == ["object 1", "the second"]
    widget.set_class(cell, 1)
    widget.class_change(cell, name="nucleus", digit="1")
    assert [one.name for one in widget.objects] == ["nucleus 1", "the second"]
    assert [(one.name, one.digit) for one in widget.classes] == [("object", ""), ("nucleus", "1")]
    with pytest.raises(InvalidArgumentError, match="name: expected one that no class has"):
        widget.class_add("object")
    with pytest.raises(InvalidArgumentError, match="class_number: expected one of"):
        widget.set_class(77)
    before = state(widget)
    widget.class_remove(cell, 1)
    assert [one.class_number for one in widget.objects] == [1, 1]
    assert len(widget.classes) == 1
    widget.undo()
    assert state(widget) == before
    document = widget.coco()
    assert [one["name"] for one in document["categories"]] == ["object", "nucleus"]


def test_colors_of_classes_differ() -> None:
    taken: list[Any] = []
    for _ in range(20):
        taken.append(next_color(taken))
    assert sorted(taken) == sorted(HUES)
    assert len(set(HUES)) == 20
    more = [*taken]
    for _ in range(40):  # darker and lighter ones
        more.append(next_color(more))
    assert len(set(more)) == 60
    assert next_color(more) in HUES
    first = [HUES.index(one) for one in taken[:4]]
    steps = [min(abs(a - b), 20 - abs(a - b)) for a in first for b in first if a != b]
    assert min(steps) >= 4
    assert next_color([], HUES[3]) != HUES[3]


def test_notes_done_left_out(model: sam_rlx.Model, image: np.ndarray, tmp_path: Path) -> None:
    for name in "ab":
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    Image.fromarray(image[::-1]).save(tmp_path / "c.png")
    widget = SegmentWidget(model, tmp_path)
    widget.click(*FIRST)
    widget.note("scratched")
    widget.done()
    widget.show(2)
    widget.leave_out()
    states = {one.path: one.state for one in widget._session.project.history.project.items}
    assert states["a.png"] == "done"
    assert states["c.png"] == "left out"
    assert widget._session.project.document(widget._session.sources.known_key(0)).objects[0].note
    widget.undo()
    states = {one.path: one.state for one in widget._session.project.history.project.items}
    assert states["c.png"] == "begun"
    widget.close()


def test_all_of_everything_is_kept(widget: SegmentWidget) -> None:
    widget.everything(points_per_side=6)
    found = widget._session.document.found
    assert found
    widget.keep_found([0])
    assert len(widget._session.document.found) == len(found) - 1
    widget.others_stay(False)
    widget.keep_found()
    assert len(widget.objects) == len({one.packed for one in found})
    assert widget._session.document.found == ()
    widget.undo()
    widget.undo()
    assert widget._session.document.found == found
    assert widget.objects == []
    with pytest.raises(InvalidArgumentError, match="indices: expected 0 to"):
        widget.keep_found([len(found)])


def test_all_that_is_kept_shares_no_pixel(widget: SegmentWidget) -> None:
    """Each thing is counted once, by the best of its masks; what there is keeps its pixels."""
    widget.start(np.tril(np.ones(widget.image.shape[:2], bool)))
    widget.commit()
    mine = widget.objects[0].mask
    widget.everything(points_per_side=8)
    found = widget._session.document.found
    widget.keep_found()
    assert (widget.objects[0].mask == mine).all()
    count = np.sum([one.mask for one in widget.objects], axis=0)
    assert count.max() == 1
    for mask in found:  # what was passed over is covered by half
        pixels = mask.to_mask()
        best = max(np.count_nonzero(pixels & one.mask) for one in widget.objects)
        covered = np.count_nonzero(pixels & (count > 0))
        assert 2 * covered >= np.count_nonzero(pixels) or 2 * best > np.count_nonzero(pixels)


def test_a_class_that_was_taken_back_leaves_its_number(
    model: sam_rlx.Model, image: np.ndarray, tmp_path: Path
) -> None:
    """Undo from another image takes the class back; a new class does not get its objects."""
    for at, name in enumerate("ab"):
        Image.fromarray(image[::-1] if at else image).save(tmp_path / f"{name}.png")
    widget = SegmentWidget(model, tmp_path)
    cat = widget.class_add("cat")
    widget.click(*FIRST)
    widget.show(1)
    widget.undo()
    assert [one.name for one in widget.classes] == ["object"]
    widget.stroke([(9, 9)], 5)
    assert widget.objects[0].class_number == 1
    dog = widget.class_add("dog")
    assert dog > cat
    widget.show(0)
    project = widget._session.project.history.project
    assert project.class_of(widget.objects[0]).name == "object"
    widget.close()
