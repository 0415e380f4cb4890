"""Several results in float32 of one call: how wrong float32 is on few numbers is a matter of luck.

The embeddings of an image differ in their last bit between the results, which is as far apart as
two correct encoders in float32 may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.parity import NUDGES, last_bits, masks_agree
from support.parity import close as parity_close


def results(predictor: Any, torch: Any, call: Callable[[Any], Any]) -> list[Any]:
    """Return what `call` gives on an upstream predictor that has an image, first unchanged."""
    found = [call(predictor)]
    name = "features" if hasattr(predictor, "features") else "_features"
    kept = getattr(predictor, name)

    def moved(tensor: Any, seed: int) -> Any:
        return torch.from_numpy(last_bits(tensor.numpy(), seed))

    for seed in range(NUDGES):
        if name == "features":
            changed = moved(kept, seed)
        else:
            changed = {**kept, "image_embed": moved(kept["image_embed"], seed)}
        setattr(predictor, name, changed)
        found.append(call(predictor))
    setattr(predictor, name, kept)
    return found


def hold(found: Any, truth: Any, rounded: list[Any]) -> None:
    """Hold masks, scores and logits to those of float64, by the error of float32.

    `truth` has logits as masks, and so has `rounded`; `found` has logits or bool masks.
    """
    parts = [[np.asarray(part) for part in result] for result in (found, truth, *rounded)]
    ours, exact, *singles = parts
    for index, name in enumerate(("masks", "scores", "logits")):
        if ours[index].dtype == np.bool_:
            masks_agree(ours[index], exact[index], name)
            continue
        first, *more = (single[index] for single in singles)
        parity_close(ours[index], exact[index], first, name, more)
