"""What is measured: sizes, inputs and arithmetic of each workload. Needs NumPy only."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import arithmetic

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "benchmarks"
sys.path.insert(0, str(ROOT / "tests"))

from support import tiny, tiny_edgetam, tiny_sam2, tiny_sam3  # noqa: E402

SEED = 2
# SAM 2's image encoders, and the variant that each belongs to.
HIERA = {
    "hiera-tiny": "hiera_t",
    "hiera-small": "hiera_s",
    "hiera-base-plus": "hiera_b+",
    "hiera-large": "hiera_l",
}
MEMORY_ATTENTION = "memory-attention"
VIDEOS = {f"video-{n}": n for n in (1, 3, 10)}  # to the number of objects
# Parts of SAM 3 on an image. The text and the image are encoded before the others.
CONCEPTS = ("sam3-encoder", "sam3-text", "sam3-prompt", "sam3-prompts-20")
TEXT_VIDEO = "sam3-video"  # of text_video.py, with the tracker's weights
SAM = ("encoder", "decode-1", "decode-64", "everything", "everything-with-encoder")
NAMES = (*SAM, *HIERA, MEMORY_ATTENTION, *VIDEOS, *CONCEPTS)
# Of light_models.py: MobileSAM's encoder, EdgeTAM's frame, an image of SAM-HQ and a click on it.
LIGHT = ("mobile-sam", "edgetam", "sam-hq", "sam-hq-click")
MOBILE_SAM, EDGETAM, SAM_HQ, SAM_HQ_CLICK = LIGHT
# Instances of each text that are kept.
INSTANCES = 10
# What one image goes through, from pixels to the maps that prompts need.
ENCODERS = ("encoder", *HIERA)
GRAPHS = (*ENCODERS, MOBILE_SAM)  # those that are exported
# A steady frame attends to so many maps, and to so many pointers of four tokens each.
MEMORIES, POINTERS = 7, 16


@dataclass(frozen=True)
class Workload:
    """One row group of the table, as the workers get it."""

    name: str
    variant: str  # of the network: "vit_b", "hiera_t", ... or "tiny"
    prompts: int = 0  # prompt sets in one decoder call
    points_per_side: int = 0  # of everything mode
    image_hw: tuple[int, int] = (0, 0)  # of everything mode, and of videos
    objects: int = 0  # that a video follows
    image_size: int = 0  # another side of SAM 2's input than the released one

    @property
    def family(self) -> str:
        if self.name in (*CONCEPTS, TEXT_VIDEO):
            return "sam3"
        return "sam" if self.name in (*SAM, MOBILE_SAM, SAM_HQ, SAM_HQ_CLICK) else "sam2"

    @property
    def config(self) -> Any:
        """Sizes of the network: a `SamConfig`, SAM 2's `ImageEncoderConfig` or a `Sam3Config`.

        Of MobileSAM and SAM-HQ those around the trunk, of EdgeTAM all.
        """
        if self.name in LIGHT:
            return tiny_edgetam.EDGETAM if self.name == EDGETAM else tiny.VIT_B
        if self.family == "sam3":
            return sam3_network(self.variant)
        if self.family == "sam":
            return network(self.variant)
        config = sam2_network(self.variant)
        return replace(config, image_size=self.image_size or config.image_size)

    @property
    def side(self) -> int:
        """Side of the network's input, in pixels."""
        return self.config.image_size if self.family == "sam2" else self.config.img_size

    @property
    def weights(self) -> Path:
        family = "sam3_video" if self.name == TEXT_VIDEO else self.family
        return weights_path(self.variant, family)

    @property
    def ours(self) -> Path:
        """The file that ours loads: sizes that are not released cannot stand in a .pth file.

        Nor can any, where there is no PyTorch to write it.
        """
        pth = self.variant != "tiny" and self.weights.exists()
        return self.weights if pth else self.weights.with_suffix(".safetensors")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Workload:
        return Workload(**{**fields, "image_hw": tuple(fields["image_hw"])})

    def gflop(self) -> float:
        """Arithmetic of upstream's own formulation: 2 for each multiply-add. 0: not counted."""
        if self.name in LIGHT:
            return 0.0
        config, tokens = self.config, 4 * POINTERS
        if self.name == "sam3-encoder":
            return arithmetic.sam3_encoder_gflop(config)
        if self.name == "sam3-text":
            return arithmetic.sam3_text_gflop(config)
        if self.name in CONCEPTS:
            return self.prompts * arithmetic.sam3_prompt_gflop(config)
        if self.name in HIERA:
            return arithmetic.sam2_encoder_gflop(config)
        if self.name == MEMORY_ATTENTION:
            return arithmetic.memory_attention_gflop(config, MEMORIES, tokens)
        if self.objects:
            return arithmetic.tracking_gflop(config, self.objects, MEMORIES, tokens)
        if self.name == "encoder":
            return arithmetic.vit_gflop(config)
        prompts = self.prompts or self.points_per_side**2
        encoder = arithmetic.vit_gflop(config) if self.name.endswith("encoder") else 0.0
        return prompts * arithmetic.decoder_gflop(config) + encoder

    def about(self) -> str:
        """What a reader has to know beside the sizes."""
        if self.name == MEMORY_ATTENTION:
            return f"One object, {MEMORIES} maps and {POINTERS} pointers, random."
        if self.name == "sam3-encoder":
            return "Image to features. Ours includes what all texts of an image share."
        if self.name == "sam3-text":
            return f"The text {sample_texts(1)[0]!r}."
        if self.name in CONCEPTS:
            return (
                f"{self.prompts} text(s) on an image of {self.side} x {self.side}, whose "
                f"features and those of the text are there; masks of {INSTANCES} instances each. "
                "Ours in one call, the others in a call for each."
            )
        if self.name == EDGETAM:
            return (
                "Seconds for one frame, one object: the next one behind those that fill its memory."
            )
        if not self.objects:
            return ""
        return (
            f"Seconds for one frame, {self.objects} object(s), {MEMORIES} maps and {POINTERS} "
            f"pointers each. Frame 0 is prompted and computed; what frames 1 to {POINTERS} left "
            "behind is made up, the same for all engines; each run tracks the next frame."
        )


