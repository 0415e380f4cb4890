"""Folders of transformers' ``Sam3Model`` with random weights and their processor. Needs torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from sam_rlx.conversion import convert

from support import hugging_face_models, upstream
from support.concept_forms import END, SIDE, START, two_images, vocabulary
from support.trained import trained

__all__ = ["make", "processor", "save", "save_nano", "two_images", "vocabulary"]
upstream.prepare()


def config(image_size: int = SIDE) -> Any:
    """Return settings of a small network, with transformers' own epsilons."""
    from transformers import CLIPTextConfig, Sam3Config, Sam3VisionConfig, Sam3ViTConfig

    part = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    grid = image_size // 14
    trunk = Sam3ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=image_size,
        patch_size=14,
        window_size=3,
        global_attn_indexes=[1],
        pretrain_image_size=56,
    )
    return Sam3Config(
        vision_config=Sam3VisionConfig(
            backbone_config=trunk,
            fpn_hidden_size=32,
            backbone_feature_sizes=[[n * grid] * 2 for n in (4, 2, 1)],
            scale_factors=[4.0, 2.0, 1.0, 0.5],
        ),
        text_config=CLIPTextConfig(
            vocab_size=514,
            hidden_size=48,
            intermediate_size=192,
            projection_dim=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=32,
            hidden_act="gelu",
            bos_token_id=START,
            eos_token_id=END,
        ),
        geometry_encoder_config={**part, "num_layers": 2},
        detr_encoder_config={**part, "num_layers": 2},
        detr_decoder_config={**part, "num_layers": 3, "num_queries": 11},
        mask_decoder_config={"hidden_size": 32, "num_attention_heads": 4},
    )


def make(seed: int = 0, image_size: int = SIDE) -> Any:
    """Return transformers' model with random weights."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return hugging_face_models.fill(transformers.Sam3Model(config(image_size)), seed)


def processor(image_size: int = SIDE) -> Any:
    """Return transformers' processor."""
    import transformers

    images = transformers.Sam3ImageProcessor(
        size={"height": image_size, "width": image_size},
        mask_size={"height": image_size // 14 * 4, "width": image_size // 14 * 4},
    )
    tokenizer = transformers.CLIPTokenizer(vocab=vocabulary(), merges=[])
    return transformers.Sam3Processor(images, tokenizer)


def save(folder: Path, model: Any, with_processor: Any) -> Path:
    """Write both to a folder."""
    hugging_face_models.save(model, folder)
    with_processor.save_pretrained(folder)
    return folder


def save_nano(folder: Path) -> Path:
    """Write the detector of sam3-nano as a folder of ``Sam3Model``.

    The class has no use for its coarsest map, which the small model has not: that is made up.
    """
    with safetensors.safe_open(str(trained("sam3-nano")), "np") as file:
        metadata = file.metadata()
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    kept = {n: w for n, w in weights.items() if n.startswith("detector.") and "sam2_convs" not in n}
    sizes = json.loads(metadata["config"])
    width, trunk, convs = sizes["d_model"], sizes["embed_dim"], "detector.backbone.vision_backbone"
    shapes = {
        "conv_1x1.weight": (width, trunk, 1, 1),
        "conv_1x1.bias": (width,),
        "conv_3x3.weight": (width, width, 3, 3),
        "conv_3x3.bias": (width,),
    }
    for name, shape in shapes.items():
        kept[f"{convs}.convs.3.{name}"] = np.zeros(shape, np.float32)
    sizes |= {"scale_factors": [4.0, 2.0, 1.0, 0.5], "scalp": 1}
    path = folder.with_suffix(".safetensors")
    safetensors.numpy.save_file(kept, path, metadata={**metadata, "config": json.dumps(sizes)})
    convert(path, folder)
    return folder
