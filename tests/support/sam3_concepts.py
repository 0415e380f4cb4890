"""What the tests of SAM 3's texts share: a model that finds some things, and upstream's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from support import tiny_sam3, upstream, upstream_sam3

CONFIG = replace(tiny_sam3.TINY, num_queries=40)


def image_model(seed: int = 0, clicks: bool = False, **options: Any) -> Any:
    """Build upstream's model with random weights that finds some of what it is asked for."""
    model = upstream_sam3.image_model(CONFIG, seed=seed, clicks=clicks, **options)
    with torch.no_grad():
        model.dot_prod_scoring.hs_proj.weight *= 10
        decoder = model.transformer.decoder
        decoder.query_embed.weight *= 20
        decoder.reference_points.weight *= 10
        decoder.presence_token_head.layers[-1].bias += 4
    return model


def save(path: Path, model: Any) -> Path:
    """Write a model of `image_model` as ours loads it."""
    return tiny_sam3.save_safetensors(path, CONFIG, upstream_sam3.meta_weights(model))


def processor(model: Any, threshold: float = 0.5) -> Any:
    return upstream_sam3.processor(model, CONFIG.img_size, threshold)


def center_size(box: Sequence[float], hw: tuple[int, int]) -> list[float]:
    """Turn pixels (x0, y0, x1, y1) into upstream's fractions (cx, cy, w, h)."""
    (x0, y0, x1, y1), (height, width) = box, hw
    return [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height]


def ground(
    model: Any,
    image: NDArray[np.uint8],
    text: str | None = None,
    boxes: Sequence[Sequence[float]] = (),
    box_labels: Sequence[int] = (),
) -> tuple[dict[str, NDArray[Any]], float]:
    """Run upstream's processor on one text, then with one more box at a time.

    Returns its results, and the threshold, which is set last.
    """
    upstream_processor = processor(model, 0.0)
    with upstream_sam3.on_cpu():
        state = upstream_processor.set_image(Image.fromarray(image))
        if text is not None:
            state = upstream_processor.set_text_prompt(text, state)
        for box, label in zip(boxes, box_labels, strict=True):
            fractions = center_size(box, image.shape[:2])
            state = upstream_processor.add_geometric_prompt(fractions, bool(label), state)
        return filtered(upstream_processor, state)


def ground_points(
    model: Any, image: NDArray[np.uint8], text: str, points: Any, labels: Any
) -> tuple[dict[str, NDArray[Any]], float]:
    """Give points to upstream's processor, which has no method for them; as `ground`."""
    upstream_processor = processor(model, 0.0)
    fractions = torch.tensor(points, dtype=torch.float32) / torch.tensor(image.shape[1::-1])
    with upstream_sam3.on_cpu():
        state = upstream_processor.set_image(Image.fromarray(image))
        state["geometric_prompt"] = model._get_dummy_prompt()
        state["geometric_prompt"].append_points(fractions[:, None], torch.tensor(labels)[:, None])
        return filtered(upstream_processor, upstream_processor.set_text_prompt(text, state))


def filtered(
    upstream_processor: Any, state: dict[str, Any]
) -> tuple[dict[str, NDArray[Any]], float]:
    """Set a threshold with scores on both sides, none near it -> results, and the threshold."""
    threshold = gap(upstream.array(state["scores"]))
    state = upstream_processor.set_confidence_threshold(threshold, state)
    found = results(state)
    assert 0 < len(found["scores"]) < CONFIG.num_queries
    return found, threshold


def gap(scores: NDArray[np.float32]) -> float:
    """Return the middle of the widest gap between scores, not among the highest or lowest."""
    ordered = np.sort(scores.astype(np.float64))[len(scores) // 5 : -len(scores) // 5]
    widest = int(np.diff(ordered).argmax())
    return float(ordered[widest : widest + 2].mean())


def results(state: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the results of a state of upstream's."""
    names = ("masks_logits", "masks", "boxes", "scores")
    return {name: upstream.array(state[name]) for name in names}


def check(expected: dict[str, NDArray[Any]], masks: Any, boxes: Any, scores: Any) -> None:
    """Hold masks (N, H, W), boxes and scores to upstream's results, in the order of the queries."""
    assert len(expected["scores"]) == len(scores)
    np.testing.assert_allclose(scores, expected["scores"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(boxes, expected["boxes"], rtol=0, atol=0.05)
    other = expected["masks"][:, 0]
    both, either = (masks & other).sum((1, 2)), (masks | other).sum((1, 2))
    assert (both >= 0.999 * either).all(), both / either
