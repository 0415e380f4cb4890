"""Sessions and widgets that are closed: what stays, what is freed, and what is told."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.annotator import image_session
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.tracks import unique_names
from sam_rlx.apps.annotator.values import Object
from sam_rlx.apps.annotator.worker import Worker
from sam_rlx.errors import InvalidArgumentError, StateError
from support import HANG_SECONDS
from support.jupyter import wait_for

from .test_image_session import View

IMAGE = np.zeros((60, 80, 3), np.uint8)
IMAGE[20:40, 20:50] = 200


def test_a_closed_widget_saves_and_refuses_gestures(model: sam_rlx.Model, tmp_path: Path) -> None:
    from sam_rlx.widget import SegmentWidget

    widget = SegmentWidget(model, IMAGE, num_threads=1)
    widget.click(30, 30)
    before = widget.coco()
    mask = widget.objects[0].mask
    widget.close()
    widget.close()
    assert (widget.objects[0].mask == mask).all()
    assert widget.coco() == before
    assert widget.arrays()["masks"].shape == (1, 60, 80)
    widget.save(tmp_path / "objects.json")
    assert (tmp_path / "objects.json").stat().st_size > 100
    wait_for(lambda: widget._session._image is None, "an end of the thread")
    for call in (lambda: widget.click(1, 1), widget.undo, lambda: widget.image, widget.preview):
        with pytest.raises(StateError, match="expected an open one, found a closed one"):
            call()


def test_closed_widgets_are_freed(model: sam_rlx.Model) -> None:
    from sam_rlx.widget import SegmentWidget

    widget = SegmentWidget(model, IMAGE, num_threads=1)
    widget.observe(partial(print, widget, end="", file=io.StringIO()), "revision")
    widget.click(30, 30)
    session = weakref.ref(widget._session)
    widget.close()
    del widget

    def is_freed() -> bool:
        gc.collect()
        return session() is None

    wait_for(is_freed, "an end of the session")


def test_a_closed_session_needs_no_collector(model: sam_rlx.Model) -> None:
    """A server at rest does not run it."""
    view = View()
    session = ImageSession(model, IMAGE, send=view.send, num_threads=1)
    session.call("click", x=30, y=30)
    kept = weakref.ref(session)
    gc.disable()
    try:
        session.close()
        del session
        wait_for(lambda: kept() is None, "an end of the session")
    finally:
        gc.enable()


def test_who_waits_is_told_of_the_end() -> None:
    worker = Worker("test")
    worker.submit(lambda: time.sleep(0.05))
    waiting = worker.submit(lambda: None)
    ended: list[int] = []
    worker.close(lambda: ended.append(1))
    assert waiting.cancelled()
    wait_for(lambda: ended == [1], "the last work")
    worker.close(lambda: ended.append(2))
    assert ended == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_child_is_told(tmp_path: Path) -> None:
    code = """if True:
        import os, sys, numpy as np, sam_rlx
        from sam_rlx.apps.annotator.image_session import ImageSession
        session = ImageSession(
            sam_rlx.load_model("sam-nano"), np.zeros((60, 80, 3), np.uint8), num_threads=1
        )
        session.call("click", x=5, y=5)
        child = os.fork()
        if child == 0:
            try:
                session.call("click", x=6, y=6)
            except sam_rlx.StateError as error:
                print(error, flush=True)
            session.close()
            os._exit(0)
        os.waitpid(child, 0)
        session.call("click", x=6, y=6)
        print(len(session.document.objects[0].points))
    """
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.stdout.splitlines() == [
        "widget: expected the process that made it, found a fork of that one",
        "2",
    ], done.stderr


def test_points_and_options_of_a_view_are_bounded(
    model: sam_rlx.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_session, "MAX_POINTS", 2)
    view = View()
    session = ImageSession(model, IMAGE, send=view.send, num_threads=1)
    for x in (30, 31):
        session.call("click", x=x, y=30)
    with pytest.raises(InvalidArgumentError, match="at most 2, found 3"):
        session.call("click", x=32, y=30)
    wrong: list[Any] = [{"points_per_side": 65}, {"points_per_side": 0}, {"crop_n_layers": 1}, 5]
    for seq, options in enumerate(wrong):
        session.receive({"type": "everything", "view": "v", "seq": seq, "options": options})
        assert "expected" in view.wait("error", seq)[0]["text"]
    for seq, head in enumerate(({"contents": 5}, {"x": 10**400, "y": 1}), 10):
        session.receive({"type": "click", "view": "v", "seq": seq, **head})
        assert "expected" in view.wait("error", seq)[0]["text"]
    session.close()


def test_names_of_tracks_are_told_apart() -> None:
    def names(*given: str) -> list[str]:
        tracks = [Object(number, name, (0, 0, 0)) for number, name in enumerate(given, 1)]
        return list(unique_names(tracks).values())

    assert names("cat", "dog") == ["cat", "dog"]
    assert names("cat", "cat", "dog", "cat") == ["cat", "cat (2)", "dog", "cat (4)"]
    assert len(set(names("cat", "cat", "cat (2)", "cat (2)"))) == 4
