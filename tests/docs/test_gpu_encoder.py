"""Embeddings of Meta's PyTorch encoders, given to our predictors: the masks of PyTorch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sam_rlx

pytestmark = [pytest.mark.parity, pytest.mark.source_tree]

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NANOS = ("sam-nano", "sam2-nano", "sam3-nano")


@pytest.fixture(scope="module")
def bridge() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("gpu_bridge")
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module", params=NANOS)
def both(request: pytest.FixtureRequest, bridge: ModuleType) -> tuple[Any, sam_rlx.Model, Any, Any]:
    """Network, our model, a photograph and the network's embeddings of it."""
    model = sam_rlx.load_model(request.param)
    image = sam_rlx.io.read_image(bridge.IMAGE)[:, :371]
    network = bridge.Bridge(model, "cpu")
    return network, model, image, network.encode(image)


def test_clicks(bridge: ModuleType, both: tuple[Any, sam_rlx.Model, Any, Any]) -> None:
    network, model, image, embeddings = both
    # Upstream resizes for SAM 3 on a CPU as "integer" does.
    resize: Any = "integer" if model.family == "sam3" else "float"
    predictor = sam_rlx.ImagePredictor(model, resize=resize)
    predictor.set_image_embedding(embeddings["clicks"], image.shape[:2])
    prompts = {
        "point_coords": np.array([bridge.CLICK, [20, 20]]),
        "point_labels": np.array([1, 0]),
        "multimask_output": True,
    }
    assert bridge.lowest_iou(predictor.predict(**prompts).masks, network.click(**prompts)) > 0.999
    # What comes over the bridge is what our own encoder gives.
    predictor.set_image(image)
    for ours, theirs in zip(predictor.image_embeddings, embeddings["clicks"], strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 1e-3 * np.abs(ours).max()


def test_texts(bridge: ModuleType, both: tuple[Any, sam_rlx.Model, Any, Any]) -> None:
    network, model, image, embeddings = both
    if not model.supports_text:
        pytest.skip("takes no texts")
    predictor = sam_rlx.ConceptPredictor(model, resize="integer")
    predictor.set_image_embedding(embeddings["texts"], image.shape[:2])
    found = predictor.predict(text=bridge.TEXT, threshold=bridge.references.THRESHOLD)
    assert len(found.masks)
    assert bridge.lowest_iou(found.masks, network.text(bridge.TEXT)) > 0.999
    predictor.set_image(image)
    for ours, theirs in zip(predictor.image_embeddings, embeddings["texts"], strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 1e-3 * np.abs(ours).max()


def test_masks_that_differ_are_told(bridge: ModuleType) -> None:
    mask = np.zeros((1, 4, 4), bool)
    mask[0, :2] = True
    assert bridge.lowest_iou(mask, mask) == 1.0
    assert bridge.lowest_iou(mask, ~mask) == 0.0
    assert bridge.lowest_iou(mask, mask[:0]) == 0.0
    assert bridge.lowest_iou(np.zeros_like(mask), np.zeros_like(mask)) == 1.0
