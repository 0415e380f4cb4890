"""Cost of masks after the network: outlines, drawings, run lengths, files. Ours beside others.

    python benchmarks/masks.py
    python benchmarks/masks.py --only outlines overlay

Prints CPU seconds, the best of some runs, and how far memory grows in a process of its own. One
thread. Needs Linux; OpenCV, pycocotools and Pillow for the rivals and for files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE, MANY = (4000, 6000), (2400, 3600)  # 24 and 8.6 megapixels
RECORDS, OBJECTS = 192, 12
ROUNDS = 3
Work = Callable[[], Any]


def _record(hw: tuple[int, int], x: int, y: int, side: int) -> Any:
    """Return a record of a square with a hole, made from its run lengths."""
    from sam_rlx.generator import MaskRecord

    third = side // 3
    solid = [side, hw[0] - side]
    cut = [third, third, side - 2 * third, hw[0] - side]
    runs = [*(solid * third), *(cut * third), *(solid * (side - 2 * third))]
    rest = hw[0] * hw[1] - (x * hw[0] + y) - sum(runs[:-1])
    return MaskRecord(
        {
            "counts": np.array([x * hw[0] + y, *runs[:-1], rest], np.uint32),
            "size": hw,
            "area": side * side - third * third,
            "bbox": [x, y, side - 1, side - 1],
            "predicted_iou": 1.0,
            "point_coords": [[x, y]],
            "stability_score": 1.0,
            "crop_box": [0, 0, hw[1], hw[0]],
        }
    )


def _records() -> list[Any]:
    """Return what everything mode finds on 8.6 megapixels: squares from 30 to 400 pixels."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(RECORDS):
        side = int(random.integers(30, 400))
        x, y = (int(random.integers(0, length - side)) for length in (MANY[1], MANY[0]))
        found.append(_record(MANY, x, y, side))
    return found


def _contours(records: list[Any]) -> list[Any]:
    import cv2

    mode, method = cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE
    return [cv2.findContours(record.mask().view(np.uint8), mode, method) for record in records]


def outline() -> tuple[Work, Work]:
    """Outline of a 30-pixel object on 24 megapixels."""
    record = _record(LARGE, 3000, 2000, 30)
    return record.polygons, lambda: _contours([record])


def outlines() -> tuple[Work, Work]:
    """Outlines of 192 records of 8.6 megapixels."""
    records = _records()
    return lambda: [record.polygons() for record in records], lambda: _contours(records)


def overlay() -> tuple[Work, Work]:
    """Overlay of 192 records of 8.6 megapixels."""
    import cv2
    from sam_rlx import viz

    records, image = _records(), np.full((*MANY, 3), 90, np.uint8)

    def rival() -> NDArray[np.uint8]:
        shown = image.copy()
        for index, record in enumerate(records):
            mask = record.mask()
            color = np.array(viz.color(index), np.uint8)
            shown[mask] = shown[mask] // 2 + color // 2
            lines, _ = cv2.findContours(mask.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
            cv2.drawContours(shown, lines, -1, color.tolist(), 10)
        return shown

    return lambda: viz.overlay(image, (record.mask() for record in records)), rival


def overlay_records() -> tuple[Work, Work]:
    """The same by `viz.overlay_records`."""
    from sam_rlx import viz

    records, image = _records(), np.full((*MANY, 3), 90, np.uint8)
    return lambda: viz.overlay_records(image, records), overlay()[1]


def checkerboard() -> tuple[Work, Work]:
    """Run lengths of a checkerboard of 9 megapixels."""
    from pycocotools import mask as coco
    from sam_rlx import _core

    board = np.indices((3000, 3000)).sum(axis=0) % 2 == 1
    ordered = np.asfortranarray(board.view(np.uint8))
    return (
        lambda: _core.rle_to_string(_core.rle_encode(board)),
        lambda: coco.encode(ordered),
    )


def files() -> tuple[Work, Work]:
    """20 masks of 8.6 megapixels as files."""
    import cv2
    from sam_rlx import io

    masks = [record.mask() for record in _records()[:20]]
    folder = Path(tempfile.mkdtemp())

    def rival() -> None:
        for index, mask in enumerate(masks):
            cv2.imwrite(str(folder / f"{index}.png"), mask.view(np.uint8) * np.uint8(255))

    return lambda: io.write_masks(folder, masks), rival


def apart() -> tuple[Work, Work]:
    """A frame with 12 objects of 4 megapixels that may not overlap; beside it, that may."""
    return _tracked(True), _tracked(False)


def _tracked(apart: bool) -> Work:
    import sam_rlx

    frames = np.full((2, 2000, 2000, 3), 30, np.uint8)
    frames[:, 500:1000, 500:1000] = 200

    def track() -> Any:
        model = sam_rlx.load_model("sam2-nano")
        video = sam_rlx.VideoPredictor(model, frames, num_threads=1, non_overlap_masks=apart)
        for name in range(OBJECTS):
            video.add_prompt(0, name, box=[500, 500, 1000, 1000])
        return list(video.propagate(max_frames=1))

    return track


CASES = {
    case.__name__.replace("_", "-"): case
    for case in (outline, outlines, overlay, overlay_records, checkerboard, files, apart)
}


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(name))


def measure(name: str, is_rival: bool) -> None:
    """Print CPU milliseconds and megabytes of a case, in this process."""
    import cv2

    cv2.setNumThreads(1)
    work = CASES[name]()[is_rival]
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - start))
    print(min(times), _status("VmHWM") - before)


def main() -> None:
    """Measure each case in processes of its own and print a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], options.measure[1] == "rival")
        return
    print("| what | ms | rival's | ratio | MB | rival's |\n| --- | --- | --- | --- | --- | --- |")
    for name in options.only:
        cells = []
        for who in ("ours", "rival"):
            command = [sys.executable, __file__, "--measure", name, who]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            cells.append([float(number) for number in done.stdout.split()])
        (ours, memory), (rival, rival_memory) = cells
        print(
            f"| {CASES[name].__doc__.rstrip('.')} | {ours:.1f} | {rival:.1f} | "
            f"{ours / rival:.3f} | {memory:.0f} | {rival_memory:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
