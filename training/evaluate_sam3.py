"""Measure a checkpoint of SAM 3's detector on held-out scenes with texts.

`python -m training.evaluate_sam3 FILE` prints mask AP at IoU 0.5, F1 at score 0.5, how often
presence is told right, and how many texts that mean nothing get no mask: for texts of sizes,
colours and nouns such as "red circle", for those that name a surface too, for all, and for example
boxes without a text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from training import export
from training.detection import goals
from training.sam3 import Found, Sam3, Sam3Video
from training.texts import SAME, SURFACES, VISUAL, WORDS, Named, TextMaker, text_maker

SEED = 345_678
TEXTS = 4
THRESHOLD = 0.5


class Judged(NamedTuple):
    """Answers to texts: scores and whether each is right, objects there, and kept when absent."""

    scores: list[float]
    right: list[bool]
    objects: int
    told: list[bool]
    empty: list[bool]


def judge(found: Found, batch: Named) -> list[Judged]:
    """Compare answers with what texts mean: each is right for at most one object."""
    masks = found.masks() > 0
    goal = goals(batch, masks.shape[-1])
    presence = found.presence[-1].float().sigmoid()
    scores = found.scores[-1].float().sigmoid() * presence
    own, wanted = masks.flatten(2).float(), goal.masks.flatten(2).float()
    both = own @ wanted.mT
    union = (own.sum(2)[:, :, None] + wanted.sum(2)[:, None] - both).clamp(min=1)
    fits = (both / union >= 0.5) & goal.there[:, None]
    parts = []
    for i in range(len(scores)):
        free = np.ones(goal.there.shape[1], bool)
        out = Judged([], [], int(goal.there[i].sum()), [], [])
        for q in scores[i].argsort(descending=True).tolist():
            hit = np.flatnonzero(fits[i, q].numpy() & free)
            free[hit[:1]] = False
            out.scores.append(float(scores[i, q]))
            out.right.append(len(hit) > 0)
        there = bool(goal.there[i].any())
        out.told.append((float(presence[i, 0]) > 0.5) == there)
        if not there:
            out.empty.append(float(scores[i].max()) <= THRESHOLD)
        parts.append(out)
    return parts


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
    empty = [e for p in parts for e in p.empty]
    kept = scores > THRESHOLD
    hits = (kept & right).sum()
    return {
        "mask AP at 0.5": average_precision(scores, right, objects),
        "F1 at score 0.5": float(2 * hits / max(kept.sum() + objects, 1)),
        "presence told right": float(np.mean([t for p in parts for t in p.told])),
        "absent texts left empty": float(np.mean(empty)) if empty else float("nan"),
    }


@torch.no_grad()
def answers(
    model: Sam3, maker: TextMaker, images: int, examples: bool
) -> Iterator[tuple[Judged, Tensor]]:
    """Judge so many images with four texts each; give the tokens of each text as well."""
    for _ in range(images):
        batch = maker.make(1, model.config.img_size, TEXTS, examples)
        asked = (x.flatten(0, 1) for x in (batch.ids, batch.boxes, batch.labels))
        found = model(batch.pixels / 127.5 - 1, *asked)
        yield from zip(judge(found, batch), batch.ids[0], strict=True)


def measure(model: Sam3, maker: TextMaker, images: int) -> dict[str, dict[str, float]]:
    """Measure a model on so many images for texts, and on as many for examples."""
    named = torch.tensor([WORDS[w] for word in SURFACES for w in {word, SAME.get(word, word)}])
    groups: dict[str, list[Judged]] = {"size, colour, noun": [], "surface too": [], "all": []}
    for judged, ids in answers(model, maker, images, examples=False):
        surface = bool(torch.isin(ids, named).any())
        groups["surface too" if surface else "size, colour, noun"].append(judged)
        groups["all"].append(judged)
    seen = answers(model, maker, images, examples=True)
    groups["example box alone"] = [judged for judged, ids in seen if int(ids[1]) == VISUAL]
    return {name: figures(parts) for name, parts in groups.items()}


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--images", type=int, default=100)
    args = parser.parse_args()
    maker = text_maker(torch.device("cpu"), SEED, 400, 40, 1)
    model = export.load(args.checkpoint)
    detector = model.detector if isinstance(model, Sam3Video) else model
    groups = measure(detector, maker, args.images)
    print(" " * 26 + "".join(f"{group:>20s}" for group in groups))
    for name in groups["all"]:
        values = (f"{groups[group][name]:20.3f}" for group in groups)
        print(f"{name:26s}" + "".join(values))


if __name__ == "__main__":
    main()
