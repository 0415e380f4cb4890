"""What the tests of SAM 3's detector share: sizes, and calls of upstream in our layout."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Any
from unittest import mock

import numpy as np
import torch

from support import tiny_sam3, upstream, upstream_sam3

TINY = tiny_sam3.TINY
# Other widths: heads of 8 and 20 channels, one and three layers.
WIDE = replace(
    TINY,
    d_model=80,
    nheads=4,
    dim_feedforward=96,
    geometry_layers=2,
    encoder_layers=3,
    decoder_layers=3,
    num_queries=33,
)
NARROW = replace(
    TINY, d_model=16, nheads=2, geometry_layers=1, encoder_layers=1, decoder_layers=1, num_queries=1
)
NAMES = (
    "d_model",
    "nheads",
    "dim_feedforward",
    "geometry_layers",
    "encoder_layers",
    "decoder_layers",
    "num_queries",
    "upsampling_stages",
)


def sizes(config: tiny_sam3.Sam3Config) -> dict[str, int]:
    """Return our config of the detector."""
    return {name: value for name, value in asdict(config).items() if name in NAMES}


def detector(config: tiny_sam3.Sam3Config, **switches: Any) -> Any:
    """Build upstream's `Sam3Image` without its backbone."""
    return upstream_sam3.sam3.Sam3Image(
        backbone=None,
        transformer=upstream_sam3.sam3.TransformerWrapper(
            encoder=upstream_sam3.fusion_encoder(config),
            decoder=upstream_sam3.decoder(config),
            d_model=config.d_model,
        ),
        input_geometry_encoder=upstream_sam3.geometry_encoder(config),
        segmentation_head=upstream_sam3.segmentation_head(config),
        dot_prod_scoring=upstream_sam3.scoring(config),
        use_instance_query=False,
        **switches,
    ).eval()


def sequence(x: Any) -> Any:
    """Turn tokens (N, C) into upstream's (N, 1, C)."""
    return x[:, None]


def positions(x: Any) -> Any:
    """Turn a map (H, W, C) into upstream's sequence (H * W, 1, C)."""
    return x.flatten(0, 1)[:, None]


def planes(x: Any) -> Any:
    """Turn a map (H, W, C) into upstream's (1, C, H, W)."""
    return x.permute(2, 0, 1)[None]


def no_padding(tokens: Any) -> Any:
    """Return a padding mask (1, N) that masks nothing."""
    return torch.zeros((1, len(tokens)), dtype=torch.bool)


def decode(module: Any, memory: Any, pos: Any, prompt: Any) -> tuple[Any, Any, Any]:
    """Call upstream's decoder -> its results for all layers, sequence first."""
    height, width, _ = memory.shape
    upstream_sam3.refresh(module)
    states, boxes, presence, _ = module(
        tgt=module.query_embed.weight[:, None],
        memory=positions(memory),
        pos=positions(pos),
        level_start_index=torch.zeros(1, dtype=torch.long),
        spatial_shapes=torch.tensor([[height, width]]),
        valid_ratios=torch.ones(1, 1, 2, dtype=memory.dtype),
        memory_text=sequence(prompt),
        text_attention_mask=no_padding(prompt),
        apply_dac=False,
    )
    return states, boxes, presence


def box_positions(encoder: Any, given: bool) -> AbstractContextManager[Any]:
    """Have upstream's geometry encoder leave the position part out of boxes, unless `given`.

    Upstream's class builds encoders without either projection too: it is None then.
    """
    if given:
        return nullcontext()
    return mock.patch.multiple(encoder, boxes_direct_project=None, boxes_pos_enc_project=None)


