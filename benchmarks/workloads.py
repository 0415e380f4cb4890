"""What is measured: sizes, inputs and arithmetic of each workload. Needs NumPy only."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "benchmarks"
sys.path.insert(0, str(ROOT / "tests"))

from support import tiny, tiny_sam2, tiny_sam3  # noqa: E402, F401

SEED = 2
NAMES = ("encoder", "decode-1", "decode-64", "everything", "everything-with-encoder")


@dataclass(frozen=True)
class Workload:
    """One row group of the table, as the workers get it."""

    name: str
    variant: str  # of the network: "vit_b" or "tiny"
    prompts: int = 0  # prompt sets in one decoder call
    points_per_side: int = 0  # of everything mode
    picture_hw: tuple[int, int] = (0, 0)  # of everything mode

    @property
    def config(self) -> tiny.SamConfig:
        return network(self.variant)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Workload:
        return Workload(**{**fields, "picture_hw": tuple(fields["picture_hw"])})

    def gflop(self) -> float | None:
        """Arithmetic of upstream's own formulation: 2 for each multiply-add."""
        if self.name == "encoder":
            return encoder_gflop(self.config)
        if self.name.startswith("decode"):
            return self.prompts * decoder_gflop(self.config)
        batch = self.points_per_side**2 * decoder_gflop(self.config)
        return batch + (encoder_gflop(self.config) if self.name.endswith("encoder") else 0.0)


def network(variant: str) -> tiny.SamConfig:
    return tiny.TINY if variant == "tiny" else tiny.VARIANTS[variant]


def all_workloads(variant: str, quick: bool) -> dict[str, Workload]:
    """Every workload by name; `quick` makes each one small."""
    side, hw = (4, (48, 64)) if quick else (32, (480, 640))
    found = [Workload("encoder", variant)]
    found += [Workload(f"decode-{n}", variant, prompts=n) for n in (1, 64)]
    for name in NAMES[3:]:
        found.append(Workload(name, variant, points_per_side=side, picture_hw=hw))
    return {workload.name: workload for workload in found}


def encoder_gflop(config: tiny.SamConfig) -> float:
    """Multiply-adds of the image encoder, padded window tokens included."""
    width, grid = config.embed_dim, config.img_size // config.patch_size
    tokens, head = grid * grid, config.embed_dim // config.num_heads
    total = tokens * width * 3 * config.patch_size**2
    for block in range(config.depth):
        whole = block in config.global_attn_indexes
        side = grid if whole else config.window_size
        windows = 1 if whole else (-(-grid // side)) ** 2
        seen = windows * side * side  # tokens, padding included
        total += seen * width * 4 * width  # qkv and proj
        total += 2 * seen * side * side * width  # scores, and values
        total += 2 * seen * side * config.num_heads * head  # relative positions
        total += tokens * 8 * width * width  # mlp
    out = config.out_chans
    total += tokens * (width * out + 9 * out * out)
    return 2e-9 * total


def decoder_gflop(config: tiny.SamConfig, sparse: int = 2) -> float:
    """Multiply-adds of the mask decoder for one prompt of `sparse` tokens."""
    width, grid = config.out_chans, config.img_size // config.patch_size
    places, tokens, inner = grid * grid, 5 + sparse, config.out_chans // 2
    cross = (places + tokens) * 2 * width * inner + 2 * places * tokens * inner
    layer = tokens * 4 * width * width + 2 * tokens * tokens * width
    layer += 2 * cross + 2 * tokens * width * config.mlp_dim
    total = 2 * layer + cross
    total += places * width * width + 4 * places * (width // 4) * (width // 2)  # upscaling
    total += 4 * (2 * width * width + width * width // 8)  # hypernetworks
    total += 16 * places * 4 * width // 8  # masks
    return 2e-9 * total


def picture(height: int, width: int) -> NDArray[np.uint8]:
    """Return a smooth coloured picture with edges, the same everywhere."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [np.sin(x * (0.02 + 0.01 * c) + 3 * np.sin(y * 0.013 * (c + 1))) for c in range(3)]
    blocks = ((x // 64 + y // 48) % 3 - 1) * 40
    noise = np.random.default_rng(SEED).normal(0, 6, (height, width, 3))
    values = 127 + 70 * np.stack(waves, axis=-1) + blocks[..., None] + noise
    return np.clip(values, 0, 255).astype(np.uint8)


def normalised(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Upstream's network input (1, 3, S, S) of a picture that already has the side S."""
    mean, std = np.float32(tiny.PIXEL_MEAN), np.float32(tiny.PIXEL_STD)
    values = (image.astype(np.float32) - mean) / std
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])


def embedding(config: tiny.SamConfig) -> NDArray[np.float32]:
    """Return a stand-in for an image embedding (1, C, g, g)."""
    grid = config.img_size // config.patch_size
    shape = (1, config.out_chans, grid, grid)
    return np.random.default_rng(SEED).standard_normal(shape, dtype=np.float32)


def clicks(config: tiny.SamConfig, count: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return one foreground point each for `count` prompts: (B, 1, 2) and (B, 1)."""
    rng = np.random.default_rng(SEED)
    coords = rng.uniform(0, config.img_size, (count, 1, 2))
    return coords, np.ones((count, 1), np.int32)


def weights_path(variant: str) -> Path:
    """Where the checkpoint that all engines load is kept."""
    return BUILD / f"sam_{variant}_seed{SEED}.pth"