def network(variant: str) -> tiny.SamConfig:
    return tiny.TINY if variant == "tiny" else tiny.VARIANTS[variant]


def sam2_network(variant: str) -> tiny_sam2.ImageEncoderConfig:
    return tiny_sam2.TINY if variant == "tiny" else tiny_sam2.VARIANTS[variant]


def sam3_network(variant: str) -> tiny_sam3.Sam3Config:
    return tiny_sam3.TINY if variant == "tiny" else tiny_sam3.RELEASED


def sample_texts(count: int) -> list[str]:
    """Return texts of two to four words, all different."""
    colours, things = ("red", "yellow", "small white", "old"), ("car", "dog", "street lamp")
    found = [f"{colour} {thing}" for thing in things for colour in colours]
    found += [f"{thing} on the left" for thing in ("tree", "person", "bicycle", "bag")]
    found += ["coffee cup", "window", "wooden chair", "traffic light"]
    return found[:count]


def scores_of(logits: NDArray[np.float32], presence: float) -> NDArray[np.float32]:
    """Scores of SAM 3's queries."""
    scores: NDArray[np.float32] = 1 / ((1 + np.exp(-logits)) * (1 + np.exp(-presence)))
    return scores


def threshold_for(scores: NDArray[np.float32]) -> float:
    """Return a threshold that keeps INSTANCES of a text, or half of a tiny network's."""
    ordered = np.sort(scores)[::-1]
    kept = min(INSTANCES, len(ordered) // 2)
    return float(ordered[kept - 1] + ordered[kept]) / 2


def all_workloads(variant: str, quick: bool) -> dict[str, Workload]:
    """Every workload by name, SAM's of a variant; `quick` makes each one small."""
    side, hw = (4, (48, 64)) if quick else (32, (480, 640))
    found = [Workload("encoder", variant)]
    found += [Workload(f"decode-{n}", variant, prompts=n) for n in (1, 64)]
    for name in ("everything", "everything-with-encoder"):
        found.append(Workload(name, variant, points_per_side=side, image_hw=hw))
    small = quick or variant == "tiny"
    found += [Workload(name, "tiny" if small else own) for name, own in HIERA.items()]
    found.append(Workload(MEMORY_ATTENTION, "tiny" if small else "hiera_t"))
    for name, objects in VIDEOS.items():
        own = "tiny" if small else "hiera_t"
        found.append(Workload(name, own, image_hw=hw, objects=objects))
    own = "tiny" if small else "sam3"
    found += [
        Workload(name, own, prompts=count)
        for name, count in zip(CONCEPTS, (0, 1, 1, 20), strict=True)
    ]
    return {workload.name: workload for workload in found}


def light_workloads() -> dict[str, Workload]:
    """Models that are made for CPUs, and SAM-HQ, by name, at their released sizes."""
    found = [
        Workload(MOBILE_SAM, "vit_t"),
        Workload(EDGETAM, "edgetam", image_hw=(480, 640), objects=1),
        Workload(SAM_HQ, "hq_vit_b"),
        Workload(SAM_HQ_CLICK, "hq_vit_b"),
    ]
    return {workload.name: workload for workload in found}


def sample_image(height: int, width: int) -> NDArray[np.uint8]:
    """Return a smooth coloured image with edges, the same everywhere."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [np.sin(x * (0.02 + 0.01 * c) + 3 * np.sin(y * 0.013 * (c + 1))) for c in range(3)]
    blocks = ((x // 64 + y // 48) % 3 - 1) * 40
    noise = np.random.default_rng(SEED).normal(0, 6, (height, width, 3))
    values = 127 + 70 * np.stack(waves, axis=-1) + blocks[..., None] + noise
    return np.clip(values, 0, 255).astype(np.uint8)


def normalised(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Upstream's network input (1, 3, S, S) of an image that already has the side S."""
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


def weights_path(variant: str, family: str = "sam") -> Path:
    """Where the checkpoint that all engines load is kept."""
    return BUILD / f"{family}_{variant}_seed{SEED}.pth"
