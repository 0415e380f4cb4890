"""The whole model, for training and for checking."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from training.model.config import SamConfig
from training.model.image_encoder import ImageEncoder
from training.model.mask_decoder import MaskDecoder
from training.model.prompt_encoder import PromptEncoder


class Sam(nn.Module):
    """SAM v1: `state_dict` has the names and shapes of the published checkpoints."""

    def __init__(self, config: SamConfig) -> None:
        super().__init__()
        self.config = config
        self.image_encoder = ImageEncoder(config)
        self.prompt_encoder = PromptEncoder(config)
        self.mask_decoder = MaskDecoder(config)
        mean = torch.tensor(config.pixel_mean).reshape(3, 1, 1)
        std = torch.tensor(config.pixel_std).reshape(3, 1, 1)
        self.register_buffer("pixel_mean", mean, persistent=False)
        self.register_buffer("pixel_std", std, persistent=False)
        self.apply(_initialise)

    def normalise(self, pixels: Tensor, valid: Tensor) -> Tensor:
        """Normalize (B, 3, S, S) pixels in 0..255 and set what lies outside the image to 0."""
        return (pixels - self.pixel_mean) / self.pixel_std * valid

    def decode(
        self, embedding: Tensor, coords: Tensor, labels: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return mask logits (B, 4, 4g, 4g) and IoU predictions (B, 4) for encoded images."""
        b, _, grid, _ = embedding.shape
        sparse = self.prompt_encoder.sparse(coords, labels, grid * self.config.patch_size)
        dense = self.prompt_encoder.dense(mask, b, grid)
        position = self.prompt_encoder.pe_layer.grid(grid)
        return self.mask_decoder(embedding, position, sparse, dense)


def _initialise(module: nn.Module) -> None:
    """Truncated normal for linear layers and tables' owners, PyTorch's choice for the rest."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02 if module.in_features > 128 else 0.05)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.5)
