"""Upstream's network for the engines that start from PyTorch. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from support import tiny, upstream
from torch import nn

from workloads import Workload, clicks, embedding


def load(workload: Workload) -> Any:
    """Build upstream's network on the weights that all engines share, mapped from the file."""
    with torch.device("meta"):
        model = upstream.build_sam(workload.config, seed=None)
    weights = torch.load(workload.weights, mmap=True, weights_only=True)
    model.load_state_dict(weights, assign=True)
    model.pixel_mean = torch.tensor(tiny.PIXEL_MEAN).view(-1, 1, 1)
    model.pixel_std = torch.tensor(tiny.PIXEL_STD).view(-1, 1, 1)
    return model.eval().requires_grad_(False)


class Decoder(nn.Module):
    """Points to low-resolution masks, without upscaling: prompt encoder and mask decoder."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.prompt_encoder = model.prompt_encoder
        self.mask_decoder = model.mask_decoder

    def forward(
        self, image_embeddings: torch.Tensor, coords: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        sparse, dense = self.prompt_encoder(points=(coords, labels), boxes=None, masks=None)
        masks, scores = self.mask_decoder(
            image_embeddings=image_embeddings,
            image_pe=self.prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=True,
        )
        return masks, scores


class ExportableDecoder(nn.Module):
    """The same in the form of upstream's ONNX model, which has no assignments by mask.

    The padding point is part of `coords`. The encoding of the positions is a constant.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.onnx = upstream.sam.SamOnnxModel(model, return_single_mask=False)
        self.register_buffer("image_pe", model.prompt_encoder.get_dense_pe())

    def forward(
        self, image_embeddings: torch.Tensor, coords: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        prompts = self.onnx.model.prompt_encoder
        dense = prompts.no_mask_embed.weight.reshape(1, -1, 1, 1)
        masks, scores = self.onnx.mask_decoder.predict_masks(
            image_embeddings=image_embeddings,
            image_pe=self.image_pe,
            sparse_prompt_embeddings=self.onnx._embed_points(coords, labels),
            dense_prompt_embeddings=dense,
        )
        return masks[:, 1:], scores[:, 1:]


def decoder_inputs(workload: Workload) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    coords, labels = clicks(workload.config, workload.prompts)
    return (
        torch.from_numpy(embedding(workload.config)),
        torch.from_numpy(coords).float(),
        torch.from_numpy(labels),
    )


def exportable_inputs(workload: Workload) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    image, coords, labels = decoder_inputs(workload)
    padding = torch.zeros(workload.prompts, 1, 2)
    return (
        image,
        torch.cat([coords, padding], dim=1),
        torch.cat([labels.float(), padding[..., 0] - 1], dim=1),
    )


class StoredEncoder(nn.Module):
    """Stands for the image encoder where its time does not count."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.img_size = workload.config.img_size
        self.stored = torch.from_numpy(embedding(workload.config))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.stored
