"""Attention with separate projections, with and without rotary positions."""

from __future__ import annotations

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


def rotation(dim: int, height: int, width: int, theta: float, device: torch.device) -> Tensor:
    """Angles of axial rotary positions.

    Returns
    -------
    Tensor
        (height * width, dim / 2): the first half of the channel pairs turns with x, the second
        with y.
    """
    rate = theta ** (-torch.arange(0, dim, 4, device=device, dtype=torch.float32) / dim)
    place = torch.arange(height * width, device=device)
    x, y = (place % width).float(), (place // width).float()
    return torch.cat([torch.outer(x, rate), torch.outer(y, rate)], 1)


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Turn neighbouring channel pairs of (..., N, C) by (N, C / 2) angles, in float32."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = angle.cos(), angle.sin()
    turned = torch.stack([even * c - odd * s, even * s + odd * c], -1)
    return turned.flatten(-2).to(x.dtype)


class RoPEAttention(Attention):
    """Attention over square maps with rotary positions; each map of the keys starts anew."""

    def __init__(
        self, dim: int, num_heads: int, theta: float, kv_in_dim: int | None = None
    ) -> None:
        super().__init__(dim, num_heads, 1, kv_in_dim)
        self.theta = theta

    def forward(self, q: Tensor, k: Tensor, v: Tensor, plain: int = 0) -> Tensor:
        """Attend from (B, N, C) to (B, M, C); the last `plain` keys have no position."""
        q, k, v = self.split(self.q_proj(q)), self.split(self.k_proj(k)), self.split(self.v_proj(v))
        places = q.shape[2]
        side = round(places**0.5)
        angle = rotation(q.shape[-1], side, side, self.theta, q.device)
        q = rotate(q, angle)
        maps = k[:, :, : k.shape[2] - plain]
        turned = rotate(maps.unflatten(2, (-1, places)), angle).flatten(2, 3)
        k = torch.cat([turned, k[:, :, k.shape[2] - plain :]], 2)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(out.transpose(1, 2).flatten(2))
