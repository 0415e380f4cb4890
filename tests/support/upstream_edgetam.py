"""EdgeTAM's package, `edgetam-dimos` on the package index.

It imports as `sam2`: put its folder before the other `sam2` on the path, which makes importing this
module fail otherwise. That other one, if it is installed too, is the judge of sessions: EdgeTAM's
own predictor is an older one, whose objects are one batch.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from sam2.modeling import memory_attention as attention
from sam2.modeling.perceiver import PerceiverResampler
from sam2.modeling.sam import transformer as two_way

from support import tiny, upstream, upstream_sam2, upstream_timm, upstream_video
from support.tiny_edgetam import TINY, EdgeTamConfig

RoPEAttention, RoPEAttentionv2 = two_way.RoPEAttention, two_way.RoPEAttentionv2
# Else it asks for a kernel by a name that PyTorch warns of.
two_way.ALLOW_ALL_KERNELS = True
_Module: Any = upstream.sam2.Module
_SHORT = "video_predictor"


class _Trunk(_Module):  # type: ignore[misc]
    """What upstream's TimmBackbone is, without weights from the hub."""

    def __init__(self, config: EdgeTamConfig) -> None:
        super().__init__()
        self.body = upstream_timm.trunk(config)
        self.channel_list = list(config.backbone_channel_list)

    def forward(self, x: Any) -> Any:
        return list(self.body(x))


def image_encoder(config: EdgeTamConfig) -> Any:
    """Build upstream's `ImageEncoder` of any size."""
    encoding = upstream.sam2.PositionEmbeddingSine(num_pos_feats=config.d_model)
    neck = upstream.sam2.FpnNeck(
        position_encoding=encoding, fpn_interp_model="nearest", **config.neck
    )
    return upstream.sam2.ImageEncoder(_Trunk(config), neck, scalp=1).eval()


def perceiver(config: EdgeTamConfig) -> Any:
    """Build upstream's `PerceiverResampler` of any size."""
    return PerceiverResampler(
        dim=config.mem_dim,
        depth=config.perceiver_depth,
        dim_head=config.mem_dim,
        heads=1,
        ff_mult=4,
        hidden_dropout_p=0.0,
        attention_dropout_p=0.0,
        pos_enc_at_key_value=True,
        concat_kv_latents=False,
        num_latents=config.num_latents,
        num_latents_2d=config.num_latents_2d,
        position_encoding=upstream.sam2.PositionEmbeddingSine(num_pos_feats=config.mem_dim),
        use_self_attn=True,
    ).eval()


def windows(config: EdgeTamConfig) -> int:
    """Local latents on a side of the map."""
    return math.isqrt(config.num_latents_2d)


def cross_attention(config: EdgeTamConfig) -> Any:
    """Build upstream's attention to memories."""
    return RoPEAttentionv2(
        embedding_dim=config.d_model,
        num_heads=1,
        downsample_rate=1,
        dropout=0.1,
        rope_theta=10000.0,
        q_sizes=[config.grid, config.grid],
        k_sizes=[windows(config)] * 2,
        kv_in_dim=config.mem_dim,
    ).eval()


def memory_attention(config: EdgeTamConfig) -> Any:
    """Build upstream's `MemoryAttention` of any size."""
    itself = RoPEAttention(
        embedding_dim=config.d_model,
        num_heads=1,
        downsample_rate=1,
        dropout=0.1,
        rope_theta=10000.0,
        feat_sizes=[config.grid, config.grid],
    )
    layer = attention.MemoryAttentionLayer(
        activation="relu",
        cross_attention=cross_attention(config),
        d_model=config.d_model,
        dim_feedforward=config.dim_feedforward,
        dropout=0.1,
        pos_enc_at_attn=False,
        pos_enc_at_cross_attn_keys=True,
        pos_enc_at_cross_attn_queries=False,
        self_attention=itself,
    )
    return attention.MemoryAttention(
        d_model=config.d_model,
        pos_enc_at_input=True,
        layer=layer,
        num_layers=config.num_layers,
    ).eval()


def refresh(module: Any, config: EdgeTamConfig) -> None:
    """Make tables that are computed once anew, in the caller's precision."""
    grid, side = config.grid, windows(config)
    for child in module.modules():
        if isinstance(child, RoPEAttention):
            child.freqs_cis = child.compute_cis(end_x=grid, end_y=grid)
        elif isinstance(child, RoPEAttentionv2):
            child.freqs_cis_q = child.compute_cis(end_x=grid, end_y=grid)
            child.freqs_cis_k = child.compute_cis(end_x=side, end_y=side)
        elif isinstance(child, upstream.sam2.PositionEmbeddingSine):
            child.cache = {}


def build(
    config: EdgeTamConfig = TINY,
    weights: tiny.Weights | None = None,
    kind: Any = None,
    **switches: Any,
) -> Any:
    """Build upstream's `SAM2Base`, or a class made from it, whole and of any size."""
    released = upstream_sam2.switches_of(config.heads, switches)
    model = (kind or upstream.sam2.SAM2Base)(
        image_encoder=image_encoder(config),
        memory_attention=memory_attention(config),
        memory_encoder=upstream_sam2.memory_encoder(config.heads),
        spatial_perceiver=perceiver(config),
        **released,
    ).eval()
    if weights is not None:
        upstream.load_state_dict(model, weights)
    return model


@contextmanager
def sessions(*, legacy: bool = False) -> Iterator[Any]:
    """Give the class of sessions: the newer one, over EdgeTAM's network, or EdgeTAM's own.

    Both have holes of masks filled as on a GPU.
    """
    own = upstream.sam2.video_predictor
    module = own if legacy else _newer_predictor()
    module.fill_holes_in_mask_scores = upstream_video.fill_holes
    with mock.patch.object(upstream.sam2, _SHORT, module):
        yield own.SAM2VideoPredictor if legacy else _over_edgetam(module, own)


def _over_edgetam(newer: Any, own: Any) -> Any:
    """Return the newer class with what the older one knows of EdgeTAM's memories."""

    class Predictor(newer.SAM2VideoPredictor):  # type: ignore[misc]
        _get_maskmem_pos_enc = own.SAM2VideoPredictor._get_maskmem_pos_enc

    return Predictor


@functools.cache
def _newer_predictor() -> Any:
    own = Path(upstream.sam2.base.__file__).parents[2]
    for folder in map(Path, sys.path):
        source = folder / "sam2" / f"sam2_{_SHORT}.py"
        if folder == own or not source.is_file():
            continue
        spec = importlib.util.spec_from_file_location(f"newer_{_SHORT}", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    pytest.skip("needs the package sam2 behind edgetam-dimos")


def run64(
    predictor: Any, config: EdgeTamConfig, frames: NDArray[np.uint8], script: upstream_video.Session
) -> list[Any]:
    """Run a script (predictor, state) in float64."""
    double: Any = upstream.double(predictor)
    images = upstream_video.input_images(frames, config.image_size, vars(upstream)["torch"].float64)
    with upstream.float64():
        refresh(double, config)
        return script(double, upstream_video.init_state(double, images, frames.shape[1:3]))
