"""Sizes of a SAM v1 model, and the ones of `sam-nano`."""

from __future__ import annotations

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class SamConfig:
    """Everything that the weights alone do not say.

    The field names are those of the upstream constructors; `decoder_` marks fields whose plain
    name would be ambiguous.
    """

    img_size: int = 384
    patch_size: int = 8
    embed_dim: int = 192
    depth: int = 12
    num_heads: int = 3
    mlp_ratio: float = 4.0
    out_chans: int = 128
    window_size: int = 12
    global_attn_indexes: tuple[int, ...] = (3, 7, 11)
    prompt_embed_dim: int = 128
    decoder_depth: int = 2
    decoder_num_heads: int = 8
    decoder_mlp_dim: int = 512
    iou_head_depth: int = 3
    iou_head_hidden_dim: int = 128
    num_multimask_outputs: int = 3
    mask_in_chans: int = 16
    pixel_mean: tuple[float, ...] = (123.675, 116.28, 103.53)
    pixel_std: tuple[float, ...] = (58.395, 57.12, 57.375)

    family = "sam"
    variant = "sam-nano"

    @property
    def grid(self) -> int:
        """Patches along one side."""
        return self.img_size // self.patch_size

    def to_json(self) -> str:
        """Return the sizes as the JSON text kept in the checkpoint's metadata."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SamConfig:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


NANO = SamConfig()
