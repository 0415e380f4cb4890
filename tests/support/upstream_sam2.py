"""Parts of upstream's SAM 2 of any size. Upstream itself comes from `support.upstream` alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sam_rlx.apps.parity import networks, packages

from support import tiny, tiny_sam2, upstream

_PACKAGE = packages.sam2()  # the same modules
_Module: Any = upstream.sam2.Module


class _NoImageEncoder(_Module):  # type: ignore[misc]
    """What SAM2Base reads of its image encoder when it is built."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.neck = SimpleNamespace(d_model=d_model)


def refresh_rope(module: Any, side: int) -> None:
    """Make the rotation tables of SAM 2's attentions anew, in the caller's precision."""
    for child in module.modules():
        if isinstance(child, upstream.sam2.RoPEAttention):
            child.freqs_cis = child.compute_cis(end_x=side, end_y=side)


def memory_attention(config: tiny.Sam2HeadsConfig) -> Any:
    """Build upstream's `MemoryAttention` of any size."""
    return networks._memory_attention(_PACKAGE, {**config.ours(), "rope_theta": 10000.0})


def memory_encoder(config: tiny.Sam2HeadsConfig) -> Any:
    """Build upstream's `MemoryEncoder` of any size."""
    sizes = {"mem_dim": config.mem_dim, "memory_encoder": config.ours()}
    return networks._memory_encoder(_PACKAGE, sizes)


def build_sam2_heads(config: tiny.Sam2HeadsConfig, **switches: Any) -> Any:
    """Build upstream's `SAM2Base` without an image encoder; switches override the released ones."""
    return upstream.sam2.SAM2Base(
        _NoImageEncoder(config.d_model),
        memory_attention(config),
        memory_encoder(config),
        **switches_of(config, switches),
    ).eval()


def build_sam2(
    config: tiny_sam2.ImageEncoderConfig = tiny_sam2.TINY,
    weights: tiny.Weights | None = None,
    version: str = "2.1",
    kind: Any = None,
    heads: tiny.Sam2HeadsConfig | None = None,
    **switches: Any,
) -> Any:
    """Build upstream's `SAM2Base`, or a class made from it, whole and of any size.

    Without `heads`, sizes behind the image encoder are in the proportions of the releases.
    """
    heads = heads or tiny.Sam2HeadsConfig(
        d_model=config.d_model,
        mem_dim=config.d_model // 4,
        grid=config.image_size // 16,
        num_layers=4,
        dim_feedforward=2048,
        is_2_1=version == "2.1",
    )
    model = (kind or upstream.sam2.SAM2Base)(
        upstream.build_sam2_image_encoder(config),
        memory_attention(heads),
        memory_encoder(heads),
        **switches_of(heads, switches),
    ).eval()
    if weights is not None:
        upstream.load_state_dict(model, weights)
    return model


def build_sam2_nano(kind: Any = None, **switches: Any) -> Any:
    """Build upstream's `SAM2Base`, or a class made from it, with the package's trained weights."""
    config, heads = tiny_sam2.NANO, tiny_sam2.NANO_HEADS
    model = build_sam2(config, kind=kind, heads=heads, **switches)
    # Upstream writes down other sizes of the decoder.
    decoder = {
        "embedding_dim": heads.d_model,
        "depth": 2,
        "num_heads": 4,
        "mlp_dim": 512,
        "iou_head_depth": 3,
        "iou_head_hidden_dim": 128,
        "dynamic_multimask_via_stability": True,
        "dynamic_multimask_stability_delta": 0.05,
        "dynamic_multimask_stability_thresh": 0.98,
    }
    model.sam_mask_decoder = networks._high_resolution_decoder(
        _PACKAGE.decoder, _PACKAGE, decoder
    ).eval()
    upstream.load_state_dict(model, upstream.trained_weights("sam2-nano"))
    return model


def plain_predictor(predictor: Any) -> Any:
    """Fit upstream's `SAM2ImagePredictor` to a model of any size and any precision.

    Upstream writes down the sizes of the maps at 1024, and compiles its image transform.
    """
    grid = predictor.model.image_size // 16
    predictor._bb_feat_sizes = [(4 * grid,) * 2, (2 * grid,) * 2, (grid,) * 2]
    return predictor


def image_predictor(model: Any, **options: Any) -> Any:
    """Build upstream's `SAM2ImagePredictor` for a model of any size."""
    with upstream.uncompiled():
        return plain_predictor(upstream.sam2.SAM2ImagePredictor(model, **options))


def mask_generator(model: Any, **options: Any) -> Any:
    """Build upstream's `SAM2AutomaticMaskGenerator` for a model of any size."""
    with upstream.uncompiled():
        generator = upstream.sam2.SAM2AutomaticMaskGenerator(model, **options)
    plain_predictor(generator.predictor)
    return generator


def switches_of(config: tiny.Sam2HeadsConfig, switches: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `SAM2Base` as in the releases, or as `switches` say."""
    v21 = {
        "no_obj_embed_spatial": config.is_2_1,
        "add_tpos_enc_to_obj_ptrs": config.is_2_1,
        "proj_tpos_enc_in_obj_ptrs": config.is_2_1,
        "use_signed_tpos_enc_to_obj_ptrs": config.is_2_1,
    }
    released = {
        "image_size": 16 * config.grid,
        "sigmoid_scale_for_mem_enc": 20.0,
        "sigmoid_bias_for_mem_enc": -10.0,
        "binarize_mask_from_pts_for_mem_enc": True,
        "use_mask_input_as_output_without_sam": True,
        "directly_add_no_mem_embed": True,
        "use_high_res_features_in_sam": True,
        "multimask_output_in_sam": True,
        "multimask_min_pt_num": 0,
        "multimask_max_pt_num": 1,
        "multimask_output_for_tracking": True,
        "use_multimask_token_for_obj_ptr": True,
        "iou_prediction_use_sigmoid": True,
        "use_obj_ptrs_in_encoder": True,
        "only_obj_ptrs_in_the_past_for_eval": True,
        "pred_obj_scores": True,
        "pred_obj_scores_mlp": True,
        "fixed_no_obj_ptr": True,
        "use_mlp_for_obj_ptr_proj": True,
        "sam_mask_decoder_extra_args": {"dynamic_multimask_via_stability": True},
    }
    return {**released, **v21, **switches}
