"""The mask decoder: a two-way transformer, upscaling, hyper-networks and the IoU head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.config import SamConfig
from training.model.layers import LayerNorm, LayerNorm2d, Mlp, MlpBlock


class Attention(nn.Module):
    """Attention with separate projections and a narrower inner width."""

    def __init__(self, dim: int, num_heads: int, downsample_rate: int = 1) -> None:
        super().__init__()
        inner = dim // downsample_rate
        self.num_heads = num_heads
        self.q_proj = nn.Linear(dim, inner)
        self.k_proj = nn.Linear(dim, inner)
        self.v_proj = nn.Linear(dim, inner)
        self.out_proj = nn.Linear(inner, dim)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend from (B, N, C) to (B, M, C)."""

        def split(x: Tensor) -> Tensor:
            return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        q, k, v = split(self.q_proj(q)), split(self.k_proj(k)), split(self.v_proj(v))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class TwoWayAttentionBlock(nn.Module):
    """Tokens attend to themselves and to the image; then the image attends to the tokens."""

    def __init__(self, config: SamConfig, first: bool) -> None:
        super().__init__()
        dim, heads = config.prompt_embed_dim, config.decoder_num_heads
        self.self_attn = Attention(dim, heads)
        self.norm1 = LayerNorm(dim)
        self.cross_attn_token_to_image = Attention(dim, heads, 2)
        self.norm2 = LayerNorm(dim)
        self.mlp = MlpBlock(dim, config.decoder_mlp_dim, nn.ReLU)
        self.norm3 = LayerNorm(dim)
        self.norm4 = LayerNorm(dim)
        self.cross_attn_image_to_token = Attention(dim, heads, 2)
        self.first = first

    def forward(
        self, queries: Tensor, keys: Tensor, query_pe: Tensor, key_pe: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the new tokens and the new image features."""
        if self.first:
            queries = self.self_attn(queries, queries, queries)
        else:
            q = queries + query_pe
            queries = queries + self.self_attn(q, q, queries)
        queries = self.norm1(queries)
        k = keys + key_pe
        queries = queries + self.cross_attn_token_to_image(queries + query_pe, k, keys)
        queries = self.norm2(queries)
        queries = self.norm3(queries + self.mlp(queries))
        keys = self.norm4(keys + self.cross_attn_image_to_token(k, queries + query_pe, queries))
        return queries, keys


class TwoWayTransformer(nn.Module):
    """The blocks and a last look of the tokens at the image."""

    def __init__(self, config: SamConfig) -> None:
        super().__init__()
        dim = config.prompt_embed_dim
        self.layers = nn.ModuleList(
            TwoWayAttentionBlock(config, first=i == 0) for i in range(config.decoder_depth)
        )
        self.final_attn_token_to_image = Attention(dim, config.decoder_num_heads, 2)
        self.norm_final_attn = LayerNorm(dim)

    def forward(self, tokens: Tensor, keys: Tensor, key_pe: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens and image features after all layers; `tokens` encode themselves."""
        queries = tokens
        for layer in self.layers:
            queries, keys = layer(queries, keys, tokens, key_pe)
        look = self.final_attn_token_to_image(queries + tokens, keys + key_pe, keys)
        return self.norm_final_attn(queries + look), keys


class MaskDecoder(nn.Module):
    """Predict one single-answer mask and several alternatives, each with its expected IoU."""

    def __init__(self, config: SamConfig) -> None:
        super().__init__()
        dim = config.prompt_embed_dim
        self.num_masks = config.num_multimask_outputs + 1
        self.transformer = TwoWayTransformer(config)
        self.iou_token = nn.Embedding(1, dim)
        self.mask_tokens = nn.Embedding(self.num_masks, dim)
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(dim, dim // 4, 2, 2),
            LayerNorm2d(dim // 4),
            nn.GELU(),
            nn.ConvTranspose2d(dim // 4, dim // 8, 2, 2),
            nn.GELU(),
        )
        self.output_hypernetworks_mlps = nn.ModuleList(
            Mlp(dim, dim, dim // 8, 3) for _ in range(self.num_masks)
        )
        self.iou_prediction_head = Mlp(
            dim, config.iou_head_hidden_dim, self.num_masks, config.iou_head_depth
        )

    def forward(
        self, image: Tensor, image_pe: Tensor, sparse: Tensor, dense: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Decode prompts.

        Parameters
        ----------
        image : Tensor
            (B, C, g, g) embedding, one row per prompt.
        image_pe : Tensor
            (1, C, g, g) encoding of the positions.
        sparse : Tensor
            (B, N, C) prompt tokens.
        dense : Tensor
            (B, C, g, g) encoded mask prompt.

        Returns
        -------
        tuple of Tensor
            Mask logits (B, 4, 4g, 4g) and IoU predictions (B, 4); index 0 is the single answer.
        """
        own = torch.cat([self.iou_token.weight, self.mask_tokens.weight])
        tokens = torch.cat([own.expand(len(sparse), -1, -1).to(sparse.dtype), sparse], 1)
        source = image + dense.to(image.dtype)
        b, c, h, w = source.shape
        keys = source.flatten(2).transpose(1, 2)
        key_pe = image_pe.to(keys.dtype).flatten(2).transpose(1, 2)
        queries, keys = self.transformer(tokens, keys, key_pe)
        upscaled = self.output_upscaling(keys.transpose(1, 2).reshape(b, c, h, w))
        hyper = torch.stack(
            [mlp(queries[:, 1 + i]) for i, mlp in enumerate(self.output_hypernetworks_mlps)], 1
        )
        masks = torch.einsum("bkc,bchw->bkhw", hyper, upscaled)
        return masks, self.iou_prediction_head(queries[:, 0])
