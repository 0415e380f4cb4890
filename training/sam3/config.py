"""Sizes of SAM 3, and the ones of `sam3-nano`."""

from __future__ import annotations

import dataclasses
import json

from training import sam2


@dataclasses.dataclass(frozen=True)
class Sam3Config:
    """Everything that the weights alone do not say.

    The field names are those of the upstream constructors; where arguments of different parts have
    one name, the part is put in front.
    """

    img_size: int = 336
    pretrain_img_size: int = 336
    patch_size: int = 14
    embed_dim: int = 160
    depth: int = 8
    num_heads: int = 4
    mlp_ratio: float = 4.0
    window_size: int = 12
    global_att_blocks: tuple[int, ...] = (1, 3, 5, 7)
    scale_factors: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    scalp: int = 1
    d_model: int = 96

    # The vocabulary is the real one: the tokenizer asks for it.
    text_width: int = 32
    text_heads: int = 4
    text_layers: int = 2
    context_length: int = 32
    vocab_size: int = 49408

    nheads: int = 4
    dim_feedforward: int = 384
    geometry_layers: int = 1
    encoder_layers: int = 3
    decoder_layers: int = 3
    num_queries: int = 40
    upsampling_stages: int = 3

    # The tracker: there is none where memories have no width.
    mem_dim: int = 0
    memory_layers: int = 2
    memory_feedforward: int = 128
    fuser_layers: int = 1
    decoder_mlp_dim: int = 112
    iou_head_hidden_dim: int = 64

    family = "sam3"
    variant = "sam3-nano"

    @property
    def grid(self) -> int:
        """Positions along one side of the map of the image."""
        return self.img_size // self.patch_size

    @property
    def heads(self) -> sam2.Sam2Config:
        """The tracker's sizes and switches under SAM 2's names."""
        return dataclasses.replace(
            sam2.NANO,
            image_size=self.img_size,
            backbone_stride=self.patch_size,
            d_model=self.d_model,
            decoder_num_heads=8,
            decoder_mlp_dim=self.decoder_mlp_dim,
            iou_head_hidden_dim=self.iou_head_hidden_dim,
            mem_dim=self.mem_dim,
            memory_attention_num_layers=self.memory_layers,
            memory_attention_dim_feedforward=self.memory_feedforward,
            rope_feat_sizes=(self.grid, self.grid),
            fuser_num_layers=self.fuser_layers,
            max_cond_frames_in_attn=4,
        )

    def to_json(self) -> str:
        """Return the fields as the JSON text kept in the checkpoint's metadata."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Sam3Config:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


NANO = Sam3Config()
# Without what nothing reads: the coarsest level of the neck, and the convolution after it.
TRACKING = dataclasses.replace(
    NANO, scale_factors=(4.0, 2.0, 1.0), scalp=0, upsampling_stages=2, mem_dim=48
)
