"""Upstream's SAM 3 taking clicks, and what its predictor keeps to itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from support import upstream, upstream_sam3

NAMES = ("image_embed", "high_res_0", "high_res_1", "logits", "iou_predictions", "low_res")


def predict_inst(
    network: Any, image: NDArray[np.uint8], prompts: Mapping[str, Any], multimask: bool
) -> tuple[NDArray[Any], ...]:
    """Run upstream on an image (H, W, 3) -> the arrays of NAMES."""
    seen: dict[str, Any] = {}
    predictor = network.inst_interactive_predictor
    predict = predictor.predict

    def watched(**arguments: Any) -> Any:
        seen.update(predictor._features)
        return predict(**arguments)

    upstream_sam3.refresh(network)
    with upstream_sam3.on_cpu(), mock.patch.object(predictor, "predict", watched):
        processor = upstream_sam3.processor(network, predictor.model.image_size)
        state = processor.set_image(upstream.tensor(image).permute(2, 0, 1))
        results = network.predict_inst(
            state, **prompts, multimask_output=multimask, return_logits=True
        )
    features = [seen["image_embed"], *seen["high_res_feats"]]
    return (*map(upstream.array, features), *results)
