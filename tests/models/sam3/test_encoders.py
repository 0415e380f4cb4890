"""SAM 3's geometry encoder, fusion encoder and scoring. Maps are (H, W, C), tokens (N, C)."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
pytestmark = pytest.mark.parity
torch = upstream.torch


def fusion_layer(module, x, pos, prompt):
    return module(
        tgt=x[None],
        memory=prompt[None],
        query_pos=pos[None],
        memory_key_padding_mask=parts.no_padding(prompt),
    )[0]


# Few tokens are folded into the map's side, many are not.
@pytest.mark.parametrize("tokens", [1, 5, 16, 17, 40])
def test_fusion_layer(parity, tokens):
    channels = parts.TINY.d_model
    parity.check(
        "sam3.TransformerEncoderLayer",
        upstream_sam3.encoder_layer(parts.TINY),
        parts.sizes(parts.TINY),
        adapt=fusion_layer,
        x=(35, channels),
        pos=(35, channels),
        prompt=(tokens, channels),
    )


def geometry_layer(module, x, map, map_pos):
    return module(tgt=x[:, None], memory=map[:, None], pos=map_pos[:, None])[:, 0]


@pytest.mark.parametrize("tokens", [1, 4])
def test_geometry_layer(parity, tokens):
    channels = parts.TINY.d_model
    parity.check(
        "sam3.TransformerEncoderLayer",
        upstream_sam3.encoder_layer(parts.TINY, geometry=True),
        parts.sizes(parts.TINY),
        adapt=geometry_layer,
        x=(tokens, channels),
        map=(300, channels),
        map_pos=(300, channels),
    )


def fusion_encoder(module, src, pos, prompt, side=None):
    height = next(n for n in range(int(len(src) ** 0.5), 0, -1) if len(src) % n == 0)
    return module(
        src=[src[:, None]],
        src_pos=[pos[:, None]],
        prompt=prompt[:, None],
        prompt_key_padding_mask=parts.no_padding(prompt),
        feat_sizes=[(height, len(src) // height)],
    )["memory"][:, 0]


@pytest.mark.parametrize("config", ["TINY", "WIDE", "NARROW"])
@pytest.mark.parametrize(("positions", "tokens"), [(63, 6), (1, 1), (35, 33)])
def test_fusion_encoder(parity, config, positions, tokens):
    config = getattr(parts, config)
    parity.check(
        "sam3.TransformerEncoderFusion",
        upstream_sam3.fusion_encoder(config),
        parts.sizes(config),
        adapt=fusion_encoder,
        src=(positions, config.d_model),
        pos=(positions, config.d_model),
        prompt=(tokens, config.d_model),
    )


def geometry_encoder(module, map, pos, **prompt):
    upstream_sam3.refresh(module)
    positions = bool(prompt.pop("box_positions", True))
    arguments = {}
    if "points" in prompt:
        arguments["point_embeddings"] = prompt["points"][:, None]
        arguments["point_labels"] = prompt["point_labels"][:, None]
    if "boxes" in prompt:
        arguments["box_embeddings"] = prompt["boxes"][:, None]
        arguments["box_labels"] = prompt["box_labels"][:, None]
    if not arguments:  # upstream's processor begins with a prompt of no boxes
        arguments["box_embeddings"] = torch.zeros(0, 1, 4, dtype=map.dtype)
    with upstream_sam3.on_cpu(), parts.box_positions(module, positions):
        tokens, mask = module(
            geo_prompt=upstream_sam3.sam3.Prompt(**arguments),
            img_feats=[parts.positions(map)],
            img_sizes=[map.shape[:2]],
            img_pos_embeds=[parts.positions(pos)],
        )
    assert not mask.any()
    return tokens[:, 0]


def geometry(points, boxes, seed=0):
    random = np.random.default_rng([seed, points, boxes])
    arrays = {}
    if points:
        arrays["points"] = parts.random_points(random, points)
        arrays["point_labels"] = parts.random_labels(random, points)
    if boxes:
        arrays["boxes"] = parts.random_boxes(random, boxes)
        arrays["box_labels"] = parts.random_labels(random, boxes)
    return arrays


def check_geometry(parity, arrays, config="TINY", grid=(7, 9), **more):
    config = getattr(parts, config)
    parity.check(
        "sam3.SequenceGeometryEncoder",
        upstream_sam3.geometry_encoder(config),
        parts.sizes(config),
        adapt=geometry_encoder,
        map=(*grid, config.d_model),
        pos=(*grid, config.d_model),
        **arrays,
        **more,
    )


@pytest.mark.parametrize(("points", "boxes"), [(0, 0), (1, 0), (0, 1), (0, 5), (4, 0), (3, 2)])
@pytest.mark.parametrize("grid", [(7, 9), (1, 1)])
def test_geometry_encoder(parity, points, boxes, grid):
    check_geometry(parity, geometry(points, boxes), grid=grid)


@pytest.mark.parametrize(("points", "boxes"), [(0, 1), (2, 3)])
def test_boxes_without_their_positions(parity, points, boxes):
    check_geometry(parity, geometry(points, boxes), box_positions=False)


@pytest.mark.parametrize("config", ["WIDE", "NARROW"])
def test_other_sizes(parity, config):
    check_geometry(parity, geometry(2, 3), config, grid=(12, 5), seeds=(0,))


@pytest.mark.parametrize(
    "box",
    [
        (0.5, 0.5, 1, 1),
        (0.5, 0.5, 0, 0),
        (1.4, -0.6, 0.3, 0.2),  # outside
        (0.5, 0.5, 3.1, 4.3),  # around the image
        (0.02, 0.97, 0.13, 0.11),  # across the corner
    ],
)
def test_boxes_at_and_over_the_border(parity, box):
    arrays = {"boxes": np.float32([box, box]), "box_labels": np.int32([1, 0])}
    check_geometry(parity, arrays, seeds=(0,))


def run(testing, weights, arrays, config="TINY", **kwargs):
    config = parts.sizes(getattr(parts, config))
    layer = testing.layer("sam3.SequenceGeometryEncoder", config, weights, **kwargs)
    return layer.forward(**arrays)


@pytest.fixture(scope="module")
def geometry_weights():
    module = upstream_sam3.geometry_encoder(parts.TINY)
    return upstream.state_dict(upstream.randomise(module, 0))


def maps(grid=(7, 9), seed=0):
    random = np.random.default_rng(seed)
    shape = (*grid, parts.TINY.d_model)
    return {name: random.standard_normal(shape, np.float32) for name in ("map", "pos")}


def test_labels_and_order_count(testing, geometry_weights):
    """A positive box is not a negative one, and points stand before boxes."""
    arrays = {**maps(), **geometry(1, 1)}
    found = run(testing, geometry_weights, arrays)
    other = run(testing, geometry_weights, {**arrays, "box_labels": 1 - arrays["box_labels"]})
    assert np.max(np.abs(found - other)) > 1e-2
    assert len(found) == 3


def test_unknown_label(testing, geometry_weights):
    arrays = {**maps(), "points": np.zeros((1, 2), np.float32), "point_labels": np.int32([2])}
    with pytest.raises(ValueError, match="expected labels 0 and 1, found 2"):
        run(testing, geometry_weights, arrays)


CHANGES = (
    "label_embed",
    "cls_embed",
    "points_direct_project",
    "points_pool_project",
    "points_pos_enc_project",
    "boxes_direct_project",
    "boxes_pool_project",
    "boxes_pos_enc_project",
    "img_pre_norm.bias",
    "norm.bias",
    "encode.0.cross_attn_image.out_proj",
    "encode.0.self_attn.out_proj",
    "encode_norm.bias",
)


@pytest.mark.parametrize("change", [*CHANGES, "pos", "map"])
def test_every_part_of_the_geometry_counts(parity, testing, geometry_weights, change):
    """An encoder that lacks one part is further from ours than the tolerance, by far."""
    arrays = {**maps(), **geometry(2, 2)}
    found = run(testing, geometry_weights, arrays)
    if change in arrays:
        lacking = run(testing, geometry_weights, {**arrays, change: 0 * arrays[change]})
    else:
        weights = {k: 0 * v if k.startswith(change) else v for k, v in geometry_weights.items()}
        lacking = run(testing, weights, arrays)
    assert np.max(np.abs(lacking - found)) > 1e-3 * np.max(np.abs(found))


def scoring(module, hs, prompt):
    return module(hs[None, None], prompt[:, None], parts.no_padding(prompt))[0, 0, :, 0]


@pytest.mark.parametrize("config", ["TINY", "WIDE", "NARROW"])
@pytest.mark.parametrize("tokens", [1, 6, 40])
def test_scoring(parity, config, tokens):
    config = getattr(parts, config)
    parity.check(
        "sam3.DotProductScoring",
        upstream_sam3.scoring(config),
        parts.sizes(config),
        adapt=scoring,
        hs=(40, config.d_model),
        prompt=(tokens, config.d_model),
    )


def test_scores_are_clamped(testing):
    module = upstream.randomise(upstream_sam3.scoring(parts.TINY), 0)
    weights = {k: 20 * v if "proj" in k else v for k, v in upstream.state_dict(module).items()}
    random = np.random.default_rng(0)
    hs, prompt = (random.standard_normal((n, parts.TINY.d_model), np.float32) for n in (50, 4))
    layer = testing.layer("sam3.DotProductScoring", parts.sizes(parts.TINY), weights)
    found = layer.forward(hs=hs, prompt=prompt)
    assert found.max() == 12
    assert found.min() == -12
