"""The video processor of SAM 2 and SAM 3: frames as the image processors have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensors import as_result, is_torch
from sam_rlx.compat.transformers.batch import BatchFeature, tensor_kind
from sam_rlx.compat.transformers.image_processing import IMAGE_PROCESSOR_FILE, ImageProcessor
from sam_rlx.compat.transformers.image_processors import Sam2ImageProcessor, frames_of
from sam_rlx.compat.transformers.images import is_image
from sam_rlx.compat.transformers.masks import post_process
from sam_rlx.compat.transformers.pixels import image_pixels
from sam_rlx.compat.transformers.video_utils import load_video
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_OF_IMAGES = ("disable_grouping", "image_seq_length", "mask_size", "mask_pad_size", "pad_size")
_OF_VIDEOS = ("do_sample_frames", "video_metadata", "fps", "num_frames", "return_metadata")


class Sam2VideoVideoProcessor(ImageProcessor):
    """Frames of clips for `Sam2VideoModel` and its siblings: squares of 1024.

    Parameters, attributes and methods are `ImageProcessor`'s; the file is
    ``video_preprocessor_config.json``.
    """

    file_name = "video_preprocessor_config.json"
    part_name = "video_processor"
    names = (*(name for name in ImageProcessor.names if name not in _OF_IMAGES), *_OF_VIDEOS)
    defaults = {  # noqa: RUF012
        **{k: v for k, v in Sam2ImageProcessor.defaults.items() if k != "mask_size"},
        "return_metadata": False,
    }

    @classmethod
    def _files(cls) -> tuple[str, ...]:
        return (cls.file_name, IMAGE_PROCESSOR_FILE)

    def preprocess(self, videos: Any, **kwargs: Any) -> BatchFeature:  # type: ignore[override]
        """Return what the network takes for the frames of videos.

        Parameters
        ----------
        videos : video or list of videos
            A video is a list of PIL images or of arrays, an array (T, H, W, 3) or (T, 3, H, W), one
            image, or the name of a file.
        **kwargs
            Settings of this call, and `return_tensors`, as `ImageProcessor.preprocess` takes them.

        Returns
        -------
        BatchFeature
            `original_sizes` and `reshaped_input_sizes` int64 (B, 2), `pixel_values_videos` float32
            (B, T, 3, S, S).

        Raises
        ------
        ValueError
            Frames of one video have different sizes, or something is no video. Ours.
        """
        settings = self._settings(kwargs)
        if settings["do_sample_frames"]:
            raise UnsupportedError(
                "do_sample_frames: expected False, found True; choose frames with load_video"
            )
        parts = [image_pixels(frames, settings, self._hw) for frames in as_videos(videos)]
        kind = tensor_kind(settings["return_tensors"])
        planes = [np.asarray(part.planes) for part in parts]
        data = {
            "original_sizes": [part.original_sizes[0] for part in parts],
            "reshaped_input_sizes": [part.resized_sizes[0] for part in parts],
            "pixel_values_videos": planes if kind else [as_result(each) for each in planes],
        }
        return BatchFeature(data, kind)

    def post_process_masks(
        self,
        masks: Any,
        original_sizes: Any,
        reshaped_input_sizes: Any,
        mask_threshold: float = 0.0,
        binarize: bool = True,
        pad_size: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """Return masks at the size of frames, as `SamImageProcessor.post_process_masks`."""
        return post_process(
            masks,
            original_sizes,
            threshold=mask_threshold,
            binarize=binarize,
            frames=frames_of(pad_size or vars(self)["size"], reshaped_input_sizes),
        )


def as_videos(videos: Any) -> list[list[Any]]:
    """Return videos as lists of frames: PIL images or arrays.

    Parameters
    ----------
    videos : video or list of videos
        As `Sam2VideoVideoProcessor.preprocess` takes them.

    Raises
    ------
    InvalidArgumentError
        Something else, or frames of different sizes.
    """
    if isinstance(videos, str):
        return [list(load_video(videos)[0])]
    if _is_stack(videos):
        return [list(videos)]
    if is_image(videos):
        return [[videos]]
    if not isinstance(videos, (list, tuple)):
        raise InvalidArgumentError(f"videos: expected frames, found {type(videos).__name__}")
    if videos and all(is_image(each) and not _is_stack(each) for each in videos):
        sizes = {_size(each) for each in videos}
        if len(sizes) > 1:
            raise InvalidArgumentError(f"videos: expected frames of one size, found {sizes}")
        return [list(videos)]
    return [video for each in videos for video in as_videos(each)]


def _is_stack(value: Any) -> bool:
    return (isinstance(value, np.ndarray) or is_torch(value)) and value.ndim == 4


def _size(frame: Any) -> tuple[int, ...]:
    return tuple(frame.shape if hasattr(frame, "shape") else frame.size)


__dir__ = public_names(__name__)
