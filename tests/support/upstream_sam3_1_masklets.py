"""Meta's whole video model of SAM 3.1 at a small size: everything that a text names.

Its code is on no package index. It is used where it stands before the package sam3 on the path; no
such test runs otherwise. `tests/data/make_sam3_1_texts.py` records what it gives.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from support import (
    multiplex_reference,
    multiplex_sessions,
    tiny,
    tiny_sam3,
    tiny_sam3_1,
    upstream,
    upstream_sam3,
    upstream_sam3_masklets,
    upstream_sam3_video,
    upstream_video,
)

_torch: Any = vars(upstream)["torch"]
_sam3: Any = upstream_sam3.sam3
_PUBLIC = multiplex_reference.PUBLIC
Session = upstream_sam3_masklets.Session
play = upstream_sam3_masklets.play

# Meta's builder's values.
RELEASED: dict[str, Any] = {
    "score_threshold_detection": 0.4,
    "det_nms_thresh": 0.1,
    "det_nms_use_iom": True,
    "assoc_iou_thresh": 0.1,
    "new_det_thresh": 0.65,
    "hotstart_delay": 15,
    "hotstart_unmatch_thresh": 8,
    "hotstart_dup_thresh": 8,
    "suppress_unmatched_only_within_hotstart": False,
    "suppress_overlapping_based_on_recent_occlusion_threshold": 0.7,
    "suppress_det_close_to_boundary": True,
    "fill_hole_area": 0,
    "recondition_every_nth_frame": 16,
    "use_iom_recondition": True,
    "iom_thresh_recondition": 0.5,
    "masklet_confirmation_enable": True,
    "reconstruction_bbox_iou_thresh": -1,
    "reconstruction_bbox_det_score": 0.8,
    "max_num_objects": 16,
}


def weights(seed: int, queries: int = 40, presence: float = 1.0) -> tiny.Weights:
    """Draw weights of a model that finds some of what it is asked for."""
    config = tiny_sam3_1.with_queries(queries)
    values = multiplex_sessions.weights(seed, presence, config)[1]
    values["detector.transformer.decoder.presence_token_head.layers.2.bias"] += 1
    values["detector.dot_prod_scoring.hs_proj.weight"] *= 2
    return values


def _modules() -> SimpleNamespace:
    names = (
        *("sam3_multiplex_base", "sam3_multiplex_detector", "sam3_multiplex_tracking"),
        *("necks", "vl_combiner"),
    )
    properties = mock.patch.object(
        _torch.cuda, "get_device_properties", return_value=SimpleNamespace(major=0)
    )
    with properties, upstream_sam3.on_cpu(), upstream.uncompiled():
        return SimpleNamespace(
            **{name: importlib.import_module(f"sam3.model.{name}") for name in names}
        )


def _detector(m: Any, config: tiny_sam3.Sam3Config) -> Any:
    trunk = upstream_sam3.vit(config)
    neck = m.necks.Sam3TriViTDetNeck(
        trunk=trunk,
        position_encoding=upstream_sam3.position_encoding(config.d_model),
        d_model=config.d_model,
        scale_factors=list(config.scale_factors),
    )
    return m.sam3_multiplex_detector.Sam3MultiplexDetector(
        num_feature_levels=1,
        backbone=m.vl_combiner.SAM3VLBackboneTri(
            scalp=config.scalp, visual=neck, text=upstream_sam3.text_encoder(config)
        ),
        transformer=_sam3.TransformerWrapper(
            encoder=upstream_sam3.fusion_encoder(config),
            decoder=upstream_sam3.decoder(config),
            d_model=config.d_model,
        ),
        segmentation_head=upstream_sam3.segmentation_head(config),
        semantic_segmentation_head=None,
        input_geometry_encoder=upstream_sam3.geometry_encoder(config),
        use_early_fusion=True,
        use_dot_prod_scoring=True,
        dot_prod_scoring=upstream_sam3.scoring(config),
        supervise_joint_box_scores=True,
        is_multiplex=True,
    )


def _transformer(config: tiny_sam3.Sam3Config) -> Any:
    width, grid = config.d_model, config.grid
    rope = {"d_model": width, "num_heads": 8, "rope_theta": 10000.0, "feat_sizes": [grid, grid]}
    decoder = _PUBLIC.decoder
    layer = decoder.DecoupledTransformerDecoderLayerv2(
        activation="gelu",
        d_model=width,
        num_heads=8,
        dropout=0.1,
        dim_feedforward=2048,
        pos_enc_at_attn=False,
        pre_norm=True,
        pos_enc_at_cross_attn_keys=True,
        pos_enc_at_cross_attn_queries=False,
        self_attention_rope=decoder.SimpleRoPEAttention(**rope, dropout_p=0.1),
        cross_attention_rope=decoder.SimpleRoPEAttention(**rope, dropout_p=0.1, rope_k_repeat=True),
    )
    encoder = decoder.TransformerEncoderDecoupledCrossAttention(
        d_model=width,
        frozen=False,
        pos_enc_at_input=True,
        use_image_in_output=False,
        layer=layer,
        num_layers=4,
        use_act_checkpoint=False,
        batch_first=True,
    )
    return _sam3.TransformerWrapper(encoder=encoder, decoder=None, d_model=width)


def _memory_encoder(config: tiny_sam3.Sam3Config) -> Any:
    width, memory = config.d_model, _PUBLIC.memory
    block = memory.CXBlock(
        dim=width, kernel_size=7, padding=3, layer_scale_init_value=1e-6, use_dwconv=True
    )
    return memory.SimpleMaskEncoder(
        out_dim=width,
        in_dim=width,
        position_encoding=upstream_sam3.position_encoding(width),
        mask_downsampler=memory.SimpleMaskDownSampler(
            embed_dim=width,
            kernel_size=3,
            stride=2,
            padding=1,
            interpol_size=[16 * config.grid, 16 * config.grid],
            multiplex_count=tiny_sam3_1.SLOTS,
            starting_out_chan=4,
            input_channel_multiplier=2,
        ),
        fuser=memory.SimpleFuser(layer=block, num_layers=2),
    )


def _tracker(config: tiny_sam3.Sam3Config) -> Any:
    slots = tiny_sam3_1.SLOTS
    return _PUBLIC.demo.Sam3VideoTrackingMultiplexDemo(
        backbone=None,
        transformer=_transformer(config),
        maskmem_backbone=_memory_encoder(config),
        multiplex_controller=_PUBLIC.multiplex_utils.MultiplexController(
            multiplex_count=slots, eval_multiplex_count=slots
        ),
        image_size=config.img_size,
        backbone_stride=config.patch_size,
        num_maskmem=7,
        use_high_res_features_in_sam=True,
        use_obj_ptrs_in_encoder=True,
        max_obj_ptrs_in_encoder=16,
        add_tpos_enc_to_obj_ptrs=True,
        proj_tpos_enc_in_obj_ptrs=True,
        use_mlp_for_obj_ptr_proj=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        fixed_no_obj_ptr=True,
        use_no_obj_ptr=True,
        use_linear_no_obj_ptr=True,
        no_obj_embed_spatial=True,
        sincos_tpos_enc=True,
        multimask_output_in_sam=True,
        multimask_output_for_tracking=True,
        multimask_min_pt_num=0,
        multimask_max_pt_num=1,
        use_multimask_token_for_obj_ptr=True,
        num_multimask_outputs=3,
        apply_sigmoid_to_mask_logits_for_mem_enc=True,
        sigmoid_scale_for_mem_enc=2.0,
        sigmoid_bias_for_mem_enc=-1.0,
        non_overlap_masks_for_mem_enc=False,
        add_output_suppression_embeddings=True,
        add_object_conditional_embeddings=False,
        condition_as_mask_input=True,
        use_maskmem_tpos_v2=True,
        save_image_features=True,
        randomness_fix=True,
        use_mask_input_as_output_without_sam=True,
        directly_add_no_mem_embed=True,
        iou_prediction_use_sigmoid=False,
        forward_backbone_per_frame_for_eval=True,
        max_cond_frames_in_attn=4,
        is_dynamic_model=True,
        sam_mask_decoder_extra_args={
            "dynamic_multimask_via_stability": True,
            "dynamic_multimask_stability_delta": 0.05,
            "dynamic_multimask_stability_thresh": 0.98,
        },
        use_memory_selection=False,
    )


def video_model(values: tiny.Weights, **options: Any) -> Any:
    """Build the model as Meta's builder does, and load the weights of a file."""
    m = _modules()
    queries = len(values["detector.transformer.decoder.query_embed.weight"])
    config = tiny_sam3_1.with_queries(queries)

    class Model(m.sam3_multiplex_tracking.Sam3MultiplexTrackingWithInteractivity):  # type: ignore[misc,name-defined]
        """Hides what hot start removes, as SAM 3's does; Meta's notes it nowhere here."""

        def run_tracker_update_planning_phase(self, *args: Any, **rest: Any) -> Any:
            plan, metadata = super().run_tracker_update_planning_phase(*args, **rest)
            removed = metadata["rank0_metadata"]["removed_obj_ids"]
            removed.update(plan["obj_ids_newly_removed"])
            return plan, metadata

        def remove_object(
            self, state: Any, obj_id: int, frame_idx: int | None = None, **rest: Any
        ) -> Any:
            return super().remove_object(state, obj_id, frame_idx, **rest)

    with upstream_sam3.on_cpu(), upstream.uncompiled():
        tracker = m.sam3_multiplex_base.Sam3MultiplexPredictorWrapper(_tracker(config))
        tracker.bf16_context.__exit__(None, None, None)
        model = Model(
            tracker=tracker,
            detector=_detector(m, config),
            **{**RELEASED, **options},
            postprocess_batch_size=16,
            use_batched_grounding=True,
            batched_grounding_batch_size=16,
            max_num_kboxes=0,
            sprinkle_removal_area=0,
            is_multiplex=True,
            image_size=config.img_size,
        ).eval()
    upstream.load_state_dict(model, values)
    return model


