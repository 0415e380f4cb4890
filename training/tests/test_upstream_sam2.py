"""The training model of SAM 2.1 and the published implementation are the same function."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from training.sam2 import NANO, Features, Sam2, Sam2Config
from training.sam2.sam2 import no_points

pytest.importorskip("sam2", exc_type=ImportError)

from sam2.modeling.backbones.hieradet import Hiera
from sam2.modeling.backbones.image_encoder import FpnNeck, ImageEncoder
from sam2.modeling.memory_attention import MemoryAttention, MemoryAttentionLayer
from sam2.modeling.memory_encoder import CXBlock, Fuser, MaskDownSampler, MemoryEncoder
from sam2.modeling.position_encoding import PositionEmbeddingSine
from sam2.modeling.sam.mask_decoder import MaskDecoder
from sam2.modeling.sam.transformer import RoPEAttention, TwoWayTransformer
from sam2.modeling.sam2_base import SAM2Base

SMALL = dataclasses.replace(
    NANO,
    image_size=160,
    embed_dim=16,
    stages=(1, 2, 3, 1),
    window_spec=(8, 4, 6, 3),
    global_att_blocks=(4,),
    d_model=32,
    mem_dim=16,
    decoder_num_heads=2,
    rope_feat_sizes=(10, 10),
)
SWITCHES = (
    "num_maskmem", "image_size", "backbone_stride", "sigmoid_scale_for_mem_enc",
    "sigmoid_bias_for_mem_enc", "binarize_mask_from_pts_for_mem_enc",
    "use_mask_input_as_output_without_sam", "max_cond_frames_in_attn", "directly_add_no_mem_embed",
    "use_high_res_features_in_sam", "multimask_output_in_sam", "multimask_min_pt_num",
    "multimask_max_pt_num", "multimask_output_for_tracking", "use_multimask_token_for_obj_ptr",
    "iou_prediction_use_sigmoid", "memory_temporal_stride_for_eval",
    "non_overlap_masks_for_mem_enc", "use_obj_ptrs_in_encoder", "max_obj_ptrs_in_encoder",
    "add_tpos_enc_to_obj_ptrs", "proj_tpos_enc_in_obj_ptrs", "use_signed_tpos_enc_to_obj_ptrs",
    "only_obj_ptrs_in_the_past_for_eval", "pred_obj_scores", "pred_obj_scores_mlp",
    "fixed_no_obj_ptr", "soft_no_obj_ptr", "use_mlp_for_obj_ptr_proj", "no_obj_embed_spatial",
)  # fmt: skip


def image_encoder(config: Sam2Config) -> ImageEncoder:
    """Build the published image encoder at the sizes of `config`."""
    trunk = Hiera(
        embed_dim=config.embed_dim,
        num_heads=config.num_heads,
        q_pool=config.q_pool,
        stages=config.stages,
        window_pos_embed_bkg_spatial_size=config.window_pos_embed_bkg_spatial_size,
        window_spec=config.window_spec,
        global_att_blocks=config.global_att_blocks,
    )
    neck = FpnNeck(
        PositionEmbeddingSine(config.d_model),
        config.d_model,
        trunk.channel_list,
        fpn_interp_model="nearest",
        fpn_top_down_levels=config.fpn_top_down_levels,
    )
    return ImageEncoder(trunk, neck, config.scalp)


def memory_attention(config: Sam2Config) -> MemoryAttention:
    """Build the published memory attention at the sizes of `config`."""

    def attention(**kwargs: int | bool) -> RoPEAttention:
        return RoPEAttention(
            embedding_dim=config.d_model,
            num_heads=config.memory_attention_num_heads,
            rope_theta=config.rope_theta,
            feat_sizes=config.rope_feat_sizes,
            **kwargs,
        )

    layer = MemoryAttentionLayer(
        activation="relu",
        cross_attention=attention(rope_k_repeat=True, kv_in_dim=config.mem_dim),
        d_model=config.d_model,
        dim_feedforward=config.memory_attention_dim_feedforward,
        dropout=0.1,
        pos_enc_at_attn=False,
        pos_enc_at_cross_attn_keys=True,
        pos_enc_at_cross_attn_queries=False,
        self_attention=attention(),
    )
    return MemoryAttention(config.d_model, True, layer, config.memory_attention_num_layers)


def build_upstream(config: Sam2Config) -> SAM2Base:
    """Build the published implementation at the sizes of `config`."""
    dim, mem = config.d_model, config.mem_dim
    memory_encoder = MemoryEncoder(
        mem,
        MaskDownSampler(dim, kernel_size=3, stride=2, padding=1),
        Fuser(CXBlock(dim), config.fuser_num_layers),
        PositionEmbeddingSine(mem),
        in_dim=dim,
    )
    model = SAM2Base(
        image_encoder(config),
        memory_attention(config),
        memory_encoder,
        **{name: getattr(config, name) for name in SWITCHES},
    )
    # The published class fixes these sizes of the decoder.
    model.sam_mask_decoder = MaskDecoder(
        transformer_dim=dim,
        transformer=TwoWayTransformer(
            config.decoder_depth, dim, config.decoder_num_heads, config.decoder_mlp_dim
        ),
        iou_head_depth=config.iou_head_depth,
        iou_head_hidden_dim=config.iou_head_hidden_dim,
        use_high_res_features=True,
        iou_prediction_use_sigmoid=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        use_multimask_token_for_obj_ptr=True,
        dynamic_multimask_via_stability=True,
        dynamic_multimask_stability_delta=config.dynamic_multimask_stability_delta,
        dynamic_multimask_stability_thresh=config.dynamic_multimask_stability_thresh,
    )
    return model.eval()


@pytest.fixture(scope="module")
def pair() -> tuple[Sam2, SAM2Base]:
    """Both implementations with the same random weights."""
    torch.manual_seed(0)
    own = Sam2(SMALL).eval()
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    upstream = build_upstream(SMALL)
    upstream.load_state_dict(own.state_dict(), strict=True)
    return own, upstream


def close(a: Tensor, b: Tensor) -> None:
    """Compare up to the order of sums."""
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_nano_state_loads_strictly() -> None:
    """Names and shapes at the released sizes are upstream's."""
    build_upstream(NANO).load_state_dict(Sam2(NANO).state_dict(), strict=True)


