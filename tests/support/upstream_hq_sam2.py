"""HQ-SAM 2's decoder in PyTorch, written from what the paper and its checkpoint's names tell.

The public code, SysCV/sam-hq's folder `sam-hq2`, imports as `sam2`: where that folder stands before
the package sam2 on the path, `PUBLIC` is its class, else None.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from support import tiny, tiny_sam2, upstream, upstream_sam2

_PATH = "sam2.modeling.sam.mask_hq_decoder"
PUBLIC: Any = None
if importlib.util.find_spec(_PATH) is not None:
    PUBLIC = importlib.import_module(_PATH).MaskDecoderHQ
    # Else it asks for a kernel by a name that PyTorch warns of.
    _attention: Any = importlib.import_module("sam2.modeling.sam.transformer")
    _attention.ALLOW_ALL_KERNELS = True
_Base: Any = upstream.sam2.MaskDecoder
# Behind the object score, the IoU and four masks.
_TOKEN = 6


class MaskDecoderHQ(_Base):  # type: ignore[misc]
    """SAM 2's decoder with one more token, which stands before those of the prompt."""

    def __init__(self, *, transformer_dim: int, **sizes: Any) -> None:
        super().__init__(transformer_dim=transformer_dim, **sizes)
        small, mid = transformer_dim // 8, transformer_dim // 4
        mlp, norm = type(self.iou_prediction_head), type(self.output_upscaling[1])
        self.hf_token = torch.nn.Embedding(1, transformer_dim)
        self.hf_mlp = mlp(transformer_dim, transformer_dim, small, 3)
        self.embedding_maskfeature = torch.nn.Sequential(
            torch.nn.Conv2d(small, mid, 3, padding=1),
            norm(mid),
            torch.nn.GELU(),
            torch.nn.Conv2d(mid, small, 3, padding=1),
        )

    def forward(
        self, *, sparse_prompt_embeddings: Any, hq_token_only: bool = False, **others: Any
    ) -> Any:
        """Give masks, IoUs, tokens and object scores, as SAM 2's decoder does."""
        token = self.hf_token.weight.expand(len(sparse_prompt_embeddings), 1, -1)
        sparse = torch.cat([token, sparse_prompt_embeddings], dim=1)
        # The last activation stands behind the finer maps of the image.
        with _results(self.transformer, self.output_upscaling[-1]) as seen:
            masks, *rest = super().forward(sparse_prompt_embeddings=sparse, **others)
        (tokens, _), upscaled = seen
        weights = self.hf_mlp(tokens[:, _TOKEN])
        own = torch.einsum("bc,bchw->bhw", weights, self.embedding_maskfeature(upscaled))[:, None]
        return own if hq_token_only else own + masks, *rest


@contextmanager
def _results(*modules: Any) -> Iterator[list[Any]]:
    """Collect what modules give, in the order in which they are called."""
    seen: list[Any] = []
    hooks = [
        module.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        for module in modules
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def mask_decoder(
    kind: Any, width: int, mlp_dim: int = 2048, hidden: int = 256, **dynamic: Any
) -> Any:
    """Build a decoder of a class, with its initial weights."""
    return kind(
        transformer=upstream.sam2.TwoWayTransformer(
            depth=2, embedding_dim=width, num_heads=8, mlp_dim=mlp_dim
        ),
        transformer_dim=width,
        iou_head_hidden_dim=hidden,
        use_high_res_features=True,
        iou_prediction_use_sigmoid=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        use_multimask_token_for_obj_ptr=True,
        **{"dynamic_multimask_via_stability": True, **dynamic},
    )


def build(
    decoder: Any,
    config: tiny_sam2.ImageEncoderConfig = tiny_sam2.TINY,
    weights: tiny.Weights | None = None,
    **options: Any,
) -> Any:
    """Build upstream's `SAM2Base`, or a class made from it, with a decoder of this class."""
    network = upstream_sam2.build_sam2(config, **options)
    network.sam_mask_decoder = mask_decoder(decoder, config.d_model)
    if weights is not None:
        upstream.load_state_dict(network, weights)
    return network.eval()
