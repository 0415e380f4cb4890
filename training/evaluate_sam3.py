"""Measure a checkpoint of SAM 3's detector on held-out scenes with phrases.

`python -m training.evaluate_sam3 FILE` prints mask AP at IoU 0.5, F1 at score 0.5, how often
presence is told right, and how many phrases that mean nothing get no mask.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from training import export
from training.detection import goals
from training.phrases import Named, PhraseMaker, phrase_maker
from training.sam3 import Found, Sam3

SEED = 345_678
PHRASES = 4
THRESHOLD = 0.5


class Judged(NamedTuple):
    """Answers to phrases: scores and whether each is right, objects there, and kept when absent."""

    scores: list[float]
    right: list[bool]
    objects: int
    told: list[bool]
    empty: list[bool]


def judge(found: Found, batch: Named) -> Judged:
    """Compare answers with what phrases mean; an answer is right for at most one object."""
    masks = found.masks() > 0
    goal = goals(batch, masks.shape[-1])
    presence = found.presence[-1].float().sigmoid()
    scores = found.scores[-1].float().sigmoid() * presence
    both = (masks[:, :, None] & goal.masks[:, None]).sum((3, 4)).float()
    union = (masks[:, :, None] | goal.masks[:, None]).sum((3, 4)).clamp(min=1)
    fits = (both / union >= 0.5) & goal.there[:, None]
    out = Judged([], [], int(goal.there.sum()), [], [])
    for i in range(len(scores)):
        free = np.ones(goal.there.shape[1], bool)
        for q in scores[i].argsort(descending=True).tolist():
            hit = np.flatnonzero(fits[i, q].numpy() & free)
            free[hit[:1]] = False
            out.scores.append(float(scores[i, q]))
            out.right.append(len(hit) > 0)
        there = bool(goal.there[i].any())
        out.told.append((float(presence[i, 0]) > 0.5) == there)
        if not there:
            out.empty.append(float(scores[i].max()) <= THRESHOLD)
    return out


def average_precision(scores: np.ndarray, right: np.ndarray, objects: int) -> float:
    """Area under the curve of precision over recall, precision made monotonic."""
    order = np.argsort(-scores, kind="stable")
    hits = right[order].cumsum()
    precision = hits / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best * right[order]).sum() / max(objects, 1))


def figures(parts: list[Judged]) -> dict[str, float]:
    """Figures over all answers."""
    scores = np.array([s for p in parts for s in p.scores])
    right = np.array([r for p in parts for r in p.right], bool)
    objects = sum(p.objects for p in parts)
    kept = scores > THRESHOLD
    hits = (kept & right).sum()
    return {
        "mask AP at 0.5": average_precision(scores, right, objects),
        "F1 at score 0.5": float(2 * hits / max(kept.sum() + objects, 1)),
        "presence told right": float(np.mean([t for p in parts for t in p.told])),
        "absent phrases left empty": float(np.mean([e for p in parts for e in p.empty])),
    }


@torch.no_grad()
def measure(model: Sam3, maker: PhraseMaker, pictures: int) -> dict[str, float]:
    """Measure a model on so many pictures with four phrases each."""
    parts = []
    for _ in range(pictures):
        batch = maker.make(1, model.config.img_size, PHRASES)
        found = model(batch.pixels / 127.5 - 1, batch.ids.flatten(0, 1))
        parts.append(judge(found, batch))
    return figures(parts)


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--pictures", type=int, default=100)
    args = parser.parse_args()
    maker = phrase_maker(torch.device("cpu"), SEED, 400, 40, 1)
    for name, value in measure(export.load(args.checkpoint), maker, args.pictures).items():
        print(f"{name:28s} {value:.3f}")


if __name__ == "__main__":
    main()
