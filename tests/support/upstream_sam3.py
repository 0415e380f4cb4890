"""Upstream's SAM 3 and parts of it, of any size."""

from __future__ import annotations

import functools
from typing import Any

from sam_rlx.apps.parity import packages, sam3_network

from support import tiny, tiny_sam3, upstream
from support.upstream_sam3_package import on_cpu as on_cpu
from support.upstream_sam3_package import sam3 as sam3

_PACKAGE = packages.sam3()  # the same modules


def refresh(module: Any) -> Any:
    """Make what upstream has computed once anew, in the caller's precision; return the module.

    These are the rotation tables, sine encodings and coordinates: a float64 copy of a module has
    those of float32. Tests call it at the start of their adapters.
    """
    for child in module.modules():
        if isinstance(child, sam3.vitdet.Attention):
            child._setup_rope_freqs()
        elif isinstance(child, sam3.PositionEmbeddingSine):
            child.cache.clear()
        elif isinstance(child, sam3.RoPEAttention):
            side = round(len(child.freqs_cis) ** 0.5)
            child.freqs_cis = child.compute_cis(end_x=side, end_y=side)
        elif isinstance(child, sam3.TransformerDecoder):
            child.coord_cache = {}
            child.compilable_cord_cache = None
    return module


def sizes(config: tiny_sam3.Sam3Config, *names: str) -> dict[str, Any]:
    """Return fields of a config by their names."""
    return {name: getattr(config, name) for name in names}


def _detector(config: tiny_sam3.Sam3Config) -> Any:
    """Return what builds the parts of the detector."""
    names = (
        *("d_model", "dim_feedforward", "nheads", "geometry_layers", "encoder_layers"),
        *("decoder_layers", "num_queries", "upsampling_stages"),
    )
    return sam3_network._Detector(_PACKAGE, sizes(config, *names))


def _memory(config: tiny_sam3.Sam3Config) -> dict[str, Any]:
    """Return the config of SAM 2's memory as `Model.config` has it."""
    return {
        **sizes(config, "mem_dim", "memory_layers", "memory_feedforward"),
        "memory_attention": {
            "d_model": config.d_model,
            "kv_in_dim": config.mem_dim,
            "rope_theta": 10000.0,
            "feat_size": config.grid,
        },
        "memory_encoder": {"in_dim": config.d_model, "fuser_layers": config.fuser_layers},
    }


@functools.cache
def tokenizer() -> Any:
    """Return upstream's `SimpleTokenizer`, whose tables take long to build."""
    return sam3.SimpleTokenizer(bpe_path=str(sam3_network.vocabulary()))


def position_encoding(num_pos_feats: int) -> Any:
    """Build upstream's `PositionEmbeddingSine` with the options of the release."""
    return sam3_network._sine(_PACKAGE, num_pos_feats)


