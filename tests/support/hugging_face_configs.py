"""Configs of transformers' classes at tiny sizes. Needs transformers 5.

Two settings follow Meta where transformers' default does not: the epsilon of the norms in SAM's
decoder and in SAM 3.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from support import hugging_face_sam3, tiny_sam3

_SIDES = {"Sam": (128, 96), "Sam2": (128, 64), "Sam3": (112, 84), "EdgeTam": (128, 64)}
_SAM3 = dataclasses.replace(tiny_sam3.TINY, mem_dim=64)  # a width that transformers has fixed


def family(name: str) -> str:
    """Return the begin of the classes of a family: ``"Sam"``, ``"Sam2"``, ``"EdgeTam"``, ..."""
    found = re.match(r"Sam\d?|EdgeTam", name)
    assert found is not None
    return found[0]


def side(name: str, other: bool = False) -> int:
    """Return the side of the images of the tiny model of a class; `other`: of one that differs."""
    return _SIDES[family(name)][other]


def _sam(image_size: int, hq: bool = False) -> Any:
    from transformers import SamConfig, SamHQConfig, SamHQVisionConfig, SamVisionConfig

    whole, vision = (SamHQConfig, SamHQVisionConfig) if hq else (SamConfig, SamVisionConfig)
    return whole(
        vision_config=vision(
            hidden_size=64,
            output_channels=64,
            num_pos_feats=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=image_size,
            window_size=3,
            global_attn_indexes=[1],
            mlp_dim=192,
        ),
        prompt_encoder_config={"hidden_size": 64, "image_size": image_size},
        mask_decoder_config={
            "hidden_size": 64,
            "mlp_dim": 128,
            "iou_head_hidden_dim": 32,
            "num_attention_heads": 4,
            "layer_norm_eps": 1e-5,
            **({"vit_dim": 64} if hq else {}),
        },
    )


def _sam2_vision(image_size: int, width: int = 64) -> Any:
    from transformers import Sam2HieraDetConfig, Sam2VisionConfig

    grid = image_size // 16
    return Sam2VisionConfig(
        backbone_config=Sam2HieraDetConfig(
            hidden_size=16,
            blocks_per_stage=[1, 1, 2, 1],
            embed_dim_per_stage=[16, 32, 64, 128],
            num_attention_heads_per_stage=[2, 4, 8, 16],
            window_size_per_stage=[8, 4, 14, 8],
            global_attention_blocks=[3],
        ),
        backbone_channel_list=[128, 64, 32, 16],
        backbone_feature_sizes=[[n * grid] * 2 for n in (4, 2, 1)],
        fpn_hidden_size=width,
    )


def _sam2(image_size: int, video: bool, width: int) -> Any:
    from transformers import Sam2Config, Sam2VideoConfig

    parts: dict[str, Any] = {
        "vision_config": _sam2_vision(image_size, width),
        "prompt_encoder_config": {"hidden_size": width, "image_size": image_size},
        "mask_decoder_config": {
            "hidden_size": width,
            "mlp_dim": 2 * width,
            "iou_head_hidden_dim": 32,
            "num_attention_heads": 4,
            "dynamic_multimask_stability_delta": 0.25,
        },
    }
    if not video:
        return Sam2Config(**parts)
    return Sam2VideoConfig(
        **parts,
        image_size=image_size,
        num_maskmem=5,
        max_object_pointers_in_encoder=8,
        max_cond_frame_num=3,
        sigmoid_scale_for_mem_enc=10.0,
        sigmoid_bias_for_mem_enc=-5.0,
        multimask_max_pt_num=2,
        memory_attention_hidden_size=width,
        memory_attention_num_layers=2,
        memory_attention_feed_forward_hidden_size=2 * width,
        memory_attention_rope_feat_sizes=[image_size // 16] * 2,
        memory_encoder_hidden_size=width,
        mask_downsampler_embed_dim=width,
        memory_fuser_embed_dim=width,
        memory_fuser_intermediate_dim=4 * width,
    )


def _edgetam(image_size: int, video: bool, width: int) -> Any:
    from transformers import (
        EdgeTamConfig,
        EdgeTamVideoConfig,
        EdgeTamVisionConfig,
        TimmWrapperConfig,
    )

    grid = image_size // 16
    trunk = {"embed_dim": [16, 24, 40, 48], "depth": [1, 2, 3, 2]}
    parts: dict[str, Any] = {
        "vision_config": EdgeTamVisionConfig(
            backbone_config=TimmWrapperConfig(
                architecture="repvit_m1",
                model_args={
                    "in_chans": 3,
                    "features_only": True,
                    "out_indices": [0, 1, 2, 3],
                    **trunk,
                },
            ),
            backbone_channel_list=trunk["embed_dim"][::-1],
            backbone_feature_sizes=[[n * grid] * 2 for n in (4, 2, 1)],
            fpn_hidden_size=width,
        ),
        "prompt_encoder_config": {"hidden_size": width, "image_size": image_size},
        "mask_decoder_config": {
            "hidden_size": width,
            "mlp_dim": 2 * width,
            "iou_head_hidden_dim": 32,
            "num_attention_heads": 4,
        },
    }
    if not video:
        return EdgeTamConfig(**parts)
    return EdgeTamVideoConfig(
        **parts,
        image_size=image_size,
        num_maskmem=5,
        max_object_pointers_in_encoder=8,
        enable_occlusion_spatial_embedding=False,
        enable_temporal_pos_encoding_for_object_pointers=False,
        memory_attention_hidden_size=width,
        memory_attention_mlp_hidden_size=2 * width,
        memory_attention_rope_feat_sizes=[grid] * 2,
        memory_attention_rope_k_sizes=[2, 2],
        perceiver_resampler_num_latents=6,
        perceiver_resampler_num_latents_2d=4,
        memory_encoder_hidden_size=width,
        mask_downsampler_embed_dim=width,
        memory_fuser_embed_dim=width,
        memory_fuser_intermediate_dim=4 * width,
    )


def _sam3(name: str, image_size: int, width: int) -> Any:
    from transformers import Sam3TrackerConfig, Sam3VideoConfig

    sizes = dataclasses.replace(_SAM3, img_size=image_size, d_model=width)
    if name == "Sam3Model":
        return hugging_face_sam3.detector_config(sizes, projection_dim=32)
    if name == "Sam3VisionModel":
        return hugging_face_sam3.vision_config(sizes)
    video = hugging_face_sam3.tracker_config(sizes)
    if name == "Sam3TrackerVideoModel":
        return video
    if name == "Sam3VideoModel":
        detector = hugging_face_sam3.detector_config(sizes, projection_dim=32)
        return Sam3VideoConfig(detector_config=detector, tracker_config=video)
    return Sam3TrackerConfig(
        vision_config=video.vision_config,
        prompt_encoder_config=video.prompt_encoder_config.to_dict(),
        mask_decoder_config=video.mask_decoder_config.to_dict(),
    )


def use_metas_epsilon(sizes: Any) -> None:
    """Give a whole config, of SAM or SAM 3, the epsilon of Meta's norms."""
    if sizes.model_type in ("sam", "sam_hq"):
        sizes.mask_decoder_config.layer_norm_eps = 1e-5
    if not sizes.model_type.startswith("sam3"):
        return
    for whole in (sizes, *(getattr(sizes, f"{n}_config", None) for n in ("detector", "tracker"))):
        if hasattr(whole, "vision_config"):
            whole.vision_config.backbone_config.layer_norm_eps = 1e-5
        if hasattr(whole, "detr_decoder_config"):
            for part in (
                "text",
                "geometry_encoder",
                "detr_encoder",
                "detr_decoder",
                "mask_decoder",
            ):
                getattr(whole, f"{part}_config").layer_norm_eps = 1e-5


def config(name: str, image_size: int, width: int = 64) -> Any:
    """Return the config of a tiny model; many settings differ from those of a release.

    `width` is that of the maps, but for SAM's. transformers follows objects only where it is a
    multiple of the width of memories, 64, and not the same.
    """
    if name in ("SamModel", "SamHQModel"):
        return _sam(image_size, hq=name == "SamHQModel")
    if name == "SamVisionModel":
        return _sam(image_size).vision_config
    if name == "Sam2VisionModel":
        return _sam2_vision(image_size)
    if family(name) == "Sam2":
        return _sam2(image_size, name == "Sam2VideoModel", width)
    if family(name) == "EdgeTam":
        return _edgetam(image_size, name == "EdgeTamVideoModel", width)
    return _sam3(name, image_size, width)
