"""Everything mode in tiles: a made scene with 500 known objects, and peak memory against the side.

``python tests/nightly large_scenes`` does both. Alone, with a plot (needs matplotlib):
``python tests/nightly/large_scenes.py --sides 2000 6000 20000 --plot memory.png``
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TESTS = Path(__file__).parents[1]
SIDES = (1500, 3000, 6000, 12000, 20000)
CELL = 260
SCENE_TILE, SCENE_OVERLAP, SCENE_POINTS = 512, 200, 8
TILE, OVERLAP = 2048, 256  # where memory is measured
MIN_IOU = 0.95  # with the object, or with its mask in an image of its own
MAX_BYTES = 2 << 30


def generator(points: int) -> Any:
    """Return everything mode of the packaged model, as the command line has it."""
    import sam_rlx

    return sam_rlx.MaskGenerator(
        sam_rlx.load_model("sam-nano"),
        points_per_side=points,
        pred_iou_thresh=0.7,
        stability_score_thresh=0.8,
        objects_only=True,
    )


def scene_problems(count: int, seed: int) -> list[str]:
    """Find the objects of a scene of about 6,000 x 6,000 pixels; return what is wrong."""
    from sam_rlx._internal.tiling import Tiling
    from support.large_scene import LargeScene, found_once

    side = math.ceil(math.sqrt(count))
    scene = LargeScene(side, side, CELL, seed, count)
    begun = time.process_time()
    records = generator(SCENE_POINTS).generate(
        scene, tile=SCENE_TILE, overlap=SCENE_OVERLAP, progress=True
    )
    seconds = time.process_time() - begun
    best, number = found_once(scene, [record.counts for record in records])
    tiles = Tiling(SCENE_TILE, SCENE_OVERLAP).tiles(scene.shape)
    on_seam = np.array([scene.is_on_seam(index, tiles) for index in range(count)])
    height, width = scene.shape
    print(
        f"{count} objects in {height} x {width}, {len(tiles)} tiles: {len(records)} masks, "
        f"{(number == 1).sum()} found once, least IoU {best[on_seam].min():.3f} of "
        f"{on_seam.sum()} on seams, {best[~on_seam].min():.3f} of others; {seconds:.0f} s of CPU",
        flush=True,
    )
    found = []
    for i in np.flatnonzero((number != 1) | (best < MIN_IOU)):
        alone, same = without_tiles(scene, int(i), records)
        print(
            f"object {i}: {number[i]} masks, IoU {best[i]:.4f}; without tiles {alone:.4f}, and "
            f"{same:.4f} between the two masks"
        )
        if number[i] != 1 or same < MIN_IOU:
            found.append(f"object {i}: {number[i]} masks, best IoU {best[i]:.4f}")
    if len(records) != count:
        found.append(f"expected {count} masks, found {len(records)}")
    return found


def without_tiles(scene: Any, index: int, records: Any) -> tuple[float, float]:
    """Find an object in an image of a tile's size that has it in the middle.

    Returns the IoU of that mask with the object, and with its mask in tiles.
    """
    top, bottom, left, right = scene.box(index)
    y0 = min(max((top + bottom - SCENE_TILE) // 2, 0), scene.shape[0] - SCENE_TILE)
    x0 = min(max((left + right - SCENE_TILE) // 2, 0), scene.shape[1] - SCENE_TILE)
    window = slice(y0, y0 + SCENE_TILE), slice(x0, x0 + SCENE_TILE)
    truth = scene.mask(index, y0, y0 + SCENE_TILE, x0, x0 + SCENE_TILE)

    def best(masks: Iterable[NDArray[np.bool_]]) -> tuple[float, NDArray[np.bool_]]:
        found = [(float((m & truth).sum() / (m | truth).sum()), m) for m in masks]
        return max(found, key=lambda each: each[0], default=(0.0, np.zeros_like(truth)))

    image = scene.read(window[0].start, window[0].stop, window[1].start, window[1].stop)
    alone, whole = best(r.segmentation for r in generator(SCENE_POINTS).generate(image))
    near = [
        record
        for record in records
        if record.bbox[0] < right
        and record.bbox[1] < bottom
        and record.bbox[0] + record.bbox[2] >= left
        and record.bbox[1] + record.bbox[3] >= top
    ]
    _, tiled = best(record.mask()[window] for record in near)
    return alone, float((tiled & whole).sum() / max((tiled | whole).sum(), 1))


def measure(path: Path, points: int) -> dict[str, float]:
    """Return peak memory and more of everything mode on a file, in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(path), "--points", str(points)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=7200)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measured(path: Path, points: int) -> None:
    from sam_rlx import io

    begun = time.process_time()
    with io.open_windows(path) as image:
        records = generator(points).generate(image, tile=TILE, overlap=OVERLAP)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    runs = sum(record.counts.nbytes for record in records)
    seconds = time.process_time() - begun
    print(json.dumps({"peak": peak, "masks": len(records), "runs": runs, "seconds": seconds}))