@torch.no_grad()
def test_encoder_agrees(pair: tuple[Sam2, SAM2Base]) -> None:
    """Windows with and without padding, pooling blocks, a global block and the pyramid agree."""
    own, upstream = pair
    pixels = torch.randn(2, 3, SMALL.image_size, SMALL.image_size)
    for a, b in zip(
        own.encode(pixels), upstream.forward_image(pixels)["backbone_fpn"], strict=True
    ):
        close(a, b)


@torch.no_grad()
@pytest.mark.parametrize("slots", [False, True])
def test_decoder_agrees(pair: tuple[Sam2, SAM2Base], slots: bool) -> None:
    """Clicks and mask prompts agree, also where tokens are left out of a longer row."""
    own, upstream = pair
    grid, dim = SMALL.grid, SMALL.d_model
    features = Features(
        torch.randn(2, dim // 8, 4 * grid, 4 * grid),
        torch.randn(2, dim // 4, 2 * grid, 2 * grid),
        torch.randn(2, dim, grid, grid),
    )
    coords = torch.rand(2, 2, 2) * SMALL.image_size
    kinds = torch.tensor([[2, 3], [1, 0]])
    mask = torch.randn(2, 1, 4 * grid, 4 * grid)
    sparse, dense = upstream.sam_prompt_encoder((coords, kinds), None, mask)
    wanted = upstream.sam_mask_decoder.predict_masks(
        features.top, upstream.sam_prompt_encoder.get_dense_pe(), sparse, dense,
        repeat_image=False, high_res_features=[features.s0, features.s1],
    )  # fmt: skip
    extra = [-1, -2, -2] if slots else [-1]
    kinds = torch.cat([kinds, torch.tensor([extra, extra])], 1)
    coords = torch.cat([coords, torch.zeros(2, len(extra), 2)], 1)
    got = own.decode(features.top, features, coords, kinds, mask, slots)
    for a, b in zip(got, wanted, strict=True):
        close(a, b)


@torch.no_grad()
@pytest.mark.parametrize("prompt", ["click", "mask"])
def test_tracking_agrees(pair: tuple[Sam2, SAM2Base], prompt: str) -> None:
    """Tracks over ten frames agree: memories, pointers, objects that are not there."""
    from training.engines_sam2 import TorchTracker

    own, upstream = pair
    side = SMALL.image_size
    clip = torch.randn(10, 3, side, side)
    point = {"point_coords": torch.tensor([[[70.0, 60.0]]]), "point_labels": torch.tensor([[1]])}
    mask = torch.zeros(1, 1, side, side)
    mask[..., 40:90, 30:100] = 1
    tracker = TorchTracker(own, len(clip))
    memory = {"cond_frame_outputs": {}, "non_cond_frame_outputs": {}}
    for t, frame in enumerate(clip):
        first = t == 0
        _, feats, positions, sizes = upstream._prepare_backbone_features(
            upstream.forward_image(frame[None])
        )
        wanted = upstream.track_step(
            t, first, feats, positions, sizes,
            point if first and prompt == "click" else None,
            mask if first and prompt == "mask" else None,
            memory, len(clip),
        )  # fmt: skip
        memory["cond_frame_outputs" if first else "non_cond_frame_outputs"][t] = wanted
        features = own.encode(frame[None])
        if not first:
            got = tracker.track(t, features)
        elif prompt == "click":
            got = tracker.start_points(t, features, torch.tensor([[70.0, 60.0]]), torch.tensor([1]))
        else:
            got = tracker.start_mask(t, features, mask)
        close(got.low, wanted["pred_masks"])
        close(tracker.memories[t].pointer, wanted["obj_ptr"])
        close(tracker.memories[t].spatial, wanted["maskmem_features"])


@torch.no_grad()
def test_no_points_are_two_padding_tokens(pair: tuple[Sam2, SAM2Base]) -> None:
    """A tracked frame has the dummy point and the padding point of upstream."""
    own, upstream = pair
    dummy = (torch.zeros(1, 1, 2), -torch.ones(1, 1))
    wanted, _ = upstream.sam_prompt_encoder(dummy, None, None)
    coords, labels = no_points(1, torch.device("cpu"))
    close(own.sam_prompt_encoder.sparse(coords, labels, SMALL.image_size), wanted)
