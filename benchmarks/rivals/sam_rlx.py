"""Ours, through the public classes."""

from __future__ import annotations

import time
from typing import Any

from rivals import Task
from workloads import NAMES, Workload, clicks, embedding, picture, weights_path

PACKAGES = ("sam_rlx",)
WORKLOADS = NAMES


def environment(threads: int) -> dict[str, str]:
    return {}


def prepare(workload: Workload, threads: int) -> Task:
    import sam_rlx

    path = weights_path(workload.variant)
    model = sam_rlx.load_model(
        path.with_suffix(".safetensors") if workload.variant == "tiny" else path
    )
    if workload.name.startswith("everything"):
        return _everything(model, workload, threads)
    side = workload.config.img_size
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
    if workload.name == "encoder":
        image = picture(side, side)
        # Resizing and normalising are part of it, as of the call that a user makes.
        return Task(lambda: predictor.set_image(image), lambda _: predictor.image_embedding)
    predictor.set_image_embedding(embedding(workload.config), (side, side))
    coords, labels = clicks(workload.config, workload.prompts)
    core = predictor._core
    return Task(lambda: core.decode(coords, labels, None, None, True), lambda out: out[0])


def _everything(model: Any, workload: Workload, threads: int) -> Task:
    import numpy as np
    import sam_rlx

    generator = sam_rlx.MaskGenerator(
        model, points_per_side=workload.points_per_side, num_threads=threads
    )
    image = picture(*workload.picture_hw)

    def sample(records: Any) -> Any:
        return np.array([len(records)])

    if workload.name.endswith("encoder"):
        return Task(lambda: generator.generate(image), sample)
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)

    def without_encoder() -> tuple[float, Any]:
        """Time of everything mode less that of embedding the same picture, just before."""
        start = time.perf_counter()
        predictor.set_image(image)
        middle = time.perf_counter()
        records = generator.generate(image)
        return time.perf_counter() - middle - (middle - start), records

    return Task(without_encoder, sample, timed=True)
