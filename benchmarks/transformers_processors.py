"""Seconds of processors: the drop-in beside transformers, in turns.

    python benchmarks/transformers_processors.py [--repeat 9] [--threads 0] [--sizes 0.1 1 12]
        [--cpu]

Each row is a processor and a size of image in megapixels: the median of a call with one box, and of
`post_process_masks` of three masks to that size. With ``--cpu`` seconds are CPU seconds of one
core, where others use the machine. Needs transformers 5, torch and torchvision.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from programs import clocks

FAMILIES = {
    "sam": ("SamProcessor", "SamImageProcessor"),
    "sam2": ("Sam2Processor", "Sam2ImageProcessor"),
    "sam3": ("Sam3TrackerProcessor", "Sam3ImageProcessor"),
}


def photograph(megapixels: float) -> Image.Image:
    """Return an image 4 : 3 that has detail at every scale."""
    height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
    shape = (height, round(height * 4 / 3), 3)
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


def in_turns(runs: list[Callable[[], Any]], repeat: int, clock: Callable[[], float]) -> list[float]:
    """Return the median of the seconds of each, run in turns after one call that is not counted."""
    seconds: list[list[float]] = [[] for _ in runs]
    for turn in range(repeat + 1):
        for run, found in zip(runs, seconds, strict=True):
            start = clock()
            run()
            if turn:
                found.append(clock() - start)
    return [statistics.median(found) for found in seconds]


def processors(family: str) -> list[Any]:
    """Return ours and theirs."""
    import transformers
    from sam_rlx.compat.transformers import image_processors, processors

    kind, part = FAMILIES[family]
    return [
        getattr(processors, kind)(getattr(image_processors, part)()),
        getattr(transformers, kind)(getattr(transformers, part)()),
    ]


def rows(family: str, megapixels: float, repeat: int, clock: Callable[[], float]) -> list[str]:
    """Return the lines of one processor and one size."""
    sides, image = processors(family), photograph(megapixels)
    given = {"input_boxes": [[[10, 20, 200, 150]]], "return_tensors": "pt"}
    calls = [lambda side=side: side(image, **given) for side in sides]
    batch = calls[1]()
    logits = batch["pixel_values"].new_zeros(1, 3, 256, 256).normal_()
    sizes = [batch["original_sizes"]]
    if family == "sam":
        sizes.append(batch["reshaped_input_sizes"])
    masks = [lambda side=side: side.post_process_masks([logits], *sizes) for side in sides]
    lines = []
    for name, runs in (("call", calls), ("post_process_masks", masks)):
        ours, theirs = in_turns(runs, repeat, clock)
        lines.append(
            f"{family:5} {megapixels:5} Mpx {name:19} ours {1e3 * ours:8.1f} ms  transformers "
            f"{1e3 * theirs:8.1f} ms  ours / theirs {ours / theirs:.2f}"
        )
    return lines


def main() -> None:
    """Print two lines for each processor and size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: its default")
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 1.0, 12.0])
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of one core (Linux)")
    arguments = parser.parse_args()
    clock = clocks.chosen(arguments.cpu)
    from sam_rlx.apps.parity import packages

    torch = packages.import_torch("torch")  # with torchvision, also beside another PyTorch
    if arguments.threads or arguments.cpu:
        torch.set_num_threads(1 if arguments.cpu else arguments.threads)
    for family in FAMILIES:
        for megapixels in arguments.sizes:
            for line in rows(family, megapixels, arguments.repeat, clock):
                print(line, flush=True)


if __name__ == "__main__":
    main()
