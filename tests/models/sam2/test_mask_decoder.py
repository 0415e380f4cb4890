"""SAM 2's mask decoder. Maps are channels last on our side; masks are (B, K, H, W) on both."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

CONFIG = {
    "depth": 2,
    "embedding_dim": 64,
    "num_heads": 8,
    "mlp_dim": 128,
    "num_multimask_outputs": 3,
    "iou_head_depth": 3,
    "iou_head_hidden_dim": 48,
}
# Every mask is less stable than 2 and more stable than -1: the test chooses the way taken.
STABLE = {"dynamic_multimask_stability_thresh": -1.0}
UNSTABLE = {"dynamic_multimask_stability_thresh": 2.0}
OFF = {"dynamic_multimask_via_stability": False}


def reference(dynamic):
    return upstream.sam2.MaskDecoder(
        transformer=upstream.sam2.TwoWayTransformer(
            depth=2, embedding_dim=64, num_heads=8, mlp_dim=128
        ),
        transformer_dim=64,
        iou_head_hidden_dim=48,
        use_high_res_features=True,
        iou_prediction_use_sigmoid=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        use_multimask_token_for_obj_ptr=True,
        **{"dynamic_multimask_via_stability": True, **dynamic},
    )


def adapt(module, image_embeddings, image_pe, dense_prompt_embeddings, level0, level1, **others):
    others.pop("share", None)  # ours alone: project the map once, as for several prompts
    first = upstream.channels_first
    return module(
        image_embeddings=first(image_embeddings),
        image_pe=first(image_pe),
        dense_prompt_embeddings=first(dense_prompt_embeddings),
        high_res_features=[
            module.conv_s0(first(level0[None])),
            module.conv_s1(first(level1[None])),
        ],
        repeat_image=True,
        **others,
    )


def inputs(batch, tokens, height=8, width=8):
    return {
        "image_embeddings": (1, height, width, 64),
        "image_pe": (1, height, width, 64),
        "sparse_prompt_embeddings": (batch, tokens, 64),
        "dense_prompt_embeddings": (batch, height, width, 64),
        "level0": (4 * height, 4 * width, 64),
        "level1": (2 * height, 2 * width, 64),
    }


def check(parity, dynamic, **arrays):
    config = {**CONFIG, **dynamic}
    parity.check("sam2.MaskDecoder", reference(dynamic), config, adapt=adapt, **arrays)


@pytest.mark.parametrize(("batch", "tokens"), [(1, 2), (1, 0), (3, 4), (2, 18)])
def test_multimask(parity, batch, tokens):
    check(parity, {}, **inputs(batch, tokens), multimask_output=True)


@pytest.mark.parametrize("dynamic", [STABLE, UNSTABLE, OFF], ids=["stable", "unstable", "off"])
@pytest.mark.parametrize(("batch", "tokens"), [(1, 2), (3, 4)])
def test_single_mask(parity, dynamic, batch, tokens):
    check(parity, dynamic, **inputs(batch, tokens), multimask_output=False)


def test_released_threshold(parity):
    check(parity, {}, **inputs(4, 3), multimask_output=False)


def test_another_grid(parity):
    check(parity, {}, **inputs(1, 3, 5, 9), multimask_output=True)


def test_shared_projections_of_the_map(parity):
    arrays = inputs(1, 3)
    check(parity, {}, **arrays, multimask_output=True, share=True)


def test_stable_and_unstable_masks_differ(testing):
    """The choice matters: the masks of the two ways are not the same."""
    weights = upstream.state_dict(upstream.randomise(reference({}), 0))
    generator = np.random.default_rng(0)
    arrays = {k: generator.standard_normal(v, np.float32) for k, v in inputs(1, 2).items()}
    results = [
        testing.layer("sam2.MaskDecoder", {**CONFIG, **dynamic}, weights).forward(
            **arrays, multimask_output=False
        )
        for dynamic in (STABLE, UNSTABLE)
    ]
    assert not np.allclose(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][2], results[1][2])  # the token is the same
