"""What SAM 3 makes of images, texts and boxes: the methods of transformers' ``Sam3Model``."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import (
    ArgumentAssertionError,
    ArgumentAttributeError,
    ArgumentIndexError,
    ArgumentRuntimeError,
)
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers import configs
from sam_rlx.compat.transformers.base import PreTrainedModel
from sam_rlx.compat.transformers.batch import ModelOutput
from sam_rlx.compat.transformers.inputs import array_of, floats_of
from sam_rlx.compat.transformers.refusals import refuse_inner_values
from sam_rlx.compat.transformers.weights import array_at
from sam_rlx.errors import CheckpointError, InvalidArgumentError
from sam_rlx.model import Model

_PADDING = -10  # label of boxes that fill up a batch
_PRESENCE_LIMIT = 10.0  # of the presence's logit
_INNER = ("output_attentions", "output_hidden_states")


class Sam3ImageSegmentationOutput(ModelOutput):
    """What `Sam3Model` gives for B images, Q queries and masks of side h.

    Attributes
    ----------
    pred_masks : tensor (B, Q, h, h)
        Logits.
    pred_boxes : tensor (B, Q, 4)
        Corners as fractions of the sides; not clipped.
    pred_logits : tensor (B, Q)
    presence_logits : tensor (B, 1)
    semantic_seg : tensor (B, 1, h, h)
        Logits of all that the prompt shows.
    decoder_reference_boxes : tensor (layers, B, Q, 4)
        Centre, width and height that each layer of the decoder begins with.
    """

    fields = (
        "pred_masks",
        "pred_boxes",
        "pred_logits",
        "presence_logits",
        "semantic_seg",
        "decoder_hidden_states",
        "decoder_reference_boxes",
    )


class Sam3VisionEncoderOutput(ModelOutput):
    """What the image encoder gives for B images; g is the side of the trunk's map.

    Attributes
    ----------
    last_hidden_state : tensor (B, g * g, D)
        Of the trunk.
    fpn_hidden_states : tuple of tensor (B, C, h, w)
        Four maps, finest first.
    fpn_position_encoding : tuple of tensor (B, C, h, w)
        Sines of the positions of each.
    """

    fields = ("last_hidden_state", "fpn_hidden_states", "fpn_position_encoding")


class CLIPTextModelOutput(ModelOutput):
    """What the text encoder gives for N texts of L ids.

    Attributes
    ----------
    text_embeds : tensor (N, P)
        One vector a text.
    last_hidden_state : tensor (N, L, W)
    pooler_output : tensor (N, L, C)
        What `Sam3Model` reads. An attribute, which no key and no part of the tuple has.
    """

    fields = ("text_embeds", "last_hidden_state")
    pooler_output: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _text_output, (dict(self), self.pooler_output)


def _text_output(values: dict[str, Any], pooler_output: Any) -> CLIPTextModelOutput:
    output = CLIPTextModelOutput(**values)
    output.pooler_output = pooler_output
    return output


class Sam3PreTrainedModel(PreTrainedModel):
    """What the classes of SAM 3 with texts share."""


class Sam3Model(Sam3PreTrainedModel):
    """SAM 3: all that texts and boxes show on images. Made by ``from_pretrained``.

    A folder of `Sam3VideoModel` serves, too. Images and prompts are run one after the other: memory
    does not grow with their number.
    """

    config_class = configs.CLASSES["Sam3Config"]
    kinds = ("sam3", "sam3_video")
    takes_images = False

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return the epsilons of the settings, and transformers' rules of prompts."""
        sizes = _own_config(config)
        return {
            "trunk_epsilon": sizes.vision_config.backbone_config.layer_norm_eps,
            "text_epsilon": sizes.text_config.layer_norm_eps,
            "all_levels": True,
            "class_token": False,
            "presence_limit": _PRESENCE_LIMIT,
        }

    def _adopt(self, model: Model) -> None:
        self.model = model
        self._network = _core.ConceptNetwork(model.core)
        vars(self).pop("_text_projection", None)

    def forward(
        self,
        pixel_values: Any = None,
        vision_embeds: Any = None,
        input_ids: Any = None,
        attention_mask: Any = None,
        text_embeds: Any = None,
        input_boxes: Any = None,
        input_boxes_labels: Any = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Find all that texts and boxes show, one prompt for each image.

        Parameters
        ----------
        pixel_values : tensor (B, 3, S, S), optional
            Normalized images. Or:
        vision_embeds : Sam3VisionEncoderOutput, optional
            What `get_vision_features` gave.
        input_ids : tensor (B, L), optional
            Ids of the texts. Or:
        text_embeds : CLIPTextModelOutput or tensor (B, L, C), optional
            What `get_text_features` gave, or its `pooler_output`.
        attention_mask : tensor (B, L), optional
            1 for ids that count. Default: all.
        input_boxes : tensor (B, N, 4), optional
            Centre, width and height as fractions of the sides.
        input_boxes_labels : tensor (B, N), optional
            1 for boxes around what is meant, 0 around what is not, -10 for padding. Default: 1.
        return_dict : bool, optional
            False: a tuple.
        **kwargs
            Ignored, but for what asks for values from inside.

        Returns
        -------
        Sam3ImageSegmentationOutput

        Raises
        ------
        InvalidArgumentError, RuntimeError, IndexError
            Arguments do not fit together, or a value is out of range.
        """
        refuse_inner_values("forward", {name: kwargs.get(name) for name in _INNER})
        if (pixel_values is None) == (vision_embeds is None):
            raise InvalidArgumentError(
                "forward: expected pixel_values or vision_embeds, found both or neither"
            )
        if (input_ids is None) == (text_embeds is None):
            raise InvalidArgumentError(
                "forward: expected input_ids or text_embeds, found both or neither"
            )
        with self._turns:
            images = self._images(pixel_values, vision_embeds)
            texts = self._texts(input_ids, attention_mask, text_embeds)
            mask = _mask(attention_mask, texts.shape[:2])
            boxes, labels = _boxes(input_boxes, input_boxes_labels)
            texts, mask = _one_for_each(len(images), texts, mask, boxes)
            found = []
            for index, image in enumerate(images):
                image()
                own = _own_boxes(index, boxes, labels)
                padding = None if mask is None else ~mask[index]
                found.append(self._network.detect(texts[index], padding, *own, boxes is not None))
        output = _stacked(found)
        return output.to_tuple() if return_dict is False else output

    def get_vision_features(self, pixel_values: Any, **kwargs: Any) -> Sam3VisionEncoderOutput:
        """Encode images once, for `forward` with several prompts.

        Parameters
        ----------
        pixel_values : tensor (B, 3, S, S)
            Normalized images.
        **kwargs
            Ignored, but for what asks for values from inside.

        Returns
        -------
        Sam3VisionEncoderOutput

        Raises
        ------
        RuntimeError
            Images have another size.
        """
        refuse_inner_values("get_vision_features", {name: kwargs.get(name) for name in _INNER})
        pixels = self._pixels(pixel_values)
        with self._turns:
            found = [self._network.vision(image) for image in pixels]
            positions = self._network.position_encodings()
        levels = zip(*(each.fpn_hidden_states for each in found), strict=True)
        return Sam3VisionEncoderOutput(
            last_hidden_state=as_result(_batch([each.last_hidden_state for each in found])),
            fpn_hidden_states=tuple(as_result(_batch(list(level))) for level in levels),
            fpn_position_encoding=tuple(
                as_result(_batch([level] * len(pixels))) for level in positions
            ),
        )

    def get_text_features(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Encode texts once, for `forward` with several images.

        Parameters
        ----------
        input_ids : tensor (N, L)
            Ids of the texts.
        attention_mask : tensor (N, L), optional
            1 for ids that count. Default: all.
        return_dict : bool, optional
            False: a tuple.
        **kwargs
            Ignored, but for what asks for values from inside.

        Returns
        -------
        CLIPTextModelOutput

        Raises
        ------
        InvalidArgumentError
            Texts are longer than the encoder's positions.
        RuntimeError, IndexError
            The mask has another shape, or an id is not in the vocabulary.
        """
        refuse_inner_values("get_text_features", {name: kwargs.get(name) for name in _INNER})
        with self._turns:
            hidden, pooled = self._encode_texts(input_ids, attention_mask)
        ids = _ids(input_ids)
        end = self._text_config.eos_token_id
        first = (ids.argmax(axis=1) if end == 2 else (ids == end).argmax(axis=1)).tolist()
        ends = hidden[np.arange(len(ids)), first]
        output = CLIPTextModelOutput(
            text_embeds=as_result(ends @ self._text_projection.T),
            last_hidden_state=as_result(hidden),
        )
        output.pooler_output = as_result(pooled)
        return output.to_tuple() if return_dict is False else output

    # ---------------------------------------------------------------- the parts

    @property
    def _text_config(self) -> Any:
        return _own_config(self.config).text_config

    @cached_property
    def _text_projection(self) -> NDArray[np.float32]:
        """The weights (P, W) of the vector of a text, which the network has no use for."""
        checkpoint = _core.Checkpoint(self.model.source)
        for name, dtype, shape in checkpoint.tensors:
            if name.endswith("text_encoder.text_projection.weight"):
                found = array_at(checkpoint, name, dtype).reshape(shape)
                return np.asarray(found, np.float32)
        raise CheckpointError(
            f"{self.model.source}: expected text_encoder.text_projection.weight, found none"
        )

    def _pixels(self, pixel_values: Any) -> NDArray[np.float32]:
        pixels = floats_of("pixel_values", pixel_values)
        side = self.model.img_size
        if pixels.ndim != 4 or pixels.shape[1:] != (3, side, side):
            raise ArgumentRuntimeError(
                f"pixel_values: expected shape (B, 3, {side}, {side}), found {pixels.shape}"
            )
        return pixels

    def _images(self, pixel_values: Any, vision_embeds: Any) -> list[Any]:
        """Return calls that make each image that of the network."""
        if vision_embeds is None:
            pixels = self._pixels(pixel_values)
            return [_call(self._network.set_pixels, image) for image in pixels]
        try:
            *levels, _coarsest = vision_embeds.fpn_hidden_states
        except (AttributeError, TypeError, ValueError) as error:
            raise ArgumentAttributeError(
                "vision_embeds: expected what get_vision_features gave, found "
                f"{type(vision_embeds).__name__}"
            ) from error
        maps = [floats_of("vision_embeds", level) for level in levels]
        return [
            _call(self._network.set_levels, [level[index] for level in maps])
            for index in range(len(maps[0]))
        ]

    def _texts(self, input_ids: Any, attention_mask: Any, text_embeds: Any) -> NDArray[np.float32]:
        if text_embeds is None:
            return self._encode_texts(input_ids, attention_mask)[1]
        texts = floats_of("text_embeds", getattr(text_embeds, "pooler_output", text_embeds))
        width = _own_config(self.config).detr_encoder_config.hidden_size
        if texts.ndim != 3 or texts.shape[2] != width:
            raise ArgumentRuntimeError(
                f"text_embeds: expected shape (N, L, {width}), found {texts.shape}"
            )
        return texts

    def _encode_texts(
        self, input_ids: Any, attention_mask: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the hidden states (N, L, W) and the tokens (N, L, C) of texts."""
        ids = _ids(input_ids)
        sizes = self._text_config
        if ids.shape[1] > sizes.max_position_embeddings:
            raise InvalidArgumentError(
                f"input_ids: expected at most {sizes.max_position_embeddings} ids a text, found "
                f"{ids.shape[1]}: shorten the text"
            )
        if ids.size and not 0 <= ids.min() <= ids.max() < sizes.vocab_size:
            raise ArgumentIndexError(
                f"input_ids: expected 0 to {sizes.vocab_size - 1}, found {ids.min()} to {ids.max()}"
            )
        mask = _mask(attention_mask, ids.shape)
        found = self._network.text(ids, None if mask is None else ~mask)
        return (
            found.last_hidden_state.reshape(*ids.shape, -1),
            found.pooler_output.reshape(*ids.shape, -1),
        )


def _own_config(config: Any) -> Any:
    """Return the settings of the detector in those of a model for clips."""
    return getattr(config, "detector_config", None) or config


def _call(function: Any, argument: Any) -> Any:
    return lambda: function(argument)


def _ids(input_ids: Any) -> NDArray[np.int64]:
    """Return ids as (N, L); a single text may have no first axis."""
    ids = array_of("input_ids", input_ids)
    if ids.dtype.kind not in "iu" or not ids.ndim:
        raise ArgumentRuntimeError(f"input_ids: expected integers (N, L), found {ids.dtype}")
    return np.ascontiguousarray(ids.reshape(-1, ids.shape[-1]), np.int64)


def _mask(attention_mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Return which ids count."""
    if attention_mask is None:
        return None
    mask: NDArray[np.bool_] = array_of("attention_mask", attention_mask) != 0
    if mask.shape != shape:
        raise ArgumentRuntimeError(
            f"attention_mask: expected shape {shape}, that of the texts, found {mask.shape}"
        )
    if not mask.any(axis=1).all():
        raise InvalidArgumentError("attention_mask: expected an id that counts, found none")
    return mask


def _boxes(
    input_boxes: Any, input_boxes_labels: Any
) -> tuple[NDArray[np.float32] | None, NDArray[np.int64]]:
    """Return boxes (B, N, 4) and labels (B, N), or None if there are no boxes."""
    none = np.zeros((0, 0), np.int64)
    boxes: NDArray[Any] = none
    if input_boxes is not None:
        boxes = array_of("input_boxes", input_boxes)
    if not boxes.size:
        return None, none
    if boxes.ndim != 3 or boxes.shape[2] != 4 or boxes.dtype == np.float64:
        raise ArgumentRuntimeError(
            f"input_boxes: expected float32 (B, N, 4), found {boxes.dtype} {boxes.shape}"
        )
    labels: NDArray[np.int64] = np.ones(boxes.shape[:2], np.int64)
    if input_boxes_labels is not None:
        labels = array_of("input_boxes_labels", input_boxes_labels).astype(np.int64)
    if labels.ndim == 2 and boxes.shape[1] == 1:
        boxes = np.repeat(boxes, labels.shape[1], axis=1)  # as upstream's sum of both
    if labels.shape != boxes.shape[:2]:
        raise ArgumentAssertionError(
            f"input_boxes_labels: expected shape {boxes.shape[:2]}, found {labels.shape}"
        )
    known = (labels == 0) | (labels == 1) | (labels == _PADDING)
    if not known.all():
        raise ArgumentIndexError(
            f"input_boxes_labels: expected 0, 1 or {_PADDING}, found {labels[~known][0]}"
        )
    return np.ascontiguousarray(boxes, np.float32), labels


def _own_boxes(
    index: int, boxes: NDArray[np.float32] | None, labels: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the boxes of an image that count.

    As upstream, that is as many of the first as have a label, whichever those are; one that has
    none counts as what is not meant.
    """
    if boxes is None:
        return np.zeros((0, 4), np.float32), np.zeros(0, np.int32)
    own = labels[index]
    count = int((own != _PADDING).sum())
    return boxes[index, :count], np.maximum(own[:count], 0).astype(np.int32)


def _one_for_each(
    count: int,
    texts: NDArray[np.float32],
    mask: NDArray[np.bool_] | None,
    boxes: NDArray[np.float32] | None,
) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
    """Check that each image has a text and boxes; one text serves several images with boxes."""
    if boxes is not None and len(boxes) != count:
        raise ArgumentIndexError(
            f"input_boxes: expected those of {count} images, found {len(boxes)}"
        )
    if len(texts) == 1 and boxes is not None:
        texts = np.repeat(texts, count, axis=0)
        mask = None if mask is None else np.repeat(mask, count, axis=0)
    if len(texts) != count:
        raise ArgumentRuntimeError(
            f"forward: expected one text for each of {count} images, found {len(texts)}; for "
            "several texts on one image give vision_embeds again for each"
        )
    return texts, mask


def _batch(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return arrays of images as one; that of a single image is not copied."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)


def _stacked(found: list[_core.NetworkDetections]) -> Sam3ImageSegmentationOutput:
    presence = np.asarray([[each.presence_logit] for each in found], np.float32)
    references = [each.reference_boxes for each in found]
    return Sam3ImageSegmentationOutput(
        pred_masks=as_result(_batch([each.pred_masks for each in found])),
        pred_boxes=as_result(_batch([each.pred_boxes for each in found])),
        pred_logits=as_result(_batch([each.pred_logits for each in found])),
        presence_logits=as_result(presence),
        semantic_seg=as_result(_batch([each.semantic_seg for each in found])),
        decoder_reference_boxes=as_result(np.stack(references, axis=1)),
    )


__dir__ = public_names(__name__)
