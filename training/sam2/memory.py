"""Memory attention and memory encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm, LayerNorm2d
from training.sam2.attention import RoPEAttention, rotate
from training.sam2.config import Sam2Config
from training.speed import compiled


class Stored(NamedTuple):
    """Keys and values of memory tokens for one layer: (N, heads, M, d) each."""

    key: Tensor
    value: Tensor


class MemoryAttentionLayer(nn.Module):
    """The frame attends to itself, then to the memories."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        dim, hidden = config.d_model, config.memory_attention_dim_feedforward
        heads, theta = config.memory_attention_num_heads, config.rope_theta
        self.self_attn = RoPEAttention(dim, heads, theta)
        self.cross_attn_image = RoPEAttention(dim, heads, theta, config.mem_dim)
        self.linear1 = nn.Linear(dim, hidden)
        self.linear2 = nn.Linear(hidden, dim)
        self.norm1 = LayerNorm(dim)
        self.norm2 = LayerNorm(dim)
        self.norm3 = LayerNorm(dim)

    @compiled("memory")
    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Let (N, hw, C) attend to itself; return it and its queries to the memories."""
        x = x + self.self_attn(self.norm1(x))
        return x, self.cross_attn_image.queries(self.norm2(x))

    def store(self, memory: Tensor, position: Tensor) -> Stored:
        """Prepare the memory (N, hw, mem_dim) of one frame, with the positions of its keys."""
        attend = self.cross_attn_image
        return Stored(attend.keys(memory + position.to(memory.dtype)), attend.values(memory))

    def store_pointers(self, tokens: Tensor, position: Tensor) -> Stored:
        """Prepare pointers (N, P, mem_dim), which have times (P, mem_dim) but no positions."""
        attend = self.cross_attn_image
        key = attend.split(attend.k_proj(tokens + position.to(tokens.dtype)))
        return Stored(key, attend.values(tokens))

    def times(self, table: Tensor, positions: int) -> Tensor:
        """What times (R, mem_dim) add to the keys of a map: (R, heads, hw, d)."""
        attend = self.cross_attn_image
        key = F.linear(table, attend.k_proj.weight)[:, None].expand(-1, positions, -1)
        return rotate(attend.split(key), attend.theta)

    @compiled("memory")
    def finish(self, x: Tensor, found: Tensor) -> Tensor:
        """Add what was found in the memories, (N, heads, hw, d), and the feed-forward part."""
        x = x + self.cross_attn_image.join(found)
        return x + self.linear2(F.relu(self.linear1(self.norm3(x))))


class MemoryAttention(nn.Module):
    """All layers and a last norm.

    Keys are linear in what is added before they are turned, so a memory is projected and turned
    once, and its time, which changes from frame to frame, is added afterwards.
    """

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MemoryAttentionLayer(config) for _ in range(config.memory_attention_num_layers)
        )
        self.norm = LayerNorm(config.d_model)

    def forward(
        self,
        x: Tensor,
        memories: Sequence[tuple[Sequence[Stored], Sequence[Tensor]]],
        pointers: Sequence[Stored],
    ) -> Tensor:
        """Condition a frame on memories.

        Parameters
        ----------
        x : Tensor
            (N, hw, C) features of the frame with a tenth of their positions added.
        memories : sequence of (sequence of Stored, sequence of Tensor)
            For each remembered frame what each layer stored, and what its time adds to the keys.
        pointers : sequence of Stored
            For each layer.
        """
        for i, layer in enumerate(self.layers):
            x, query = layer.begin(x)
            keys = [stored[i].key + time[i].to(stored[i].key.dtype) for stored, time in memories]
            key = torch.cat([*keys, pointers[i].key], 2)
            value = torch.cat([*(stored[i].value for stored, _ in memories), pointers[i].value], 2)
            x = layer.finish(x, F.scaled_dot_product_attention(query, key, value))
        return self.norm(x)


class MaskDownSampler(nn.Module):
    """Halve a mask until it has the size of the feature map, four times the channels each time."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        stride = config.mask_downsampler_stride
        kernel, padding = config.mask_downsampler_kernel_size, config.mask_downsampler_padding
        layers: list[nn.Module] = []
        channels = 1
        for _ in range(round(math.log(config.mask_downsampler_total_stride, stride))):
            wider = channels * stride**2
            conv = nn.Conv2d(channels, wider, kernel, stride, padding)
            layers += [conv, LayerNorm2d(wider), nn.GELU()]
            channels = wider
        self.encoder = nn.Sequential(*layers, nn.Conv2d(channels, config.d_model, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Encode (N, 1, S, S) masks as (N, C, g, g)."""
        return self.encoder(x)


class CXBlock(nn.Module):
    """A ConvNeXt block: depthwise convolution, then two linear layers per position."""

    def __init__(self, dim: int, kernel: int, scale: float = 0.1) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm = LayerNorm2d(dim)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), scale))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to (N, C, h, w)."""
        y = self.norm(self.dwconv(x)).permute(0, 2, 3, 1)
        y = self.gamma.to(x.dtype) * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class Fuser(nn.Module):
    """A chain of ConvNeXt blocks."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            CXBlock(config.d_model, config.fuser_kernel_size)
            for _ in range(config.fuser_num_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply all blocks."""
        for layer in self.layers:
            x = layer(x)
        return x


class MemoryEncoder(nn.Module):
    """Join a mask with the features of its frame to a memory."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.mask_downsampler = MaskDownSampler(config)
        self.pix_feat_proj = nn.Conv2d(config.d_model, config.d_model, 1)
        self.fuser = Fuser(config)
        self.out_proj = nn.Conv2d(config.d_model, config.mem_dim, 1)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Encode (N, C, g, g) features and scaled (N, 1, S, S) masks as (N, mem_dim, g, g)."""
        x = self.pix_feat_proj(features) + self.mask_downsampler(mask)
        return self.out_proj(self.fuser(x))
