"""SAM 2, EdgeTAM and SAM 3 with clicks: masks of an image from points, boxes and masks."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers import configs
from sam_rlx.compat.transformers.batch import ModelOutput
from sam_rlx.compat.transformers.click_models import (
    ClickModel,
    Map,
    check_labels,
    check_one,
    check_shape,
)
from sam_rlx.compat.transformers.click_prompts import sam2_prompts
from sam_rlx.compat.transformers.inputs import floats_of
from sam_rlx.errors import InvalidArgumentError


class Sam2ImageSegmentationOutput(ModelOutput):
    """What `Sam2Model` and its like give.

    ``iou_scores`` (B, P, M), ``pred_masks`` (B, P, M, 4g, 4g), ``object_score_logits`` (B, P, 1)
    and ``image_embeddings``, three maps.
    """

    fields = (
        *("iou_scores", "pred_masks", "object_score_logits", "image_embeddings"),
        *("vision_hidden_states", "vision_attentions", "mask_decoder_attentions"),
    )


class EdgeTamImageSegmentationOutput(Sam2ImageSegmentationOutput):
    """What `EdgeTamModel` gives: as `Sam2ImageSegmentationOutput`."""


class Sam3TrackerImageSegmentationOutput(Sam2ImageSegmentationOutput):
    """What `Sam3TrackerModel` gives: as `Sam2ImageSegmentationOutput`."""


class Sam2VisionEncoderOutput(ModelOutput):
    """What ``get_image_features`` gives: maps, and the encoding of their positions."""

    fields = (
        *("last_hidden_state", "fpn_hidden_states", "fpn_position_encoding", "hidden_states"),
        "attentions",
    )


class Sam2PreTrainedModel(ClickModel):
    """What the classes of SAM 2 share."""

    # Whether the coarsest map holds the embedding that says that there is no memory.
    _adds_no_memory: ClassVar[bool] = True
    _features: ClassVar[type[ModelOutput]] = Sam2VisionEncoderOutput

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return the epsilons of the settings, and that padding points are tokens of zeros."""
        backbone = config.vision_config.backbone_config
        return {
            "trunk_epsilon": getattr(backbone, "layer_norm_eps", None),
            "prompt_epsilon": config.prompt_encoder_config.layer_norm_eps,
            "padding_label": True,
        }

    def _maps(self, values: Any) -> list[Map]:
        grid, found = self.model.mask_side // 4, list(values)
        channels = self.config.vision_config.fpn_hidden_size
        if len(found) != 3:
            raise InvalidArgumentError(f"image_embeddings: expected 3 maps, found {len(found)}")
        shapes = [(channels // 8, 4 * grid), (channels // 4, 2 * grid), (channels, grid)]
        return [
            check_shape("image_embeddings", floats_of("image_embeddings", each), (c, side, side))
            for each, (c, side) in zip(found, shapes, strict=True)
        ]

    def get_image_embeddings(self, pixel_values: Any, **kwargs: Any) -> list[Any]:
        """Return the embeddings of normalized images.

        Parameters
        ----------
        pixel_values : tensor or array
            Float32 (B, 3, S, S), as the processor gives them.
        **kwargs
            Without effect.

        Returns
        -------
        list of tensor or array
            Float32 (B, C / 8, 4g, 4g), (B, C / 4, 2g, 2g) and (B, C, g, g).

        Raises
        ------
        RuntimeError
            Images of another size.
        """
        self._refuse_inner(kwargs)
        pixels = self._pixels(pixel_values, ArgumentRuntimeError)
        maps = self._encode(pixels, no_mem_embed=self._adds_no_memory)
        return [as_result(each) for each in maps]

    def get_image_features(self, pixel_values: Any, **kwargs: Any) -> Any:
        """Return what the image encoder gives.

        Parameters
        ----------
        pixel_values : tensor or array
            Float32 (B, 3, S, S).
        **kwargs
            ``return_dict=False`` gives a tuple; others have no effect.

        Returns
        -------
        Sam2VisionEncoderOutput
            ``last_hidden_state``, the trunk's coarsest map; ``fpn_hidden_states``, three maps
            (HW, B, C) as the decoder takes them; ``fpn_position_encoding`` of the same sides.

        Raises
        ------
        RuntimeError
            Images of another size.
        """
        self._refuse_inner(kwargs)
        pixels = self._pixels(pixel_values, ArgumentRuntimeError)
        *maps, last = self._encode(pixels, no_mem_embed=False, all_maps=True)
        encodings = self._network.position_encodings()
        count = pixels.shape[0]
        rows = [np.ascontiguousarray(np.moveaxis(m.reshape(*m.shape[:2], -1), 2, 0)) for m in maps]
        codes = [np.repeat(e.reshape(-1, 1, e.shape[-1]), count, axis=1) for e in encodings]
        output = self._features(
            last_hidden_state=as_result(last),
            fpn_hidden_states=[as_result(each) for each in rows],
            fpn_position_encoding=[as_result(each) for each in codes],
        )
        return output.to_tuple() if kwargs.get("return_dict") is False else output

    def get_prompt_embeddings(
        self,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        input_masks: Any = None,
    ) -> tuple[Any, Any]:
        """Return the embeddings of prompts.

        Parameters
        ----------
        input_points, input_labels, input_boxes, input_masks : tensor or array, optional
            As for `forward`; masks have sides of 4g.

        Returns
        -------
        tuple
            Sparse ones (B, P, T, C) or None, and dense ones (B, C, g, g), both float32.

        Raises
        ------
        ValueError
            Points have no labels.
        """
        check_labels(input_points, input_labels)
        side = self.model.mask_side
        return self._prompt_embeddings(
            sam2_prompts(input_points, input_labels, input_boxes, input_masks, side)
        )

    def forward(
        self,
        pixel_values: Any = None,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        input_masks: Any = None,
        image_embeddings: Any = None,
        multimask_output: Any = True,
        attention_similarity: Any = None,
        target_embedding: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Make masks of P objects on each of B images.

        Parameters
        ----------
        pixel_values : tensor or array, optional
            Float32 (B, 3, S, S), as the processor gives them.
        input_points : tensor or array, optional
            (B, P, N, 2): x and y in pixels of the network's input.
        input_labels : tensor or array, optional
            (B, P, N) int64 or int32: 1 on the object, 0 not on it, -1 none, 2 and 3 the corners of
            a box, -10 padding. Default: 1.
        input_boxes : tensor or array, optional
            (B, P, 4): x0, y0, x1, y1.
        input_masks : tensor or array, optional
            Float32 (B, 1, H, W): logits of an earlier mask, of any size.
        image_embeddings : list of tensor or array, optional
            Of `get_image_embeddings`, instead of `pixel_values`.
        multimask_output : bool
            Three masks of each object, or one.
        attention_similarity, target_embedding
            Refused.
        **kwargs
            ``return_dict=False`` gives a tuple; others have no effect.

        Returns
        -------
        Sam2ImageSegmentationOutput
            Scores and logits of masks, of objects, and the embeddings, float32.

        Raises
        ------
        ValueError
            Neither or both of pixels and embeddings, or counts of objects that differ.
        IndexError
            Points that have not 4 axes, or a label above 3.
        RuntimeError
            Images of another size, labels of another type, other shapes that do not fit.
        """
        self._refuse_inner(
            kwargs, attention_similarity=attention_similarity, target_embedding=target_embedding
        )
        check_one(pixel_values, image_embeddings)
        if input_points is None and input_boxes is None:
            images = cast("Any", pixel_values if image_embeddings is None else image_embeddings[-1])
            input_points = np.zeros((images.shape[0], 1, 1, 2), np.float32)
            input_labels = np.full((images.shape[0], 1, 1), -1, np.int32)
        prompts = sam2_prompts(input_points, input_labels, input_boxes, input_masks)
        if pixel_values is not None:
            pixels = self._pixels(pixel_values, ArgumentRuntimeError)
            maps = list(self._encode(pixels, no_mem_embed=self._adds_no_memory))
        else:
            maps = self._maps(image_embeddings)
        values = self._decode(maps, prompts, multimask_output)
        values["image_embeddings"] = [as_result(each) for each in maps]
        return self._result(values, kwargs)


class EdgeTamPreTrainedModel(Sam2PreTrainedModel):
    """What EdgeTAM's classes share."""


class Sam3TrackerPreTrainedModel(Sam2PreTrainedModel):
    """What the classes of SAM 3 with clicks share."""


class Sam2Model(Sam2PreTrainedModel):
    """SAM 2: masks of an image from points, boxes and masks. Made by ``from_pretrained``.

    A folder of `Sam2VideoModel` serves, too.
    """

    config_class = configs.CLASSES["Sam2Config"]
    kinds = ("sam2", "sam2_video")
    _output = Sam2ImageSegmentationOutput


class EdgeTamModel(EdgeTamPreTrainedModel):
    """EdgeTAM: masks of an image from points, boxes and masks. Made by ``from_pretrained``.

    A folder of `EdgeTamVideoModel` serves, too.
    """

    config_class = configs.CLASSES["EdgeTamConfig"]
    kinds = ("edgetam", "edgetam_video")
    _output = EdgeTamImageSegmentationOutput


class Sam3TrackerModel(Sam3TrackerPreTrainedModel):
    """SAM 3 with clicks: masks of an image from points, boxes and masks.

    Made by ``from_pretrained``. Folders of `Sam3TrackerVideoModel` and `Sam3VideoModel` serve, too.
    """

    config_class = configs.CLASSES["Sam3TrackerConfig"]
    kinds: ClassVar[tuple[str, ...]] = ("sam3_tracker", "sam3_tracker_video", "sam3_video")
    _output = Sam3TrackerImageSegmentationOutput
    # transformers adds it to a level that no decoder reads.
    _adds_no_memory = False

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return those of SAM 2, of the part of the settings that is the tracker's."""
        return super().rules(getattr(config, "tracker_config", config))


__dir__ = public_names(__name__)
