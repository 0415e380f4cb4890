"""Measure a checkpoint on held-out scenes, the coins of scikit-image, and held-out clips.

One command prints the figures of a model card: `python -m training.evaluate --model sam2-nano`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
import torch
from scipy import ndimage
from skimage.filters import sobel
from skimage.segmentation import watershed

from training import engines_sam2, prompts, shapes, textures
from training.clip_figures import PROMPTS, held_out_clips, measure_clips
from training.engines import CHECKPOINT, ENGINES, Engine, default_engine
from training.engines_sam2 import CLIP_ENGINES, TorchSam2Engine
from training.imitate import box_of, correct, iou, middle
from training.scenes import SceneMaker

SEED = 987_654
SIDE = 512
MIN_AREA = 200
MIN_COIN = 500
CHECKPOINTS = {"sam-nano": CHECKPOINT, "sam2-nano": engines_sam2.CHECKPOINT}


def held_out(scenes: int, objects: int) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Make images and masks of shapes, textures and photographs not trained on."""
    device = torch.device("cpu")
    fields, kinds = shapes.make_pool(400, SEED, 1)
    pool = textures.TextureMaker(device, SEED, textures.HELD_OUT_PHOTOS).pool(200)
    maker = SceneMaker(torch.from_numpy(fields), torch.from_numpy(kinds), pool, SEED)
    pairs = []
    while len(pairs) < scenes:
        batch = maker.make(4, SIDE)
        targets = prompts.choose_targets(batch, 4 * objects, maker.gen)
        for i in range(len(batch.pixels)):
            height, width = (int(v) for v in batch.size[i])
            pixels = batch.pixels[i, :, :height, :width].permute(1, 2, 0).numpy()
            masks = {}
            for n in (targets.scene == i).nonzero()[:, 0].tolist():
                number, is_part = int(targets.number[n]), bool(targets.is_part[n])
                seen = (batch.part if is_part else batch.owner)[i, :height, :width] == number
                if number > 0 and seen.sum() >= MIN_AREA:
                    masks[is_part, number] = seen.numpy()
            pairs.append((pixels.astype(np.uint8), list(masks.values())[:objects]))
    return pairs[:scenes]


def coin_masks() -> list[np.ndarray]:
    """Outline the coins as scikit-image's region-based segmentation example does."""
    coins = skimage.data.coins()
    markers = np.zeros_like(coins, dtype=np.int32)
    markers[coins < 30], markers[coins > 150] = 1, 2
    filled = ndimage.binary_fill_holes(watershed(sobel(coins), markers) - 1)
    labels, count = ndimage.label(filled)
    masks = [labels == number for number in range(1, count + 1)]
    return [mask for mask in masks if mask.sum() >= MIN_COIN]


def prompt_object(engine: Engine, mask: np.ndarray, clicks: int) -> dict[str, float]:
    """Click, correct and box one object; return the IoU after each."""
    points, labels = [middle(mask)], [1]
    answer = engine.predict(points=np.stack(points), labels=np.array(labels))
    each = [iou(m, mask) for m in answer.masks]
    best = int(answer.iou.argmax())
    figures = {
        "1 click": each[best],
        "1 click, best of three": max(each),
        "error of predicted IoU": abs(float(answer.iou[best]) - each[best]),
    }
    seen, low = answer.masks[best], answer.low_res[best]
    for number in range(2, clicks + 1):
        position, label = correct(mask, seen)
        points.append(position)
        labels.append(label)
        answer = engine.predict(
            points=np.stack(points), labels=np.array(labels), mask_input=low[None], multimask=False
        )
        seen, low = answer.masks[0], answer.low_res[0]
        if number in (3, 5):
            figures[f"{number} clicks"] = iou(seen, mask)
    figures["box"] = iou(engine.predict(box=box_of(mask), multimask=False).masks[0], mask)
    return figures


