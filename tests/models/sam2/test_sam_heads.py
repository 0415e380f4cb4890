"""What SAM 2 does around its decoder and its memory, for one object. Maps are channels last."""

import numpy as np
import pytest
from support import tiny

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity

TINY = tiny.Sam2HeadsConfig()
TINY_2_0 = tiny.Sam2HeadsConfig(is_2_1=False)
SIDE = 16 * TINY.grid


def first(x):
    return upstream.channels_first(x[None])


def heads_inputs():
    g, c = TINY.grid, TINY.d_model
    return {
        "backbone_features": (g, g, c),
        "s0": (4 * g, 4 * g, c // 8),
        "s1": (2 * g, 2 * g, c // 4),
    }


def adapt_heads(module, backbone_features, s0, s1, multimask_output, call, **prompt):
    points = None
    if "point_coords" in prompt:
        points = {
            "point_coords": prompt["point_coords"][None],
            "point_labels": prompt["point_labels"][None],
        }
    mask = prompt["mask"][None, None] if "mask" in prompt else None
    result = module._forward_sam_heads(
        first(backbone_features), points, mask, [first(s0), first(s1)], multimask_output
    )
    low_res, _, ious, best, _, obj_ptr, score = result
    # Upstream returns the IoU of all masks; ours that of the mask it returns.
    chosen = next(k for k in range(low_res.shape[1]) if (low_res[0, k] == best[0, 0]).all())
    if multimask_output:
        chosen = int(ious.argmax())
    return best[0, 0], ious[0, chosen : chosen + 1], obj_ptr[0], score[0]


def check(parity, config, adapt, *, score_bias=0.0, seeds=(0, 1), **inputs):
    """As parity.check, with the bias of the object score moved."""
    module = upstream_sam2.build_sam2_heads(config)
    randomise = upstream.randomise

    def biased(target, seed=0):
        randomise(target, seed)
        target.sam_mask_decoder.pred_obj_score_head.layers[-1].bias.data += score_bias
        return target

    upstream.randomise = biased
    try:
        parity.check("sam2.Sam2Heads", module, config.ours(), adapt=adapt, seeds=seeds, **inputs)
    finally:
        upstream.randomise = randomise


def clicks(count, seed=0):
    rng = np.random.default_rng([seed, count])
    return {
        "point_coords": rng.uniform(0, SIDE, (count, 2)).astype(np.float32),
        "point_labels": rng.choice(np.array([0, 1], np.int32), count),
    }


BOX = {
    "point_coords": np.array([[3.5, 10.25], [40.0, 50.0]], np.float32),
    "point_labels": np.array([2, 3], np.int32),
}
PROMPTS = {
    "none": {},
    "one click": clicks(1),
    "three clicks": clicks(3),
    "no point": {
        "point_coords": np.zeros((1, 2), np.float32),
        "point_labels": np.array([-1], np.int32),
    },
    "box": BOX,
    "box and clicks": {k: np.concatenate([BOX[k], clicks(2)[k]]) for k in BOX},
    "mask": {"mask": (4 * TINY.grid, 4 * TINY.grid)},
    "large mask": {"mask": (SIDE, SIDE)},
    "click and mask": {**clicks(1), "mask": (4 * TINY.grid, 4 * TINY.grid)},
}


@pytest.mark.parametrize("multimask", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_forward_sam_heads(parity, prompt, multimask):
    inputs = {**heads_inputs(), **PROMPTS[prompt], "call": "forward_sam_heads"}
    check(parity, TINY, adapt_heads, score_bias=5.0, multimask_output=multimask, **inputs)


@pytest.mark.parametrize("multimask", [True, False])
def test_an_object_that_is_not_there(parity, testing, multimask):
    inputs = {**heads_inputs(), **clicks(1), "call": "forward_sam_heads"}

    def absent(module, **others):
        best, _iou, obj_ptr, score = adapt_heads(module, **others)
        assert (best == -1024).all()
        assert (obj_ptr == module.no_obj_ptr[0]).all()
        return best, obj_ptr, score

    module = upstream_sam2.build_sam2_heads(TINY)
    upstream.randomise(module, 0)
    module.sam_mask_decoder.pred_obj_score_head.layers[-1].bias.data -= 5.0
    generator = np.random.default_rng(0)
    arrays = {
        k: generator.standard_normal(v, np.float32) if k in heads_inputs() else v
        for k, v in inputs.items()
    }
    arrays["multimask_output"] = multimask
    single = upstream.run(module, arrays, absent)
    exact = upstream.run64(upstream.double(module), arrays, absent)
    layer = testing.layer("sam2.Sam2Heads", TINY.ours(), upstream.state_dict(module))
    mask, _, obj_ptr, score = layer.forward(**arrays)
    for i, found in enumerate((mask, obj_ptr, score)):
        parity.close(found, exact[i], single[i], f"result {i}")


def adapt_mask(module, backbone_features, s0, s1, mask, call):
    result = module._use_mask_as_output(
        first(backbone_features), [first(s0), first(s1)], mask[None, None]
    )
    _, _, ious, best, _, obj_ptr, score = result
    return best[0, 0], ious[0], obj_ptr[0], score[0]


def masks():
    square = np.zeros((SIDE, SIDE), np.float32)
    square[10:33, 17:18] = 1
    random = (np.random.default_rng(0).random((SIDE, SIDE)) > 0.7).astype(np.float32)
    return {
        "empty": np.zeros_like(square),
        "full": np.ones_like(square),
        "a line": square,
        "noise": random,
    }


@pytest.mark.parametrize("score_bias", [5.0, -5.0])
@pytest.mark.parametrize("mask", ["empty", "full", "a line", "noise"])
def test_use_mask_as_output(parity, mask, score_bias):
    inputs = {**heads_inputs(), "mask": masks()[mask], "call": "use_mask_as_output"}
    check(parity, TINY, adapt_mask, score_bias=score_bias, **inputs)


def adapt_encode(module, pix_feat, mask, object_score_logits, is_mask_from_pts, call):
    torch = upstream.torch
    logits = mask[None, None]
    if mask.shape[0] != SIDE:
        logits = torch.nn.functional.interpolate(
            logits, size=(SIDE, SIDE), mode="bilinear", align_corners=False
        )
    g = TINY.grid
    features, _ = module._encode_new_memory(
        current_vision_feats=[pix_feat.reshape(g * g, 1, -1)],
        feat_sizes=[(g, g)],
        pred_masks_high_res=logits,
        object_score_logits=torch.full((1, 1), object_score_logits),
        is_mask_from_pts=is_mask_from_pts,
    )
    return upstream.channels_last(features)[0]


@pytest.mark.parametrize("config", [TINY, TINY_2_0], ids=["2.1", "2.0"])
@pytest.mark.parametrize("from_points", [True, False])
@pytest.mark.parametrize("score", [4.0, -4.0, 0.0])
@pytest.mark.parametrize("side", [SIDE, 4 * TINY.grid])
def test_encode_new_memory(parity, config, from_points, score, side):
    check(
        parity,
        config,
        adapt_encode,
        seeds=(0,),
        pix_feat=(TINY.grid, TINY.grid, TINY.d_model),
        mask=(side, side),
        object_score_logits=score,
        is_mask_from_pts=from_points,
        call="encode_new_memory",
    )


def adapt_condition(
    module, curr, curr_pos, maskmem_pos_enc, features, obj_ptrs, cond, non_cond, reverse, **others
):
    upstream_sam2.refresh_rope(module, TINY.grid)
    outputs = [
        {
            "maskmem_features": first(features[i]),
            "maskmem_pos_enc": [first(maskmem_pos_enc)],
            "obj_ptr": obj_ptrs[i : i + 1],
        }
        for i in range(len(features))
    ]
    split = len(cond)
    result = module._prepare_memory_conditioned_features(
        frame_idx=others["frame_idx"],
        is_init_cond_frame=False,
        current_vision_feats=[curr[:, None]],
        current_vision_pos_embeds=[curr_pos[:, None]],
        feat_sizes=[(TINY.grid, TINY.grid)],
        output_dict={
            "cond_frame_outputs": dict(zip(cond, outputs[:split], strict=True)),
            "non_cond_frame_outputs": dict(zip(non_cond, outputs[split:], strict=True)),
        },
        num_frames=others["num_frames"],
        track_in_reverse=reverse,
    )
    return upstream.channels_last(result)[0]


SITUATIONS = {
    "second frame": {"frame_idx": 1, "num_frames": 2, "cond": [0], "non_cond": []},
    "steady": {"frame_idx": 20, "num_frames": 30, "cond": [0], "non_cond": list(range(1, 20))},
    "several": {"frame_idx": 9, "num_frames": 12, "cond": [5, 0, 11], "non_cond": [3, 7, 8]},
    "future": {"frame_idx": 2, "num_frames": 9, "cond": [6], "non_cond": [0, 1]},
    "only future": {"frame_idx": 2, "num_frames": 9, "cond": [6], "non_cond": []},
    "reverse": {
        "frame_idx": 4,
        "num_frames": 12,
        "cond": [9, 2],
        "non_cond": [5, 6, 8],
        "reverse": True,
    },
}


@pytest.mark.parametrize("config", [TINY, TINY_2_0], ids=["2.1", "2.0"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_memory_conditioned_features(parity, config, situation):
    g, c, width = TINY.grid, TINY.d_model, TINY.mem_dim
    case = {"reverse": False, **SITUATIONS[situation]}
    count = len(case["cond"]) + len(case["non_cond"])
    check(
        parity,
        config,
        adapt_condition,
        curr=(g * g, c),
        curr_pos=(g * g, c),
        maskmem_pos_enc=(g, g, width),
        features=(count, g, g, width),
        obj_ptrs=(count, c),
        call="condition",
        **case,
    )


def test_correction_in_a_video_of_one_frame(parity):
    """Upstream divides the distance 0 by 0 here. Ours takes 0, as upstream does with two frames."""

    def in_two_frames(module, num_frames, **others):
        assert num_frames == 1
        return adapt_condition(module, num_frames=2, **others)

    g, c, width = TINY.grid, TINY.d_model, TINY.mem_dim
    check(
        parity,
        TINY,
        in_two_frames,
        curr=(g * g, c),
        curr_pos=(g * g, c),
        maskmem_pos_enc=(g, g, width),
        features=(1, g, g, width),
        obj_ptrs=(1, c),
        call="condition",
        frame_idx=0,
        num_frames=1,
        cond=[0],
        non_cond=[],
        reverse=False,
    )
