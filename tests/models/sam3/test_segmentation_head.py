"""SAM 3's segmentation head: masks of queries, and one of the text."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
pytestmark = pytest.mark.parity
torch = upstream.torch


def adapt(module, level0, level1, memory, prompt, queries):
    out = module(
        backbone_feats=[parts.planes(level) for level in (level0, level1, memory)],
        obj_queries=queries[None, None],
        image_ids=torch.zeros(1, dtype=torch.long),
        encoder_hidden_states=parts.positions(memory),
        prompt=prompt[:, None],
        prompt_mask=parts.no_padding(prompt),
    )
    assert out["presence_logit"] is None
    return out["pred_masks"][0], out["semantic_seg"][0]


def inputs(config, grid=(5, 7), tokens=4, queries=6):
    height, width = grid
    channels = config.d_model
    return {
        "level0": (4 * height, 4 * width, channels),
        "level1": (2 * height, 2 * width, channels),
        "memory": (height, width, channels),
        "prompt": (tokens, channels),
        "queries": (queries, channels),
    }


@pytest.mark.parametrize("config", ["TINY", "WIDE", "NARROW"])
@pytest.mark.parametrize(
    ("grid", "tokens", "queries"), [((5, 7), 4, 6), ((1, 1), 1, 1), ((8, 3), 40, 20)]
)
def test_segmentation_head(parity, config, grid, tokens, queries):
    config = getattr(parts, config)
    parity.check(
        "sam3.UniversalSegmentationHead",
        upstream_sam3.segmentation_head(config),
        parts.sizes(config),
        adapt=adapt,
        **inputs(config, grid, tokens, queries),
    )


def drawn(seed=0, **options):
    generator = np.random.default_rng(seed)
    shapes = inputs(parts.TINY, **options)
    return {k: generator.standard_normal(v, np.float32) for k, v in shapes.items()}


@pytest.fixture(scope="module")
def weights():
    module = upstream_sam3.segmentation_head(parts.TINY)
    return upstream.state_dict(upstream.randomise(module, 0))


def run(testing, weights, arrays, **kwargs):
    name = "sam3.UniversalSegmentationHead"
    return testing.layer(name, parts.sizes(parts.TINY), weights, **kwargs).forward(**arrays)


def test_a_mask_does_not_depend_on_the_others(testing, parity, weights):
    arrays = drawn(queries=20)
    masks = run(testing, weights, arrays)[0]
    some = [3, 4, 19]
    few = run(testing, weights, {**arrays, "queries": arrays["queries"][some]})[0]
    parity.same_bits(few, masks[some], "masks of some queries")


@pytest.mark.parametrize(
    "change",
    [
        "pixel_decoder.conv_layers.0.weight",
        "pixel_decoder.conv_layers.0.bias",
        "pixel_decoder.conv_layers.1.weight",
        "pixel_decoder.norms.0.bias",
        "pixel_decoder.norms.1.bias",
        "mask_predictor.mask_embed.layers.2.bias",
        "cross_attend_prompt.out_proj",
        "cross_attn_norm.bias",
        "instance_seg_head.bias",
        "instance_seg_head.weight",
        "level0",
        "level1",
        "memory",
        "prompt",
    ],
)
def test_every_step_counts(testing, weights, change):
    """A head that lacks one step is further from ours than the tolerance, by far."""
    arrays = drawn()
    masks = run(testing, weights, arrays)[0]
    if change in arrays:
        lacking = run(testing, weights, {**arrays, change: 0 * arrays[change]})[0]
    else:
        changed = {k: 0 * v if k.startswith(change) else v for k, v in weights.items()}
        lacking = run(testing, changed, arrays)[0]
    assert np.max(np.abs(lacking - masks)) > 1e-3 * np.max(np.abs(masks))


def test_the_third_stage_is_not_used(testing, parity, weights):
    arrays = drawn()
    changed = {k: v + 1 if ".2." in k and "pixel" in k else v for k, v in weights.items()}
    assert any(not np.array_equal(changed[k], weights[k]) for k in weights)
    parity.same_bits(run(testing, weights, arrays), run(testing, changed, arrays), "results")
