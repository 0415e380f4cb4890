"""The prompt encoder. Coordinates are those of the network's input."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

CONFIG = {
    "embed_dim": 64,
    "image_embedding_size": 8,
    "input_image_size": 128,
    "mask_in_chans": 16,
}


def reference():
    return upstream.sam.PromptEncoder(
        embed_dim=64,
        image_embedding_size=(8, 8),
        input_image_size=(128, 128),
        mask_in_chans=16,
    )


def adapt(module, point_coords=None, point_labels=None, boxes=None, mask_input=None):
    points = None if point_coords is None else (point_coords, point_labels)
    masks = None if mask_input is None else mask_input[:, None]
    sparse, dense = module(points=points, boxes=boxes, masks=masks)
    return sparse, upstream.channels_last(dense)


def points(batch, count, seed=0):
    """Points inside, on the border and outside, some of them between pixels."""
    rng = np.random.default_rng(seed)
    coords = rng.uniform(-20, 148, (batch, count, 2)).astype(np.float32)
    coords[:, ::3] = np.round(coords[:, ::3])
    coords[0, 0] = (0, 127)
    labels = rng.choice(np.array([1, 0, -1, 2, 3], np.int32), (batch, count))
    return {"point_coords": coords, "point_labels": labels}


def boxes(batch, seed=1):
    corners = np.random.default_rng(seed).uniform(0, 128, (batch, 2, 2)).astype(np.float32)
    return {"boxes": np.sort(corners, axis=1).reshape(batch, 4)}


def masks(batch, seed=2):
    logits = 8 * np.random.default_rng(seed).standard_normal((batch, 32, 32), np.float32)
    logits[0, :16] = -20
    return {"mask_input": logits}


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
        point_coords=np.array([[[30.25, 99.5]]], np.float32),
        point_labels=np.array([[label]], np.int32),
    )


@pytest.mark.parametrize("hw", [(8, 8), (1, 3), (5, 2)])
def test_dense_position(parity, hw):
    def dense(module, height, width):
        return upstream.channels_last(module((height, width))[None])

    parity.check(
        "sam.PositionEmbeddingRandom",
        upstream.sam.PositionEmbeddingRandom(32),
        {"num_pos_feats": 32},
        adapt=dense,
        height=hw[0],
        width=hw[1],
    )
