"""Upstream's package of SAM 3, made importable and runnable without a GPU.

Besides `support.upstream`, this is the only file of the tests that imports upstream.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from sam_rlx.apps.parity import packages

from support import upstream


class _Cpu(upstream.ArgumentMode):
    """Turn each request for a GPU into one for the CPU."""

    kinds = frozenset((str, torch.device))
    instead = dict.fromkeys((torch.Tensor.cuda, torch.Tensor.pin_memory), lambda tensor: tensor)
    active = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if kwargs and "pin_memory" in kwargs:
            kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
        return super().__torch_function__(func, types, args, kwargs)

    def change(self, value: Any) -> Any:
        kind = value if isinstance(value, str) else value.type
        return torch.device("cpu") if kind.startswith("cuda") else value


@contextmanager
def on_cpu() -> Iterator[None]:
    """Run upstream code that asks for a GPU on the CPU: constructors, boxes, the tracker."""
    if _Cpu.active:  # around this block too
        yield
        return
    with _Cpu(), warnings.catch_warnings(), mock.patch.object(_Cpu, "active", True):
        warnings.filterwarnings("ignore", ".*(CUDA|cuda).*", UserWarning)
        yield


_MODULES = (
    "box_ops",
    "data_misc",
    "decoder",
    "encoder",
    "geometry_encoders",
    "maskformer_segmentation",
    "memory",
    "model_misc",
    "necks",
    "position_encoding",
    "sam1_task_predictor",
    "sam3_image",
    "sam3_image_processor",
    "sam3_tracker_utils",
    "sam3_tracking_predictor",
    "sam3_video_base",
    "sam3_video_inference",
    "sam3_video_predictor",
    "text_encoder_ve",
    "tokenizer_ve",
    "vitdet",
    "vl_combiner",
)


def _load_sam3() -> SimpleNamespace:
    packages._stand_in_for_triton()
    with on_cpu(), upstream.uncompiled():
        m = SimpleNamespace(
            **{name: importlib.import_module(f"sam3.model.{name}") for name in _MODULES}
        )
        from sam3.perflib import connected_components, masks_ops, nms
        from sam3.sam import mask_decoder, prompt_encoder
        from sam3.sam import transformer as two_way

    return SimpleNamespace(
        # Modules, for what has no name of its own here.
        box_ops=m.box_ops,
        connected_components=connected_components,
        data_misc=m.data_misc,
        decoder=m.decoder,
        encoder=m.encoder,
        geometry_encoders=m.geometry_encoders,
        masks_ops=masks_ops,
        maskformer_segmentation=m.maskformer_segmentation,
        memory=m.memory,
        model_misc=m.model_misc,
        nms=nms,
        tracker_utils=m.sam3_tracker_utils,
        video_inference=m.sam3_video_inference,
        vitdet=m.vitdet,
        # Classes.
        DotProductScoring=m.model_misc.DotProductScoring,
        FindStage=m.data_misc.FindStage,
        MLP=m.model_misc.MLP,
        MaskDecoder=mask_decoder.MaskDecoder,
        MultiheadAttention=m.model_misc.MultiheadAttentionWrapper,
        PixelDecoder=m.maskformer_segmentation.PixelDecoder,
        PositionEmbeddingSine=m.position_encoding.PositionEmbeddingSine,
        Prompt=m.geometry_encoders.Prompt,
        PromptEncoder=prompt_encoder.PromptEncoder,
        RoPEAttention=two_way.RoPEAttention,
        SAM3InteractiveImagePredictor=m.sam1_task_predictor.SAM3InteractiveImagePredictor,
        SAM3VLBackbone=m.vl_combiner.SAM3VLBackbone,
        Sam3DualViTDetNeck=m.necks.Sam3DualViTDetNeck,
        Sam3Image=m.sam3_image.Sam3Image,
        Sam3ImageOnVideoMultiGPU=m.sam3_image.Sam3ImageOnVideoMultiGPU,
        Sam3Processor=m.sam3_image_processor.Sam3Processor,
        Sam3VideoBase=m.sam3_video_base.Sam3VideoBase,
        Sam3VideoPredictor=m.sam3_video_predictor.Sam3VideoPredictor,
        Sam3TrackerPredictor=m.sam3_tracking_predictor.Sam3TrackerPredictor,
        SequenceGeometryEncoder=m.geometry_encoders.SequenceGeometryEncoder,
        SimpleTokenizer=m.tokenizer_ve.SimpleTokenizer,
        TransformerDecoder=m.decoder.TransformerDecoder,
        TransformerDecoderLayer=m.decoder.TransformerDecoderLayer,
        TransformerEncoderFusion=m.encoder.TransformerEncoderFusion,
        TransformerEncoderLayer=m.encoder.TransformerEncoderLayer,
        TransformerWrapper=m.model_misc.TransformerWrapper,
        TwoWayTransformer=two_way.TwoWayTransformer,
        UniversalSegmentationHead=m.maskformer_segmentation.UniversalSegmentationHead,
        VETextEncoder=m.text_encoder_ve.VETextEncoder,
        ViT=m.vitdet.ViT,
    )


sam3 = _load_sam3()
