"""Accuracy of int8, bfloat16 and packed files against float32: mask IoU, as a Markdown table.

    python benchmarks/precision.py                          # the packaged models
    python benchmarks/precision.py --models sam_vit_b.pth --pictures street.jpg beach.jpg

Each picture gets a grid of single clicks; of each click the mask is compared that float32 thinks
best. SAM 3 gets phrases too, whose found instances are compared one to one. Without --pictures the
two packaged ones and drawings of coloured shapes serve. A format of GGUF (Q8_0, Q4_K) stands for a
file that is written for the comparison. Nothing is timed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import gguf_conversion, io
from sam_rlx.model import find_checkpoint

Picture = NDArray[np.uint8]
GRID = 6  # clicks a side
PHRASES = ("red circle", "blue square", "green triangle", "yellow circle")
PRECISIONS = ["int8", "bfloat16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0"]
COLOURS = {"red": (200, 40, 40), "blue": (40, 60, 200), "green": (40, 160, 60)}
ASSETS = Path(sam_rlx.__file__).with_name("assets")


def drawing(seed: int) -> Picture:
    """Circles and squares of three colours on noise."""
    random = np.random.default_rng(seed)
    image = random.normal(150, 12, (300, 400, 3))
    y, x = np.mgrid[:300, :400]
    for i in range(6):
        cy, cx = 60 + 180 * (i % 2), 70 + 130 * (i // 2)
        radius = random.integers(25, 45)
        circle = (y - cy) ** 2 + (x - cx) ** 2 < radius**2
        square = np.maximum(abs(y - cy), abs(x - cx)) < radius
        inside = circle if random.random() < 0.5 else square
        image[inside] = list(COLOURS.values())[i % 3] + random.normal(0, 8, (inside.sum(), 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def packaged_pictures() -> list[Picture]:
    """The pictures that come with the package, and drawings."""
    files = [io.read_image(ASSETS / name) for name in ("coins.jpg", "coffee.jpg")]
    return [*files, *(drawing(seed) for seed in range(4))]


def mask_iou(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """IoU of two masks; 1 for two empty ones."""
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 1.0


def click_ious(truth: sam_rlx.Model, model: sam_rlx.Model, image: Picture) -> Iterator[float]:
    """IoU of the masks of a grid of clicks."""
    height, width = image.shape[:2]
    places = (np.arange(GRID) + 0.5) / GRID
    points = np.array([[[width * x, height * y]] for y in places for x in places])
    labels = np.ones(points.shape[:2], int)
    results = []
    for one in (truth, model):
        predictor = sam_rlx.ImagePredictor(one)
        predictor.set_image(image)
        results.append(predictor.predict(point_coords=points, point_labels=labels))
    best = results[0].iou_predictions.argmax(1)
    for i, choice in enumerate(best):
        yield mask_iou(results[0].masks[i, choice], results[1].masks[i, choice])


def phrase_ious(truth: sam_rlx.Model, model: sam_rlx.Model, image: Picture) -> Iterator[float]:
    """IoU of what phrases name: each instance of either side with the best of the other."""
    results = [sam_rlx.ConceptPredictor(one).predict(image, text=PHRASES) for one in (truth, model)]
    for phrase in range(len(PHRASES)):
        found = [result.masks[result.labels == phrase] for result in results]
        for these, those in (found, reversed(found)):
            for mask in these:
                yield max((mask_iou(mask, other) for other in those), default=0.0)


def load(source: str, precision: str) -> sam_rlx.Model:
    """Load the model in a precision, or through a GGUF file of that format."""
    if precision not in gguf_conversion.DTYPES:
        return sam_rlx.load_model(source, precision=precision)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        gguf_conversion.to_gguf(find_checkpoint(source), path, precision)
        return sam_rlx.load_model(path)


def compare(source: str, precision: str, pictures: list[Picture]) -> dict[str, NDArray[np.float64]]:
    """IoU with float32 of all clicks, and of all instances of phrases if the model takes them."""
    truth = sam_rlx.load_model(source)
    model = load(source, precision)
    kinds = {"clicks": click_ious}
    if truth.family == "sam3":
        kinds["phrases"] = phrase_ious
    return {
        kind: np.array([iou for image in pictures for iou in ious(truth, model, image)])
        for kind, ious in kinds.items()
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["sam-nano", "sam2-nano", "sam3-nano"])
    parser.add_argument("--pictures", nargs="+")
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    args = parser.parse_args()
    pictures = [io.read_image(path) for path in args.pictures or ()] or packaged_pictures()
    print("| model | precision | prompts | masks | mean IoU | 10th percentile | least |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for source in args.models:
        for precision in args.precisions:
            for kind, ious in compare(source, precision, pictures).items():
                print(
                    f"| {Path(source).name} | {precision} | {kind} | {len(ious)} | "
                    f"{ious.mean():.4f} | {np.percentile(ious, 10):.3f} | {ious.min():.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
