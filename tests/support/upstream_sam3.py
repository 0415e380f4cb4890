"""Upstream's SAM 3 and parts of it, of any size."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch

from support import tiny, tiny_sam3, upstream
from support.upstream_sam3_package import on_cpu as on_cpu
from support.upstream_sam3_package import sam3 as sam3


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


def bpe_path() -> Path:
    """Return the file of CLIP's vocabulary, which the package open_clip carries."""
    spec = importlib.util.find_spec("open_clip")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the tokenizer's vocabulary needs the package open_clip_torch")
    return Path(spec.origin).parent / "bpe_simple_vocab_16e6.txt.gz"


def tokenizer() -> Any:
    """Build upstream's `SimpleTokenizer`."""
    return sam3.SimpleTokenizer(bpe_path=str(bpe_path()))


def position_encoding(num_pos_feats: int) -> Any:
    """Build upstream's `PositionEmbeddingSine` with the options of the release."""
    return sam3.PositionEmbeddingSine(num_pos_feats, 10000, True, None)


def vit(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `ViT`."""
    return sam3.ViT(
        norm_layer="LayerNorm",
        qkv_bias=True,
        use_abs_pos=True,
        tile_abs_pos=True,
        rel_pos_blocks=(),
        use_rope=True,
        use_interp_rope=True,
        pretrain_use_cls_token=True,
        retain_cls_token=False,
        ln_pre=True,
        ln_post=False,
        return_interm_layers=False,
        bias_patch_embed=False,
        **config.trunk,
    ).eval()


def neck(config: tiny_sam3.Sam3Config, add_sam2_neck: bool = True) -> Any:
    """Build upstream's `Sam3DualViTDetNeck`, which contains the trunk."""
    return sam3.Sam3DualViTDetNeck(
        trunk=vit(config),
        position_encoding=position_encoding(config.d_model),
        d_model=config.d_model,
        scale_factors=list(config.scale_factors),
        add_sam2_neck=add_sam2_neck,
    ).eval()


def text_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `VETextEncoder`."""
    return sam3.VETextEncoder(
        d_model=config.d_model,
        tokenizer=tokenizer(),
        width=config.text_width,
        heads=config.text_heads,
        layers=config.text_layers,
        context_length=config.context_length,
        vocab_size=config.vocab_size,
    ).eval()


def attention(config: tiny_sam3.Sam3Config, batch_first: bool = False, dropout: float = 0.1) -> Any:
    """Build the attention of upstream's detector."""
    return sam3.MultiheadAttention(
        num_heads=config.nheads,
        dropout=dropout,
        embed_dim=config.d_model,
        batch_first=batch_first,
    )


def encoder_layer(config: tiny_sam3.Sam3Config, geometry: bool = False) -> Any:
    """Build upstream's `TransformerEncoderLayer`, of the fusion or of the geometry encoder."""
    return sam3.TransformerEncoderLayer(
        activation="relu",
        d_model=config.d_model,
        dim_feedforward=config.dim_feedforward,
        dropout=0.1,
        pos_enc_at_attn=not geometry,
        pos_enc_at_cross_attn_keys=geometry,
        pos_enc_at_cross_attn_queries=False,
        pre_norm=True,
        self_attention=attention(config, batch_first=not geometry),
        cross_attention=attention(config, batch_first=not geometry),
    ).eval()


def geometry_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `SequenceGeometryEncoder`."""
    return sam3.SequenceGeometryEncoder(
        pos_enc=position_encoding(config.d_model),
        encode_boxes_as_points=False,
        points_direct_project=True,
        points_pool=True,
        points_pos_enc=True,
        boxes_direct_project=True,
        boxes_pool=True,
        boxes_pos_enc=True,
        d_model=config.d_model,
        num_layers=config.geometry_layers,
        layer=encoder_layer(config, geometry=True),
        add_cls=True,
        add_post_encode_proj=True,
    ).eval()


def fusion_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerEncoderFusion`."""
    return sam3.TransformerEncoderFusion(
        layer=encoder_layer(config),
        num_layers=config.encoder_layers,
        d_model=config.d_model,
        num_feature_levels=1,
        frozen=False,
        add_pooled_text_to_img_feat=False,
        pool_text_with_mask=True,
    ).eval()


def decoder_layer(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerDecoderLayer`."""
    return sam3.TransformerDecoderLayer(
        activation="relu",
        d_model=config.d_model,
        dim_feedforward=config.dim_feedforward,
        dropout=0.1,
        cross_attention=attention(config),
        n_heads=config.nheads,
        use_text_cross_attention=True,
    ).eval()


def decoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerDecoder`."""
    with on_cpu():
        return sam3.TransformerDecoder(
            layer=decoder_layer(config),
            num_layers=config.decoder_layers,
            num_queries=config.num_queries,
            return_intermediate=True,
            box_refine=True,
            num_o2m_queries=0,
            dac=True,
            boxRPB="log",
            d_model=config.d_model,
            frozen=False,
            interaction_layer=None,
            dac_use_selfatt_ln=True,
            resolution=config.img_size,
            stride=config.patch_size,
            presence_token=True,
        ).eval()


def scoring(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `DotProductScoring`."""
    prompt_mlp = sam3.MLP(
        input_dim=config.d_model,
        hidden_dim=config.dim_feedforward,
        output_dim=config.d_model,
        num_layers=2,
        dropout=0.1,
        residual=True,
        out_norm=torch.nn.LayerNorm(config.d_model),
    )
    return sam3.DotProductScoring(
        d_model=config.d_model, d_proj=config.d_model, prompt_mlp=prompt_mlp
    ).eval()


def segmentation_head(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `UniversalSegmentationHead`."""
    return sam3.UniversalSegmentationHead(
        hidden_dim=config.d_model,
        upsampling_stages=config.upsampling_stages,
        aux_masks=False,
        presence_head=False,
        dot_product_scorer=None,
        cross_attend_prompt=attention(config, dropout=0.0),
        pixel_decoder=sam3.PixelDecoder(
            num_upsampling_stages=config.upsampling_stages,
            interpolation_mode="nearest",
            hidden_dim=config.d_model,
        ),
    ).eval()


def memory_attention(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `TransformerEncoderCrossAttention`, SAM 2's memory attention."""

    def rope(**options: Any) -> Any:
        return sam3.RoPEAttention(
            embedding_dim=config.d_model,
            num_heads=1,
            downsample_rate=1,
            dropout=0.1,
            rope_theta=10000.0,
            feat_sizes=[config.grid, config.grid],
            **options,
        )

    layer = sam3.decoder.TransformerDecoderLayerv2(
        cross_attention_first=False,
        activation="relu",
        dim_feedforward=config.memory_feedforward,
        dropout=0.1,
        pos_enc_at_attn=False,
        pre_norm=True,
        self_attention=rope(),
        d_model=config.d_model,
        pos_enc_at_cross_attn_keys=True,
        pos_enc_at_cross_attn_queries=False,
        cross_attention=rope(kv_in_dim=config.mem_dim, rope_k_repeat=True),
    )
    return sam3.decoder.TransformerEncoderCrossAttention(
        remove_cross_attention_layers=[],
        batch_first=True,
        d_model=config.d_model,
        frozen=False,
        pos_enc_at_input=True,
        layer=layer,
        num_layers=config.memory_layers,
    ).eval()


def memory_encoder(config: tiny_sam3.Sam3Config) -> Any:
    """Build upstream's `SimpleMaskEncoder`, SAM 2's memory encoder."""
    block = sam3.memory.CXBlock(config.d_model, kernel_size=7, padding=3)
    return sam3.memory.SimpleMaskEncoder(
        out_dim=config.mem_dim,
        in_dim=config.d_model,
        position_encoding=position_encoding(config.mem_dim),
        mask_downsampler=sam3.memory.SimpleMaskDownSampler(
            embed_dim=config.d_model,
            kernel_size=3,
            stride=2,
            padding=1,
            interpol_size=[16 * config.grid, 16 * config.grid],
        ),
        fuser=sam3.memory.SimpleFuser(block, config.fuser_layers),
    ).eval()


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
