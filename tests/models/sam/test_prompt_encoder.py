"""The prompt encoder. Coordinates are those of the network's input."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

CONFIG = {
    "embed_dim": 64,
    "image_embedding_size": (8, 8),
    "input_image_size": (128, 128),
    "mask_in_chans": 16,
}


def reference():
    return upstream.sam.PromptEncoder(**CONFIG)


def adapt(module, points=None, labels=None, boxes=None, masks=None):
    sparse, dense = module(
        points=None if points is None else (points, labels),
        boxes=boxes,
        masks=None if masks is None else masks[:, None],
    )
    return sparse, upstream.channels_last(dense), upstream.channels_last(module.get_dense_pe())


def points(batch, count, seed=0):
    """Points inside, on the border and outside, some of them between pixels."""
    rng = np.random.default_rng(seed)
    coords = rng.uniform(-20, 148, (batch, count, 2)).astype(np.float32)
    coords[:, ::3] = np.round(coords[:, ::3])
    coords[0, 0] = (0, 127)
    labels = rng.choice(np.array([1, 0, -1, 2, 3], np.int32), (batch, count))
    return {"points": coords, "labels": labels}


def boxes(batch, seed=1):
    corners = np.random.default_rng(seed).uniform(0, 128, (batch, 2, 2)).astype(np.float32)
    return {"boxes": np.sort(corners, axis=1).reshape(batch, 4)}


def masks(batch, seed=2):
    logits = 8 * np.random.default_rng(seed).standard_normal((batch, 32, 32), np.float32)
    logits[0, :16] = -20
    return {"masks": logits}


@pytest.mark.parametrize(
    "prompts",
    [
        points(1, 1),
        points(1, 2),
        points(1, 17),
        points(3, 5),
        boxes(1),
        boxes(4),
        masks(1),
        masks(2),
        {**points(2, 3), **boxes(2)},
        {**points(2, 3), **masks(2)},
        {**boxes(2), **masks(2)},
        {**points(3, 2), **boxes(3), **masks(3)},
        {},
    ],
    ids=lambda prompts: "+".join(f"{k}{v.shape}" for k, v in prompts.items()) or "none",
)
def test_prompt_encoder(parity, prompts):
    parity.check("sam.PromptEncoder", reference(), CONFIG, adapt=adapt, **prompts)


@pytest.mark.parametrize("label", [1, 0, -1, 2, 3])
def test_each_label(parity, label):
    parity.check(
        "sam.PromptEncoder",
        reference(),
        CONFIG,
        adapt=adapt,
        points=np.array([[[30.25, 99.5]]], np.float32),
        labels=np.array([[label]], np.int32),
    )
