"""The text encoder: a small causal transformer over CLIP's vocabulary."""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm
from training.sam3.config import Sam3Config
from training.sam3.transformer import Attention


class ResidualAttentionBlock(nn.Module):
    """A pre-norm block in which a token sees itself and what is before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = Attention(width, heads)
        self.ln_1 = LayerNorm(width)
        self.ln_2 = LayerNorm(width)
        layers = [("c_fc", nn.Linear(width, 4 * width)), ("gelu", nn.GELU())]
        self.mlp = nn.Sequential(OrderedDict([*layers, ("c_proj", nn.Linear(4 * width, width))]))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to (B, L, C)."""
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, causal=True)
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """A chain of blocks."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(
            ResidualAttentionBlock(config.text_width, config.text_heads)
            for _ in range(config.text_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply all blocks."""
        for block in self.resblocks:
            x = block(x)
        return x


class TextTransformer(nn.Module):
    """Tables, blocks and a last norm; the projection is in checkpoints, but nothing uses it."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        width = config.text_width
        self.token_embedding = nn.Embedding(config.vocab_size, width)
        self.positional_embedding = nn.Parameter(torch.empty(config.context_length, width))
        self.transformer = Transformer(config)
        self.ln_final = LayerNorm(width)
        self.text_projection = nn.Parameter(torch.zeros(width, 512))

    def forward(self, ids: Tensor) -> Tensor:
        """Encode (B, L) ids as (B, L, width)."""
        x = F.embedding(ids, self.token_embedding.weight) + self.positional_embedding
        return self.ln_final(self.transformer(x))


class TextEncoder(nn.Module):
    """Encode texts at the width of the detector."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.encoder = TextTransformer(config)
        self.resizer = nn.Linear(config.text_width, config.d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """Encode (B, L) ids as (B, L, C)."""
        return self.resizer(self.encoder(ids))
