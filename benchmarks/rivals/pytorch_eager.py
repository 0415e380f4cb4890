"""PyTorch as users run it: upstream's code, default allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivals import Task
from workloads import (
    CONCEPTS,
    MEMORY_ATTENTION,
    MOBILE_SAM,
    NAMES,
    SAM_HQ,
    SAM_HQ_CLICK,
    Workload,
    normalised,
    sample_image,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("torch", "torchvision", "segment_anything", "sam2")
WORKLOADS = (*NAMES, MOBILE_SAM, SAM_HQ, SAM_HQ_CLICK)
EXTRA = {
    **dict.fromkeys(CONCEPTS, ("sam3", "open_clip")),
    **dict.fromkeys((SAM_HQ, SAM_HQ_CLICK), ("segment_anything_hq",)),
    MOBILE_SAM: ("mobile_sam",),
}


def environment(threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads)}


def prepare(workload: Workload, threads: int, wrap: Callable[[Any], Any] | None = None) -> Task:
    """Load the workload; `wrap` replaces a module by a faster one that does the same."""
    import torch

    from rivals import torch_models

    torch.set_num_threads(threads)
    if workload.family == "sam3":
        from rivals import sam3_models

        return sam3_models.prepare(workload)
    if workload.name in (MOBILE_SAM, SAM_HQ, SAM_HQ_CLICK):
        return _light(workload, wrap)
    if workload.family == "sam2":
        return _sam2(workload, wrap)
    model = torch_models.load(workload)
    if workload.name == "encoder":
        return _task(model.image_encoder, (_image(workload),), lambda out: out, wrap)
    if workload.name.startswith("decode"):
        inputs = torch_models.decoder_inputs(workload)
        return _task(torch_models.Decoder(model), inputs, lambda out: out[0], wrap)
    return _everything(model, workload)


def _light(workload: Workload, wrap: Callable[[Any], Any] | None) -> Task:
    from rivals import light_models

    if workload.name == MOBILE_SAM:
        encoder = light_models.mobile_sam(workload)
        return _task(encoder, (_image(workload),), lambda out: out, wrap)
    return light_models.sam_hq(workload)


def _image(workload: Workload) -> Any:
    import torch

    return torch.from_numpy(normalised(sample_image(workload.side, workload.side)))


def _sam2(workload: Workload, wrap: Callable[[Any], Any] | None) -> Task:
    from rivals import sam2_models

    if workload.objects:
        return sam2_models.tracking(workload)
    if workload.name == MEMORY_ATTENTION:
        inputs = sam2_models.memory_inputs(workload)
        return _task(sam2_models.MemoryAttention(workload), inputs, lambda out: out, wrap)
    encoder = sam2_models.Encoder(sam2_models.load(workload))
    return _task(encoder, (_image(workload),), lambda out: out[0], wrap)


def _task(
    module: Any, inputs: tuple[Any, ...], pick: Any, wrap: Callable[[Any], Any] | None
) -> Task:
    import torch

    def call(run: Any) -> Any:
        with torch.inference_mode():
            return run(*inputs)

    run = module
    if wrap is not None:
        # Upstream's modules keep tables from their first call. Code that was compiled without
        # them would be compiled once more.
        call(module)
        run = wrap(module)
    return Task(lambda: call(run), lambda out: pick(out).float().numpy())


def _everything(model: Any, workload: Workload) -> Task:
    import numpy as np
    from support import upstream

    from rivals import torch_models

    if not workload.name.endswith("encoder"):
        model.image_encoder = torch_models.StoredEncoder(workload)
    generator = upstream.sam.SamAutomaticMaskGenerator(
        model, points_per_side=workload.points_per_side
    )
    image = sample_image(*workload.image_hw)
    return Task(lambda: generator.generate(image), lambda records: np.array([len(records)]))
