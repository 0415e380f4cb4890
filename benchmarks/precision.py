"""Accuracy of int8, bfloat16 and packed files against float32: mask IoU, as a Markdown table.

    python benchmarks/precision.py                          # the packaged models
    python benchmarks/precision.py --models sam_vit_b.pth --pictures street.jpg beach.jpg

Each picture gets a grid of single clicks, of which the mask is compared that float32 thinks best,
and the boxes around these masks, each of which has one mask. SAM 3 gets phrases too: a found
instance is the same where its mask has an IoU above 0.5 with float32's; the others, which one of
the two did not find, are counted as unmatched. Without --pictures the photographs of scikit-image
serve (each whole, at half its size, and its middle) and held-out scenes of `training`, which need
PyTorch. A format of GGUF (Q8_0, Q4_K) stands for a file that is written for the comparison. Nothing
is timed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import gguf_conversion, io
from sam_rlx.model import find_checkpoint

ROOT = Path(__file__).resolve().parents[1]
GRID = 5  # clicks a side
PHRASES = ("object", "red object", "black object", "white thing")
PHOTOGRAPHS = (
    *("astronaut", "camera", "cell", "chelsea", "clock", "coffee", "coins", "hubble_deep_field"),
    *("immunohistochemistry", "moon", "page", "retina", "rocket", "stereo_motorcycle"),
)
SEED, SCENES = 345_678, 14
SIDE = 336
SAME = 0.5  # the IoU of one instance found twice; above a half it has no rival
PRECISIONS = ("int8", "bfloat16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0")


class Picture(NamedTuple):
    """RGB, uint8 (H, W, 3), and what is asked about it."""

    pixels: NDArray[np.uint8]
    phrases: tuple[str, ...] = PHRASES


class Compared(NamedTuple):
    """IoU of each pair of masks, and the number of instances that one side did not find."""

    ious: NDArray[np.float64]
    alone: int = 0


def photographs(names: Sequence[str] = PHOTOGRAPHS) -> Iterator[Picture]:
    """Each of scikit-image's pictures whole, at half its size, and the middle of it."""
    from skimage import data
    from skimage.transform import downscale_local_mean

    for name in names:
        image = getattr(data, name)()
        image = image[0] if isinstance(image, tuple) else image  # the left of two eyes
        image = image if image.ndim == 3 else np.stack([image] * 3, axis=-1)
        height, width = image.shape[:2]
        middle = image[height // 4 : 3 * height // 4, width // 4 : 3 * width // 4]
        half = np.rint(downscale_local_mean(image, (2, 2, 1)))
        for pixels in (image, half, middle):
            yield Picture(np.ascontiguousarray(pixels, np.uint8))


def scenes(count: int = SCENES) -> Iterator[Picture]:
    """Held-out scenes that SAM 3's small model is measured on, with phrases about them."""
    sys.path.insert(0, str(ROOT))
    import torch

    from training.phrases import WORDS, phrase_maker

    words = {number: word for word, number in WORDS.items()}
    maker = phrase_maker(torch.device("cpu"), SEED, 100, 20, 1)
    for _ in range(count):
        scene = maker.make(1, SIDE, 4, examples=False)
        pixels = scene.pixels[0].permute(1, 2, 0).contiguous().numpy().astype(np.uint8)
        asked = (" ".join(words[n] for n in ids if n in words) for ids in scene.ids[0].tolist())
        yield Picture(pixels, tuple(asked))


def mask_iou(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """IoU of two masks; 1 for two empty ones."""
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 1.0


def box_around(mask: NDArray[np.bool_]) -> list[int]:
    """(x0, y0, x1, y1) of a mask that is not empty."""
    y, x = np.nonzero(mask)
    return [x.min(), y.min(), x.max() + 1, y.max() + 1]


class Engines:
    """A model in float32 and in another precision, on one picture after the other."""

    def __init__(self, source: str, precision: str) -> None:
        models = [sam_rlx.load_model(source), load(source, precision)]
        self.clicked = [sam_rlx.ImagePredictor(model) for model in models]
        self.named = []
        if models[0].family == "sam3":
            self.named = [sam_rlx.ConceptPredictor(model) for model in models]

    def clicks_and_boxes(self, picture: Picture) -> tuple[list[float], list[float]]:
        """IoU of the masks of a grid of clicks, and of those of boxes around them."""
        height, width = picture.pixels.shape[:2]
        places = (np.arange(GRID) + 0.5) / GRID
        points = np.array([[[width * x, height * y]] for y in places for x in places])
        prompts = {"point_coords": points, "point_labels": np.ones(points.shape[:2], int)}
        for predictor in self.clicked:
            predictor.set_image(picture.pixels)
        truth, found = (predictor.predict(**prompts) for predictor in self.clicked)
        best = np.arange(len(points)), truth.iou_predictions.argmax(1)
        masks = truth.masks[best]
        clicks = list(map(mask_iou, masks, found.masks[best]))
        boxes = np.array([box_around(mask) for mask in masks if mask.any()])
        if not len(boxes):
            return clicks, []
        results = (p.predict(box=boxes, multimask_output=False) for p in self.clicked)
        first, second = (result.masks[:, 0] for result in results)
        return clicks, list(map(mask_iou, first, second))

    def phrases(self, picture: Picture) -> tuple[list[float], int]:
        """IoU of instances that both found, and the number of the others."""
        first, second = (p.predict(picture.pixels, text=picture.phrases) for p in self.named)
        ious: list[float] = []
        alone = 0
        for phrase in range(len(picture.phrases)):
            masks = [result.masks[result.labels == phrase] for result in (first, second)]
            same = matched(*masks)
            ious += same
            alone += len(masks[0]) + len(masks[1]) - 2 * len(same)
        return ious, alone


def load(source: str, precision: str) -> sam_rlx.Model:
    """Load the model in a precision, or through a GGUF file of that format."""
    if precision not in gguf_conversion.DTYPES:
        return sam_rlx.load_model(source, precision=precision)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        gguf_conversion.to_gguf(find_checkpoint(source), path, precision)
        return sam_rlx.load_model(path)


def matched(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> list[float]:
    """IoU of masks that are the same instance, each mask once, the closest first."""
    pairs = [(mask_iou(a, b), i, j) for i, a in enumerate(first) for j, b in enumerate(second)]
    used: tuple[set[int], set[int]] = (set(), set())
    ious = []
    for iou, i, j in sorted(pairs, reverse=True):
        if iou > SAME and i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            ious.append(iou)
    return ious


def compare(source: str, precision: str, pictures: Sequence[Picture]) -> dict[str, Compared]:
    """Compare with float32 on all pictures, for each kind of prompts that the model takes."""
    engines = Engines(source, precision)
    pairs = [engines.clicks_and_boxes(picture) for picture in pictures]
    found = {
        kind: Compared(np.array([iou for pair in pairs for iou in pair[i]]))
        for i, kind in enumerate(("clicks", "boxes"))
    }
    if engines.named:
        parts = [engines.phrases(picture) for picture in pictures]
        ious = np.array([iou for part in parts for iou in part[0]])
        found["phrases"] = Compared(ious, sum(alone for _, alone in parts))
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["sam-nano", "sam2-nano", "sam3-nano"])
    parser.add_argument("--pictures", nargs="+")
    parser.add_argument("--phrases", nargs="+", default=PHRASES, help="for --pictures")
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    args = parser.parse_args()
    pictures = [Picture(io.read_image(p), tuple(args.phrases)) for p in args.pictures or ()]
    pictures = pictures or [*photographs(), *scenes()]
    print(f"{len(pictures)} pictures\n")
    columns = ("model", "precision", "prompts", "masks", "mean IoU", "10th percentile", "unmatched")
    print(f"| {' | '.join(columns)} |\n" + "| --- " * len(columns) + "|")
    for source in args.models:
        for precision in args.precisions:
            for kind, (ious, alone) in compare(source, precision, pictures).items():
                print(
                    f"| {Path(source).name} | {precision} | {kind} | {len(ious)} | "
                    f"{ious.mean():.4f} | {np.percentile(ious, 10):.3f} | "
                    f"{alone if kind == 'phrases' else '-'} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
