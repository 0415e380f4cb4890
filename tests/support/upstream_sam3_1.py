"""SAM 3.1 on images: upstream's SAM 3 with the neck and the heads for clicks of SAM 3.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import sam3_concepts, tiny, tiny_sam3, tiny_sam3_1, upstream_sam3


def image_model(config: tiny_sam3.Sam3Config, seed: int) -> Any:
    """Build `Sam3Image` with random weights that finds some of what it is asked for.

    SAM 3.1 has this network for images, but for the sigmoid of the predicted IoU and a level of
    the neck that nothing reads.
    """
    model = sam3_concepts.image_model(seed, clicks=True, config=config)
    heads = model.inst_interactive_predictor.model
    heads.sam_mask_decoder.iou_prediction_head.sigmoid_output = False
    return model


def meta_weights(model: Any, config: tiny_sam3.Sam3Config) -> tiny.Weights:
    """Return weights under the names of SAM 3.1's file, random ones of what follows objects."""
    renamed = {
        tiny_sam3_1.click_name(name): weight
        for name, weight in upstream_sam3.meta_weights(model).items()
    }
    needed = {
        name: weight
        for name, weight in renamed.items()
        if not name.startswith("tracker.") or name.startswith(tiny_sam3_1.TRACKER)
    }
    return {**tiny_sam3_1.tracker_weights(config), **needed}


def save(path: Path, model: Any, config: tiny_sam3.Sam3Config) -> Path:
    """Write a model of `image_model` as a file of SAM 3.1."""
    return tiny_sam3.save_safetensors(path, config, meta_weights(model, config))
