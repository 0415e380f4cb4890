"""The image encoder: a plain ViT with windows and rotary positions, and a neck of four levels."""

from __future__ import annotations

import functools
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm
from training.sam3.config import Sam3Config

THETA = 10000.0


@functools.cache
def rotation(head: int, side: int, scale: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines (side * side, head / 2): half the pairs turn with x, half with y."""
    rate = THETA ** (-torch.arange(0, head, 4, device=device).float() / head)
    position = torch.arange(side * side, device=device)
    x, y = (position % side) * scale, (position // side) * scale
    angle = torch.cat([torch.outer(x.float(), rate), torch.outer(y.float(), rate)], 1)
    return angle.cos(), angle.sin()


class Attention(nn.Module):
    """Self-attention of square maps."""

    def __init__(self, dim: int, heads: int, side: int, scale: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.heads, self.side, self.scale = heads, side, scale

    def _turn(self, x: Tensor) -> Tensor:
        c, s = rotation(x.shape[-1], self.side, self.scale, x.device)
        even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack([even * c - odd * s, even * s + odd * c], -1)
        return turned.flatten(-2).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within each (side, side) map of (B, side, side, C)."""
        qkv = self.qkv(x).flatten(1, 2).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        out = F.scaled_dot_product_attention(self._turn(q), self._turn(k), v)
        return self.proj(out.transpose(1, 2).flatten(2)).unflatten(1, x.shape[1:3])


class Mlp(nn.Module):
    """Two linear layers with exact GELU between them."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers to the last axis."""
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """A pre-norm block over windows, or over the whole map."""

    def __init__(self, config: Sam3Config, window: int) -> None:
        super().__init__()
        dim, grid = config.embed_dim, config.grid
        # Turns over the whole map span what they span over a window.
        scale = 1.0 if window else config.window_size / grid
        self.norm1 = LayerNorm(dim)
        self.attn = Attention(dim, config.num_heads, window or grid, scale)
        self.norm2 = LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * config.mlp_ratio))
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to (B, H, W, C); windows fit without padding."""
        y, w = self.norm1(x), self.window
        if w:
            b, h, _, c = y.shape
            n = h // w
            y = y.reshape(b, n, w, n, w, c).transpose(2, 3).reshape(-1, w, w, c)
            y = self.attn(y).reshape(b, n, n, w, w, c).transpose(2, 3).reshape(x.shape)
        else:
            y = self.attn(y)
        x = x + y
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    """Patches that do not overlap, without bias."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        size = config.patch_size
        self.proj = nn.Conv2d(3, config.embed_dim, size, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, H, W, C)."""
        return self.proj(x).permute(0, 2, 3, 1)


class ViT(nn.Module):
    """The trunk."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim, side = config.embed_dim, config.pretrain_img_size // config.patch_size
        self.grid = config.grid
        self.patch_embed = PatchEmbed(config)
        self.pos_embed = nn.Parameter(torch.zeros(1, side * side + 1, dim))
        self.ln_pre = LayerNorm(dim)
        self.blocks = nn.ModuleList(
            Block(config, 0 if i in config.global_att_blocks else config.window_size)
            for i in range(config.depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Encode normalized images (B, 3, S, S) as (B, C, g, g)."""
        x = self.patch_embed(x)
        side = round((self.pos_embed.shape[1] - 1) ** 0.5)
        table = self.pos_embed[:, 1:].unflatten(1, (side, side))
        times = -(-self.grid // side)
        table = table.tile(1, times, times, 1)[:, : self.grid, : self.grid]
        x = self.ln_pre(x + table)
        for block in self.blocks:
            x = block(x)
        return x.permute(0, 3, 1, 2)


def level(dim: int, d_model: int, scale: float) -> nn.Sequential:
    """Layers of one level of the neck."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if scale == 4:
        layers["dconv_2x2_0"] = nn.ConvTranspose2d(dim, dim // 2, 2, 2)
        layers["gelu"] = nn.GELU()
        layers["dconv_2x2_1"] = nn.ConvTranspose2d(dim // 2, dim // 4, 2, 2)
        dim //= 4
    elif scale == 2:
        layers["dconv_2x2"] = nn.ConvTranspose2d(dim, dim // 2, 2, 2)
        dim //= 2
    elif scale == 0.5:
        layers["maxpool_2x2"] = nn.MaxPool2d(2, 2)
    layers["conv_1x1"] = nn.Conv2d(dim, d_model, 1)
    layers["conv_3x3"] = nn.Conv2d(d_model, d_model, 3, padding=1)
    return nn.Sequential(layers)


class Vision(nn.Module):
    """Trunk and neck, with a second set of maps if there is a tracker."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.trunk = ViT(config)
        self.convs = neck(config)
        if config.mem_dim:
            self.sam2_convs = neck(config)
        self.used = len(config.scale_factors) - config.scalp

    def forward(self, x: Tensor) -> list[Tensor]:
        """Maps (B, C, ., .) of 4, 2 and 1 times the grid."""
        x = self.trunk(x)
        return [conv(x) for conv in self.convs[: self.used]]

    def second(self, x: Tensor) -> list[Tensor]:
        """The same for the tracker; the trunk does not learn."""
        with torch.no_grad():
            x = self.trunk(x)
        return [conv(x) for conv in self.sam2_convs[: self.used]]


def neck(config: Sam3Config) -> nn.ModuleList:
    """One set of convolutions of the neck."""
    width, dim = config.embed_dim, config.d_model
    return nn.ModuleList(level(width, dim, scale) for scale in config.scale_factors)
