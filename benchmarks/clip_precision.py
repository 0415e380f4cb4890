"""What reduced precision costs in accuracy on clips: the masks of clicked objects, frame by frame.

    python benchmarks/clip_precision.py
    python benchmarks/clip_precision.py --upstream    # also PyTorch's bfloat16, of sam2-nano
    python benchmarks/clip_precision.py --models sam2.1_hiera_tiny.pt --precisions bfloat16

The clips are the hawk of the docs and windows that move over photographs of scikit-image and grow
meanwhile. The first frame gets a grid of clicks, an object each; those are followed that float32
sees as 0.2 to 50 % of the frame. A mask of a later frame is compared with float32's where one of
the two has at least 0.1 % of the frame: of a handful of pixels an IoU says nothing.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from PIL import Image
from sam_rlx.frames import open_frames
from sam_rlx.model import find_checkpoint

import precision
import run

COLOURED = ("astronaut", "chelsea", "coffee", "retina", "rocket", "stereo_motorcycle")
FRAMES = 12
GRID = 3  # clicks a side
FOLLOWED, COMPARED = (0.002, 0.5), 0.001  # parts of the frame
Frames = list[NDArray[np.uint8]]
Track = Callable[[Frames, Sequence[int]], NDArray[np.bool_]]  # -> masks (T, N, H, W)


def windows(image: NDArray[np.uint8]) -> Frames:
    """Return frames that move over an image and become larger, from a half of it to 0.7."""
    height, width = image.shape[:2]
    found = []
    for t in range(FRAMES):
        part = t / (FRAMES - 1)
        size = 0.5 + 0.2 * part
        y, x = int(height * 0.15 * part), int(width * (1 - size) * part)
        found.append(image[y : y + int(height * size), x : x + int(width * size)])
    size_xy = found[0].shape[1], found[0].shape[0]
    return [np.asarray(Image.fromarray(frame).resize(size_xy)) for frame in found]


def clips() -> Iterator[Frames]:
    """Yield frames (H, W, 3) uint8."""
    hawk = open_frames(precision.ROOT / "docs" / "media" / "hawk.mp4")
    yield [hawk.read(t) for t in range(0, 3 * FRAMES, 3)]
    for name in COLOURED:
        yield windows(precision.photograph(name))


def click(obj: int, frame: NDArray[np.uint8]) -> list[float]:
    """(x, y) of a click of the grid."""
    height, width = frame.shape[:2]
    return [(obj % GRID + 0.5) * width / GRID, (obj // GRID + 0.5) * height / GRID]


def ours(model: sam_rlx.Model) -> Track:
    """Follow clicks with a model."""

    def track(frames: Frames, objects: Sequence[int]) -> NDArray[np.bool_]:
        session = sam_rlx.VideoPredictor(model, frames)
        for obj in objects:
            point = click(obj, frames[0])
            session.add_prompt(0, obj, point_coords=[point], point_labels=[1])
        return np.array([[each.masks[obj] for obj in objects] for each in session.propagate()])

    return track


def upstream(reduced: bool) -> Track:
    """Follow clicks with SAM 2's predictor in PyTorch and the weights of sam2-nano."""
    import torch
    from support import upstream_video

    predictor = upstream_video.build_nano()

    def track(frames: Frames, objects: Sequence[int]) -> NDArray[np.bool_]:
        stacked = np.stack(frames)
        images = upstream_video.input_images(stacked, predictor.image_size, torch.float32)
        state = upstream_video.init_state(predictor, images, stacked.shape[1:3])
        for obj in objects:
            predictor.add_new_points_or_box(
                state, 0, obj, points=[click(obj, frames[0])], labels=[1]
            )
        found = predictor.propagate_in_video(state)
        return np.array([logits[:, 0].float().numpy() > 0 for _, _, logits in found])

    def in_its_precision(frames: Frames, objects: Sequence[int]) -> NDArray[np.bool_]:
        with torch.inference_mode():
            if reduced:
                with torch.autocast("cpu", torch.bfloat16):
                    return track(frames, objects)
            with upstream_video.NoBFloat16():
                return track(frames, objects)

    return in_its_precision


def compare(exact: Track, other: Track, frames: Frames) -> list[float]:
    """Return the IoU of each mask that counts after the first frame with the exact one."""
    parts = exact(frames[:1], range(GRID * GRID))[0].mean((1, 2))
    objects = np.flatnonzero((parts > FOLLOWED[0]) & (parts < FOLLOWED[1])).tolist()
    if not objects:
        return []
    pairs = zip(*(track(frames, objects)[1:] for track in (exact, other)), strict=True)
    return [
        precision.mask_iou(a, b)
        for both in pairs
        for a, b in zip(*both, strict=True)
        if max(a.mean(), b.mean()) >= COMPARED
    ]


def row(name: str, label: str, by_clip: Sequence[Sequence[float]]) -> None:
    """Print one row of the table."""
    ious = [iou for each in by_clip for iou in each]
    medians = f"{np.median(ious):.4f} | {np.mean(ious):.4f} | {np.percentile(ious, 10):.3f}"
    worst = min(np.mean(each) for each in by_clip if each)
    print(f"| {name} | {label} | {len(ious)} | {medians} | {worst:.3f} |", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", help="checkpoints (default: the small ones)")
    parser.add_argument("--precisions", nargs="*", default=["bfloat16", "int8"])
    parser.add_argument("--count", type=int, help="so many of the clips")
    parser.add_argument("--upstream", action="store_true", help="also PyTorch's bfloat16")
    options = parser.parse_args()
    small = [path for name, path in precision.trained_models().items() if name != "sam-nano"]
    paths = [find_checkpoint(name) for name in options.models or ()] or small
    everything = list(itertools.islice(clips(), options.count))
    print(f"{run.heading('Accuracy on clips', 2)}\n\n{len(everything)} clips.\n")
    columns = ("masks", "median IoU", "mean IoU", "10th percentile", "worst clip's mean")
    precision.table(("model", "precision", *columns))

    def compared(exact: Track, other: Track) -> list[list[float]]:
        return [compare(exact, other, frames) for frames in everything]

    if options.upstream:
        row("sam2-nano in PyTorch", "autocast", compared(upstream(False), upstream(True)))
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            exact = ours(sam_rlx.load_model(path))
            for variant in precision.variants(path, options.precisions, Path(folder))[1:]:
                model = sam_rlx.load_model(variant.path, precision=variant.precision)
                row(path.stem, variant.label, compared(exact, ours(model)))


if __name__ == "__main__":
    main()
