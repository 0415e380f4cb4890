"""SAM3-LiteText's text encoder under upstream's names, around transformers' modules of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

from support import upstream_sam3
from support.tiny import Weights

# From transformers' names to those of EfficientSAM3's `TextStudentEncoder`.
_NAMES = (
    (r"^embeddings\.token_embedding\.", "encoder.embedding_layer."),
    (r"^embeddings\.position_embedding\.position_embedding$",
     "encoder.positional_embedding.pos_embed.pos_embed"),
    (r"^final_layer_norm\.", "encoder.final_layer_norm."),
    (r"^layers\.", "encoder.transformer."),
    (r"\.layer_norm1\.", ".pre_norm_mha.0."),
    (r"\.self_attn\.", ".pre_norm_mha.1."),
    (r"\.layer_norm2\.", ".pre_norm_ffn.0."),
    (r"(\d)\.mlp\.fc1\.", r"\1.pre_norm_ffn.1."),
    (r"(\d)\.mlp\.fc2\.", r"\1.pre_norm_ffn.4."),
    (r"\.reference_batchnorm\.", ".norm.rbr_skip."),
    (r"\.batchnorm_skip\.", ".rbr_skip."),
    (r"\.mixer\.conv\.", ".mixer.rbr_conv.0.conv."),
    (r"\.batchnorm_conv\.", ".rbr_conv.0.bn."),
    (r"\.conv_feed_forward\.depthwise_conv\.", ".convffn.conv.conv."),
    (r"\.conv_feed_forward\.depthwise_batchnorm\.", ".convffn.conv.bn."),
    (r"\.conv_feed_forward\.mlp\.", ".convffn."),
)  # fmt: skip


def _name(name: str) -> str:
    for pattern, replacement in _NAMES:
        name = re.sub(pattern, replacement, name)
    return name


class TextStudentEncoder(torch.nn.Module):
    """Texts to tokens as upstream makes them: padded with id 0, without any mask.

    Parameters
    ----------
    sizes : dict
        As `_testing.layer` takes them for our encoder.
    """

    def __init__(self, sizes: dict[str, Any]) -> None:
        from transformers import Sam3LiteTextTextConfig
        from transformers.models.sam3_lite_text.modeling_sam3_lite_text import (
            Sam3LiteTextTextModel,
        )

        super().__init__()
        self.context_length = sizes["context_length"]
        self.text = Sam3LiteTextTextModel(
            Sam3LiteTextTextConfig(
                vocab_size=sizes["vocab_size"],
                hidden_size=sizes["width"],
                intermediate_size=4 * sizes["width"],
                projection_dim=8,
                num_hidden_layers=sizes["layers"],
                num_attention_heads=sizes["heads"],
                max_position_embeddings=sizes["context_length"],
                use_repmixer_blocks=sizes["repmixer_size"] > 0,
                repmixer_kernel_size=sizes["repmixer_size"] or 11,
            )
        ).eval()
        self.text.projection = None
        self.projector = torch.nn.Linear(sizes["width"], sizes["d_model"])

    def tokens(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids (N, L) -> (N, context_length, d_model)."""
        padded = torch.nn.functional.pad(ids, (0, self.context_length - ids.shape[1]))
        x = self.text.embeddings(padded)
        for layer in self.text.layers:
            x = layer(x, attention_mask=None)
        found: torch.Tensor = self.projector(self.text.final_layer_norm(x))
        return found

    def forward(self, text: Any, input_boxes: Any = None, device: Any = None) -> Any:
        """Give what upstream's backbone asks of a text encoder."""
        ids = upstream_sam3.tokenizer()(text, context_length=self.context_length)
        embedded = self.text.embeddings(ids)
        return ids == 0, self.tokens(ids).transpose(0, 1), embedded.transpose(0, 1)

    @staticmethod
    def renamed(weights: Weights, prefix: str = "") -> Weights:
        """Return weights with upstream's names of this encoder, which is at a prefix."""
        begin = f"{prefix}text."
        found = {
            prefix + _name(name.removeprefix(begin)) if name.startswith(begin) else name: value
            for name, value in weights.items()
        }
        for name in [n for n in found if n.startswith(prefix) and ".q_proj." in n]:
            parts = [found.pop(name.replace(".q_proj.", f".{part}_proj.")) for part in "qkv"]
            found[name.replace(".q_proj.", ".qkv_proj.")] = np.concatenate(parts)
        return found
