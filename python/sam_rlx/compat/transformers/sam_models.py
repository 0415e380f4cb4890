"""SAM and SAM-HQ: masks of an image from points, boxes and masks."""

from __future__ import annotations

from typing import Any

from sam_rlx._internal.public import public_names
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
from sam_rlx.compat.transformers.click_prompts import ClickPrompts, sam_prompts
from sam_rlx.compat.transformers.inputs import floats_of
from sam_rlx.compat.transformers.notes import warn_once
from sam_rlx.errors import InvalidArgumentError


class SamImageSegmentationOutput(ModelOutput):
    """What `SamModel` gives: ``iou_scores`` (B, P, M), ``pred_masks`` (B, P, M, 4g, 4g)."""

    fields = (
        *("iou_scores", "pred_masks", "vision_hidden_states", "vision_attentions"),
        "mask_decoder_attentions",
    )


class SamHQImageSegmentationOutput(SamImageSegmentationOutput):
    """What `SamHQModel` gives: as `SamImageSegmentationOutput`."""


class SamPreTrainedModel(ClickModel):
    """What SAM's classes share."""

    base_model_prefix = "sam"

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return the epsilons of the settings, and that padding points are tokens of zeros."""
        return {
            "trunk_epsilon": config.vision_config.layer_norm_eps,
            "prompt_epsilon": config.prompt_encoder_config.layer_norm_eps,
            "decoder_epsilon": config.mask_decoder_config.layer_norm_eps,
            "padding_label": True,
        }

    def _embedding(self, value: Any) -> Map:
        grid = self.model.mask_side // 4
        channels = self.config.vision_config.output_channels
        found = floats_of("image_embeddings", value)
        return check_shape("image_embeddings", found, (channels, grid, grid))

    def _prompts(self, points: Any, labels: Any, boxes: Any, masks: Any) -> ClickPrompts:
        return sam_prompts(points, labels, boxes, masks, self.model.mask_side)

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
            As for `forward`.

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
        return self._prompt_embeddings(
            self._prompts(input_points, input_labels, input_boxes, input_masks)
        )


class SamModel(SamPreTrainedModel):
    """SAM: masks of an image from points, boxes and masks. Made by ``from_pretrained``."""

    config_class = configs.CLASSES["SamConfig"]
    kinds = ("sam",)
    _output = SamImageSegmentationOutput

    def get_image_embeddings(self, pixel_values: Any, **kwargs: Any) -> Any:
        """Return the embeddings of normalized images.

        Parameters
        ----------
        pixel_values : tensor or array
            Float32 (B, 3, S, S), as the processor gives them.
        **kwargs
            Without effect.

        Returns
        -------
        tensor or array
            Float32 (B, C, g, g).

        Raises
        ------
        ValueError
            Images of another size.
        """
        self._refuse_inner(kwargs)
        return as_result(self._encode(self._pixels(pixel_values, InvalidArgumentError))[0])

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
            (B, P, N): 1 on the object, 0 not on it, -1 none, -10 padding. Default: 1.
        input_boxes : tensor or array, optional
            (B, P, 4): x0, y0, x1, y1.
        input_masks : tensor or array, optional
            Float32 (B, 1, 4g, 4g): logits of an earlier mask.
        image_embeddings : tensor or array, optional
            Of `get_image_embeddings`, instead of `pixel_values`.
        multimask_output : bool
            Three masks of each object, or one.
        attention_similarity, target_embedding
            Refused.
        **kwargs
            ``return_dict=False`` gives a tuple; others have no effect.

        Returns
        -------
        SamImageSegmentationOutput
            Scores and logits of masks, float32.

        Raises
        ------
        ValueError
            Neither or both of pixels and embeddings, images of another size, points that have not 4
            axes, counts of objects or images that differ.
        RuntimeError
            Other shapes do not fit.
        """
        self._refuse_inner(
            kwargs, attention_similarity=attention_similarity, target_embedding=target_embedding
        )
        check_one(pixel_values, image_embeddings)
        prompts = self._prompts(input_points, input_labels, input_boxes, input_masks)
        if pixel_values is not None:
            embedding = self._encode(self._pixels(pixel_values, InvalidArgumentError))[0]
        else:
            embedding = self._embedding(image_embeddings)
        if prompts.points is not None and prompts.points.shape[0] != embedding.shape[0]:
            raise InvalidArgumentError(
                f"input_points: expected points of {embedding.shape[0]} images, found "
                f"{prompts.points.shape[0]}"
            )
        return self._result(self._decode([embedding], prompts, multimask_output), kwargs)


