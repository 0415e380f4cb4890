"""Seconds of a frame of a clip that a click begins: the drop-in beside transformers, in turns.

    python benchmarks/transformers_clips.py [FOLDER] [--frames 12] [--repeat 3] [--threads 0]
        [--cpu]

FOLDER is one of transformers' Sam2VideoModel; by default sam2-nano's is made. Each run makes a
session of the same frames, and each frame that is tracked counts. With ``--cpu`` seconds are CPU
seconds of one core, where others use the machine. Needs transformers 5, torch and torchvision.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from PIL import Image
from sam_rlx.conversion import convert

from programs import clocks

HW = (240, 360)


def clip(count: int) -> NDArray[np.uint8]:
    """Return frames (T, H, W, 3) of an image that moves."""
    coffee = Image.open(Path(sam_rlx.__file__).parent / "assets" / "coffee.jpg").convert("RGB")
    pixels = np.asarray(coffee.resize(HW[::-1]))
    return np.stack([np.roll(pixels, 3 * index, 1) for index in range(count)])


def seconds(
    side: tuple[Any, Any], frames: NDArray[np.uint8], clock: Callable[[], float]
) -> Iterator[float]:
    """Yield the seconds of each frame that is tracked."""
    model, processor = side
    session = processor.init_video_session(video=frames)
    processor.add_inputs_to_inference_session(
        session, 0, 1, input_points=[[[[180, 120]]]], input_labels=[[[1]]]
    )
    model(session, frame_idx=0)
    start = clock()
    for output in model.propagate_in_video_iterator(session, start_frame_idx=1):
        np.asarray(output.pred_masks)
        yield clock() - start
        start = clock()


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: its default")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of one core (Linux)")
    arguments = parser.parse_args()
    clock = clocks.chosen(arguments.cpu)
    from sam_rlx.apps.parity import packages

    torch = packages.import_torch("torch")  # with torchvision, also beside another PyTorch
    if arguments.threads or arguments.cpu:
        torch.set_num_threads(1 if arguments.cpu else arguments.threads)
    import transformers
    from sam_rlx.compat import transformers as ours

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, torch.no_grad():
        folder = arguments.folder or Path(scratch) / "sam2-nano"
        if not arguments.folder:
            convert("sam2-nano", folder)
        sides = [
            (
                module.Sam2VideoModel.from_pretrained(folder).eval(),
                module.Sam2VideoProcessor.from_pretrained(folder),
            )
            for module in (ours, transformers)
        ]
        frames = clip(arguments.frames)
        found: list[list[float]] = [[], []]
        for _ in range(arguments.repeat):
            for side, mine in zip(sides, found, strict=True):
                mine += seconds(side, frames, clock)
    own, theirs = map(statistics.median, found)
    print(
        f"a frame: ours {1e3 * own:.1f} ms, transformers {1e3 * theirs:.1f} ms, "
        f"ours / theirs {own / theirs:.2f}"
    )


if __name__ == "__main__":
    main()
