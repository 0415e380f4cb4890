"""`sam_rlx.parity` on the released sizes with random weights: ViT-B, 2.1 and 2.0 Hiera-T, SAM 3.

Example: ``python tests/nightly parity_sizes``. On two idle cores the first three take minutes,
and SAM 3 about an hour and up to 20 GB of memory.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sam_rlx import parity
from support import tiny, tiny_sam2, tiny_sam3

HIERA_T = tiny_sam2.VARIANTS["hiera_t"]
# Of SAM 3 each line runs alone, so that what was done is seen.
SAM3_STAGES = (("image", "point", "box", "mask"), ("text",), ("example",), ("video",))


def _vit_b(path: Path, seed: int) -> Path:
    return tiny.save_safetensors(path, tiny.sam_weights(tiny.VIT_B, seed), tiny.VIT_B)


def _hiera_t(version: str) -> Callable[[Path, int], Path]:
    return lambda path, seed: tiny_sam2.save_safetensors(
        path, HIERA_T, tiny_sam2.weights(HIERA_T, seed, version)
    )


def _sam3(path: Path, seed: int) -> Path:
    from support import upstream_sam3, upstream_sam3_video

    network = upstream_sam3_video.network(tiny_sam3.RELEASED, seed)
    weights = upstream_sam3.meta_weights(network)
    return tiny_sam3.save_safetensors(path, tiny_sam3.RELEASED, weights)


MODELS = {
    "ViT-B": (_vit_b, ("all",)),
    "2.1 Hiera-T": (_hiera_t("2.1"), ("all",)),
    "2.0 Hiera-T": (_hiera_t("2.0"), ("all",)),
    "SAM 3": (_sam3, SAM3_STAGES),
}


def check(name: str, path: Path, stages: str | tuple[str, ...]) -> bool:
    """Compare and print one line, and the table if something differs."""
    start = time.monotonic()
    report = parity.check(path, stages=stages)
    worst = max((layer.relative / layer.allowed for layer in report.layers), default=0.0)
    calls = ", ".join(f"{call.stage} {call.count} masks {call.iou:.6f}" for call in report.masks)
    print(
        f"{name}, {report.variant}, {'float64' if report.exact else 'float32'}: {report.verdict}; "
        f"largest error {worst:.2f} of what is allowed; {calls}; {time.monotonic() - start:.0f} s",
        flush=True,
    )
    if not report.same:
        print(report, flush=True)
    return report.same


def main(count: int, seed: int) -> int:
    """Run the first `count` of the models; return how many comparisons differ."""
    problems = 0
    for name, (save, groups) in list(MODELS.items())[:count]:
        with tempfile.TemporaryDirectory() as folder:
            path = save(Path(folder) / "random.safetensors", seed)
            for stages in groups:
                gc.collect()
                problems += not check(name, path, stages)
    return problems