def random_boxes(generator: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Draw boxes cx, cy, w, h; some reach out of the image."""
    center, extent = generator.uniform(-0.1, 1.1, (count, 2)), generator.uniform(0, 0.9, (count, 2))
    return np.concatenate([center, extent], 1).astype(np.float32)


def random_points(generator: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Draw points x, y; some lie outside of the image."""
    return generator.uniform(-0.1, 1.1, (count, 2)).astype(np.float32)


def random_labels(generator: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    return generator.integers(0, 2, count).astype(np.int32)


def padded_prompt(geometry: list[dict[str, Any]], dtype: Any) -> Any:
    """Return upstream's `Prompt` of a batch whose entries have points and boxes of any number."""

    def batch(name: str, width: int, kind: Any) -> tuple[Any, Any, Any]:
        rows = [entry.get(name, np.zeros((0, width), np.float32)) for entry in geometry]
        label_name = f"{name[:-2] if name == 'boxes' else name[:-1]}_labels"
        count, size = max(map(len, rows)), len(geometry)
        values = torch.zeros(count, size, width, dtype=dtype)
        labels = torch.zeros(count, size, dtype=torch.long)
        mask = torch.ones(size, count, dtype=torch.bool)
        for i, row in enumerate(rows):
            # What is padded has a value, too: nothing may come of it.
            values[:, i] = 0.4
            values[: len(row), i] = torch.from_numpy(row).to(dtype)
            if len(row):
                labels[: len(row), i] = torch.from_numpy(geometry[i][label_name]).long()
            mask[i, : len(row)] = False
        return values, labels, mask

    boxes, box_labels, box_mask = batch("boxes", 4, torch.long)
    points, point_labels, point_mask = batch("points", 2, torch.long)
    return upstream_sam3.sam3.Prompt(
        box_embeddings=boxes,
        box_labels=box_labels,
        box_mask=box_mask,
        point_embeddings=points,
        point_labels=point_labels,
        point_mask=point_mask,
    )


def ground(
    module: Any, level0: Any, level1: Any, level2: Any, text: Any, padding: Any, **options: Any
) -> tuple[Any, ...]:
    """Run upstream's detector on a batch of prompts of one image -> results as ours.

    text (B, L, C), padding (B, L); options: geometry, kept and semantic as ours.
    """
    levels = [planes(level) for level in (level0, level1, level2)]
    encoding = upstream_sam3.position_encoding(level2.shape[2])
    size = len(text)
    backbone_out = {
        "backbone_fpn": levels,
        "vision_pos_enc": [encoding(level).to(level.dtype) for level in levels],
        "language_features": text.transpose(0, 1),
        "language_mask": padding,
    }
    geometry = options.pop("geometry", None) or [{}] * size
    return _found(module, backbone_out, padded_prompt(geometry, text.dtype), **options)


def ground_image(module: Any, image: Any, texts: list[str], kept: list[int]) -> tuple[Any, ...]:
    """Run upstream's image model on an image (1, S, S, 3) and texts -> results as ours."""
    with upstream_sam3.on_cpu():
        upstream_sam3.refresh(module)
        backbone_out = module.backbone.forward_image(upstream.channels_first(image))
        backbone_out.update(module.backbone.forward_text(texts, device="cpu"))
    nothing: list[dict[str, Any]] = [{} for _ in texts]
    prompt = padded_prompt(nothing, image.dtype)
    return _found(module, backbone_out, prompt, kept=kept, semantic=True)


def _found(
    module: Any, backbone_out: dict[str, Any], prompt: Any, **options: Any
) -> tuple[Any, ...]:
    size = prompt.box_mask.shape[0]
    upstream_sam3.refresh(module)
    stage = upstream_sam3.sam3.FindStage(
        img_ids=torch.zeros(size, dtype=torch.long),
        text_ids=torch.arange(size),
        **dict.fromkeys(
            (
                "input_boxes",
                "input_boxes_mask",
                "input_boxes_label",
                "input_points",
                "input_points_mask",
            )
        ),
    )
    with upstream_sam3.on_cpu():
        out = module.forward_grounding(backbone_out, stage, None, prompt)
    found = [out["pred_logits"][..., 0], out["pred_boxes"], out["presence_logit_dec"][:, 0]]
    if options.get("kept"):
        found.append(out["pred_masks"][:, options["kept"]])
    if options.get("semantic"):
        found.append(out["semantic_seg"])
    return tuple(found)
