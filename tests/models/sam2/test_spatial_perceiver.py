"""What EdgeTAM does with memories: the perceiver, and attention to what it gives."""

from dataclasses import replace

import numpy as np
import pytest
from support import tiny_edgetam

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
edgetam = pytest.importorskip(
    "support.upstream_edgetam", reason="needs edgetam-dimos before sam2 on the path"
)
pytestmark = pytest.mark.parity

TINY = tiny_edgetam.TINY


def perceiver_config(config):
    return {
        "dim": config.mem_dim,
        "depth": config.perceiver_depth,
        "num_latents": config.num_latents,
        "num_latents_2d": config.num_latents_2d,
        "grid": config.grid,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"image_size": 96, "num_latents": 1, "num_latents_2d": 9, "perceiver_depth": 1},
        {"image_size": 80, "num_latents": 33, "num_latents_2d": 25, "mem_dim": 8},
        {"num_latents_2d": 1, "perceiver_depth": 3},
        {"mem_dim": 64, "num_latents": 256, "num_latents_2d": 256, "image_size": 512},
    ],
    ids=str,
)
def test_perceiver(parity, changes):
    config = replace(TINY, **changes)

    def adapt(module, x):
        module.position_encoding.cache = {}
        maps = upstream.channels_first(x[None])
        pos = module.position_encoding(maps)
        latents, positions = module(maps, pos)
        return latents[0], positions[0]

    parity.check(
        "sam2.SpatialPerceiver",
        edgetam.perceiver(config),
        perceiver_config(config),
        adapt=adapt,
        x=(config.grid, config.grid, config.mem_dim),
    )


def attention_config(config):
    return {
        "d_model": config.d_model,
        "kv_in_dim": config.mem_dim,
        "feat_size": config.grid,
        "key_size": edgetam.windows(config),
        "num_layers": config.num_layers,
        "dim_feedforward": config.dim_feedforward,
    }


@pytest.mark.parametrize(
    ("changes", "maps", "pointers"),
    [
        ({}, 1, 0),
        ({}, 1, 4),
        ({}, 2, 8),
        ({}, 7, 64),
        ({"num_latents_2d": 9, "image_size": 96}, 3, 4),
        ({"num_latents": 1, "mem_dim": 64}, 2, 1),
        ({"d_model": 256, "mem_dim": 64, "num_latents": 256, "num_latents_2d": 256}, 3, 64),
    ],
    ids=str,
)
@pytest.mark.parametrize("with_pos", [True, False])
def test_memory_attention(parity, changes, maps, pointers, with_pos):
    config = replace(TINY, **changes)
    torch, kv = upstream.torch, config.mem_dim
    tokens = config.num_latents + config.num_latents_2d

    def adapt(module, curr, curr_pos, features, pos, tpos, pointers, pointer_pos):
        edgetam.refresh(module, config)
        memory = torch.cat([features.flatten(0, 1), pointers])
        memory_pos = torch.cat([(pos + tpos[:, None]).flatten(0, 1), pointer_pos])
        return module(
            curr=curr[:, None],
            curr_pos=curr_pos[:, None],
            memory=memory[:, None],
            memory_pos=memory_pos[:, None],
            num_obj_ptr_tokens=len(pointers),
            num_spatial_mem=len(features),
        )[:, 0]

    positions = config.grid**2
    parity.check(
        "sam2.MemoryAttention",
        edgetam.memory_attention(config),
        attention_config(config),
        adapt=adapt,
        curr=(positions, config.d_model),
        curr_pos=(positions, config.d_model),
        features=(maps, tokens, kv),
        pos=(maps, tokens, kv),
        tpos=(maps, kv),
        pointers=(pointers, kv),
        pointer_pos=(pointers, kv) if with_pos else np.zeros((pointers, kv), np.float32),
    )


def test_new_memories(parity, testing):
    """The perceiver runs behind the memory encoder."""
    config = TINY
    module = upstream.randomise(edgetam.build(config), 4)
    g, side = config.grid, config.image_size
    generator = np.random.default_rng(4)
    pix_feat = generator.standard_normal((g, g, config.d_model), np.float32)
    mask = 8 * generator.standard_normal((side, side), np.float32)

    def adapt(module, pix_feat, mask):
        edgetam.refresh(module, config)
        flat = pix_feat.flatten(0, 1)[:, None]
        features, _ = module._encode_new_memory(
            current_vision_feats=[flat],
            feat_sizes=[(g, g)],
            pred_masks_high_res=mask[None, None],
            object_score_logits=upstream.torch.ones(1, 1),
            is_mask_from_pts=False,
        )
        return features[0]

    inputs = {"pix_feat": pix_feat, "mask": mask}
    single = upstream.run(module, inputs, adapt)
    exact = upstream.run64(upstream.double(module), inputs, adapt)
    weights = {
        name: value
        for name, value in upstream.state_dict(module).items()
        if not name.startswith("image_encoder.")
    }
    sizes = {**config.heads.ours(), **perceiver_config(config)}
    del sizes["grid"]
    layer = testing.layer("sam2.EdgeTamHeads", sizes, weights)
    found = layer.forward(
        **inputs, call="encode_new_memory", object_score_logits=1.0, is_mask_from_pts=False
    )
    parity.close(found, exact, single)