def measure(
    engine: Engine, pairs: list[tuple[np.ndarray, list[np.ndarray]]], clicks: int
) -> dict[str, list[float]]:
    """Collect the figures of every object of every image."""
    figures: dict[str, list[float]] = collections.defaultdict(list)
    for image, masks in pairs:
        if masks:
            engine.set_image(image)
        for mask in masks:
            for name, value in prompt_object(engine, mask, clicks).items():
                figures[name].append(value)
    return dict(figures)


def show(title: str, figures: dict[str, list[float]]) -> None:
    """Print a table of means."""
    count = len(next(iter(figures.values())))
    print(f"{title} ({count} objects)")
    for name, values in figures.items():
        print(f"  {name:26s} {np.mean(values):.3f}")


@dataclasses.dataclass
class Judge:
    """Measures a checkpoint, piece by piece, here or in processes of its own."""

    checkpoint: Path
    engine: str
    video: bool

    @functools.cached_property
    def images(self) -> Engine:
        """The engine for images."""
        if self.engine == "torch" and self.video:
            return TorchSam2Engine(self.checkpoint)
        return ENGINES[self.engine](self.checkpoint)

    @functools.cached_property
    def clips(self) -> engines_sam2.TorchClips | engines_sam2.SamRlxClips:
        """The engine for clips."""
        return CLIP_ENGINES[self.engine](self.checkpoint)

    def __call__(self, task: tuple[str, str | int, Any]) -> tuple[str, dict[str, list[float]]]:
        """Measure one image with so many clicks, or one clip with a kind of prompt."""
        title, how, item = task
        if isinstance(how, str):
            return title, measure_clips(self.clips, [item], [how])
        return title, measure(self.images, [item], how)


def _enter(judge: Judge) -> None:
    global _judge
    torch.set_num_threads(1)
    _judge = judge


def _measure(task: tuple[str, str | int, Any]) -> tuple[str, dict[str, list[float]]]:
    return _judge(task)


def measure_all(
    judge: Judge, tasks: list[tuple[str, str | int, Any]], workers: int
) -> dict[str, dict[str, list[float]]]:
    """Collect the figures of all tasks by title; long tasks had better come first."""
    found: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        if workers > 1:
            context = multiprocessing.get_context("spawn")
            pool = stack.enter_context(context.Pool(workers, _enter, (judge,)))
            results = pool.imap(_measure, tasks)
        else:
            results = map(judge, tasks)
        for title, figures in results:
            into = found.setdefault(title, collections.defaultdict(list))
            for name, values in figures.items():
                into[name] += values
    return found


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(CHECKPOINTS), default="sam-nano")
    parser.add_argument("--engine", choices=list(ENGINES), default=default_engine())
    parser.add_argument("--checkpoint", type=Path, help="another file than the trained one")
    parser.add_argument("--scenes", type=int, default=100)
    parser.add_argument("--objects", type=int, default=3, help="objects per scene or clip at most")
    parser.add_argument("--clips", type=int, default=24, help="held-out clips, for sam2-nano")
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1, help="processes to measure with")
    args = parser.parse_args()
    start = time.time()
    checkpoint = args.checkpoint or CHECKPOINTS[args.model]
    judge = Judge(checkpoint, args.engine, args.model == "sam2-nano")
    tasks: list[tuple[str, str | int, Any]] = []
    if judge.video:
        clips = held_out_clips(args.clips, args.frames, args.objects)
        tasks += [("held-out clips", kind, clip) for clip in clips for kind in PROMPTS]
    coins = skimage.data.coins()
    tasks.append(("scikit-image coins", 3, (np.stack([coins] * 3, -1), coin_masks())))
    tasks += [("held-out scenes", 5, pair) for pair in held_out(args.scenes, args.objects)]
    print(f"mean IoU with {checkpoint.name}, engine {args.engine}")
    for title, figures in measure_all(judge, tasks, args.workers).items():
        show(title, figures)
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
