"""ViT-B at its full size with random weights, packed in each K type, beside PyTorch.

PyTorch has the weights that the package `gguf` finds in the file; the float64 rule decides.
Example: ``python tests/nightly packed_widths``. About 4 GB of memory and a minute for each type
on two idle cores.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import sam_rlx
from sam_rlx import parity
from sam_rlx._internal.weights.gguf import conversion
from support import packed_files, tiny

STAGES = ("image", "point", "box")
PARTS = packed_files.K_TYPES


def _iou(model: sam_rlx.Model, other: sam_rlx.Model, image: np.ndarray) -> float:
    """Return the mean IoU of the masks of two models for nine points."""
    masks = []
    points = [[[x, y]] for y in (75, 150, 225) for x in (100, 200, 300)]
    for each in (model, other):
        predictor = sam_rlx.ImagePredictor(each)
        predictor.set_image(image)
        masks.append(predictor.predict(point_coords=points, point_labels=[[1]] * 9).masks)
    both, union = (masks[0] & masks[1]).sum((-2, -1)), (masks[0] | masks[1]).sum((-2, -1))
    return float(np.where(union > 0, both / np.maximum(union, 1), 1).mean())


def run(kind: str, folder: Path, source: Path, weights: tiny.Weights, image: np.ndarray) -> bool:
    """Pack, compare and print one line; tell whether all is within the bounds."""
    packed, judge = folder / "packed.gguf", folder / "judge.safetensors"
    conversion.to_gguf(source, packed, kind)
    numbers, kinds = packed_files.unpacked(packed, "sam", weights)
    tiny.save_safetensors(judge, numbers, tiny.VIT_B)
    del numbers
    model = sam_rlx.load_model(packed)
    report = parity.check(model, image, reference_checkpoint=judge, stages=STAGES)
    worst = max(layer.relative / layer.allowed for layer in report.layers)
    lowest = min(call.iou for call in report.masks)
    iou = _iou(model, sam_rlx.load_model(source), image)
    print(
        f"{kind}: {kinds[kind]} tensors, {packed.stat().st_size / 1e6:.0f} MB, {report.verdict}; "
        f"largest error {worst:.2f} of what is allowed, lowest IoU with PyTorch {lowest:.6f}, "
        f"mean IoU with the float weights {iou:.4f}",
        flush=True,
    )
    return report.same and kinds[kind] > 0


def main(count: int, seed: int, part: str | None = None) -> int:
    """Run the first `count` of the K types, or the one of `part`; return how many differ."""
    image = np.random.default_rng(seed).integers(0, 256, (300, 400, 3), np.uint8)
    weights = tiny.sam_weights(tiny.VIT_B, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = tiny.save_safetensors(folder / "float.safetensors", weights, tiny.VIT_B)
        kinds = PARTS[:count] if part is None else (part,)
        return sum(not run(kind, folder, source, weights, image) for kind in kinds)
