"""What the tests of SAM 3's detector share: sizes, and calls of upstream in our layout."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from support import tiny_sam3, upstream, upstream_sam3

torch = upstream.torch
TINY = tiny_sam3.TINY
# Other widths: heads of 8 and 20 channels, one and three layers.
WIDE = replace(
    TINY,
    d_model=80,
    nheads=4,
    dim_feedforward=96,
    geometry_layers=2,
    encoder_layers=3,
    decoder_layers=3,
    num_queries=33,
)
NARROW = replace(
    TINY, d_model=16, nheads=2, geometry_layers=1, encoder_layers=1, decoder_layers=1, num_queries=1
)
NAMES = (
    "d_model",
    "nheads",
    "dim_feedforward",
    "geometry_layers",
    "encoder_layers",
    "decoder_layers",
    "num_queries",
    "upsampling_stages",
)


def sizes(config: tiny_sam3.Sam3Config) -> dict[str, int]:
    """Return our config of the detector."""
    return {name: value for name, value in asdict(config).items() if name in NAMES}


def sequence(x: Any) -> Any:
    """Turn tokens (N, C) into upstream's (N, 1, C)."""
    return x[:, None]


def places(x: Any) -> Any:
    """Turn a map (H, W, C) into upstream's sequence (H * W, 1, C)."""
    return x.flatten(0, 1)[:, None]


def planes(x: Any) -> Any:
    """Turn a map (H, W, C) into upstream's (1, C, H, W)."""
    return x.permute(2, 0, 1)[None]


def no_padding(tokens: Any) -> Any:
    """Return a padding mask (1, N) that masks nothing."""
    return torch.zeros((1, len(tokens)), dtype=torch.bool)


def decode(module: Any, memory: Any, pos: Any, prompt: Any) -> tuple[Any, Any, Any]:
    """Call upstream's decoder -> its results for all layers, sequence first."""
    height, width, _ = memory.shape
    upstream_sam3.refresh(module)
    states, boxes, presence, _ = module(
        tgt=module.query_embed.weight[:, None],
        memory=places(memory),
        pos=places(pos),
        level_start_index=torch.zeros(1, dtype=torch.long),
        spatial_shapes=torch.tensor([[height, width]]),
        valid_ratios=torch.ones(1, 1, 2, dtype=memory.dtype),
        memory_text=sequence(prompt),
        text_attention_mask=no_padding(prompt),
        apply_dac=False,
    )
    return states, boxes, presence


def random_boxes(generator: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Draw boxes cx, cy, w, h; some reach out of the picture."""
    center, extent = generator.uniform(-0.1, 1.1, (count, 2)), generator.uniform(0, 0.9, (count, 2))
    return np.concatenate([center, extent], 1).astype(np.float32)


def random_points(generator: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Draw points x, y; some lie outside of the picture."""
    return generator.uniform(-0.1, 1.1, (count, 2)).astype(np.float32)


def random_labels(generator: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    return generator.integers(0, 2, count).astype(np.int32)
