"""Sizes and names of SAM 3.1. Needs NumPy only."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from support import tiny_sam2, tiny_sam3
from support.tiny import Shapes, Weights, random_state_dict

TRACKER = "tracker.model."
NECK = "detector.backbone.vision_backbone."
# The neck has no level that is left out.
TINY = replace(tiny_sam3.TINY, scale_factors=(4.0, 2.0, 1.0), scalp=0)
RELEASED = replace(tiny_sam3.RELEASED, scale_factors=(4.0, 2.0, 1.0), scalp=0)
SLOTS = 16  # of a bucket


def with_queries(count: int) -> tiny_sam3.Sam3Config:
    """Return the tiny sizes with another number of queries."""
    return replace(TINY, num_queries=count)


def click_name(name: str) -> str:
    """Return the name in a file of SAM 3.1 of a tensor of SAM 3, of the heads for clicks too."""
    parts = {
        "tracker.no_mem_embed": "interactivity_no_mem_embed",
        "tracker.sam_": "interactive_sam_",
        "tracker.mask_downsample": "interactive_mask_downsample",
        "tracker.obj_ptr_proj": "interactive_obj_ptr_proj",
    }
    for begin, new in parts.items():
        if name.startswith(begin):
            return TRACKER + new + name.removeprefix(begin)
    return name.replace(f"{NECK}sam2_convs.", f"{NECK}interactive_convs.")


def click_shapes(width: int) -> Shapes:
    """Names and shapes of what takes clicks: SAM 2's parts under other names."""
    heads = tiny_sam2.heads_shapes(tiny_sam2.ImageEncoderConfig(d_model=width))
    parts = ("no_mem_embed", "sam_", "mask_downsample", "obj_ptr_proj")
    kept = {n: shape for n, shape in heads.items() if n.startswith(parts)}
    return {click_name("tracker." + _two_way(n)): shape for n, shape in kept.items()}


def _two_way(name: str) -> str:
    return name.replace(".mlp.layers.0.", ".mlp.lin1.").replace(".mlp.layers.1.", ".mlp.lin2.")


def _bucket_decoder_shapes(width: int, slots: int) -> Shapes:
    """Names and shapes of the decoder of a bucket: three masks a slot, and no single one."""
    own = "interactive_sam_mask_decoder."
    one = {n.removeprefix(TRACKER): s for n, s in click_shapes(width).items() if own in n}
    shapes = {n.replace("interactive_", ""): s for n, s in one.items()}
    name = "sam_mask_decoder"
    for token, count in (("iou_token", 1), ("obj_score_token", 1), ("mask_tokens", 3)):
        shapes[f"{name}.{token}.weight"] = (count * slots, width)
    shapes[f"{name}.iou_prediction_head.layers.2.weight"] = (3, 256)
    shapes[f"{name}.iou_prediction_head.layers.2.bias"] = (3,)
    return {n: s for n, s in shapes.items() if "hypernetworks_mlps.3." not in n}


def tracker_shapes(
    width: int, slots: int = SLOTS, layers: int = 4, hidden: int = 2048, fuser_layers: int = 2
) -> Shapes:
    """Names and shapes of what follows objects, with what takes clicks."""
    shapes = _bucket_decoder_shapes(width, slots)

    def layer(name: str, *weight: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = weight, weight[:1]

    shapes["maskmem_tpos_enc"] = (7, 1, 1, width)
    shapes["image_pe_layer.positional_encoding_gaussian_matrix"] = (2, width // 2)
    for name in ("no_obj_embed_spatial", "output_valid_embed", "output_invalid_embed"):
        shapes[name] = (slots, width)
    for name in ("no_obj_ptr_linear", "obj_ptr_tpos_proj"):
        layer(name, width, width)
    for i in range(3):
        layer(f"obj_ptr_proj.layers.{i}", width, width)
    for i in range(layers):
        block = f"transformer.encoder.layers.{i}"
        for kind, parts in (("self", "qkv"), ("cross", "qkv"), ("image_cross", "qk")):
            for part in parts:
                layer(f"{block}.{kind}_attn_{part}_proj", width, width)
        for kind in ("self", "cross"):
            layer(f"{block}.{kind}_attn_out_proj", width, width)
        layer(f"{block}.linear1", hidden, width)
        layer(f"{block}.linear2", width, hidden)
        for j in (1, 2, 3):
            layer(f"{block}.norm{j}", width)
    layer("transformer.encoder.norm", width)
    down = "maskmem_backbone.mask_downsampler.encoder"
    for i, (n_in, n_out) in enumerate(pairwise((2 * slots, 16, 64, 256, 1024))):
        layer(f"{down}.{3 * i}", n_out, n_in, 3, 3)
        layer(f"{down}.{3 * i + 1}", n_out)
    layer(f"{down}.12", width, 1024, 1, 1)
    layer("maskmem_backbone.pix_feat_proj", width, width, 1, 1)
    for i in range(fuser_layers):
        block = f"maskmem_backbone.fuser.layers.{i}"
        layer(f"{block}.dwconv", width, 1, 7, 7)
        layer(f"{block}.norm", width)
        layer(f"{block}.pwconv1", 4 * width, width)
        layer(f"{block}.pwconv2", width, 4 * width)
        shapes[f"{block}.gamma"] = (width,)
    return {**click_shapes(width), **{TRACKER + n: s for n, s in shapes.items()}}


def neck_shapes(config: tiny_sam3.Sam3Config) -> Shapes:
    """Names and shapes of the necks for clicks and for videos."""
    shapes: Shapes = {}
    for part in ("interactive_convs", "propagation_convs"):
        shapes.update(tiny_sam3.branch_shapes(config, NECK + part))
    return shapes


def tracker_weights(config: tiny_sam3.Sam3Config = TINY, seed: int = 0) -> Weights:
    """Draw weights of the necks and of all of the tracker."""
    return random_state_dict({**neck_shapes(config), **tracker_shapes(config.d_model)}, seed)
