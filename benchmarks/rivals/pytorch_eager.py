"""PyTorch as users run it: upstream's code, default allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivals import Task
from workloads import NAMES, Workload, normalised, picture

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("torch", "torchvision", "segment_anything")
WORKLOADS = NAMES


def environment(threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads)}


def prepare(workload: Workload, threads: int, wrap: Callable[[Any], Any] | None = None) -> Task:
    """Load the workload; `wrap` replaces a module by a faster one that does the same."""
    import torch

    from rivals import torch_models

    torch.set_num_threads(threads)
    model = torch_models.load(workload)
    if workload.name == "encoder":
        side = workload.config.img_size
        image = torch.from_numpy(normalised(picture(side, side)))
        return _task(model.image_encoder, (image,), lambda out: out, wrap)
    if workload.name.startswith("decode"):
        inputs = torch_models.decoder_inputs(workload)
        return _task(torch_models.Decoder(model), inputs, lambda out: out[0], wrap)
    return _everything(model, workload)


def _task(
    module: Any, inputs: tuple[Any, ...], pick: Any, wrap: Callable[[Any], Any] | None
) -> Task:
    import torch

    run = wrap(module) if wrap is not None else module

    def call() -> Any:
        with torch.inference_mode():
            return run(*inputs)

    return Task(call, lambda out: pick(out).numpy())


def _everything(model: Any, workload: Workload) -> Task:
    import numpy as np
    from support import upstream

    from rivals import torch_models

    if not workload.name.endswith("encoder"):
        model.image_encoder = torch_models.StoredEncoder(workload)
    generator = upstream.sam.SamAutomaticMaskGenerator(
        model, points_per_side=workload.points_per_side
    )
    image = picture(*workload.picture_hw)
    return Task(lambda: generator.generate(image), lambda records: np.array([len(records)]))
