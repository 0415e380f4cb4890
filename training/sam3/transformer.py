"""The fusion encoder and the decoder with boxes and a presence token."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm, Mlp
from training.sam3.config import Sam3Config

EDGE = 1e-3
MAX_PIXELS = math.log2(8)


class Attention(nn.Module):
    """Attention with the parameters of `nn.MultiheadAttention`, tokens in the second axis."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        self.out_proj = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Attend from (B, N, C) to (B, M, C).

        `bias` of a shape like (B, heads, N, M) is added to the logits, or says which count.
        """
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x, w, b in zip((q, k, v), weights, biases, strict=True)
        )
        if bias is not None and bias.dtype != torch.bool:
            bias = bias.to(q.dtype)
        out = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """A pre-norm layer: self attention, attention to something else, feed-forward."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim, hidden = config.d_model, config.dim_feedforward
        self.self_attn = Attention(dim, config.nheads)
        self.cross_attn_image = Attention(dim, config.nheads)
        self.linear1 = nn.Linear(dim, hidden)
        self.linear2 = nn.Linear(hidden, dim)
        self.norm1, self.norm2, self.norm3 = LayerNorm(dim), LayerNorm(dim), LayerNorm(dim)

    def forward(
        self,
        x: Tensor,
        position: Tensor,
        other: Tensor,
        other_position: Tensor,
        keep: Tensor | None,
        own: Tensor | None = None,
    ) -> Tensor:
        """Apply the layer to (B, N, C); `keep` (B, M) tells which of the other tokens count.

        So does `own` (B, N) for the tokens themselves.
        """
        y = self.norm1(x)
        x = x + self.self_attn(
            y + position, y + position, y, None if own is None else own[:, None, None]
        )
        mask = None if keep is None else keep[:, None, None]
        x = x + self.cross_attn_image(self.norm2(x), other + other_position, other, mask)
        return x + self.linear2(F.relu(self.linear1(self.norm3(x))))


class FusionEncoder(nn.Module):
    """The image looks at the prompt."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))

    def forward(self, x: Tensor, position: Tensor, prompt: Tensor, keep: Tensor) -> Tensor:
        """Fuse (B, hw, C) with prompts (B, M, C)."""
        none = torch.zeros((), device=x.device)
        for layer in self.layers:
            x = layer(x, position, prompt, none, keep)
        return x


class DecoderLayer(nn.Module):
    """A post-norm layer: among queries, to the prompt, to the image, feed-forward."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim, heads, hidden = config.d_model, config.nheads, config.dim_feedforward
        self.cross_attn = Attention(dim, heads)
        self.ca_text = Attention(dim, heads)
        self.self_attn = Attention(dim, heads)
        self.norm1, self.norm2, self.norm3 = LayerNorm(dim), LayerNorm(dim), LayerNorm(dim)
        self.catext_norm = LayerNorm(dim)
        self.linear1 = nn.Linear(dim, hidden)
        self.linear2 = nn.Linear(hidden, dim)

    def forward(
        self,
        x: Tensor,
        position: Tensor,
        prompt: tuple[Tensor, Tensor],
        image: tuple[Tensor, Tensor],
        bias: Tensor,
    ) -> Tensor:
        """Apply the layer to (B, 1 + Q, C).

        `prompt` is tokens and which of them count, `image` the map with and without positions.
        """
        q = x + position
        x = self.norm2(x + self.self_attn(q, q, x))
        tokens, keep = prompt
        x = self.catext_norm(x + self.ca_text(x + position, tokens, tokens, keep[:, None, None]))
        keys, values = image
        x = self.norm1(x + self.cross_attn(x + position, keys, values, bias))
        return self.norm3(x + self.linear2(F.relu(self.linear1(x))))


