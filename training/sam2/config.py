"""Sizes and switches of a SAM 2.1 model, and the ones of `sam2-nano`."""

from __future__ import annotations

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Sam2Config:
    """Everything that the weights alone do not say.

    The field names are those of the upstream constructors; `decoder_`, `memory_attention_` and
    `fuser_` mark fields whose plain name would be ambiguous. The switches say what upstream's
    video model at its published settings does; the modules here know no other behaviour.
    """

    image_size: int = 512
    backbone_stride: int = 16
    image_mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    image_std: tuple[float, ...] = (0.229, 0.224, 0.225)

    embed_dim: int = 48
    num_heads: int = 1
    stages: tuple[int, ...] = (1, 2, 6, 1)
    window_spec: tuple[int, ...] = (8, 4, 16, 8)
    global_att_blocks: tuple[int, ...] = (5, 8)
    window_pos_embed_bkg_spatial_size: tuple[int, ...] = (7, 7)
    q_pool: int = 3
    q_stride: tuple[int, ...] = (2, 2)
    dim_mul: float = 2.0
    head_mul: float = 2.0
    mlp_ratio: float = 4.0
    d_model: int = 128
    fpn_top_down_levels: tuple[int, ...] = (2, 3)
    scalp: int = 1

    decoder_depth: int = 2
    decoder_num_heads: int = 4
    decoder_mlp_dim: int = 512
    iou_head_depth: int = 3
    iou_head_hidden_dim: int = 128
    num_multimask_outputs: int = 3
    mask_in_chans: int = 16
    dynamic_multimask_via_stability: bool = True
    dynamic_multimask_stability_delta: float = 0.05
    dynamic_multimask_stability_thresh: float = 0.98

    mem_dim: int = 64
    memory_attention_num_layers: int = 2
    memory_attention_num_heads: int = 1
    memory_attention_dim_feedforward: int = 512
    rope_theta: float = 10000.0
    rope_feat_sizes: tuple[int, ...] = (32, 32)
    mask_downsampler_kernel_size: int = 3
    mask_downsampler_stride: int = 2
    mask_downsampler_padding: int = 1
    mask_downsampler_total_stride: int = 16
    fuser_num_layers: int = 2
    fuser_kernel_size: int = 7
    num_maskmem: int = 7
    max_cond_frames_in_attn: int = -1
    max_obj_ptrs_in_encoder: int = 16
    memory_temporal_stride_for_eval: int = 1
    sigmoid_scale_for_mem_enc: float = 20.0
    sigmoid_bias_for_mem_enc: float = -10.0
    binarize_mask_from_pts_for_mem_enc: bool = True
    non_overlap_masks_for_mem_enc: bool = False
    use_mask_input_as_output_without_sam: bool = True
    directly_add_no_mem_embed: bool = True
    no_obj_embed_spatial: bool = True
    use_high_res_features_in_sam: bool = True
    multimask_output_in_sam: bool = True
    multimask_output_for_tracking: bool = True
    multimask_min_pt_num: int = 0
    multimask_max_pt_num: int = 1
    use_multimask_token_for_obj_ptr: bool = True
    iou_prediction_use_sigmoid: bool = True
    use_obj_ptrs_in_encoder: bool = True
    add_tpos_enc_to_obj_ptrs: bool = True
    proj_tpos_enc_in_obj_ptrs: bool = True
    use_signed_tpos_enc_to_obj_ptrs: bool = True
    only_obj_ptrs_in_the_past_for_eval: bool = True
    use_mlp_for_obj_ptr_proj: bool = True
    pred_obj_scores: bool = True
    pred_obj_scores_mlp: bool = True
    fixed_no_obj_ptr: bool = True
    soft_no_obj_ptr: bool = False

    family = "sam2"
    variant = "sam2-nano"

    @property
    def grid(self) -> int:
        """Positions along one side of the coarsest map that the decoder sees."""
        return self.image_size // self.backbone_stride

    def to_json(self) -> str:
        """Return the fields as the JSON text kept in the checkpoint's metadata."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Sam2Config:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


NANO = Sam2Config()
