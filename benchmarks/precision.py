"""What reduced precision costs in accuracy and what it saves, as two Markdown tables.

    python benchmarks/precision.py                          # the small models as they were trained
    python benchmarks/precision.py --full --precisions int8 Q4_K
    python benchmarks/precision.py --models sam_vit_b.pth --images street.jpg beach.jpg
    python benchmarks/precision.py --models lite_medsam.pth --crops --precisions bfloat16 int8

int8 and bfloat16 are asked of `load_model`, the other formats are written as GGUF files first.

Each image gets a grid of single clicks, of which the mask is compared that float32 thinks best,
and the boxes around these masks, each of which has one mask. SAM 3 gets texts too: a found
instance is the same where its mask has an IoU above 0.5 with float32's; the others, which one of
the two did not find, are counted as unmatched. "Score" is the mean difference of the predicted IoU
or of the instances' scores. Without --images the photographs of scikit-image serve (each whole,
at half its size, and its middle) and held-out scenes of `training`, which need PyTorch. --crops is
for models that take boxes alone, of medical images: parts of photographs of scikit-image, each from
0 to 255, with four boxes.

The second table has the size of the file, the memory of a process that loaded the model and encoded
an image (without pages of the mapped file), and the seconds of that: medians of processes that
alternate between the precisions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import io
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx.model import find_checkpoint

import client
import run
from workloads import Workload, all_workloads, sample_image

ROOT = Path(__file__).resolve().parents[1]
TRAINED = ROOT / "training" / "checkpoints"
PRECISIONS = ("bfloat16", "int8", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0")
Chosen = tuple[NDArray[np.int64], NDArray[np.int64]]  # prompts, and a mask of each
GRID = 5  # clicks a side
TEXTS = ("object", "red object", "black object", "white thing")
PHOTOGRAPHS = (
    *("astronaut", "camera", "cell", "chelsea", "clock", "coffee", "coins", "hubble_deep_field"),
    *("immunohistochemistry", "moon", "page", "retina", "rocket", "stereo_motorcycle"),
)
# Seen from near or from afar, as medical images are.
PLAIN = ("cell", "immunohistochemistry", "retina", "coins", "moon", "hubble_deep_field")
CROPS = 3  # a side
SEED, SCENES = 345_678, 14
SIDE = 336
SAME = 0.5  # the IoU of one instance found twice; above a half it has no rival


class Image(NamedTuple):
    """RGB, uint8 (H, W, 3), and what is asked about it: with boxes (B, 4) nothing else."""

    pixels: NDArray[np.uint8]
    texts: tuple[str, ...] = TEXTS
    boxes: NDArray[np.float64] | None = None


class Variant(NamedTuple):
    """A model in one precision: the file, and what `load_model` is asked for, if anything."""

    label: str
    path: Path
    precision: str | None = None


class Pairs(NamedTuple):
    """IoU and difference of scores of masks that both have, and the number of the others."""

    ious: list[float]
    scores: list[float]
    alone: int = 0

    def and_also(self, more: Pairs) -> Pairs:
        """Return these and others together."""
        return Pairs(self.ious + more.ious, self.scores + more.scores, self.alone + more.alone)


def photograph(name: str) -> NDArray[np.uint8]:
    """One of scikit-image's images, RGB."""
    from skimage import data

    image = getattr(data, name)()
    image = image[0] if isinstance(image, tuple) else image  # the left of two eyes
    return image if image.ndim == 3 else np.stack([image] * 3, axis=-1)


