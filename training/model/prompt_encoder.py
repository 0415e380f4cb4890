"""The prompt encoder: points, boxes and masks to sparse tokens and a dense map."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from training.model.config import SamConfig
from training.model.layers import LayerNorm2d

PADDING_LABEL = -1


class PositionEmbeddingRandom(nn.Module):
    """Random Fourier features of positions in the unit square."""

    def __init__(self, num_feats: int, scale: float = 1.0) -> None:
        super().__init__()
        matrix = scale * torch.randn(2, num_feats)
        self.register_buffer("positional_encoding_gaussian_matrix", matrix)

    def forward(self, unit: Tensor) -> Tensor:
        """Encode (..., 2) positions (x, y) in [0, 1]: all sines, then all cosines."""
        matrix = self.positional_encoding_gaussian_matrix.float()
        angle = 2 * math.pi * ((2 * unit.float() - 1) @ matrix)
        return torch.cat([angle.sin(), angle.cos()], -1)

    def grid(self, side: int) -> Tensor:
        """Encode the pixel centres of a square grid as (1, C, side, side)."""
        matrix = self.positional_encoding_gaussian_matrix
        centre = (torch.arange(side, device=matrix.device, dtype=torch.float32) + 0.5) / side
        y, x = torch.meshgrid(centre, centre, indexing="ij")
        return self.forward(torch.stack([x, y], -1)).permute(2, 0, 1)[None]


class PromptEncoder(nn.Module):
    """Encode prompts given in pixels of the padded input image."""

    def __init__(self, config: SamConfig) -> None:
        super().__init__()
        dim, inner = config.prompt_embed_dim, config.mask_in_chans
        self.pe_layer = PositionEmbeddingRandom(dim // 2)
        self.point_embeddings = nn.ModuleList(nn.Embedding(1, dim) for _ in range(4))
        self.not_a_point_embed = nn.Embedding(1, dim)
        self.mask_downscaling = nn.Sequential(
            nn.Conv2d(1, inner // 4, 2, 2),
            LayerNorm2d(inner // 4),
            nn.GELU(),
            nn.Conv2d(inner // 4, inner, 2, 2),
            LayerNorm2d(inner),
            nn.GELU(),
            nn.Conv2d(inner, dim, 1),
        )
        self.no_mask_embed = nn.Embedding(1, dim)

    def sparse(self, coords: Tensor, labels: Tensor, side: int) -> Tensor:
        """Encode points and box corners.

        Parameters
        ----------
        coords : Tensor
            (B, N, 2) in pixels of the input image.
        labels : Tensor
            (B, N): 1 and 0 for clicks, 2 and 3 for the corners of a box, -1 for padding.
        side : int
            Side of the input image.

        Returns
        -------
        Tensor
            (B, N, C).
        """
        tokens = self.pe_layer((coords + 0.5) / side)
        tables = [self.not_a_point_embed, *self.point_embeddings]
        kinds = torch.cat([table.weight for table in tables])
        padding = labels == PADDING_LABEL
        tokens = torch.where(padding[..., None], 0.0, tokens)
        # A product instead of a look-up, whose gradient would need sorting.
        number = torch.arange(len(kinds), device=labels.device)
        return tokens + (labels[..., None] + 1 == number).to(kinds.dtype) @ kinds

    def dense(
        self, mask: Tensor | None, batch: int, grid: int, given: Tensor | None = None
    ) -> Tensor:
        """Encode (B, 1, 4g, 4g) mask prompts.

        Parameters
        ----------
        mask : Tensor, optional
            Logits; without them, the embedding of having no mask is returned.
        batch, grid : int
            B and g.
        given : Tensor, optional
            (B,) bool: which of the masks count.
        """
        row = self.no_mask_embed.weight.reshape(1, -1, 1, 1)
        if mask is None:
            return row.expand(batch, -1, grid, grid).contiguous()
        dense = self.mask_downscaling(mask)
        if given is not None:
            dense = torch.where(given[:, None, None, None], dense, row.to(dense.dtype))
        return dense
