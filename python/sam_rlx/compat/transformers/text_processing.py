"""Clips and texts for SAM 3, and what its model found as objects, boxes and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentKeyError, expects
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.batch import BatchFeature
from sam_rlx.compat.transformers.image_processors import Sam3ImageProcessor
from sam_rlx.compat.transformers.masks import listed
from sam_rlx.compat.transformers.processing_sam3 import ids_of
from sam_rlx.compat.transformers.text import CLIPTokenizer
from sam_rlx.compat.transformers.text_sessions import Sam3VideoInferenceSession
from sam_rlx.compat.transformers.video_processing import ClipProcessor
from sam_rlx.compat.transformers.video_processors import Sam2VideoVideoProcessor
from sam_rlx.errors import InvalidArgumentError

Masks = NDArray[np.bool_]


class Sam3VideoProcessor(ClipProcessor):
    """Clips and texts for `Sam3VideoModel`.

    Parameters
    ----------
    image_processor : Sam3ImageProcessor
        Of the frames of a stream.
    video_processor : Sam2VideoVideoProcessor
        Of the frames of a clip.
    tokenizer : CLIPTokenizer
    target_size : int, optional
        Side of the network's input. Default: that of the image processor.
    """

    parts: ClassVar[Mapping[str, Any]] = {
        "image_processor": Sam3ImageProcessor,
        "video_processor": Sam2VideoVideoProcessor,
        "tokenizer": CLIPTokenizer,
    }
    tokenizer: Any
    _session = Sam3VideoInferenceSession

    def __init__(
        self,
        image_processor: Any,
        video_processor: Any,
        tokenizer: Any,
        target_size: int | None = None,
    ) -> None:
        self._set_parts(
            image_processor=image_processor, video_processor=video_processor, tokenizer=tokenizer
        )
        self._set_target_size(target_size)

    def __call__(
        self,
        images: Any = None,
        segmentation_maps: Any = None,
        original_sizes: Any = None,
        return_tensors: Any = None,
        **kwargs: Any,
    ) -> BatchFeature:
        """Prepare frames of a stream.

        Parameters
        ----------
        images, segmentation_maps
            As `ImageProcessor.preprocess` takes them.
        original_sizes : (B, 2), optional
            Heights and widths, where images are not given.
        return_tensors : str, optional
            "pt", "np" or None.
        **kwargs
            Settings of images.

        Returns
        -------
        BatchFeature
            `pixel_values`, of which the model takes one at a time, and `original_sizes`.

        Raises
        ------
        ValueError
            Neither images nor sizes. Ours, as all errors here.
        """
        return self._images_or_sizes(
            images, segmentation_maps, original_sizes, return_tensors, kwargs
        )

    @expects("a session, and a text or a list of texts")
    def add_text_prompt(self, inference_session: Sam3VideoInferenceSession, text: Any) -> Any:
        """Give a session texts; what each names is followed beside the others.

        Parameters
        ----------
        inference_session : Sam3VideoInferenceSession
        text : str or list of str
            One that the session has already stays as it is.

        Returns
        -------
        Sam3VideoInferenceSession
            The same.
        """
        session = inference_session
        for each in [text] if isinstance(text, str) else text:
            number = session.add_prompt(each)
            if number not in session.prompt_input_ids:
                ids = ids_of(self.tokenizer, each, "pt")
                session.prompt_input_ids[number] = ids["input_ids"]
                session.prompt_attention_masks[number] = ids["attention_mask"]
        return session

    def postprocess_outputs(
        self,
        inference_session: Sam3VideoInferenceSession,
        model_outputs: Any,
        original_sizes: Any = None,
    ) -> dict[str, Any]:
        """Return what a frame shows, at the size of the clip.

        Parameters
        ----------
        inference_session : Sam3VideoInferenceSession
        model_outputs : Sam3VideoSegmentationOutput
            Of the session. Objects that a run has removed since then are left out.
        original_sizes : (height, width), or list or tensor of one such pair, optional
            Of the frame: a stream needs it.

        Returns
        -------
        dict
            ``object_ids`` int64 (N,), ascending; ``scores`` float32 (N,), with which each was
            found; ``boxes`` float32 (N, 4): first and last column and row, before masks of one text
            are cut so that they do not overlap; ``masks`` bool (N, H, W); ``prompt_to_obj_ids``:
            the objects of each text.

        Raises
        ------
        ValueError
            A stream without a size. Ours.
        KeyError
            The session has forgotten an object of the outputs.
        """
        height, width = _size(inference_session, original_sizes)
        logits = model_outputs["obj_id_to_mask"]
        hidden = {
            *(model_outputs["suppressed_obj_ids"] or ()),
            *inference_session.hotstart_removed_obj_ids,
        }
        ids = [obj_id for obj_id in sorted(logits) if obj_id not in hidden]
        masks = np.zeros((0, height, width), np.bool_)
        if ids:
            masks = _resized([logits[obj_id] for obj_id in ids], (height, width))
            seen = [index for index, mask in enumerate(masks) if mask.any()]
            ids, masks = [ids[index] for index in seen], masks[seen]
        known = inference_session.obj_id_to_prompt_id
        if unknown := [obj_id for obj_id in ids if obj_id not in known]:
            raise ArgumentKeyError(
                f"model_outputs: expected objects of the session, found {unknown}, which it forgot"
            )
        texts = [known[obj_id] for obj_id in ids]
        boxes = _boxes(masks)
        if len(ids) > 1:
            sure = model_outputs["obj_id_to_tracker_score"]
            scores = np.asarray([sure.get(obj_id, 0.0) for obj_id in ids], np.float32)
            for text in set(texts):
                members = np.asarray(texts) == text
                masks[members] = _apart(masks[members], scores[members])
        named: dict[str, list[int]] = {}
        for obj_id, text in zip(ids, texts, strict=True):
            named.setdefault(inference_session.prompts[text], []).append(obj_id)
        found = [model_outputs["obj_id_to_score"][obj_id] for obj_id in ids]
        return {
            "object_ids": as_result(np.asarray(ids, np.int64)),
            "scores": as_result(np.asarray(found, np.float32)),
            "boxes": as_result(boxes),
            "masks": as_result(masks),
            "prompt_to_obj_ids": named,
        }


def _size(session: Sam3VideoInferenceSession, original_sizes: Any) -> tuple[int, int]:
    if session.video_height is not None and session.video_width is not None:
        return int(session.video_height), int(session.video_width)
    if original_sizes is None:
        raise InvalidArgumentError(
            "original_sizes: expected (height, width) of the stream's frames, found None"
        )
    sizes = listed(original_sizes)
    first = listed(sizes[0])
    height, width = first if isinstance(first, (list, tuple)) else sizes[:2]
    return int(height), int(width)


def _resized(logits: list[Any], size: tuple[int, int]) -> Masks:
    """Return masks (N, H, W) of logits (1, h, w) each."""
    planes = np.concatenate([np.asarray(to_array(each, np.float32)) for each in logits])
    found = _core.postprocess_masks(planes, size, threshold=0.0, num_threads=0)
    return np.asarray(found, np.bool_)


def _boxes(masks: Masks) -> NDArray[np.float32]:
    """Return first and last column and row of masks that are not empty."""
    boxes = np.zeros((len(masks), 4), np.float32)
    for row, mask in zip(boxes, masks, strict=True):
        columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
        row[:] = columns[0], rows[0], columns[-1], rows[-1]
    return boxes


def _apart(masks: Masks, scores: NDArray[np.float32]) -> Masks:
    """Return masks of which at each pixel the surest stays, if it is sure at all."""
    scored = np.where(masks, scores[:, None, None], np.float32(0))
    is_best = scored.argmax(axis=0) == np.arange(len(masks))[:, None, None]
    apart: Masks = is_best & (scored > 0)
    return apart


__dir__ = public_names(__name__)
