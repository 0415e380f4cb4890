"""SAM-HQ's package, `segment-anything-hq` on the package index."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from support import tiny, tiny_sam_hq, upstream
from support.tiny_mobile_sam import TinyViTConfig

with warnings.catch_warnings():
    # It imports timm by old names, and registers networks that timm has too.
    warnings.simplefilter("ignore")
    import segment_anything_hq as package
    from segment_anything_hq import (
        SamAutomaticMaskGenerator,
        SamPredictor,
        build_sam,
        sam_model_registry,
    )
    from segment_anything_hq.modeling import ImageEncoderViT, tiny_vit_sam
    from segment_anything_hq.modeling.mask_decoder_hq import MaskDecoderHQ
    from segment_anything_hq.modeling.sam import Sam

registry = sam_model_registry
__all__ = ["SamAutomaticMaskGenerator", "SamPredictor", "build_sam", "package"]


def mask_decoder(
    width: int, vit_dim: int, mlp_dim: int = 128, hidden: int = 64, heads: int = 8
) -> Any:
    """Build the decoder, with upstream's initial weights."""
    return MaskDecoderHQ(
        num_multimask_outputs=3,
        transformer=upstream.sam.TwoWayTransformer(
            depth=2, embedding_dim=width, mlp_dim=mlp_dim, num_heads=heads
        ),
        transformer_dim=width,
        iou_head_depth=3,
        iou_head_hidden_dim=hidden,
        vit_dim=vit_dim,
    )


class TinyViT(tiny_vit_sam.TinyViT):  # type: ignore[misc]
    """Upstream's trunk without its classifier, at any side: upstream has the last grid fixed."""

    def __init__(self, img_size: int, out_chans: int = 256, **sizes: Any):
        super().__init__(img_size=img_size, num_classes=0, drop_path_rate=0.0, **sizes)
        del self.norm_head, self.head
        if out_chans != 256:
            self.neck = torch.nn.Sequential(
                torch.nn.Conv2d(sizes["embed_dims"][-1], out_chans, 1, bias=False),
                tiny_vit_sam.LayerNorm2d(out_chans),
                torch.nn.Conv2d(out_chans, out_chans, 3, padding=1, bias=False),
                tiny_vit_sam.LayerNorm2d(out_chans),
            )

    def forward(self, x: Any) -> Any:
        x = self.patch_embed(x)
        height, width = self.layers[-1].input_resolution
        early = None
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 1:
                early = x.view(len(x), height, width, -1)
        return self.neck(upstream.channels_first(x.view(len(x), height, width, -1))), [early]


def build(config: tiny.SamConfig, trunk: TinyViTConfig | None = None, seed: int | None = 0) -> Any:
    """Build `Sam` of any size, with ViT or TinyViT, with random weights unless `seed` is None."""
    plain = upstream.build_sam(config, seed=None)
    if trunk is None:
        encoder = upstream.image_encoder(ImageEncoderViT, config)
    else:
        encoder = TinyViT(config.img_size, trunk.out_chans, **trunk.sizes())
    decoder = mask_decoder(
        config.out_chans,
        config.embed_dim if trunk is None else trunk.embed_dims[2],
        config.mlp_dim,
        config.iou_head_hidden_dim,
    )
    model = Sam(encoder, plain.prompt_encoder, decoder, list(tiny.PIXEL_MEAN), list(tiny.PIXEL_STD))
    if seed is not None:
        upstream.load_state_dict(model, tiny_sam_hq.weights(config, trunk, seed))
    return model.eval()
