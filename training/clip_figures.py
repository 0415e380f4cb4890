"""Measure how well objects of held-out clips are followed."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np
import torch

from training import prompts, shapes, textures
from training.clips import ClipMaker
from training.engines_sam2 import SamRlxClips, TorchClips
from training.imitate import box_of, middle
from training.scenes import SceneMaker

SEED = 456_789
SIDE = 512
MIN_AREA = 200
PROMPTS = ("point", "box", "mask")


def held_out_clips(
    count: int, frames: int, objects: int
) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Make clips of shapes, textures and photographs not trained on.

    Returns
    -------
    list of tuple
        Frames (H, W, 3) uint8 of each clip, and for each object its masks (T, H, W) bool.
    """
    fields, kinds = shapes.make_pool(400, SEED, 1)
    device = torch.device("cpu")
    pool = textures.TextureMaker(device, SEED, textures.HELD_OUT_PHOTOS).pool(200)
    maker = SceneMaker(torch.from_numpy(fields), torch.from_numpy(kinds), pool, SEED)
    clip_maker = ClipMaker(maker)
    out = []
    while len(out) < count:
        clips = clip_maker.make(1, frames, SIDE)
        targets = prompts.choose_targets(clips.frame(0), 4 * objects, maker.gen, 0.0)
        masks = clips.masks(targets, 1).numpy()
        keys = zip(targets.is_part.tolist(), targets.number.tolist(), strict=True)
        distinct = {key: masks[i] for i, key in enumerate(keys)}
        kept = [m for m in distinct.values() if m[0].sum() >= MIN_AREA]
        pixels = clips.pixels[0].permute(0, 2, 3, 1).numpy().astype(np.uint8)
        out.append((list(pixels), kept[:objects]))
    return out


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union; 1 where both are empty."""
    union = (a | b).sum()
    return float((a & b).sum() / union) if union else 1.0


def prompt_with(kind: str, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arguments of a prompt for `mask`: its middle, its box, or itself."""
    if kind == "point":
        return {
            "point_coords": middle(mask)[None],
            "point_labels": np.array([1], np.int32),
        }
    return {"box": box_of(mask)} if kind == "box" else {"mask": mask}


def measure_clips(
    engine: TorchClips | SamRlxClips,
    clips: list[tuple[list[np.ndarray], list[np.ndarray]]],
    kinds: Sequence[str] = PROMPTS,
) -> dict[str, list[float]]:
    """Mean J over the frames after the first, per object; and how absent objects fare."""
    figures = collections.defaultdict(list)
    for frames, objects in clips:
        if not objects:
            continue
        for kind in kinds:
            predictor = engine.open(frames)
            for number, masks in enumerate(objects):
                predictor.add_prompt(0, number, **prompt_with(kind, masks[0]))
            seen = {f.frame_index: f.masks for f in predictor.propagate()}
            for number, masks in enumerate(objects):
                rest = range(1, len(frames))
                j = [jaccard(seen[t][number], masks[t]) for t in rest]
                figures[f"J, {kind} on the first frame"].append(float(np.mean(j)))
                there = [v for v, t in zip(j, rest, strict=True) if masks[t].any()]
                figures[f"J where it is seen, {kind}"].extend(there)
                away = [not seen[t][number].any() for t in rest if not masks[t].any()]
                figures[f"absent frames left empty, {kind}"].extend(map(float, away))
                shown = [seen[t][number].any() for t in rest if masks[t].sum() >= MIN_AREA]
                figures[f"frames with it not empty, {kind}"].extend(map(float, shown))
        for masks in objects if kinds[0] == PROMPTS[0] else ():
            copied = [jaccard(masks[0], m) for m in masks[1:]]
            figures["J, first mask copied"].append(float(np.mean(copied)))
    return dict(figures)