def write_scene(path: Path, side: int, seed: int) -> None:
    """Write a scene as TIFF in tiles, one row of them at a time."""
    import tifffile
    from support.large_scene import LargeScene

    cells = math.ceil(side / CELL)
    scene = LargeScene(cells, cells, CELL, seed)
    block = 512

    def blocks() -> Any:
        for y in range(0, side, block):
            for x in range(0, side, block):
                part = scene.read(y, min(y + block, side), x, min(x + block, side))
                rest = [(0, block - size) for size in part.shape[:2]]
                yield np.pad(part, [*rest, (0, 0)])

    tifffile.imwrite(
        path, blocks(), shape=(side, side, 3), dtype=np.uint8, tile=(block, block),
        photometric="rgb", bigtiff=True,
    )  # fmt: skip


def memory(sides: tuple[int, ...], seed: int, points: int = 4) -> dict[int, dict[str, float]]:
    """Return what `measure` tells of scenes of these sides."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for side in sides:
            path = Path(folder) / "scene.tif"
            write_scene(path, side, seed)
            found[side] = each = measure(path, points)
            print(
                f"{side} x {side}: peak {each['peak'] / 1e6:.0f} MB, image {3 * side**2 / 1e6:.0f} "
                f"MB, {each['masks']} masks of {each['runs'] / 1e6:.1f} MB of run lengths, "
                f"{each['seconds']:.0f} s of CPU",
                flush=True,
            )
    return found


def plot(pyplot: Any, found: dict[int, dict[str, float]], path: Path) -> None:
    """Draw peak memory against the side, with the bytes of the image beside it."""
    sides = sorted(found)
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(sides, [found[side]["peak"] / 1e6 for side in sides], "o-", label="peak memory")
    axes.plot(sides, [3 * side**2 / 1e6 for side in sides], "--", label="the image alone")
    axes.axhline(MAX_BYTES / 1e6, color="0.6", lw=1)
    axes.set(xlabel="side of the image in pixels", ylabel="MB", ylim=(0, None))
    axes.legend()
    figure.savefig(path, dpi=100)


def main(amount: int, seed: int) -> int:
    """Run both with `amount` objects; return the number of problems."""
    problems = scene_problems(amount, seed)
    scale = math.sqrt(amount / 500)
    found = memory(tuple(round(side * scale) for side in SIDES), seed)
    problems += [
        f"{side} x {side}: {each['peak'] / 1e6:.0f} MB"
        for side, each in found.items()
        if each["peak"] > MAX_BYTES
    ]
    print(f"large_scenes: seed {seed}: {len(problems)} problems")
    for problem in problems:
        print(f"  {problem}")
    return len(problems)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=0, help="of a scene with known objects")
    parser.add_argument("--sides", type=int, nargs="*", default=[], help="of scenes to measure")
    parser.add_argument("--points", type=int, default=4, help="along each side of a tile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="file of the plot")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    # Before the work, so that a missing package does not end an hour of it.
    drawing = None if args.plot is None else importlib.import_module("matplotlib.pyplot")
    if args.measure is not None:
        _measured(args.measure, args.points)
        sys.exit(0)
    wrong = scene_problems(args.objects, args.seed) if args.objects else []
    peaks = memory(tuple(args.sides), args.seed, args.points) if args.sides else {}
    if drawing is not None:
        plot(drawing, peaks, args.plot)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
