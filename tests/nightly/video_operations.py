"""Random operations on video sessions, interrupted at random polls.

Every operation runs on two sessions. On one of them it is often interrupted first, at a poll that
is drawn, some of them several times; then it runs to its end. Both sessions must answer the same,
errors included, and show the same masks in the end. ``python tests/nightly/video_operations.py
COUNT SEED`` prints its counts in one line.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.half_size import half_size
from support.interrupts import polls

Operation = Callable[[sam_rlx.VideoPredictor], Any]
HW = 96, 128
NUM_FRAMES = 6
OPERATIONS_OF_A_SESSION = 12
TEXTS = "red circle", "blue square"


def paint(t: int) -> NDArray[np.uint8]:
    """Return a frame with a red disc and a blue square that move."""
    y, x = np.mgrid[: HW[0], : HW[1]]
    frame = np.stack([120 + 14 * np.sin(x / 7 + y / 13)] * 3, -1)
    frame[np.hypot(x - 30 - 5 * t, y - 35) < 16] = 215, 40, 35
    frame[(abs(x - 95 + 4 * t) < 12) & (abs(y - 68) < 12)] = 40, 60, 220
    return frame.astype(np.uint8)


def digest(value: Any) -> Any:
    """Return what tells two answers apart."""
    if isinstance(value, sam_rlx.VideoFrame):
        masks = {k: hashlib.sha256(m.tobytes()).hexdigest() for k, m in value.masks.items()}
        return value.frame_index, masks, dict(value.scores), dict(value.texts)
    if isinstance(value, list):
        return [digest(entry) for entry in value]
    return None


def answer(operation: Operation, session: sam_rlx.VideoPredictor) -> Any:
    """Return what an operation answers, or which error it raises."""
    try:
        return digest(operation(session))
    except sam_rlx.SamRlxError as error:
        return type(error).__name__, str(error)


@dataclass
class Draw:
    """Draws operations for sessions of one kind."""

    chance: random.Random
    streaming: bool
    texts: bool

    def __call__(self) -> Operation:
        """Return a random operation; some are refused."""
        kinds = [self.points, self.points, self.box, self.mask, self.clear, self.remove]
        kinds += [self.push] * 6 if self.streaming else [self.propagate] * 4
        kinds += [self.text] * 2 if self.texts else []
        return self.chance.choice(kinds)()

    def frame(self, session: sam_rlx.VideoPredictor, drawn: int) -> int:
        """Return the frame that a prompt is for: with `push`, the last one."""
        return max((session.num_frames or 0) - 1, 0) if self.streaming else drawn

    def points(self) -> Operation:
        """Click."""
        count = self.chance.randrange(1, 4)
        coords = [[self.chance.uniform(0, side) for side in HW[::-1]] for _ in range(count)]
        labels = [1] + [self.chance.randrange(2) for _ in range(count - 1)]
        t, name = self.chance.randrange(NUM_FRAMES), self.chance.randrange(3)
        clear = self.chance.random() < 0.5
        return lambda s: s.add_prompt(
            self.frame(s, t),
            name,
            point_coords=coords,
            point_labels=labels,
            clear_old_points=clear,
        )

    def box(self) -> Operation:
        """Draw a box."""
        x, y = self.chance.uniform(0, HW[1] - 40), self.chance.uniform(0, HW[0] - 40)
        t, name = self.chance.randrange(NUM_FRAMES), self.chance.randrange(3)
        return lambda s: s.add_prompt(self.frame(s, t), name, box=[x, y, x + 36, y + 36])

    def mask(self) -> Operation:
        """Give a mask; one of the wrong size is refused."""
        t, name = self.chance.randrange(NUM_FRAMES), self.chance.randrange(3)
        mask = np.zeros(HW if self.chance.random() < 0.8 else (7, 9), np.bool_)
        mask[2:40, 3:50] = True
        return lambda s: s.add_prompt(self.frame(s, t), name, mask=mask)

    def clear(self) -> Operation:
        """Take prompts back."""
        t, name = self.chance.randrange(NUM_FRAMES), self.chance.randrange(3)
        return lambda s: s.clear_prompts(self.frame(s, t), name)

    def remove(self) -> Operation:
        """Forget an object, or now and then all of them."""
        name = self.chance.randrange(3)
        if self.chance.random() < 0.1:
            return lambda s: s.reset()
        return lambda s: s.remove_object(name)

    def text(self) -> Operation:
        """Name what to look for."""
        text, t = self.chance.choice(TEXTS), self.chance.randrange(NUM_FRAMES)
        if self.streaming:
            return lambda s: s.add_text(text)
        return lambda s: s.add_text(text, frame_index=t)

    def push(self) -> Operation:
        """Give the next frame; one of another size is refused."""
        image = paint(self.chance.randrange(2 * NUM_FRAMES))
        if self.chance.random() < 0.1:
            image = image[:-1]
        return lambda s: s.push(image)

    def propagate(self) -> Operation:
        """Track some frames."""
        start = self.chance.choice([None, *range(NUM_FRAMES)])
        most, reverse = self.chance.randrange(1, 4), self.chance.random() < 0.3
        return lambda s: list(s.propagate(start_frame=start, max_frames=most, reverse=reverse))


@dataclass
class Counts:
    """What was done."""

    sessions: int = 0
    operations: int = 0
    interrupts: int = 0
    refused: int = 0
    different: int = 0


def disturb(
    operation: Operation, session: sam_rlx.VideoPredictor, chance: random.Random, most: int
) -> tuple[int, Any]:
    """Interrupt an operation at random polls, at most three times, then let it end.

    Returns how often it was interrupted, and its answer. What an interrupted call left in a cache,
    or committed before its last part, is not computed again: there may be fewer polls then.
    """
    count = 0
    while count < 3 and most > 0 and chance.random() < 0.6:
        with polls(chance.randint(1, most)):
            try:
                return count, answer(operation, session)
            except KeyboardInterrupt:
                count += 1
    return count, answer(operation, session)


def play(model: sam_rlx.Model, seed: int, most: int, counts: Counts) -> None:
    """Run a pair of sessions for at most so many operations, and compare them."""
    chance = random.Random(seed)
    streaming = chance.random() < 0.5
    frames = None if streaming else np.stack([paint(t) for t in range(NUM_FRAMES)])
    calm, disturbed = (sam_rlx.VideoPredictor(model, frames, num_threads=1) for _ in range(2))
    draw = Draw(chance, streaming, model.family == "sam3")
    counts.sessions += 1
    for _ in range(min(most, OPERATIONS_OF_A_SESSION)):
        operation = draw()
        with polls() as seen:
            expected = answer(operation, calm)
        counts.operations += 1
        counts.refused += isinstance(expected, tuple) and isinstance(expected[0], str)
        # A propagation is a call for each frame: those before the interrupt count.
        is_one_call = not isinstance(expected, list) or len(expected) == 1
        count, found = disturb(operation, disturbed, chance, seen.count * is_one_call)
        counts.interrupts += count
        counts.different += found != expected
        counts.different += (calm.obj_ids, calm.num_frames, calm.orig_hw) != (
            disturbed.obj_ids,
            disturbed.num_frames,
            disturbed.orig_hw,
        )
    for t in range(calm.num_frames or 0):
        show: Operation = lambda s, t=t: s.frame(t)  # noqa: E731
        counts.different += answer(show, calm) != answer(show, disturbed)


def main(count: int, seed: int) -> int:
    """Run `count` operations, print the counts in one line, and return how many differ."""
    models = [half_size(name) for name in ("sam2-nano", "sam3-nano")]
    counts = Counts()
    while counts.operations < count:
        model = models[counts.sessions % len(models)]
        play(model, seed + counts.sessions, count - counts.operations, counts)
    print(
        f"video_operations: {counts.operations} operations in {counts.sessions} pairs of sessions, "
        f"{counts.interrupts} interrupts, {counts.refused} refused, {counts.different} differ, "
        f"seed {seed}"
    )
    return counts.different


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
