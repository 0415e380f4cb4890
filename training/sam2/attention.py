"""Attention with separate projections, with and without rotary positions."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention with a choice of inner width and of the width of keys and values."""

    def __init__(
        self, dim: int, num_heads: int, downsample_rate: int = 1, kv_in_dim: int | None = None
    ) -> None:
        super().__init__()
        inner, source = dim // downsample_rate, kv_in_dim or dim
        self.num_heads = num_heads
        self.q_proj = nn.Linear(dim, inner)
        self.k_proj = nn.Linear(source, inner)
        self.v_proj = nn.Linear(source, inner)
        self.out_proj = nn.Linear(inner, dim)

    def split(self, x: Tensor) -> Tensor:
        """Give the heads an axis of their own: (B, heads, N, d)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None) -> Tensor:
        """Attend from (B, N, C) to (B, M, C); `keep` (B, M) bool leaves out keys."""
        q, k, v = self.split(self.q_proj(q)), self.split(self.k_proj(k)), self.split(self.v_proj(v))
        if keep is None:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
            scores = scores.float().masked_fill(~keep[:, None, None], -torch.inf)
            out = scores.softmax(-1).to(v.dtype) @ v
        return self.out_proj(out.transpose(1, 2).flatten(2))


@functools.cache
def rotation(dim: int, side: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of axial rotary positions on a square map.

    Returns
    -------
    tuple of Tensor
        Each (side * side, dim / 2): the first half of the channel pairs turns with x, the second
        with y.
    """
    rate = theta ** (-torch.arange(0, dim, 4, device=device, dtype=torch.float32) / dim)
    position = torch.arange(side * side, device=device)
    x, y = (position % side).float(), (position // side).float()
    angle = torch.cat([torch.outer(x, rate), torch.outer(y, rate)], 1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, theta: float) -> Tensor:
    """Turn channel pairs of (..., N, C) by the positions of a square map, in float32."""
    side = round(x.shape[-2] ** 0.5)
    c, s = rotation(x.shape[-1], side, theta, x.device)
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([even * c - odd * s, even * s + odd * c], -1)
    return turned.flatten(-2).to(x.dtype)


class RoPEAttention(Attention):
    """Attention over square maps with rotary positions; each map of the keys starts anew."""

    def __init__(
        self, dim: int, num_heads: int, theta: float, kv_in_dim: int | None = None
    ) -> None:
        super().__init__(dim, num_heads, 1, kv_in_dim)
        self.theta = theta

    def queries(self, x: Tensor) -> Tensor:
        """Turned queries (B, heads, N, d) of (B, N, C)."""
        return rotate(self.split(self.q_proj(x)), self.theta)

    def keys(self, x: Tensor) -> Tensor:
        """Turned keys (B, heads, N, d) of one map (B, N, C)."""
        return rotate(self.split(self.k_proj(x)), self.theta)

    def values(self, x: Tensor) -> Tensor:
        """Values (B, heads, N, d) of (B, N, C)."""
        return self.split(self.v_proj(x))

    def join(self, x: Tensor) -> Tensor:
        """Outcome (B, N, C) of what the heads found, (B, heads, N, d)."""
        return self.out_proj(x.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        """Attend within one map (B, N, C)."""
        found = F.scaled_dot_product_attention(self.queries(x), self.keys(x), self.values(x))
        return self.join(found)
