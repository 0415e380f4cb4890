"""Runs both networks on the same inputs, and compares their layers and masks."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.progress import Progress
from sam_rlx.apps.parity import stages as stage_module
from sam_rlx.apps.parity.measure import BOUNDS, Bounds, Layer, LayerJudge, Masks, compare_masks
from sam_rlx.apps.parity.references import Reference
from sam_rlx.apps.parity.report import Report
from sam_rlx.apps.parity.stages import Ours, Outcome
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

Key = tuple[str, str]  # image and stage

# What runs at once at most: the reference in float64, and layers. In parts of its float32 size.
_EXACT_MEMORY = 3.5


def compared(
    model: Model,
    network: Reference,
    inputs: dict[Key, NDArray[np.uint8]],
    text: str,
    tolerance: float | None,
    num_threads: int | None,
    progress: Progress | None,
) -> Report:
    """Return the report on a model and its reference; parameters are those of `parity.check`."""
    exact = tolerance is None and _exact_fits(network)
    layered = [stage for _, stage in inputs if stage not in stage_module.MASKS_ALONE]
    steps = 2 * len(inputs) + (len(layered) if exact else 0)
    meter = _Meter(steps, progress)
    own = Ours(model, num_threads)
    ours = {key: meter.step(own.run(key[1], pixels, text)) for key, pixels in inputs.items()}
    del own
    single = _run_reference(network, ours, inputs, text, meter, exact=False)
    wide = _run_reference(network, ours, inputs, text, meter, exact=True) if exact else None
    bounds = _bounds(model, tolerance)
    layers, skipped = _compare_layers(network, ours, single, wide, bounds)
    masks = _compare_masks(ours, single, bounds)
    if not layers and not masks:
        raise UnsupportedError("parity: expected layers or masks of both sides, found none")
    return Report(
        checkpoint=str(model.source),
        family=model.family,
        variant=model.variant,
        reference=_package_version(network.name),
        precision=model.precision,
        exact=exact,
        layers=layers,
        skipped=skipped,
        masks=masks,
        notes=network.notes,
        images=_first_masks(ours, single, inputs),
    )


class _Meter:
    """Counts steps and tells about them."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def step(self, result: Outcome) -> Outcome:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
        return result


def _exact_fits(network: Reference) -> bool:
    """Tell whether memory is large enough for the reference in float64."""
    nbytes = sum(4 * p.numel() for p in network.network.parameters())
    return bool(_EXACT_MEMORY * nbytes < _available_bytes())


def _available_bytes() -> int:
    """Return the memory that can be had without swapping, 0 where the system does not tell."""
    with suppress(OSError, StopIteration, ValueError):  # Linux: free memory and what can be freed
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024 * int(line.split()[1])
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def _run_reference(
    network: Reference,
    ours: dict[Key, Outcome],
    inputs: dict[Key, NDArray[np.uint8]],
    text: str,
    meter: _Meter,
    *,
    exact: bool,
) -> dict[Key, Outcome]:
    network.prepare(exact)
    return {
        key: meter.step(network.run(key[1], inputs[key], text, list(outcome.layers), exact))
        for key, outcome in ours.items()
        if outcome.layers or not exact  # float64 is for layers
    }


def _compare_layers(
    network: Reference,
    ours: dict[Key, Outcome],
    single: dict[Key, Outcome],
    wide: dict[Key, Outcome] | None,
    bounds: Bounds,
) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    layers, skipped = [], []
    for key, outcome in ours.items():
        judge = LayerJudge(bounds)
        for path, value in outcome.layers.items():
            pairs = []
            for side in (single, wide):
                theirs = None if side is None or key not in side else side[key].layers.get(path)
                pairs.append(
                    None if theirs is None else network.shared(path, key[1], value, theirs)
                )
            if pairs[0] is None:
                skipped.append(path)
                continue
            exact = None if pairs[1] is None else pairs[1][1]
            layers.append(judge.layer((key[1], path), *pairs[0], exact))
    return tuple(layers), tuple(dict.fromkeys(skipped))


def _compare_masks(
    ours: dict[Key, Outcome], single: dict[Key, Outcome], bounds: Bounds
) -> tuple[Masks, ...]:
    return tuple(
        compare_masks(
            (stage, image),
            (outcome.masks, outcome.scores),
            (theirs, single[image, stage].scores),
            bounds,
        )
        for (image, stage), outcome in ours.items()
        if outcome.masks is not None and (theirs := single[image, stage].masks) is not None
    )


def _first_masks(
    ours: dict[Key, Outcome], single: dict[Key, Outcome], inputs: dict[Key, NDArray[np.uint8]]
) -> dict[Key, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    found = {}
    for (image, stage), outcome in ours.items():
        theirs = single[image, stage].masks
        if outcome.masks is not None and theirs is not None and len(outcome.masks) and len(theirs):
            pixels = inputs[image, stage]
            first = pixels if pixels.ndim == 3 else pixels[0]
            found[image, stage] = (outcome.masks[0], theirs[0], first)
    return found


def _bounds(model: Model, tolerance: float | None) -> Bounds:
    bounds = BOUNDS.get(model.precision, BOUNDS["float32"])  # packed weights: float32 arithmetic
    return bounds if tolerance is None else replace(bounds, relative=tolerance)


def _package_version(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name