def _refresh(model: Any) -> None:
    upstream_sam3.refresh(model)
    for child in model.modules():
        if isinstance(child, _PUBLIC.decoder.SimpleRoPEAttention):
            side = round(len(child.freqs_cis) ** 0.5)
            child.freqs_cis = child.compute_cis(end_x=side, end_y=side)


@contextmanager
def _running(frames: Any, hw: tuple[int, int]) -> Iterator[None]:
    tracking = importlib.import_module("sam3.model.sam3_multiplex_tracking")
    with ExitStack() as stack:
        stack.enter_context(upstream_sam3_video.stand_ins())
        stack.enter_context(
            mock.patch.object(tracking, "load_resource_as_video_frames", return_value=(frames, *hw))
        )
        stack.enter_context(mock.patch.object(tracking.perflib, "is_enabled", False))
        yield


def _play(model: Any, frames: NDArray[np.uint8], script: Session, dtype: Any) -> list[Any]:
    images = upstream_sam3_video.input_images(frames, model.image_size, dtype)
    with _running(images, (frames.shape[1], frames.shape[2])):
        _refresh(model)
        return script(model, model.init_state("clip.mp4"))


def run(model: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run a script (model, state) -> results in float32."""
    with upstream_video.NoBFloat16():
        return _play(model, frames, script, _torch.float32)


def run64(model: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run the same in float64."""
    double: Any = upstream.double(model)
    with upstream.float64():
        return _play(double, frames, script, _torch.float64)
