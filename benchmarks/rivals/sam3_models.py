"""Upstream's SAM 3 for the engines that start from PyTorch. Imports PyTorch."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from support import upstream_sam3

from rivals import Task
from workloads import Workload, sample_image, sample_texts, scores_of, threshold_for


def fill(model: Any, weights: dict[str, Any]) -> None:
    """Let a model have its weights: all but the tables that it computes, and no others."""
    lacking = model.load_state_dict(weights, strict=False, assign=True)
    if lacking.unexpected_keys or any("freqs_cis" not in key for key in lacking.missing_keys):
        raise KeyError(f"weights do not fit: {lacking}")


def load(workload: Workload) -> Any:
    """Build upstream's network on the weights that all engines share, mapped from the file."""
    # Upstream reads numbers of a small table while it builds the trunk.
    table = functools.partial(torch.linspace, device="cpu")
    with torch.device("meta"), mock.patch.object(torch, "linspace", table):
        model = upstream_sam3.image_model(workload.config, seed=None)
    stored = torch.load(workload.weights, mmap=True, weights_only=True)
    fill(model, {name.removeprefix("detector."): value for name, value in stored.items()})
    # Tables that are computed stand beside the weights.
    text = model.backbone.language_backbone.encoder
    text.attn_mask = text.build_causal_mask()
    upstream_sam3.refresh(model)
    if meta := [name for name, buffer in model.named_buffers() if buffer.is_meta]:
        raise KeyError(f"no values for {meta}")
    return model.eval().requires_grad_(False)


def prepare(workload: Workload) -> Task:
    model = load(workload)
    processor = upstream_sam3.processor(model, workload.side)
    image = Image.fromarray(sample_image(workload.side, workload.side))
    words = sample_texts(max(1, workload.prompts))
    state: dict[str, Any] = {}

    def set_image() -> None:
        with torch.inference_mode(), upstream_sam3.on_cpu():
            processor.set_image(image, state)

    def encode(text: str) -> Any:
        with torch.inference_mode(), upstream_sam3.on_cpu():
            return model.backbone.forward_text([text], device="cpu")

    def scores(_: Any = None) -> Any:
        """Scores of the first text, on a state with its image."""
        set_image()
        with torch.inference_mode(), upstream_sam3.on_cpu():
            backbone_out = {**state["backbone_out"], **encode(words[0])}
            prompt = model._get_dummy_prompt()
            out = model.forward_grounding(backbone_out, processor.find_stage, None, prompt)
        logits, presence = out["pred_logits"][0, :, 0].numpy(), out["presence_logit_dec"].item()
        return scores_of(logits, presence)

    if workload.name == "sam3-encoder":
        return Task(set_image, scores)
    if workload.name == "sam3-text":
        return Task(lambda: encode(words[0]), scores)
    processor.confidence_threshold = threshold_for(scores())
    texts = [encode(text) for text in words]
    state["geometric_prompt"] = model._get_dummy_prompt()

    def ground() -> Any:
        found = []
        with torch.inference_mode(), upstream_sam3.on_cpu():
            for text in texts:
                state["backbone_out"].update(text)
                result = processor._forward_grounding(state)
                found.append((result["masks"], result["boxes"], result["scores"]))
        return found

    return Task(ground, lambda found: np.asarray(found[0][2]))
