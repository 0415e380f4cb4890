"""Layers that the encoder, the prompt encoder and the decoder share."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm(nn.LayerNorm):
    """Layer normalization in float32 that gives back the type it was given."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis."""
        return super().forward(x.float()).to(x.dtype)


class LayerNorm2d(nn.Module):
    """Layer normalization over the channels of a (B, C, H, W) map."""

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each position by the mean and the biased variance of its channels."""
        y = x.movedim(1, -1).float()
        y = F.layer_norm(y, self.weight.shape, self.weight, self.bias, self.eps)
        return y.to(x.dtype).movedim(-1, 1)


class MlpBlock(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, dim: int, hidden: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.lin1 = nn.Linear(dim, hidden)
        self.lin2 = nn.Linear(hidden, dim)
        self.act = activation()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to the last axis."""
        return self.lin2(self.act(self.lin1(x)))


class Mlp(nn.Module):
    """A chain of linear layers with ReLU between them."""

    def __init__(self, dim_in: int, hidden: int, dim_out: int, depth: int) -> None:
        super().__init__()
        sizes = [dim_in] + [hidden] * (depth - 1) + [dim_out]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the chain to the last axis."""
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)
