"""A notebook that is run again goes on with the work that was kept: it makes no object twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.apps.annotator.projects import is_open
from sam_rlx.errors import InvalidArgumentError, MediaWarning
from sam_rlx.widget import SegmentWidget, VideoWidget
from support.edits import state
from support.half_size import half_size
from support.jupyter import wait_for


def cells(model: sam_rlx.Model, image: Any) -> SegmentWidget:
    w = SegmentWidget(model, image)
    w.click(60, 60)
    w.click(95, 60, 0)
    w.commit()
    w.box(120, 70, 180, 130)
    return w


def run(model: sam_rlx.Model, image: Any) -> None:
    """Run the cells, and end."""
    w = cells(model, image)
    ended(w)


def ended(w: Any) -> None:
    path = w.project
    w.close()
    wait_for(lambda: not is_open(path), "a project that is closed")


def test_the_same_cells_again_change_nothing(model: sam_rlx.Model, image: np.ndarray) -> None:
    first = cells(model, image)
    wanted, n = state(first._session.project.history), first._session.project.history.n
    ended(first)
    again = cells(model, image)
    assert again._session.notes == []  # an array has no file that could be missing
    assert again.project == first.project
    assert state(again._session.project.history) == wanted
    assert again._session.project.history.n == n
    assert again.current is not None
    assert again.current.number == 2
    again.click(150, 101)  # goes on
    assert len(again.current.points) == 1
    again.close()


def test_masks_that_cells_begin_with_are_begun_once(
    model: sam_rlx.Model, image: np.ndarray
) -> None:
    first, second = (np.zeros(image.shape[:2], bool) for _ in range(2))
    first[40:80, 40:80] = second[90:120, 130:170] = True
    found = []
    for _ in range(3):
        w = SegmentWidget(model, image)
        w.start(first, "first")
        w.click(44, 44, 0)
        w.start(second)  # begins an object, whatever is current
        w.start(second | first)
        found.append(state(w._session.project.history))
        assert (len(w.objects), w.current and w.current.number) == (3, 3)
        ended(w)
    assert found[0] == found[1] == found[2]
    w = SegmentWidget(model, image)
    w.start(first)
    w.commit()
    w.start(first)  # meant: that of the earlier run was begun again already
    w.start(first & ~np.roll(first, 3, 1))  # another mask
    assert len(w.objects) == 5
    w.close()


def test_objects_that_cells_paint_are_painted_once(model: sam_rlx.Model, image: np.ndarray) -> None:
    found = []
    for _ in range(3):
        w = SegmentWidget(model, image)
        w.click(60, 60)
        w.commit()
        w.stroke([(70, 60), (120, 60)], 6)  # some of it is the first object's
        w.stroke([(110, 60), (120, 60)], 3, add=False)
        w.commit()
        w.lasso([(150, 90), (190, 90), (190, 120), (150, 120)])
        w.stroke([(150, 100), (200, 100)], 4)
        found.append(state(w._session.project.history))
        assert len(w.objects) == 3
        ended(w)
    assert found[0] == found[1] == found[2]
    w = SegmentWidget(model, image)
    w.stroke([(70, 60), (120, 60)], 7)  # another one
    assert len(w.objects) == 4
    w.close()


def test_other_clicks_than_before_are_done(model: sam_rlx.Model, image: np.ndarray) -> None:
    run(model, image)
    w = SegmentWidget(model, image)
    w.click(60, 60)
    w.click(96, 60, 0)
    assert len(w.objects[0].points) == 3
    w.click(95, 60, 0)
    assert len(w.objects[0].points) == 4
    w.commit()
    w.others_stay(False)
    w.click(60, 60)  # meant: the object of the earlier run was begun again already
    assert len(w.objects) == 3
    w.close()


def test_the_error_says_the_way_out(model: sam_rlx.Model, image: np.ndarray) -> None:
    w = SegmentWidget(model, image, project=False)
    w.click(60, 60)
    w.commit()
    with pytest.raises(
        InvalidArgumentError, match=r"those of object 1: .*select\(1\).*others_stay"
    ):
        w.box(50, 50, 70, 70)
    w.close()


def test_clicks_of_a_view_are_done(model: sam_rlx.Model, image: np.ndarray) -> None:
    run(model, image)
    w = SegmentWidget(model, image)
    w.others_stay(False)
    w._session.receive({"type": "click", "view": "v", "seq": 1, "x": 60, "y": 60})
    w.select(None)  # behind it
    assert len(w.objects) == 3
    w.close()


def test_a_clip_again() -> None:
    y, x = np.mgrid[:64, :96]
    clip = np.full((3, 64, 96, 3), 60, np.uint8)
    for t, frame in enumerate(clip):
        frame[np.hypot(x - 40 - 2 * t, y - 30) < 14] = (220, 60, 40)
    model = half_size("sam2-nano")
    found = []
    for _ in range(2):
        v = VideoWidget(model, clip)
        v.click(0, 40, 30)
        v.click(0, 60, 30, 0)
        v.commit()
        v.start(1, np.hypot(x - 80, y - 50) < 8, "other")
        v.track(0)
        found.append(state(v._session.project.history))
        ended(v)
        assert len(v.objects) == 2
    assert found[0] == found[1]


def test_exports_beside_a_project_are_passed_over_in_silence(
    model: sam_rlx.Model, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.full((61, 87, 3), 90, np.uint8)).save(tmp_path / name)
    w = SegmentWidget(model, tmp_path)
    w.start(np.ones((61, 87), bool))
    w._session.call("export_as", form="yolo", name="week 1")
    w.close()
    SegmentWidget(model, tmp_path).close()
    assert not [one for one in recwarn if issubclass(one.category, MediaWarning)]
    (tmp_path / "more").mkdir()
    with pytest.warns(MediaWarning, match=r"1 folder \(more\)"):
        SegmentWidget(model, tmp_path).close()
