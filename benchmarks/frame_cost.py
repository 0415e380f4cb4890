"""What frames of clips, animations and arrays on a disk cost, beside another installation.

    python benchmarks/frame_cost.py                          # this one
    python benchmarks/frame_cost.py --beside OTHER/bin/python

Prints CPU seconds, peak memory and decoded frames of each case, medians of five fresh processes,
and their ratios to those of the other Python's sam_rlx, in turn. Needs PyAV and Pillow, and a disk
for a file of 2.2 GB with holes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sam_rlx.frames import open_frames

FRAMES_OF_AV1, BACKWARDS = 10_000, 60
SHAPE = (720, 1000, 1000, 3)  # 2.2 GB


def _write(
    path: Path, codec: str, count: int, hw: tuple[int, int], options: dict[str, str]
) -> None:
    import av

    y, x = np.mgrid[: hw[0], : hw[1]]
    image = np.stack([x, y, x + y], axis=2).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25)
        stream.height, stream.width = hw
        stream.pix_fmt, stream.options = "yuv420p", options
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(np.roll(image, number, 1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def make(folder: Path) -> None:
    """Write the files of all cases."""
    from PIL import Image

    _write(folder / "av1.mp4", "libsvtav1", FRAMES_OF_AV1, (180, 320), {"preset": "12"})
    options = {"preset": "veryfast", "g": "250", "sc_threshold": "0"}
    _write(folder / "720p.mp4", "libx264", 250, (720, 1280), options)
    rng = np.random.default_rng(0)
    pages = [Image.fromarray(rng.integers(0, 99, (240, 320), np.uint8)) for _ in range(100)]
    pages[0].save(folder / "pages.webp", save_all=True, append_images=pages[1:], duration=40)
    np.lib.format.open_memmap(folder / "array.npy", "w+", np.uint8, SHAPE).flush()


def _open_av1(folder: Path) -> None:
    assert open_frames(folder / "av1.mp4").count == FRAMES_OF_AV1


def _backwards(folder: Path) -> None:
    frames = open_frames(folder / "720p.mp4")
    for index in range(BACKWARDS):
        frames.read(249 - index)


def _pages_backwards(folder: Path) -> None:
    frames = open_frames(folder / "pages.webp")
    for index in range(99, -1, -1):
        frames.read(index)


def _array(folder: Path) -> None:
    frames = open_frames(np.load(folder / "array.npy", mmap_mode="r"))
    for index in range(SHAPE[0]):
        frames.read(index).max()


CASES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "av1": (f"open AV1 of {FRAMES_OF_AV1:,} frames", _open_av1),
    "backwards": (f"{BACKWARDS} frames backwards, 720p H.264", _backwards),
    "pages": ("100 pages of WebP backwards", _pages_backwards),
    "array": ("all frames of a mapped array of 2.2 GB", _array),
}


def _count_decoded() -> list[int]:
    """Count the frames that decoders give, in this version's module or in an older one's."""
    for name in ("sam_rlx._internal.media.clip_frames", "sam_rlx._video.clip_frames"):
        try:
            module: Any = importlib.import_module(name)
            break
        except ModuleNotFoundError:
            continue
    frames, decoded = [0], module.decoded

    def counted(*arguments: Any) -> Any:
        for frame in decoded(*arguments):
            frames[0] += 1
            yield frame

    module.decoded = counted
    return frames


def measure(case: str, folder: Path) -> dict[str, float]:
    """Run a case in this process: CPU seconds, peak memory in MB, decoded frames."""
    for name in ("av", "PIL.Image"):
        importlib.import_module(name)
    frames = _count_decoded()
    before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    CASES[case][1](folder)
    cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before
    # Not `ru_maxrss`, which begins with the memory of the process that started this one.
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    return {"cpu": cpu, "peak": peak, "decoded": frames[0]}


def _in_process(python: str, case: str, folder: Path) -> dict[str, float]:
    words = [python, __file__, "--case", case, "--folder", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run all cases, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="PYTHON", help="of another installation")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args.case, args.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        print("| case | CPU s | peak MB | decoded |" + " ratios of the three |" * bool(args.beside))
        print("| --- | --- | --- | --- |" + " --- |" * bool(args.beside))
        pythons = [sys.executable, *([args.beside] if args.beside else [])]
        for case, (title, _) in CASES.items():
            _in_process(sys.executable, case, folder)  # brings the file into the system's memory
            rounds = [[_in_process(python, case, folder) for python in pythons] for _ in range(5)]
            ours, *others = (
                {
                    key: median(one[which][key] for one in rounds)
                    for key in ("cpu", "peak", "decoded")
                }
                for which in range(len(pythons))
            )
            row = f"| {title} | {ours['cpu']:.2f} | {ours['peak']:.0f} | {ours['decoded']:.0f} |"
            for other in others:
                row += f" {', '.join(f'{ours[key] / max(other[key], 1e-3):.3f}' for key in ours)} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
