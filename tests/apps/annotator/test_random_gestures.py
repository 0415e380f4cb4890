"""Random gestures on an image and on a clip: undone to the start, redone to the end, equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.session import Session
from sam_rlx.apps.annotator.video_session import VideoSession
from sam_rlx.errors import InvalidArgumentError, StateError
from support.cases import quick
from support.edits import state
from support.half_size import half_size

HW, FRAMES = (72, 96), 4


class Hand:
    """Does one random gesture after the other; what is refused changes nothing."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session = session
        self.random = np.random.default_rng(seed)
        self.is_clip = isinstance(session, VideoSession)

    def do(self) -> None:
        kinds = [self.click, self.box, self.stroke, self.lasso, self.fill, self.smooth, self.split]
        kinds += [self.merge, self.point, self.object, self.of_class, self.choose, self.history]
        kinds += [self.clip] if self.is_clip else [self.image]
        kind = kinds[int(self.random.integers(len(kinds)))]
        before = state(self.session.project.history)
        try:
            kind()
        except (InvalidArgumentError, StateError):
            assert state(self.session.project.history) == before

    def call(self, gesture: str, /, **given: Any) -> None:
        if self.is_clip and "frame" in self.session.gestures[gesture].fields:
            given["frame"] = int(self.random.integers(FRAMES))
        self.session.call(gesture, **given)

    def point_at(self) -> tuple[float, float]:
        x, y = self.random.uniform(-4, 100, 2)
        return float(x), float(y)

    def path(self) -> list[tuple[float, float]]:
        return [self.point_at() for _ in range(int(self.random.integers(1, 6)))]

    def number(self) -> int | None:
        objects = self.session.document.objects
        if not objects or self.random.uniform() < 0.4:
            return None
        return objects[int(self.random.integers(len(objects)))].number

    def click(self) -> None:
        x, y = self.point_at()
        self.call("click", x=x, y=y, label=int(self.random.integers(2)))

    def box(self) -> None:
        x, y = self.point_at()
        self.call("box", box=[x, y, x + 30, y + 25])

    def stroke(self) -> None:
        add = bool(self.random.integers(2))
        radius = float(self.random.uniform(1, 9))
        self.call("stroke", path=self.path(), radius=radius, add=add, object=self.number())

    def lasso(self) -> None:
        self.call("lasso", path=self.path(), add=bool(self.random.integers(2)))

    def fill(self) -> None:
        self.call("fill", area=40.0, crumbs=5.0, object=self.number())

    def smooth(self) -> None:
        self.call("smooth", radius=2.5, object=self.number())

    def split(self) -> None:
        line = None if self.random.uniform() < 0.5 else [(-1.0, 30.0), (99.0, 40.0)]
        self.call("split", line=line, object=self.number())

    def merge(self) -> None:
        objects = self.session.document.objects[:2]
        self.call("merge", objects=[one.number for one in objects])

    def point(self) -> None:
        one = self.session.selected
        prompts = [1] if one is None else [each.number for each in one.prompts]
        number = prompts[int(self.random.integers(len(prompts)))]
        if self.random.uniform() < 0.5:
            self.call("remove_point", number=number)
        else:
            x, y = self.point_at()
            self.call("move_point", number=number, x=x, y=y)

    def object(self) -> None:
        gesture = ("lock", "note", "delete", "rename", "lock")[int(self.random.integers(5))]
        given: dict[str, Any] = {"object": self.number()}
        if gesture == "lock":
            given["on"] = bool(self.random.uniform() < 0.3)
        elif gesture == "note":
            given["text"] = "größte"
        elif gesture == "rename":
            given = {"object": given["object"] or 1, "name": "a name"}
        self.call(gesture, **given)

    def of_class(self) -> None:
        classes = self.session.project.history.project.classes
        one = classes[int(self.random.integers(len(classes)))].number
        kind = int(self.random.integers(4))
        if kind == 0:
            self.call("class_add", name=f"class {int(self.random.integers(6))}")
        elif kind == 1:
            self.call("class_change", class_number=one, name=f"named {one}")
        elif kind == 2:
            self.call("class_remove", class_number=one, successor=classes[0].number)
        else:
            self.call("set_class", class_number=one, object=self.number())

    def choose(self) -> None:
        kind = int(self.random.integers(4))
        if kind == 0:
            self.call("others_stay", on=bool(self.random.integers(2)))
        elif kind == 1:
            self.call("done", on=bool(self.random.integers(2)))
        elif kind == 2:
            self.call("commit")
        else:
            self.call("select", object=self.number())

    def history(self) -> None:
        self.call("undo" if self.random.uniform() < 0.7 else "redo")

    def image(self) -> None:
        kind = int(self.random.integers(3))
        if kind == 0 and not self.session.document.found:
            self.call("everything", options={"points_per_side": 3})
        elif kind == 1:
            self.call("keep_found", indices=[0])
        else:
            self.call("candidate", index=int(self.random.integers(3)))

    def clip(self) -> None:
        kind = int(self.random.integers(5))
        if kind == 0:
            self.call("gone", object=self.number())
        elif kind == 1:
            self.call("right", to=int(self.random.integers(FRAMES)), object=self.number())
        elif kind == 2:
            self.call("split_track", object=self.number())
        elif kind == 3:
            self.call("remove_masks", to=int(self.random.integers(FRAMES)), object=self.number())
        else:
            self.session.call("check")


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (FRAMES, *HW, 3), np.uint8)


def begun(kind: str, model: sam_rlx.Model, pixels: np.ndarray) -> Session:
    return ImageSession(model, pixels[0]) if kind == "image" else VideoSession(model, pixels)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seeds", quick([range(3), range(3, 42), range(42, 81), range(81, 120)], 0))
@pytest.mark.parametrize("kind", ["image", "clip"])
def test_gestures_are_undone_to_the_start(pixels: np.ndarray, kind: str, seeds: range) -> None:
    model = half_size("sam-nano" if kind == "image" else "sam2-nano")
    for seed in seeds:
        session = begun(kind, model, pixels)
        history = session.project.history
        first = state(history)
        hand = Hand(session, seed)
        for _ in range(40):
            hand.do()
        while history.next_redo(session.key):
            session.call("redo")
        last = state(history)
        count = 0
        while history.next_undo(session.key):
            session.call("undo")
            count += 1
        assert state(history) == first, seed
        for _ in range(count):
            session.call("redo")
        assert state(history) == last, seed
        session.close()
