"""Programs that train, and one that changes the decoder's tokens: transformers runs them.

They are docs/source/en/tasks/mask_generation.md, its second half, and two notebooks of
NielsRogge's Transformers-Tutorials: the fine-tuning of SAM on a data set of one's own, and PerSAM.
The drop-in stops at the first line that it cannot follow, and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transformers
from torch.optim import Adam


def _frozen(folder: str) -> Any:
    model = transformers.SamModel.from_pretrained(folder)
    for name, weights in model.named_parameters():
        if name.startswith(("vision_encoder", "prompt_encoder")):
            weights.requires_grad_(False)
    return model


def _loss(model: Any, inputs: Any, truth: Any) -> Any:
    outputs = model(**inputs, multimask_output=False)
    logits = outputs.pred_masks.squeeze(1)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, truth)


def page_on_masks(folder: str, images: list[Any]) -> Iterator[Any]:
    """Fine-tune the decoder for one step on a box."""
    processor = transformers.SamProcessor.from_pretrained(folder)
    model = _frozen(folder)
    optimizer = Adam(model.mask_decoder.parameters(), lr=1e-5, weight_decay=0)
    model.train()
    inputs = processor(images[0], input_boxes=[[[20, 10, 70, 50]]], return_tensors="pt")
    side = model.config.vision_config.image_size // 4
    loss = _loss(model, inputs, torch.ones(1, 1, side, side))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    yield loss.detach()


def own_data(folder: str, images: list[Any]) -> Iterator[Any]:
    """Fine-tune the decoder on a data set."""
    processor = transformers.SamProcessor.from_pretrained(folder)
    items = [
        processor(image, input_boxes=[[[5, 5, 30, 25]]], return_tensors="pt") for image in images
    ]
    model = _frozen(folder)
    optimizer = Adam(model.mask_decoder.parameters(), lr=1e-5, weight_decay=0)
    side = model.config.vision_config.image_size // 4
    model.train()
    losses = []
    for inputs in items:
        loss = _loss(model, inputs, torch.zeros(1, 1, side, side))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    yield np.array(losses)


def one_shot(folder: str, images: list[Any]) -> Iterator[Any]:
    """PerSAM: what one image shows guides the attention on another."""
    processor = transformers.SamProcessor.from_pretrained(folder)
    model = transformers.SamModel.from_pretrained(folder)
    with torch.no_grad():
        shown, other = (
            model.get_image_embeddings(processor(image, return_tensors="pt")["pixel_values"])
            for image in images
        )
        target = shown[0, :, 1:4, 1:4].mean((1, 2))
        likeness = torch.einsum("c,chw->hw", target / target.norm(), other[0])
        scaled = ((likeness - likeness.mean()) / likeness.std()).sigmoid()
        inputs = processor(images[1], input_points=[[[20, 15]]], return_tensors="pt")
        inputs.pop("pixel_values")
        outputs = model(
            **inputs,
            image_embeddings=other,
            multimask_output=False,
            attention_similarity=scaled.reshape(1, 1, 1, -1),
            target_embedding=target.reshape(1, 1, 1, -1),
        )
    yield outputs.pred_masks


STEPS = (page_on_masks, own_data, one_shot)
