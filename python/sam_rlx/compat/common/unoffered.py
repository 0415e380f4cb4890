"""Names of upstream's that programs import and a run may never use: parts of networks, training."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from sam_rlx.errors import UnsupportedError

# Classes and functions of upstream's modules that are not here: "module: names".
_NAMES = """
segment_anything.modeling.common: MLPBlock LayerNorm2d
segment_anything.modeling.image_encoder: ImageEncoderViT Block Attention window_partition
  window_unpartition get_rel_pos add_decomposed_rel_pos PatchEmbed
segment_anything.modeling.mask_decoder: MaskDecoder MLP
segment_anything.modeling.prompt_encoder: PromptEncoder PositionEmbeddingRandom
segment_anything.modeling.transformer: TwoWayTransformer TwoWayAttentionBlock Attention
sam2.modeling.backbones:
sam2.modeling.backbones.hieradet: do_pool MultiScaleAttention MultiScaleBlock Hiera
sam2.modeling.backbones.image_encoder: ImageEncoder FpnNeck
sam2.modeling.backbones.utils: window_partition window_unpartition PatchEmbed
sam2.modeling.memory_attention: MemoryAttentionLayer MemoryAttention
sam2.modeling.memory_encoder: MaskDownSampler CXBlock Fuser MemoryEncoder
sam2.modeling.position_encoding: PositionEmbeddingSine PositionEmbeddingRandom init_t_xy
  compute_axial_cis reshape_for_broadcast apply_rotary_enc
sam2.modeling.sam:
sam2.modeling.sam.mask_decoder: MaskDecoder
sam2.modeling.sam.prompt_encoder: PromptEncoder
sam2.modeling.sam.transformer: TwoWayTransformer TwoWayAttentionBlock Attention RoPEAttention
sam2.modeling.sam2_utils: select_closest_cond_frames get_1d_sine_pe get_activation_fn get_clones
  DropPath MLP LayerNorm2d sample_box_points sample_random_points_from_errors
  sample_one_point_from_error_center get_next_point
sam3.model.act_ckpt_utils: activation_ckpt_wrapper clone_output_wrapper
sam3.model.data_misc: interpolate BatchedPointer FindStage BatchedFindTarget
  BatchedInferenceMetadata BatchedDatapoint convert_my_tensors
sam3.model.decoder: TransformerDecoderLayer TransformerDecoder TransformerEncoderCrossAttention
  TransformerDecoderLayerv1 TransformerDecoderLayerv2
sam3.model.edt: edt_kernel edt_triton
sam3.model.encoder: TransformerEncoderLayer TransformerEncoder TransformerEncoderFusion
  pool_text_feat
sam3.model.geometry_encoders: is_right_padded concat_padded_sequences Prompt MaskEncoder
  FusedMaskEncoder SequenceGeometryEncoder
sam3.model.io_utils: load_resource_as_video_frames load_image_as_single_frame_video
  load_video_frames load_video_frames_from_image_folder load_video_frames_from_video_file
  load_video_frames_from_video_file_using_cv2 load_dummy_video AsyncImageFrameLoader
  TorchCodecDecoder FIFOLock AsyncVideoFileLoaderWithTorchCodec
sam3.model.maskformer_segmentation: LinearPresenceHead MaskPredictor SegmentationHead
  PixelDecoder UniversalSegmentationHead
sam3.model.memory: SimpleMaskDownSampler CXBlock SimpleFuser SimpleMaskEncoder
sam3.model.model_misc: inverse_sigmoid MultiheadAttentionWrapper DotProductScoring LayerScale
  LayerNorm2d TransformerWrapper MLP get_clones get_clones_seq get_activation_fn
  get_activation_module get_valid_ratio gen_sineembed_for_position SAM3Output
sam3.model.necks: Sam3DualViTDetNeck
sam3.model.position_encoding: PositionEmbeddingSine
sam3.model.sam3_tracker_base: Sam3TrackerBase concat_points
sam3.model.sam3_tracker_utils: sample_box_points mask_to_box sample_random_points_from_errors
  sample_one_point_from_error_center sample_one_point_from_error_center_slow get_next_point
  select_closest_cond_frames get_1d_sine_pe get_best_gt_match_from_multimasks
  fill_holes_in_mask_scores
sam3.model.sam3_video_base: MaskletConfirmationStatus Sam3VideoBase
sam3.model.text_encoder_ve: ResidualAttentionBlock Transformer text_global_pool TextTransformer
  VETextEncoder
sam3.model.tokenizer_ve: bytes_to_unicode get_pairs basic_clean whitespace_clean get_clean_fn
  canonicalize_text SimpleTokenizer
sam3.model.utils:
sam3.model.utils.misc: copy_data_to_device
sam3.model.utils.sam1_utils: SAM2Transforms
sam3.model.utils.sam2_utils: AsyncVideoFrameLoader load_video_frames
  load_video_frames_from_jpg_images load_video_frames_from_video_file
sam3.model.vitdet: init_t_xy compute_axial_cis reshape_for_broadcast apply_rotary_enc
  window_partition window_unpartition get_rel_pos get_abs_pos concat_rel_pos PatchEmbed
  Attention Block ViT
sam3.model.vl_combiner: SAM3VLBackbone
sam3.perflib:
sam3.perflib.associate_det_trk: associate_det_trk
sam3.perflib.compile: recursive_fn_factory compile_wrapper shape_logging_wrapper
sam3.perflib.connected_components: connected_components_cpu_single connected_components_cpu
  connected_components
sam3.perflib.fa3: flash_attn_func_op flash_attn_func
sam3.perflib.masks_ops: masks_to_boxes mask_iou
sam3.perflib.nms: nms_masks generic_nms generic_nms_cpu
sam3.sam.common: MLPBlock LayerNorm2d
sam3.sam.mask_decoder: MaskDecoder MLP
sam3.sam.prompt_encoder: PromptEncoder PositionEmbeddingRandom
sam3.sam.rope: init_t_xy compute_axial_cis reshape_for_broadcast apply_rotary_enc complex_mult
  apply_rotary_enc_real broadcat rotate_half VisionRotaryEmbeddingVE
sam3.sam.transformer: TwoWayTransformer TwoWayAttentionBlock Attention RoPEAttention
"""


@functools.cache
def unoffered(module: str, name: str) -> type:
    """Return a class for a name of upstream's: to use it is an `UnsupportedError`."""

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        """Refuse what can be imported only: networks run in the core."""
        raise UnsupportedError(
            f"{module}.{name}: expected one of the names that docs/compat.md lists, found one that "
            "can be imported only: networks run in the core, by the predictors"
        )

    return type(name, (), {"__module__": module, "__new__": refuse, "__doc__": refuse.__doc__})


def add_unoffered(package: str) -> None:
    """Make the modules of one of upstream's packages that are not here importable.

    Parameters
    ----------
    package : str
        ``__name__`` of the drop-in, whose last part is upstream's name.
    """
    upstream = package.rpartition(".")[2]
    for line in _NAMES.replace("\n  ", " ").splitlines():
        module, _, names = line.partition(":")
        if module.partition(".")[0] != upstream:
            continue
        full = package + module.removeprefix(upstream)
        found = ModuleType(full, "Names of upstream's that can be imported only.")
        found.__path__ = []
        for name in names.split():
            setattr(found, name, unoffered(module, name))
        sys.modules.setdefault(full, found)
        parent = sys.modules.get(full.rpartition(".")[0])
        if parent is not None:
            setattr(parent, full.rpartition(".")[2], sys.modules[full])