class SamHQPreTrainedModel(SamPreTrainedModel):
    """What SAM-HQ's classes share."""


class SamHQModel(SamHQPreTrainedModel):
    """SAM-HQ: as `SamModel`, with finer masks. Made by ``from_pretrained``.

    transformers 5.24 makes its masks of the map before the decoder's transformer, with rows and
    columns swapped, and so does this class; `sam_rlx.ImagePredictor` and
    `sam_rlx.compat.segment_anything_hq` follow SAM-HQ's own code.
    """

    config_class = configs.CLASSES["SamHQConfig"]
    kinds = ("sam_hq",)
    _output = SamHQImageSegmentationOutput

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return those of SAM, and which map masks are made of."""
        warn_once(
            "SamHQModel: masks are those of transformers 5.24, which makes them of another map "
            "than SAM-HQ's own code; sam_rlx.ImagePredictor gives SAM-HQ's"
        )
        return {**super().rules(config), "swapped_map": True}

    def get_image_embeddings(self, pixel_values: Any) -> Any:
        """Return the embeddings of normalized images.

        Parameters
        ----------
        pixel_values : tensor or array
            Float32 (B, 3, S, S).

        Returns
        -------
        tuple
            The embeddings (B, C, g, g), and a list of maps (B, g, g, D) from inside the trunk.

        Raises
        ------
        ValueError
            Images of another size.
        """
        pixels = self._pixels(pixel_values, InvalidArgumentError)
        embedding, *early = self._encode(pixels, all_maps=True)
        return as_result(embedding), [as_result(each) for each in early]

    def forward(
        self,
        pixel_values: Any = None,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        input_masks: Any = None,
        image_embeddings: Any = None,
        multimask_output: Any = True,
        hq_token_only: Any = False,
        attention_similarity: Any = None,
        target_embedding: Any = None,
        intermediate_embeddings: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Make masks of P objects on each of B images.

        Parameters
        ----------
        pixel_values, input_points, input_labels, input_boxes, input_masks, image_embeddings
            As `SamModel.forward`.
        multimask_output : bool
            Three masks of each object, the best one first, or one.
        hq_token_only : bool
            The HQ token's mask alone, instead of its sum with each of SAM's.
        attention_similarity, target_embedding
            Refused.
        intermediate_embeddings : list of tensor or array, optional
            The second part of `get_image_embeddings`, with `image_embeddings`.
        **kwargs
            As `SamModel.forward`.

        Returns
        -------
        SamHQImageSegmentationOutput
            Scores and logits of masks, float32.

        Raises
        ------
        ValueError, RuntimeError
            As `SamModel.forward`.
        """
        self._refuse_inner(
            kwargs, attention_similarity=attention_similarity, target_embedding=target_embedding
        )
        check_one(pixel_values, image_embeddings)
        prompts = self._prompts(input_points, input_labels, input_boxes, input_masks)
        if pixel_values is not None:
            maps = list(self._encode(self._pixels(pixel_values, InvalidArgumentError)))
        else:
            maps = [self._embedding(image_embeddings)]
            if intermediate_embeddings:
                maps.append(self._early(intermediate_embeddings[0], maps[0].shape[2]))
        values = self._decode(maps, prompts, multimask_output, hq_token_only)
        return self._result(values, kwargs)

    def _early(self, value: Any, grid: int) -> Map:
        found = floats_of("intermediate_embeddings", value)
        channels = self.config.mask_decoder_config.vit_dim
        return check_shape("intermediate_embeddings", found, (grid, grid, channels))


__dir__ = public_names(__name__)
