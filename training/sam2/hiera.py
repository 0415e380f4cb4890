"""The image encoder: a Hiera trunk and a feature pyramid."""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm
from training.sam2.config import Sam2Config


class Feedforward(nn.Module):
    """Two linear layers with an activation between them, named as in SAM 2."""

    def __init__(self, dim: int, hidden: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, hidden), nn.Linear(hidden, dim)])
        self.act = activation()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers to the last axis."""
        return self.layers[1](self.act(self.layers[0](x)))


class PatchEmbed(nn.Module):
    """Overlapping 7 x 7 patches, one every 4 pixels."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, dim, 7, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens of shape (B, H / 4, W / 4, C)."""
        return self.proj(x).permute(0, 2, 3, 1)


def pool(x: Tensor) -> Tensor:
    """Halve a (B, H, W, C) map by maxima of 2 x 2 positions."""
    return F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)


def cut_windows(x: Tensor, size: int) -> Tensor:
    """Cut a (B, H, W, C) map, zero-padded below and right, into (B * n, size, size, C) windows."""
    _, h, w, c = x.shape
    x = F.pad(x, (0, 0, 0, -w % size, 0, -h % size))
    x = x.unflatten(2, (-1, size)).unflatten(1, (-1, size))
    return x.transpose(2, 3).reshape(-1, size, size, c)


def join_windows(windows: Tensor, height: int, width: int) -> Tensor:
    """Put windows together again and crop: (B, height, width, C)."""
    size, c = windows.shape[1], windows.shape[3]
    rows, cols = -(-height // size), -(-width // size)
    x = windows.reshape(-1, rows, cols, size, size, c).transpose(2, 3)
    x = x.reshape(-1, rows * size, cols * size, c)
    return x[:, :height, :width]


class MultiScaleAttention(nn.Module):
    """Self-attention whose queries may be pooled."""

    def __init__(self, dim: int, dim_out: int, num_heads: int, pooled: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.pooled = pooled
        self.qkv = nn.Linear(dim, dim_out * 3)
        self.proj = nn.Linear(dim_out, dim_out)

    def forward(self, x: Tensor) -> Tensor:
        """Attend over all positions of each (B, H, W, C) map; pooling halves the sides."""
        q, k, v = self.qkv(x).chunk(3, -1)
        if self.pooled:
            q = pool(q)

        def split(m: Tensor) -> Tensor:
            return m.flatten(1, 2).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        out = F.scaled_dot_product_attention(split(q), split(k), split(v))
        return self.proj(out.transpose(1, 2).reshape(q.shape))


class MultiScaleBlock(nn.Module):
    """A transformer block; the first of a stage widens the tokens and halves the map."""

    def __init__(
        self, dim: int, dim_out: int, num_heads: int, mlp_ratio: float, pooled: bool, window: int
    ) -> None:
        super().__init__()
        self.norm1 = LayerNorm(dim, eps=1e-6)
        self.attn = MultiScaleAttention(dim, dim_out, num_heads, pooled)
        self.norm2 = LayerNorm(dim_out, eps=1e-6)
        self.mlp = Feedforward(dim_out, int(dim_out * mlp_ratio), nn.GELU)
        if dim != dim_out:
            self.proj = nn.Linear(dim, dim_out)
        self.widens = dim != dim_out
        self.pooled = pooled
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to a (B, H, W, C) map."""
        shortcut = x
        x = self.norm1(x)
        if self.widens:
            shortcut = self.proj(x)
            shortcut = pool(shortcut) if self.pooled else shortcut
        if self.window:
            x = self.attn(cut_windows(x, self.window))
            x = join_windows(x, *shortcut.shape[1:3])
        else:
            x = self.attn(x)
        x = shortcut + x
        return x + self.mlp(self.norm2(x))


class Hiera(nn.Module):
    """Four stages of blocks, each stage at half the resolution and twice the width."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        dim, heads = config.embed_dim, config.num_heads
        ends = [sum(config.stages[: i + 1]) - 1 for i in range(len(config.stages))]
        pooling = [end + 1 for end in ends[:-1]][: config.q_pool]
        self.stage_ends = ends
        self.patch_embed = PatchEmbed(dim)
        background = config.window_pos_embed_bkg_spatial_size
        self.pos_embed = nn.Parameter(torch.zeros(1, dim, *background))
        side = config.window_spec[0]
        self.pos_embed_window = nn.Parameter(torch.zeros(1, dim, side, side))
        self.blocks = nn.ModuleList()
        self.channel_list: list[int] = []
        stage = 0
        for i in range(ends[-1] + 1):
            # The first block of a stage still has the window of the stage before.
            window = 0 if i in config.global_att_blocks else config.window_spec[stage]
            dim_out = dim
            if i - 1 in ends:
                dim_out, heads = int(dim * config.dim_mul), int(heads * config.head_mul)
                stage += 1
            block = MultiScaleBlock(dim, dim_out, heads, config.mlp_ratio, i in pooling, window)
            self.blocks.append(block)
            dim = dim_out
            if i in ends:
                self.channel_list.append(dim)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the maps (B, C, H, W) after each stage, finest first."""
        x = self.patch_embed(x)
        x = x + self._positions(x.shape[1], x.shape[2]).to(x.dtype)
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self.stage_ends:
                maps.append(x.permute(0, 3, 1, 2))
        return maps

    def _positions(self, height: int, width: int) -> Tensor:
        """Position table (1, H, W, C): a coarse one, stretched, and one repeated per window."""
        table = F.interpolate(self.pos_embed.float(), (height, width), mode="bicubic")
        side = self.pos_embed_window.shape[-1]
        table = table + self.pos_embed_window.tile(1, 1, height // side, width // side)
        return table.permute(0, 2, 3, 1)


class FpnNeck(nn.Module):
    """Bring all maps to one width and add the coarsest one to the next finer."""

    def __init__(self, config: Sam2Config, channels: list[int]) -> None:
        super().__init__()
        self.top_down = config.fpn_top_down_levels
        self.convs = nn.ModuleList(
            nn.Sequential(OrderedDict(conv=nn.Conv2d(c, config.d_model, 1)))
            for c in reversed(channels)
        )

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Return one map of the common width per input map, finest first."""
        last = len(maps) - 1
        out: list[Tensor] = []
        coarser: Tensor | None = None
        for i in range(last, -1, -1):
            x = self.convs[last - i](maps[i])
            if coarser is not None and i in self.top_down:
                x = x + F.interpolate(coarser.float(), scale_factor=2.0, mode="nearest").to(x.dtype)
            coarser = x
            out.insert(0, x)
        return out


class ImageEncoder(nn.Module):
    """Trunk and pyramid; the coarsest map only lives on inside the next finer one."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.trunk = Hiera(config)
        self.neck = FpnNeck(config, self.trunk.channel_list)
        self.scalp = config.scalp

    def forward(self, x: Tensor) -> list[Tensor]:
        """Encode normalized square images (B, 3, S, S) at strides 4, 8 and 16."""
        return self.neck(self.trunk(x))[: -self.scalp]