def vit(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `ViT`."""
    return neck(config).trunk


def neck(config: tiny_sam3.Sam3Config, add_sam2_neck: bool = True) -> Any:
    """Build upstream's `Sam3DualViTDetNeck`, which contains the trunk."""
    vision = {
        **config.trunk,
        **sizes(config, "d_model", "scale_factors"),
        "add_sam2_neck": add_sam2_neck,
    }
    return sam3_network._neck(_PACKAGE, vision).eval()


def text_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `VETextEncoder`."""
    text = sizes(config, "d_model", "context_length", "vocab_size")
    for name in ("width", "heads", "layers"):
        text[name] = getattr(config, f"text_{name}")
    return sam3_network._text(_PACKAGE, text).eval()


def attention(config: tiny_sam3.Sam3Config, batch_first: bool = False, dropout: float = 0.1) -> Any:
    """Build the attention of upstream's detector."""
    return _detector(config).attention(batch_first, dropout)


def encoder_layer(config: tiny_sam3.Sam3Config, geometry: bool = False) -> Any:
    """Build upstream's `TransformerEncoderLayer`, of the fusion or of the geometry encoder."""
    return _detector(config).layer(geometry).eval()


def geometry_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `SequenceGeometryEncoder`."""
    return _detector(config).geometry_encoder().eval()


def fusion_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerEncoderFusion`."""
    return _detector(config).fusion_encoder().eval()


def decoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerDecoder`."""
    with on_cpu():
        return _detector(config).decoder(config.img_size, config.patch_size).eval()


def scoring(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `DotProductScoring`."""
    return _detector(config).scoring().eval()


def segmentation_head(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `UniversalSegmentationHead`."""
    return _detector(config).segmentation_head().eval()


def memory_attention(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerEncoderCrossAttention`, SAM 2's memory attention."""
    return sam3_network._memory_attention(_PACKAGE, _memory(config)).eval()


def memory_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `SimpleMaskEncoder`, SAM 2's memory encoder."""
    return sam3_network._memory_encoder(_PACKAGE, _memory(config)).eval()


def mask_decoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build the tracker's `MaskDecoder`, some of whose sizes the tracker itself fixes."""
    transformer = sam3.TwoWayTransformer(
        depth=2, embedding_dim=config.d_model, mlp_dim=config.decoder_mlp_dim, num_heads=8
    )
    return sam3.MaskDecoder(
        transformer_dim=config.d_model,
        transformer=transformer,
        iou_head_depth=3,
        iou_head_hidden_dim=config.iou_head_hidden_dim,
        use_high_res_features=True,
        iou_prediction_use_sigmoid=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        use_multimask_token_for_obj_ptr=True,
        dynamic_multimask_via_stability=True,
        dynamic_multimask_stability_delta=0.05,
        dynamic_multimask_stability_thresh=0.98,
    )


def tracker(config: tiny_sam3.Sam3Config, backbone: Any = None, **switches: Any) -> Any:
    """Build upstream's `Sam3TrackerPredictor`; switches override the released ones."""
    released = {
        "image_size": config.img_size,
        "num_maskmem": 7,
        "backbone_stride": config.patch_size,
        "multimask_output_in_sam": True,
        "forward_backbone_per_frame_for_eval": True,
        "multimask_output_for_tracking": True,
        "multimask_min_pt_num": 0,
        "multimask_max_pt_num": 1,
        "always_start_from_first_ann_frame": False,
        "non_overlap_masks_for_mem_enc": False,
        "non_overlap_masks_for_output": False,
        "max_cond_frames_in_attn": 4,
        "clear_non_cond_mem_around_input": True,
        "fill_hole_area": 0,
        "use_memory_selection": False,
    }
    transformer = sam3.TransformerWrapper(
        encoder=memory_attention(config), decoder=None, d_model=config.d_model
    )
    with on_cpu():
        model = sam3.Sam3TrackerPredictor(
            backbone=backbone,
            transformer=transformer,
            maskmem_backbone=memory_encoder(config),
            **{**released, **switches},
        ).eval()
        # Upstream turns autocast on for good. Without a GPU it does nothing, but is left open.
        model.bf16_context.__exit__(None, None, None)
        model.sam_mask_decoder = mask_decoder(config)
    return model.eval()


def click_predictor(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `SAM3InteractiveImagePredictor`, whose sizes are those of the release."""
    with on_cpu(), upstream.uncompiled():
        predictor = sam3.SAM3InteractiveImagePredictor(tracker(config))
    predictor._bb_feat_sizes = [(n * config.grid, n * config.grid) for n in (4, 2, 1)]
    return predictor


def image_model(
    config: tiny_sam3.Sam3Config = tiny_sam3.TINY,
    seed: int | None = 0,
    clicks: bool = False,
    kind: Any = None,
    **switches: Any,
) -> Any:
    """Build upstream's `Sam3Image`, or a class made from it, with random weights.

    With a seed of None the weights are upstream's initial ones. `clicks` adds the predictor that
    takes points, and the neck it needs.
    """
    transformer = sam3.TransformerWrapper(
        encoder=fusion_encoder(config), decoder=decoder(config), d_model=config.d_model
    )
    model = (kind or sam3.Sam3Image)(
        backbone=sam3.SAM3VLBackbone(
            visual=neck(config, add_sam2_neck=clicks),
            text=text_encoder(config),
            scalp=config.scalp,
        ),
        transformer=transformer,
        input_geometry_encoder=geometry_encoder(config),
        segmentation_head=segmentation_head(config),
        num_feature_levels=1,
        o2m_mask_predict=True,
        dot_prod_scoring=scoring(config),
        use_instance_query=False,
        multimask_output=True,
        inst_interactive_predictor=click_predictor(config) if clicks else None,
        **switches,
    ).eval()
    return model if seed is None else upstream.randomise(model, seed)


def meta_name(name: str) -> str:
    """Return the name that Meta's checkpoint has for a tensor of the image model."""
    tracker = "inst_interactive_predictor.model."
    if name.startswith(tracker):
        return f"tracker.{name.removeprefix(tracker)}"
    return f"detector.{name}"


def meta_weights(model: Any) -> tiny.Weights:
    """Return the weights of an image model under the names of Meta's checkpoint."""
    return {meta_name(name): w for name, w in upstream.state_dict(model).items()}


def processor(model: Any, resolution: int, confidence_threshold: float = 0.5) -> Any:
    """Build upstream's `Sam3Processor` for a model of any size."""
    return sam3.Sam3Processor(
        model, resolution=resolution, device="cpu", confidence_threshold=confidence_threshold
    )
