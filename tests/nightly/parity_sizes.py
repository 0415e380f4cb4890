"""`sam_rlx.parity` on the released sizes with random weights: ViT-B, 2.1 and 2.0 Hiera-T, SAM 3.

Example: ``python tests/nightly parity_sizes``, or one alone, ``parity_sizes:sam3``. On two idle
cores the first three take minutes, and SAM 3 about an hour and up to 20 GB of memory.
``parity_sizes:sam3-small`` runs the same code in a minute.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sam_rlx import parity
from support import tiny, tiny_sam2, tiny_sam3

HIERA_T = tiny_sam2.VARIANTS["hiera_t"]
# Of SAM 3 each line runs alone, so that what was done is seen.
SAM3_STAGES = (
    ("image", "point", "box", "mask"),
    ("text",),
    ("example",),
    ("video",),
    ("video_text",),
)


def _vit_b(path: Path, seed: int) -> Path:
    return tiny.save_safetensors(path, tiny.sam_weights(tiny.VIT_B, seed), tiny.VIT_B)


def _hiera_t(version: str) -> Callable[[Path, int], Path]:
    return lambda path, seed: tiny_sam2.save_safetensors(
        path, HIERA_T, tiny_sam2.weights(HIERA_T, seed, version)
    )


def _sam3(config: tiny_sam3.Sam3Config) -> Callable[[Path, int], Path]:
    def save(path: Path, seed: int) -> Path:
        from support import upstream_sam3, upstream_sam3_video

        network = upstream_sam3_video.network(config, seed)
        weights = upstream_sam3.meta_weights(network)
        return tiny_sam3.save_safetensors(path, config, weights)

    return save


# The last ones are for trials, and run when they are named.
MODELS = {
    "vit-b": (_vit_b, ("all",)),
    "hiera-t-2.1": (_hiera_t("2.1"), ("all",)),
    "hiera-t-2.0": (_hiera_t("2.0"), ("all",)),
    "sam3": (_sam3(tiny_sam3.RELEASED), SAM3_STAGES),
    "sam3-small": (_sam3(tiny_sam3.TINY), SAM3_STAGES),
}
PARTS = tuple(MODELS)


def _say(text: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{text}; largest memory so far {peak:.1f} GB", flush=True)


def check(name: str, path: Path, stages: str | tuple[str, ...]) -> bool:
    """Compare and print one line, and the table if something differs."""
    start = time.monotonic()
    report = parity.check(path, stages=stages)
    worst = max((layer.relative / layer.allowed for layer in report.layers), default=0.0)
    calls = ", ".join(f"{call.stage} {call.count} masks {call.iou:.6f}" for call in report.masks)
    _say(
        f"{name}, {report.reference}, {'float64' if report.exact else 'float32'}: "
        f"{report.verdict}; largest error {worst:.2f} of what is allowed; {calls}; "
        f"{time.monotonic() - start:.0f} s"
    )
    if not report.same:
        print(report, flush=True)
    return report.same


def main(count: int, seed: int, part: str | None = None) -> int:
    """Run the first `count` of the models, or that of `part`; return how many checks differ."""
    problems = 0
    for name in PARTS[:count] if part is None else (part,):
        save, groups = MODELS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = save(Path(folder) / "random.safetensors", seed)
            _say(f"{name}: {path.stat().st_size / 1e6:.0f} MB of random weights")
            for stages in groups:
                gc.collect()
                problems += not check(name, path, stages)
    return problems
