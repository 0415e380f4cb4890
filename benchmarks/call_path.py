"""Which files of the package a click, an item and a frame pass, as calls are traced.

    python benchmarks/call_path.py

Prints files, and moves from file to file by calls and returns, for a second click of the widget,
the second image of a batch with a point, and one more frame of a propagation. Files that check
arguments are counted apart. Exit status 1 where a path passes more of the others than are allowed.
Needs the extras ``jupyter`` and ``batch``.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import sam_rlx
from sam_rlx import batch, io
from sam_rlx.apps.batch import local
from sam_rlx.apps.batch.work import BlockWorker
from sam_rlx.widget import SegmentWidget

PACKAGE = Path(sam_rlx.__file__).parent
# Files of the package that a path passes, but for those that check arguments.
ALLOWED = {"click of the widget": 15, "item of a batch": 12, "frame": 3}
CHECKS = ("_internal/arrays/", "_internal/synonyms.py", "apps/annotator/fields.py")


class Trail:
    """The files of the package that are passed while `on`, by all threads."""

    def __init__(self) -> None:
        self.on = False
        self._passed: dict[int, list[str]] = {}

    def clear(self) -> None:
        """Forget what was passed."""
        self._passed = {}

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, or a return to the caller; for `sys.setprofile`."""
        if not self.on or event not in ("call", "return"):
            return
        at: FrameType | None = frame if event == "call" else frame.f_back
        name = "" if at is None else at.f_code.co_filename
        if name.startswith(str(PACKAGE)):
            self._passed.setdefault(threading.get_ident(), []).append(name)

    def files(self) -> list[str]:
        """Return the files, those that are entered most often first."""
        counts: Counter[str] = Counter()
        for names in self._passed.values():
            entered = [b for a, b in pairwise(["", *names]) if a != b]
            counts.update(str(Path(name).relative_to(PACKAGE)) for name in entered)
        return [f"{name} {count}" for name, count in counts.most_common()]

    def moves(self) -> int:
        """Return how often one file follows another."""
        return sum(sum(a != b for a, b in pairwise(names)) for names in self._passed.values())


TRAIL = Trail()


@contextmanager
def followed() -> Iterator[None]:
    """Follow what the block does, in all threads."""
    TRAIL.on = True
    try:
        yield
    finally:
        TRAIL.on = False


def click() -> None:
    """Click in a widget a second time."""
    image = io.read_image(PACKAGE / "assets" / "coins.jpg")
    widget = SegmentWidget(sam_rlx.load_model("sam-nano"), image, project=False)
    widget.click(346, 185)
    with followed():
        widget.click(350, 190)
    widget.close()


def item() -> None:
    """Do the second of three images of a batch, in this process."""

    def run(_job: Any, _workers: Any, blocks: Sequence[int], items_of: Any, report: Any) -> None:
        worker = BlockWorker(_job)

        def told(index: int, error: str | None) -> None:
            assert error is None, error
            TRAIL.on = False
            report(index, error)
            TRAIL.on = index == 0

        for block in blocks:
            worker.run(block, items_of(block), told)

    image = io.read_image(PACKAGE / "assets" / "coins.jpg")
    before, local.run = local.run, run
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(3):
                io.write_image(Path(folder) / f"{number}.png", image)
            out = Path(folder) / "out"
            batch.run(
                folder, out, model="sam-nano", point_coords=[[346, 185]], point_labels=[1], block=3
            )
    finally:
        TRAIL.on, local.run = False, before


def frame() -> None:
    """Track an object to one more frame."""
    frames = np.zeros((4, 60, 80, 3), np.uint8)
    frames[:, 20:40, 30:50] = 255
    video = sam_rlx.VideoPredictor(sam_rlx.load_model("sam2-nano"), frames)
    video.add_prompt(0, obj_id=1, point_coords=[[40, 30]], point_labels=[1])
    steps = video.propagate()
    next(steps), next(steps)
    with followed():
        next(steps)
    steps.close()


def main() -> int:
    """Print the three paths."""
    threading.setprofile(TRAIL.profile)
    sys.setprofile(TRAIL.profile)
    above = 0
    for (name, allowed), path in zip(ALLOWED.items(), (click, item, frame), strict=True):
        TRAIL.clear()
        path()
        files = TRAIL.files()
        checks = sum(file.startswith(CHECKS) for file in files)
        passed = len(files) - checks
        above += passed > allowed
        print(
            f"{name}: {passed} files of at most {allowed} and {checks} that check arguments, "
            f"{TRAIL.moves()} moves"
        )
        print("".join(f"  {line}\n" for line in files), end="")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