def crops(names: Sequence[str] = PLAIN) -> Iterator[Image]:
    """Parts of images, each from 0 to 255, with a box in each quarter."""
    quarter = np.array(
        [[x, y, x + 0.375, y + 0.375] for y in (0.0625, 0.5625) for x in (0.0625, 0.5625)]
    )
    for name in names:
        whole = photograph(name)
        height, width = (side // CROPS for side in whole.shape[:2])
        for i in range(CROPS * CROPS):
            y, x = height * (i // CROPS), width * (i % CROPS)
            part = whole[y : y + height, x : x + width].astype(np.float64)
            stretched = (part - part.min()) * (255 / max(np.ptp(part), 1))
            boxes = quarter * [width, height, width, height]
            yield Image(np.rint(stretched).astype(np.uint8), boxes=boxes)


def photographs(names: Sequence[str] = PHOTOGRAPHS) -> Iterator[Image]:
    """Each of scikit-image's images whole, at half its size, and the middle of it."""
    from skimage.transform import downscale_local_mean

    for name in names:
        image = photograph(name)
        height, width = image.shape[:2]
        middle = image[height // 4 : 3 * height // 4, width // 4 : 3 * width // 4]
        half = np.rint(downscale_local_mean(image, (2, 2, 1)))
        for pixels in (image, half, middle):
            yield Image(np.ascontiguousarray(pixels, np.uint8))


def scenes(count: int = SCENES) -> Iterator[Image]:
    """Held-out scenes that SAM 3's small model is measured on, with texts about them."""
    sys.path.insert(0, str(ROOT))
    import torch

    from training.texts import WORDS, text_maker

    words = {number: word for word, number in WORDS.items()}
    maker = text_maker(torch.device("cpu"), SEED, 100, 20, 1)
    for _ in range(count):
        scene = maker.make(1, SIDE, 4, examples=False)
        pixels = scene.pixels[0].permute(1, 2, 0).contiguous().numpy().astype(np.uint8)
        asked = (" ".join(words[n] for n in ids if n in words) for ids in scene.ids[0].tolist())
        yield Image(pixels, tuple(asked))


def mask_iou(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """IoU of two masks; 1 for two empty ones."""
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 1.0


def box_around(mask: NDArray[np.bool_]) -> list[int]:
    """(x0, y0, x1, y1) of a mask that is not empty."""
    y, x = np.nonzero(mask)
    return [x.min(), y.min(), x.max() + 1, y.max() + 1]


class Engines:
    """A model in float32 and in another precision, on one image after the other."""

    def __init__(self, exact: Variant, other: Variant) -> None:
        models = [sam_rlx.load_model(v.path, precision=v.precision) for v in (exact, other)]
        self.clicked, self.named = [], []
        if takes_clicks(models[0]):
            self.clicked = [sam_rlx.ImagePredictor(model) for model in models]
        if models[0].family == "sam3":
            self.named = [sam_rlx.ConceptPredictor(model) for model in models]

    def compare(self, image: Image) -> dict[str, Pairs]:
        """Compare the masks of a grid of clicks, of boxes around them, and of texts."""
        if image.boxes is not None:
            for predictor in self.clicked:
                predictor.set_image(image.pixels)
            return {"boxes": self._boxes(image.boxes)}
        pairs = self._clicks_and_boxes(image) if self.clicked else {}
        return pairs | ({"text": self._texts(image)} if self.named else {})

    def _clicks_and_boxes(self, image: Image) -> dict[str, Pairs]:
        height, width = image.pixels.shape[:2]
        positions = (np.arange(GRID) + 0.5) / GRID
        points = np.array([[[width * x, height * y]] for y in positions for x in positions])
        prompts = {"point_coords": points, "point_labels": np.ones(points.shape[:2], int)}
        for predictor in self.clicked:
            predictor.set_image(image.pixels)
        truth, found = (predictor.predict(**prompts) for predictor in self.clicked)
        best = np.arange(len(points)), truth.iou_predictions.argmax(1)
        pairs = {"clicks": _pairs(truth, found, best), "boxes": Pairs([], [])}
        boxes = np.array([box_around(mask) for mask in truth.masks[best] if mask.any()])
        if len(boxes):
            pairs["boxes"] = self._boxes(boxes)
        return pairs

    def _boxes(self, boxes: NDArray[Any]) -> Pairs:
        truth, found = (p.predict(box=boxes, multimask_output=False) for p in self.clicked)
        return _pairs(truth, found, (np.arange(len(boxes)), np.zeros(len(boxes), int)))

    def _texts(self, image: Image) -> Pairs:
        results = [p.predict(image.pixels, text=image.texts) for p in self.named]
        pairs = Pairs([], [])
        for text in range(len(image.texts)):
            of_text = [result.labels == text for result in results]
            pairs = pairs.and_also(
                matched(
                    *(r.masks[chosen] for r, chosen in zip(results, of_text, strict=True)),
                    *(r.scores[chosen] for r, chosen in zip(results, of_text, strict=True)),
                )
            )
        return pairs


def takes_clicks(model: sam_rlx.Model) -> bool:
    """Tell whether it is not SAM 3's detector alone."""
    return model.family != "sam3" or model.config["tracker"] is not None


def _pairs(truth: sam_rlx.Prediction, found: sam_rlx.Prediction, chosen: Chosen) -> Pairs:
    ious = list(map(mask_iou, truth.masks[chosen], found.masks[chosen]))
    return Pairs(ious, list(abs(truth.iou_predictions - found.iou_predictions)[chosen]))


def matched(
    first: NDArray[np.bool_],
    second: NDArray[np.bool_],
    first_scores: NDArray[np.float32],
    second_scores: NDArray[np.float32],
) -> Pairs:
    """Compare masks that are the same instance, each mask once, the closest first."""
    pairs = [(mask_iou(a, b), i, j) for i, a in enumerate(first) for j, b in enumerate(second)]
    used: tuple[set[int], set[int]] = (set(), set())
    ious, scores = [], []
    for iou, i, j in sorted(pairs, reverse=True):
        if iou > SAME and i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            ious.append(iou)
            scores.append(abs(float(first_scores[i]) - float(second_scores[j])))
    return Pairs(ious, scores, len(first) + len(second) - 2 * len(ious))


def compare(exact: Variant, other: Variant, images: Sequence[Image]) -> dict[str, Pairs]:
    """Compare with float32 on all images, for each kind of prompts that the model takes."""
    engines = Engines(exact, other)
    total: dict[str, Pairs] = {}
    for one in images:
        for kind, pairs in engines.compare(one).items():
            total[kind] = total[kind].and_also(pairs) if kind in total else pairs
    return total


def variants(path: Path, precisions: Sequence[str], folder: Path) -> list[Variant]:
    """Return a model in float32, in other precisions, written into `folder` if need be.

    A small model as it was trained is followed by the one that the package has of it.
    """
    found = [Variant("float32", path)]
    for precision in precisions:
        if precision not in gguf_conversion.DTYPES:
            found.append(Variant(precision, path, precision))
            continue
        packed = folder / f"{path.stem}-{precision}.gguf"
        gguf_conversion.to_gguf(path, packed, precision)
        found.append(Variant(precision, packed))
    if path.resolve().parent == TRAINED:
        found.append(Variant("packaged", find_checkpoint(path.stem)))
    return found


def random_models() -> dict[str, Path]:
    """Write a model of each family at full size with random weights, unless it is there."""
    table = all_workloads("vit_b", False)
    chosen: list[Workload] = [table[n] for n in ("encoder", "hiera-base-plus", "sam3-encoder")]
    for workload in chosen:
        if not workload.ours.exists() and not client.export([workload]):
            sys.exit("precision.py: random weights need PyTorch and upstream's packages")
    return {f"{w.variant}, random": w.ours for w in chosen}


def trained_models() -> dict[str, Path]:
    """Return the small models as they were trained."""
    return {path.stem: path for path in sorted(TRAINED.glob("*-nano.safetensors"))}


def encode(path: str, precision: str, threads: str) -> None:
    """Print memory in bytes and seconds of an image, in a process of its own."""
    import resident

    model = sam_rlx.load_model(path, precision=precision or None)
    kind = sam_rlx.ImagePredictor if takes_clicks(model) else sam_rlx.ConceptPredictor
    predictor = kind(model, num_threads=int(threads))
    image = sample_image(480, 640)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        predictor.set_image(image)
        seconds.append(time.perf_counter() - start)
    print(json.dumps([resident.own() or resident.peak(), min(seconds)]))


def cost(found: Sequence[Variant], threads: int, rounds: int) -> list[tuple[float, float]]:
    """Memory in bytes and seconds of each precision, from processes in alternation."""
    measured: list[list[list[float]]] = [[] for _ in found]
    for _ in range(rounds):
        for variant, results in zip(found, measured, strict=True):
            arguments = ["encode", str(variant.path), variant.precision or "", str(threads)]
            process = client.python(
                ["precision.py", *arguments], {}, stdout=subprocess.PIPE, text=True
            )
            shown, _ = process.communicate()
            if process.returncode != 0:
                sys.exit(f"precision.py: {variant.path} in {variant.label} could not be timed")
            results.append(json.loads(shown))
    return [
        (statistics.median(r[0] for r in results), statistics.median(r[1] for r in results))
        for results in measured
    ]


def table(columns: Sequence[str]) -> None:
    """Print the head of a table."""
    print(f"| {' | '.join(columns)} |\n" + "| --- " * len(columns) + "|", flush=True)


def accuracy_rows(name: str, found: Sequence[Variant], images: Sequence[Image]) -> None:
    """Print how far each precision is from float32, which stands first."""
    for variant in found[1:]:
        for kind, (ious, scores, alone) in compare(found[0], variant, images).items():
            if not ious:
                print(f"| {name} | {variant.label} | {kind} | 0 | - | - | - | {alone} |")
                continue
            print(
                f"| {name} | {variant.label} | {kind} | {len(ious)} | {np.mean(ious):.4f} | "
                f"{np.percentile(ious, 10):.3f} | {np.mean(scores):.4f} | "
                f"{alone if kind == 'text' else '-'} |",
                flush=True,
            )


def cost_rows(name: str, found: Sequence[Variant], threads: int, rounds: int) -> None:
    """Print size, memory and seconds of each precision, float32 first."""
    costs = cost(found, threads, rounds)
    for variant, (memory, seconds) in zip(found, costs, strict=True):
        print(
            f"| {name} | {variant.label} | {variant.path.stat().st_size / 1e6:.1f} | "
            f"{memory / 1e6:.0f} | {seconds:.3f} | {seconds / costs[0][1]:.2f} |",
            flush=True,
        )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", help="checkpoints (default: the small ones)")
    parser.add_argument("--full", action="store_true", help="random weights at full size instead")
    parser.add_argument("--images", nargs="+")
    parser.add_argument("--crops", action="store_true", help="parts of photographs, with boxes")
    parser.add_argument("--count", type=int, help="so many images, spread over all")
    parser.add_argument("--texts", nargs="+", default=TEXTS, help="for --images")
    parser.add_argument("--precisions", nargs="*", default=list(PRECISIONS))
    parser.add_argument("--threads", type=int, default=2, help="for the second table")
    parser.add_argument("--rounds", type=int, default=3, help="for the second table; 0: none")
    return parser.parse_args()


def chosen_images(options: argparse.Namespace) -> list[Image]:
    """Return the images of the command line, or all that there are."""
    named = options.images or ()
    found = [Image(io.read_image(p), tuple(options.texts)) for p in named]
    found = found or [*(crops() if options.crops else (*photographs(), *scenes()))]
    step = max(1, len(found) // (options.count or len(found)))
    return found[::step][: options.count]


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] == ["encode"]:
        encode(*sys.argv[2:])
        return
    options = arguments()
    images = chosen_images(options)
    models = random_models() if options.full else trained_models()
    if options.models:
        models = {Path(name).name: find_checkpoint(name) for name in options.models}
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: variants(path, options.precisions, Path(folder)) for name, path in models.items()
        }
        print(f"{run.heading('Accuracy', options.threads)}\n\n{len(images)} images.\n")
        columns = ("masks", "mean IoU", "10th percentile", "score", "unmatched")
        table(("model", "precision", "prompts", *columns))
        for name, precisions in found.items():
            accuracy_rows(name, precisions, images)
        if options.rounds:
            print(f"\n{run.heading('Memory and time', options.threads)}\n")
            table(("model", "precision", "file, MB", "memory, MB", "seconds", "ratio"))
            for name, precisions in found.items():
                cost_rows(name, precisions, options.threads, options.rounds)


if __name__ == "__main__":
    main()
