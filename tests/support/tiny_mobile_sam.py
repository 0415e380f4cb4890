"""Small checkpoints of MobileSAM's layout with random weights. Needs NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support import tiny


@dataclass(frozen=True)
class TinyViTConfig:
    """Sizes of the trunk, under upstream's argument names."""

    embed_dims: tuple[int, ...] = (64, 128, 160, 320)
    depths: tuple[int, ...] = (2, 2, 6, 2)
    num_heads: tuple[int, ...] = (2, 4, 5, 10)
    window_sizes: tuple[int, ...] = (7, 7, 14, 7)
    patch_kernel: int = 3  # LiteMedSAM: 1
    out_chans: int = 256

    def sizes(self) -> dict[str, Any]:
        """Return the arguments of upstream's class."""
        names = ("embed_dims", "depths", "num_heads", "window_sizes")
        return {name: list(getattr(self, name)) for name in names}


VIT_T = TinyViTConfig()
LITE_MED_SAM = TinyViTConfig(patch_kernel=1)
TINY = TinyViTConfig(
    embed_dims=(16, 32, 40, 320),
    depths=(1, 2, 1, 1),
    num_heads=(1, 2, 5, 10),
    window_sizes=(7, 7, 5, 3),
    out_chans=32,
)
# Of the prompt encoder and the decoder of TINY.
TINY_HEADS = tiny.SamConfig(
    img_size=128, out_chans=TINY.out_chans, mlp_dim=64, iou_head_hidden_dim=32
)


def _conv_bn(shapes: tiny.Shapes, name: str, weight: tuple[int, ...]) -> None:
    shapes[f"{name}.c.weight"] = weight
    for part in ("weight", "bias", "running_mean", "running_var"):
        shapes[f"{name}.bn.{part}"] = weight[:1]


def _convolutions(shapes: tiny.Shapes, name: str, width: int, hidden: int, out: int) -> None:
    _conv_bn(shapes, f"{name}.conv1", (hidden, width, 1, 1))
    _conv_bn(shapes, f"{name}.conv2", (hidden, 1, 3, 3))
    _conv_bn(shapes, f"{name}.conv3", (out, hidden, 1, 1))


def _affine(shapes: tiny.Shapes, name: str, *weight: int) -> None:
    shapes[f"{name}.weight"] = weight
    shapes[f"{name}.bias"] = weight[:1]


def trunk_shapes(config: TinyViTConfig) -> tiny.Shapes:
    """Names and shapes of the tensors of the trunk, without upstream's classifier."""
    shapes: tiny.Shapes = {}
    dims, kernel, out = config.embed_dims, config.patch_kernel, config.out_chans
    patch = "image_encoder.patch_embed.seq"
    _conv_bn(shapes, f"{patch}.0", (dims[0] // 2, 3, kernel, kernel))
    _conv_bn(shapes, f"{patch}.2", (dims[0], dims[0] // 2, kernel, kernel))
    for i, (width, depth) in enumerate(zip(dims, config.depths, strict=True)):
        layer = f"image_encoder.layers.{i}"
        for j in range(depth):
            block = f"{layer}.blocks.{j}"
            if i == 0:
                _convolutions(shapes, block, width, 4 * width, width)
                continue
            offsets = (config.num_heads[i], config.window_sizes[i] ** 2)
            shapes[f"{block}.attn.attention_biases"] = offsets
            _affine(shapes, f"{block}.attn.norm", width)
            _affine(shapes, f"{block}.attn.qkv", 3 * width, width)
            _affine(shapes, f"{block}.attn.proj", width, width)
            _affine(shapes, f"{block}.mlp.norm", width)
            _affine(shapes, f"{block}.mlp.fc1", 4 * width, width)
            _affine(shapes, f"{block}.mlp.fc2", width, 4 * width)
            _conv_bn(shapes, f"{block}.local_conv", (width, 1, 3, 3))
        if i + 1 < len(dims):
            _convolutions(shapes, f"{layer}.downsample", width, dims[i + 1], dims[i + 1])
    neck = "image_encoder.neck"
    shapes[f"{neck}.0.weight"] = (out, dims[-1], 1, 1)
    shapes[f"{neck}.2.weight"] = (out, out, 3, 3)
    for i in (1, 3):
        _affine(shapes, f"{neck}.{i}", out)
    return shapes


def shapes_of(config: TinyViTConfig = TINY, heads: tiny.SamConfig = TINY_HEADS) -> tiny.Shapes:
    """Names and shapes of all tensors of a checkpoint, without what the network does not have."""
    rest = {k: v for k, v in tiny.sam_shapes(heads).items() if not k.startswith("image_encoder.")}
    return {**trunk_shapes(config), **rest}


def weights(
    config: TinyViTConfig = TINY, heads: tiny.SamConfig = TINY_HEADS, seed: int = 0
) -> tiny.Weights:
    """Random weights of a whole checkpoint."""
    return tiny.random_state_dict(shapes_of(config, heads), seed)
