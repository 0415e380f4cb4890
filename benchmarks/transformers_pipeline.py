"""Seconds of ``pipeline("mask-generation")``: the drop-in beside transformers.

    python benchmarks/transformers_pipeline.py [MODEL ...] [--repeat 3] [--points 16] [--threads 0]
        [--cpu]

MODEL is a packaged model that has a folder in transformers' form, or such a folder; by default
sam-nano and sam2-nano. Both sides run in turns on the same image, and the quickest of each counts.
sam2-nano gives no mask at the defaults, so its bounds are lower. With ``--cpu`` seconds are CPU
seconds of one core, where others use the machine. Needs transformers 5 and torch.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import sam_rlx
from sam_rlx.conversion import convert

from programs import clocks

LOWER = {"pred_iou_thresh": 0.5, "stability_score_thresh": 0.7}


def _compare(name: str, folder: Path, arguments: argparse.Namespace) -> str:
    import transformers
    from PIL import Image
    from sam_rlx.compat import transformers as ours

    image = Image.open(Path(sam_rlx.__file__).parent / "assets" / "coffee.jpg").convert("RGB")
    options = {"points_per_crop": arguments.points, **(LOWER if "sam2" in name else {})}
    pipes = [
        ours.pipeline("mask-generation", model=folder),
        transformers.pipeline("mask-generation", model=str(folder), device="cpu"),
    ]
    best = [float("inf")] * 2
    counts = [0, 0]
    for _ in range(arguments.repeat):
        for index, pipe in enumerate(pipes):
            start = arguments.clock()
            found = pipe(image, **options)
            best[index] = min(best[index], arguments.clock() - start)
            counts[index] = len(found["masks"])
    return (
        f"{name:12} {arguments.points}^2 points  ours {best[0]:7.2f} s, {counts[0]} masks  "
        f"transformers {best[1]:7.2f} s, {counts[1]} masks  ratio {best[1] / best[0]:.1f}"
    )


def main() -> None:
    """Print one line a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["sam-nano", "sam2-nano"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: its default")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of one core (Linux)")
    arguments = parser.parse_args()
    arguments.clock = clocks.chosen(arguments.cpu)
    from sam_rlx.apps.parity import packages

    torch = packages.import_torch("torch")  # with torchvision, also beside another PyTorch
    if arguments.threads or arguments.cpu:
        torch.set_num_threads(1 if arguments.cpu else arguments.threads)
    for name in arguments.models:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            folder = Path(name)
            if not folder.is_dir():
                folder = Path(scratch) / name
                convert(name, folder)
            print(_compare(name, folder, arguments), flush=True)


if __name__ == "__main__":
    main()