def sine_boxes(boxes: Tensor, channels: int) -> Tensor:
    """Encode boxes (..., 4) cx, cy, w, h in 0..1: y, x, w, h with `channels / 2` numbers each."""
    half = channels // 2
    number = torch.arange(half, device=boxes.device)
    rate = 10000.0 ** (2 * (number // 2) / half)
    x, y, size = boxes.split((1, 1, 2), -1)
    angle = torch.cat([y, x, size], -1)[..., None] * (2 * math.pi) / rate
    both = torch.stack([angle[..., 0::2].sin(), angle[..., 1::2].cos()], -1)
    return both.flatten(-3)


def inverse_sigmoid(x: Tensor) -> Tensor:
    """Logits of numbers in 0..1, kept away from the ends."""
    x = x.clamp(0, 1)
    return x.clamp(min=EDGE).log() - (1 - x).clamp(min=EDGE).log()


class Decoder(nn.Module):
    """Queries that become boxes, and a token that says whether anything is there."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim = config.d_model
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = LayerNorm(dim)
        self.bbox_embed = Mlp(dim, dim, 4, 3)
        self.query_embed = nn.Embedding(config.num_queries, dim)
        self.reference_points = nn.Embedding(config.num_queries, 4)
        self.boxRPB_embed_x = Mlp(2, dim, config.nheads, 2)
        self.boxRPB_embed_y = Mlp(2, dim, config.nheads, 2)
        self.presence_token = nn.Embedding(1, dim)
        self.presence_token_head = Mlp(dim, dim, 1, 3)
        self.presence_token_out_norm = LayerNorm(dim)
        self.ref_point_head = Mlp(2 * dim, dim, dim, 2)
        nn.init.zeros_(self.bbox_embed.layers[-1].weight)
        nn.init.zeros_(self.bbox_embed.layers[-1].bias)

    def bias(self, boxes: Tensor, side: int) -> Tensor:
        """What boxes (B, Q, 4) add to the logits of positions: (B, heads, 1 + Q, side * side)."""
        centre, size = boxes.chunk(2, -1)
        corners = torch.cat([centre - size / 2, centre + size / 2], -1)
        line = torch.arange(side, device=boxes.device).float() / side
        parts = []
        for axis, embed in ((0, self.boxRPB_embed_x), (1, self.boxRPB_embed_y)):
            away = 8 * (line[:, None] - corners[:, :, None, axis::2])
            away = away.sign() * (away.abs() + 1).log2() / MAX_PIXELS
            parts.append(embed(away).permute(0, 3, 1, 2))
        x, y = parts
        both = (y[..., :, None] + x[..., None, :]).flatten(3)
        return F.pad(both, (0, 0, 1, 0))

    def forward(
        self, image: Tensor, position: Tensor, prompt: Tensor, keep: Tensor
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Look for what the prompt means.

        Parameters
        ----------
        image, position : Tensor
            (B, hw, C) and (1, hw, C).
        prompt, keep : Tensor
            (B, M, C) and (B, M) bool: tokens that count.

        Returns
        -------
        tuple of list of Tensor
            For each layer normed queries (B, Q, C), boxes (B, Q, 4) and presence logits (B, 1).
        """
        b, side = len(image), round(image.shape[1] ** 0.5)
        x = torch.cat([self.presence_token.weight, self.query_embed.weight]).expand(b, -1, -1)
        boxes = self.reference_points.weight.sigmoid().expand(b, -1, -1)
        keys = image + position.to(image.dtype)
        states, found, presence = [], [], []
        for layer in self.layers:
            where = self.ref_point_head(sine_boxes(boxes, x.shape[-1]))
            bias = self.bias(boxes, side)
            x = layer(x, F.pad(where, (0, 0, 1, 0)), (prompt, keep), (keys, image), bias)
            state = self.norm(x[:, 1:])
            boxes = (inverse_sigmoid(boxes) + self.bbox_embed(state).float()).sigmoid()
            presence.append(self.presence_token_head(self.presence_token_out_norm(x[:, 0])))
            states.append(state)
            found.append(boxes)
            boxes = boxes.detach()
        return states, found, presence
