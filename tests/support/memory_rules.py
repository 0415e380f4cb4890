"""Made sequences for rules of memory: what a mask decoder could give on each frame. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

LOW, SIDE, HW = 32, 128, (50, 70)  # of masks, of the network's input, of the video
FRAMES = 96
Box: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Sequence:
    """Masks (T, 3, LOW, LOW) of logits, predicted IoU (T, 3) and object scores (T,)."""

    masks: NDArray[np.float32]
    ious: NDArray[np.float32]
    scores: NDArray[np.float32]


def _drawn(boxes: list[Box]) -> NDArray[np.float32]:
    """Return logits (LOW, LOW) above 0 in boxes (x0, y0, x1, y1) of inclusive positions."""
    mask = np.full((LOW, LOW), -5, np.float32)
    for x0, y0, x1, y1 in boxes:
        mask[max(y0, 0) : y1 + 1, max(x0, 0) : x1 + 1] = 4
    return mask


def _box(x: float, y: float, width: int, height: int) -> Box:
    left, top = round(x - width / 2), round(y - height / 2)
    return left, top, left + width - 1, top + height - 1


def sequence(name: str, count: int = FRAMES) -> Sequence:
    """Make a sequence.

    "distractor": another object is near; a mask has it too, on some frames, or it alone.
    "occlusion": the object is hidden for some time, with scores between -1 and 0 at both ends.
    "fast": the object jumps, and stays where it was for a moment in another mask.
    "random": anything; predicted IoU from 0 to 1, often near the limits of the rules.
    """
    generator = np.random.default_rng([len(name), *name.encode()])
    masks, ious, scores = [], [], []
    for t in range(count):
        x, y, width, height = 9 + 0.12 * t, 14 + 3 * np.sin(t / 9), 6 + t // 40, 8
        noise = generator.uniform(-0.02, 0.02, 3)
        score, predicted = 5.0, np.array([0.9, 0.84, 0.6]) + noise
        own = [_box(x, y, width, height)]
        other = [_box(x + 9, y + 4, width, height)]
        if name == "distractor":
            near = t % 23 in range(5, 14)
            tried = [own, own + other if near else own, other if near else own]
            if t % 31 == 20:
                predicted = predicted[[2, 1, 0]]  # the other object looks better
        elif name == "occlusion":
            hidden = 30 <= t < 52
            score = {29: -0.4, 30: -0.9, 51: -0.6}.get(t, -6.0 if hidden else 4.0)
            part = [_box(x, y, max(1, width // 2), height)]
            tried = [own, part if 26 <= t < 30 else own + other, part]
            if 22 <= t < 36:
                predicted = predicted - 0.5
        elif name == "fast":
            x, y = 6 + (t * 7) % 20, 8 + (t * 5) % 16
            own = [_box(x, y, 5, 6)] if t >= 20 else own
            tried = [own, [_box(9 + 0.12 * t, 14, 6, 8)], [_box(31 - x, y, 5, 6)]]
            predicted = predicted - (0.15 if t % 4 else 0)
            predicted = predicted[generator.permutation(3)] if t % 5 == 4 else predicted
        else:
            x, y = x + generator.normal(0, 1), y + generator.normal(0, 1)
            own = [_box(x, y, width, height)]
            parts = [own, other, own + other, [], [_box(x + 2, y, 2, 2)], [_box(2, 28, 9, 3)]]
            tried = [parts[k] for k in generator.choice(6, 3, p=[0.5, 0.1, 0.2, 0.05, 0.1, 0.05])]
            predicted = generator.choice([0.28, 0.32, 0.48, 0.52, 0.78, 0.83, 0.95], 3)
            predicted = predicted + generator.uniform(0, 1e-3, 3)
            score = float(generator.choice([3.0, 3.0, 3.0, 0.5, -0.5, -2.0]))
        masks.append(np.stack([_drawn(boxes) for boxes in tried]))
        ious.append(predicted)
        scores.append(score)
    return Sequence(np.stack(masks), np.array(ious, np.float32), np.array(scores, np.float32))


NAMES = ("distractor", "occlusion", "fast", "random")
