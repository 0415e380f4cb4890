"""transformers' configs of SAM 3, of any size. Needs transformers 5."""

from __future__ import annotations

from typing import Any

from support import tiny_sam3


def _parts(config: tiny_sam3.Sam3Config) -> dict[str, Any]:
    """Configs of all parts of the detector but its text encoder."""
    eps = {"layer_norm_eps": 1e-5}
    part = {
        "hidden_size": config.d_model,
        "num_attention_heads": config.nheads,
        "intermediate_size": config.dim_feedforward,
        **eps,
    }
    return {
        "vision_config": vision_config(config),
        "geometry_encoder_config": {**part, "num_layers": config.geometry_layers},
        "detr_encoder_config": {**part, "num_layers": config.encoder_layers},
        "detr_decoder_config": {
            **part,
            "num_layers": config.decoder_layers,
            "num_queries": config.num_queries,
        },
        "mask_decoder_config": {
            "hidden_size": config.d_model,
            "num_attention_heads": config.nheads,
            "num_upsampling_stages": config.upsampling_stages,
            **eps,
        },
    }


def _text(config: tiny_sam3.Sam3Config, projection_dim: int) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.text_width,
        "intermediate_size": 4 * config.text_width,
        "projection_dim": projection_dim,
        "num_hidden_layers": config.text_layers,
        "num_attention_heads": config.text_heads,
        "max_position_embeddings": config.context_length,
        "hidden_act": "gelu",
    }


def detector_config(config: tiny_sam3.Sam3Config, projection_dim: int = 512) -> Any:
    """Return transformers' config of the detector; its norms have Meta's epsilon.

    `projection_dim` is the width of a pooled text, which the detector does not read.
    """
    from transformers import CLIPTextConfig, Sam3Config

    return Sam3Config(text_config=CLIPTextConfig(**_text(config, projection_dim)), **_parts(config))


def lite_text_config(config: tiny_sam3.Sam3Config, projection_dim: int = 512) -> Any:
    """Return the config of the detector with MobileCLIP's text encoder."""
    from transformers import Sam3LiteTextConfig

    text = {
        **_text(config, projection_dim),
        "use_repmixer_blocks": config.repmixer_size > 0,
        "repmixer_kernel_size": config.repmixer_size or 11,
    }
    return Sam3LiteTextConfig(text_config=text, **_parts(config))


def vision_config(config: tiny_sam3.Sam3Config) -> Any:
    """Return transformers' config of trunk and neck."""
    from transformers import Sam3VisionConfig, Sam3ViTConfig

    trunk = Sam3ViTConfig(
        hidden_size=config.embed_dim,
        intermediate_size=int(config.embed_dim * config.mlp_ratio),
        num_hidden_layers=config.depth,
        num_attention_heads=config.num_heads,
        image_size=config.img_size,
        patch_size=config.patch_size,
        window_size=config.window_size,
        global_attn_indexes=list(config.global_att_blocks),
        pretrain_image_size=config.pretrain_img_size,
        layer_norm_eps=1e-5,
    )
    return Sam3VisionConfig(
        backbone_config=trunk,
        fpn_hidden_size=config.d_model,
        backbone_feature_sizes=[[n * config.grid] * 2 for n in (4, 2, 1)],
        scale_factors=list(config.scale_factors),
    )


def tracker_config(config: tiny_sam3.Sam3Config) -> Any:
    """Return transformers' config of the tracker; its memories have to be 64 wide."""
    from transformers import Sam3TrackerVideoConfig

    width = config.d_model
    return Sam3TrackerVideoConfig(
        vision_config=vision_config(config),
        prompt_encoder_config={
            "hidden_size": width,
            "image_size": config.img_size,
            "patch_size": config.patch_size,
        },
        mask_decoder_config={"hidden_size": width},
        image_size=config.img_size,
        memory_attention_hidden_size=width,
        memory_attention_num_layers=config.memory_layers,
        memory_attention_feed_forward_hidden_size=config.memory_feedforward,
        memory_attention_rope_feat_sizes=[config.grid, config.grid],
        memory_encoder_hidden_size=width,
        memory_encoder_output_channels=config.mem_dim,
        mask_downsampler_embed_dim=width,
        memory_fuser_num_layers=config.fuser_layers,
        memory_fuser_embed_dim=width,
        memory_fuser_intermediate_dim=4 * width,
    )
