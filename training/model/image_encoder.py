"""The image encoder: a plain ViT with windowed and global blocks and a convolutional neck."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.config import SamConfig
from training.model.layers import LayerNorm, LayerNorm2d, MlpBlock


class PatchEmbed(nn.Module):
    """Cut an image into square patches and project each to a token."""

    def __init__(self, patch_size: int, embed_dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, embed_dim, patch_size, patch_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens of shape (B, H, W, C)."""
        return self.proj(x).permute(0, 2, 3, 1)


def relative_table(table: Tensor, side: int) -> Tensor:
    """Spread a relative-position table over all pairs of positions.

    Parameters
    ----------
    table : Tensor
        One row per distance, (2 * k - 1, D), with k at least `side`.
    side : int
        Number of positions on the axis.

    Returns
    -------
    Tensor
        (side, side, D): the row for query i and key j at [i, j].

    Notes
    -----
    A longer table is read around its middle row, so that a distance keeps its meaning when a
    smaller image is trained. Full-size images use the table as it is.
    """
    position = torch.arange(side, device=table.device)
    middle = (table.shape[0] - 1) // 2
    return table[position[:, None] - position[None, :] + middle]


class Attention(nn.Module):
    """Self-attention over a (B, H, W, C) map with decomposed relative positions."""

    def __init__(self, dim: int, num_heads: int, side: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        head_dim = dim // num_heads
        self.scale = head_dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.rel_pos_h = nn.Parameter(torch.zeros(2 * side - 1, head_dim))
        self.rel_pos_w = nn.Parameter(torch.zeros(2 * side - 1, head_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Attend over all positions of the map.

        The position terms q·R_h and q·R_w ride along as extra channels: queries carry the terms
        of every row and column, keys carry a one-hot row and column. Their product is the bias,
        so a fused attention kernel can be used without a bias tensor of size N².
        """
        b, h, w, c = x.shape
        d = c // self.num_heads
        qkv = self.qkv(x).reshape(b, h, w, 3, self.num_heads, d).permute(3, 0, 4, 1, 2, 5)
        q, k, v = qkv.unbind(0)
        rel_h = torch.einsum("bnhwd,hkd->bnhwk", q, relative_table(self.rel_pos_h, h).to(q.dtype))
        rel_w = torch.einsum("bnhwd,wkd->bnhwk", q, relative_table(self.rel_pos_w, w).to(q.dtype))
        q = torch.cat([q * self.scale, rel_h, rel_w], -1)
        rows = torch.eye(h, device=x.device, dtype=k.dtype)[:, None].expand(h, w, h)
        cols = torch.eye(w, device=x.device, dtype=k.dtype)[None].expand(h, w, w)
        position = torch.cat([rows, cols], -1).expand(b, self.num_heads, h, w, h + w)
        k = torch.cat([k, position], -1)
        pad = -q.shape[-1] % 8
        q, k = F.pad(q, (0, pad)), F.pad(k, (0, pad))
        v = F.pad(v, (0, q.shape[-1] - d))
        out = F.scaled_dot_product_attention(
            q.flatten(2, 3), k.flatten(2, 3), v.flatten(2, 3), scale=1.0
        )
        out = out[..., :d].transpose(1, 2).reshape(b, h, w, c)
        return self.proj(out)


class Block(nn.Module):
    """One transformer block; `window_size` 0 means attention over the whole map."""

    def __init__(self, config: SamConfig, window_size: int) -> None:
        super().__init__()
        dim = config.embed_dim
        self.norm1 = LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, config.num_heads, window_size or config.grid)
        self.norm2 = LayerNorm(dim, eps=1e-6)
        self.mlp = MlpBlock(dim, int(dim * config.mlp_ratio), nn.GELU)
        self.window_size = window_size

    def forward(self, x: Tensor) -> Tensor:
        """Return the map after attention and feed-forward."""
        y = self.norm1(x)
        x = x + (self._windowed(y) if self.window_size else self.attn(y))
        return x + self.mlp(self.norm2(x))

    def _windowed(self, y: Tensor) -> Tensor:
        """Attend inside windows; zero padding after the norm takes part, as upstream."""
        b, h, w, c = y.shape
        s = self.window_size
        y = F.pad(y, (0, 0, 0, -w % s, 0, -h % s))
        rows, cols = y.shape[1] // s, y.shape[2] // s
        y = y.reshape(b, rows, s, cols, s, c).transpose(2, 3).reshape(-1, s, s, c)
        y = self.attn(y)
        y = y.reshape(b, rows, cols, s, s, c).transpose(2, 3)
        return y.reshape(b, rows * s, cols * s, c)[:, :h, :w]


class ImageEncoder(nn.Module):
    """Patches, blocks and neck; the result is a (B, out_chans, grid, grid) embedding."""

    def __init__(self, config: SamConfig) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(config.patch_size, config.embed_dim)
        self.pos_embed = nn.Parameter(torch.zeros(1, config.grid, config.grid, config.embed_dim))
        self.blocks = nn.ModuleList(
            Block(config, 0 if i in config.global_attn_indexes else config.window_size)
            for i in range(config.depth)
        )
        out = config.out_chans
        self.neck = nn.Sequential(
            nn.Conv2d(config.embed_dim, out, 1, bias=False),
            LayerNorm2d(out),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            LayerNorm2d(out),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Encode normalized, padded square images (B, 3, S, S)."""
        x = self.patch_embed(x)
        x = x + self._positions(x.shape[1]).to(x.dtype)
        for block in self.blocks:
            x = block(x)
        return self.neck(x.permute(0, 3, 1, 2))

    def _positions(self, side: int) -> Tensor:
        """Return the position table, shrunk for the small images of the first stage."""
        if side == self.pos_embed.shape[1]:
            return self.pos_embed
        table = self.pos_embed.permute(0, 3, 1, 2)
        table = F.interpolate(table, (side, side), mode="bilinear", antialias=True)
        return table.permute(0, 2, 3, 1)
