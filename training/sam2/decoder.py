"""The mask decoder of SAM 2: high-resolution maps, object score, IoU between 0 and 1."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm, LayerNorm2d, Mlp
from training.sam2.attention import Attention
from training.sam2.config import Sam2Config
from training.sam2.hiera import Feedforward


class Decoded(NamedTuple):
    """Answers to N prompts; index 0 of the four masks is the single answer.

    Attributes
    ----------
    logits : Tensor
        (N, 4, 4g, 4g) mask logits.
    iou : Tensor
        (N, 4) predicted IoU in 0..1.
    tokens : Tensor
        (N, 4, C) the tokens that made the masks.
    presence : Tensor
        (N, 1) logits of the object being there.
    """

    logits: Tensor
    iou: Tensor
    tokens: Tensor
    presence: Tensor


def grow(x: Tensor, conv: nn.ConvTranspose2d) -> Tensor:
    """Apply a transposed convolution of kernel and stride 2 to (N, h, w, C), as a product."""
    c, d = conv.weight.shape[:2]
    y = F.linear(x, conv.weight.permute(2, 3, 1, 0).reshape(4 * d, c), conv.bias.tile(4))
    return y.unflatten(-1, (2, 2, d)).transpose(2, 3).flatten(3, 4).flatten(1, 2)


def add_finer(x: Tensor, finer: Tensor) -> Tensor:
    """Add maps (M, C, h, w) to (N, h, w, C), each to N / M of them in a row."""
    y = x.unflatten(0, (len(finer), -1)) + finer.permute(0, 2, 3, 1)[:, None]
    return y.flatten(0, 1)


class TwoWayAttentionBlock(nn.Module):
    """Tokens attend to themselves and to the image; then the image attends to the tokens."""

    def __init__(self, config: Sam2Config, first: bool) -> None:
        super().__init__()
        dim, heads = config.d_model, config.decoder_num_heads
        self.self_attn = Attention(dim, heads)
        self.norm1 = LayerNorm(dim)
        self.cross_attn_token_to_image = Attention(dim, heads, 2)
        self.norm2 = LayerNorm(dim)
        self.mlp = Feedforward(dim, config.decoder_mlp_dim, nn.ReLU)
        self.norm3 = LayerNorm(dim)
        self.norm4 = LayerNorm(dim)
        self.cross_attn_image_to_token = Attention(dim, heads, 2)
        self.first = first

    def forward(
        self, queries: Tensor, keys: Tensor, query_pe: Tensor, key_pe: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the new tokens and the new image features; `keep` marks the real tokens."""
        if self.first:
            queries = self.self_attn(queries, queries, queries, keep)
        else:
            q = queries + query_pe
            queries = queries + self.self_attn(q, q, queries, keep)
        queries = self.norm1(queries)
        k = keys + key_pe
        queries = queries + self.cross_attn_token_to_image(queries + query_pe, k, keys)
        queries = self.norm2(queries)
        queries = self.norm3(queries + self.mlp(queries))
        look = self.cross_attn_image_to_token(k, queries + query_pe, queries, keep)
        return queries, self.norm4(keys + look)


class TwoWayTransformer(nn.Module):
    """The blocks and a last look of the tokens at the image."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TwoWayAttentionBlock(config, first=i == 0) for i in range(config.decoder_depth)
        )
        self.final_attn_token_to_image = Attention(config.d_model, config.decoder_num_heads, 2)
        self.norm_final_attn = LayerNorm(config.d_model)

    def forward(
        self, tokens: Tensor, keys: Tensor, key_pe: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return tokens and image features after all layers; `tokens` encode themselves."""
        queries = tokens
        for layer in self.layers:
            queries, keys = layer(queries, keys, tokens, key_pe, keep)
        look = self.final_attn_token_to_image(queries + tokens, keys + key_pe, keys)
        return self.norm_final_attn(queries + look), keys


class MaskDecoder(nn.Module):
    """Predict a single answer, three alternatives, their IoU, and whether the object is there."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        dim = config.d_model
        self.num_masks = config.num_multimask_outputs + 1
        self.transformer = TwoWayTransformer(config)
        self.iou_token = nn.Embedding(1, dim)
        self.mask_tokens = nn.Embedding(self.num_masks, dim)
        self.obj_score_token = nn.Embedding(1, dim)
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(dim, dim // 4, 2, 2),
            LayerNorm2d(dim // 4),
            nn.GELU(),
            nn.ConvTranspose2d(dim // 4, dim // 8, 2, 2),
            nn.GELU(),
        )
        self.conv_s0 = nn.Conv2d(dim, dim // 8, 1)
        self.conv_s1 = nn.Conv2d(dim, dim // 4, 1)
        self.output_hypernetworks_mlps = nn.ModuleList(
            Mlp(dim, dim, dim // 8, 3) for _ in range(self.num_masks)
        )
        self.iou_prediction_head = Mlp(
            dim, config.iou_head_hidden_dim, self.num_masks, config.iou_head_depth
        )
        self.pred_obj_score_head = Mlp(dim, dim, 1, 3)

    def forward(
        self,
        source: Tensor,
        position: Tensor,
        s0: Tensor,
        s1: Tensor,
        sparse: Tensor,
        keep: Tensor | None = None,
    ) -> Decoded:
        """Decode prompts.

        Parameters
        ----------
        source : Tensor
            (N, C, g, g) image features with the encoded mask prompt added.
        position : Tensor
            (1, C, g, g) encoding of the positions.
        s0, s1 : Tensor
            (M, C / 8, 4g, 4g) and (M, C / 4, 2g, 2g) high-resolution maps; each serves N / M
            prompts in a row.
        sparse : Tensor
            (N, P, C) prompt tokens.
        keep : Tensor, optional
            (N, P) bool: prompt tokens that are there, where their number differs.
        """
        own = [self.obj_score_token.weight, self.iou_token.weight, self.mask_tokens.weight]
        own = torch.cat(own).expand(len(sparse), -1, -1).to(sparse.dtype)
        tokens = torch.cat([own, sparse], 1)
        if keep is not None:
            keep = torch.cat([keep.new_ones(own.shape[:2]), keep], 1)
        h, w = source.shape[2:]
        keys = source.flatten(2).transpose(1, 2)
        key_pe = position.to(keys.dtype).flatten(2).transpose(1, 2)
        tokens, keys = self.transformer(tokens, keys, key_pe, keep)

        grow1, norm, act1, grow2, act2 = self.output_upscaling
        x = add_finer(grow(keys.unflatten(1, (h, w)), grow1), s1)
        y = F.layer_norm(x.float(), norm.weight.shape, norm.weight, norm.bias, norm.eps)
        x = act2(add_finer(grow(act1(y.to(x.dtype)), grow2), s0))
        mask_tokens = tokens[:, 2 : 2 + self.num_masks]
        hyper = [mlp(mask_tokens[:, i]) for i, mlp in enumerate(self.output_hypernetworks_mlps)]
        logits = torch.stack(hyper, 1) @ x.flatten(1, 2).transpose(1, 2)
        logits = logits.unflatten(2, x.shape[1:3])
        iou = self.iou_prediction_head(tokens[:, 1]).sigmoid()
        return Decoded(logits, iou, mask_tokens, self.pred_obj_score_head(tokens[:, 0]))
