"""Ours, through the public classes; the memory attention, which has none, through the tests'."""

from __future__ import annotations

import time
from typing import Any

import tracks
from rivals import Task, sam_rlx_concepts, sam_rlx_video
from workloads import (
    CONCEPTS,
    EDGETAM,
    GRAPHS,
    LIGHT,
    MEMORY_ATTENTION,
    NAMES,
    SAM_HQ,
    SAM_HQ_CLICK,
    Workload,
    clicks,
    embedding,
    sample_image,
)

PACKAGES = ("sam_rlx",)
EXTRA = {MEMORY_ATTENTION: ("sam_rlx._testing",)}
WORKLOADS = (*NAMES, *LIGHT)


def environment(threads: int) -> dict[str, str]:
    return {}


def prepare(workload: Workload, threads: int, precision: str = "float32") -> Task:
    import sam_rlx

    if workload.name == MEMORY_ATTENTION:
        return _memory_attention(workload, threads)
    model = sam_rlx.load_model(workload.ours, precision=precision)
    if workload.name in CONCEPTS:
        return sam_rlx_concepts.prepare(workload, model, threads)
    if workload.name == EDGETAM:
        return sam_rlx_video.tracked(workload, model, threads)
    if workload.objects:
        return sam_rlx_video.tracking(workload, model, threads)
    if workload.name.startswith("everything"):
        return _everything(model, workload, threads)
    side = workload.side
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
    if workload.name == SAM_HQ_CLICK:
        predictor.set_image(sample_image(side, side))
        point = {"point_coords": [[side / 3, side / 2]], "point_labels": [1]}
        return Task(lambda: predictor.predict(**point), lambda found: found.low_res_masks)
    if workload.name in (*GRAPHS, SAM_HQ):
        image = sample_image(side, side)
        # Resizing and normalizing are part of it, as of the call that a user makes.
        return Task(lambda: predictor.set_image(image), lambda _: predictor.image_embedding)
    predictor.set_image_embedding(embedding(workload.config), (side, side))
    coords, labels = clicks(workload.config, workload.prompts)
    core = predictor._core
    return Task(
        lambda: core.decode(coords, labels, None, None, True), lambda out: out.low_res_masks
    )


def _memory_attention(workload: Workload, threads: int) -> Task:
    """No public call runs this part alone. The copy of the result, 4 MB, is within its time."""
    from sam_rlx import _testing

    config, prefix = workload.config, "memory_attention."
    sizes = {
        "d_model": config.d_model,
        "kv_in_dim": config.d_model // 4,
        "feat_size": workload.side // 16,
        "num_layers": 4,
        "dim_feedforward": 2048,
    }
    stored = tracks.sam2_weights(config, prefix)
    weights = {name.removeprefix(prefix): value for name, value in stored.items()}
    layer = _testing.layer("sam2.MemoryAttention", sizes, weights, num_threads=threads)
    inputs = tracks.memory_inputs(config)
    return Task(lambda: layer.forward(**inputs), lambda out: out)


def _everything(model: Any, workload: Workload, threads: int) -> Task:
    import numpy as np
    import sam_rlx

    generator = sam_rlx.MaskGenerator(
        model, points_per_side=workload.points_per_side, num_threads=threads
    )
    image = sample_image(*workload.image_hw)

    def sample(records: Any) -> Any:
        return np.array([len(records)])

    if workload.name.endswith("encoder"):
        return Task(lambda: generator.generate(image), sample)
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)

    def without_encoder() -> tuple[float, Any]:
        """Time of everything mode less that of embedding the same image, just before."""
        start = time.perf_counter()
        predictor.set_image(image)
        middle = time.perf_counter()
        records = generator.generate(image)
        return time.perf_counter() - middle - (middle - start), records

    return Task(without_encoder, sample, timed=True)
