"""Image processors: from images to a network's input, and from mask logits back to images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.image_processing import ImageProcessor
from sam_rlx.compat.transformers.masks import Frames, listed, post_process
from sam_rlx.compat.transformers.pixels import Pixels, label_maps
from sam_rlx.compat.transformers.pixels_pil import PIL
from sam_rlx.compat.transformers.sizes import Hw, SizeDict, longest_edge_hw

_IMAGENET = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
_HALVES = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}


class SamImageProcessor(ImageProcessor):
    """Image processor of SAM and SAM-HQ: the longer side becomes 1024, the rest of the square is 0.

    Parameters, attributes and methods are `ImageProcessor`'s. Results have `reshaped_input_sizes`
    int64 (B, 2) too: the size of each image in the square.
    """

    defaults = ImageProcessor.defaults | {
        "do_pad": True,
        "size": {"longest_edge": 1024},
        "pad_size": {"height": 1024, "width": 1024},
        "mask_size": {"longest_edge": 256},
        "mask_pad_size": {"height": 256, "width": 256},
        **_IMAGENET,
    }

    def _hw(self, hw: Hw, size: SizeDict) -> Hw:
        return longest_edge_hw(hw, size)

    def _image_data(self, pixels: Pixels) -> dict[str, Any]:
        return super()._image_data(pixels) | {"reshaped_input_sizes": pixels.resized_sizes}

    def _labels(self, maps: Any, settings: dict[str, Any], kind: str | None) -> Any:
        found = label_maps(maps, settings, self._hw, self._backend)
        return found if kind is not None else [as_result(each) for each in found]

    def post_process_masks(
        self,
        masks: Any,
        original_sizes: Any,
        reshaped_input_sizes: Any,
        mask_threshold: float = 0.0,
        binarize: bool = True,
        pad_size: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """Return masks at the size of images, without the pad.

        Parameters
        ----------
        masks : array or tensor (B, P, M, h, w), or list of (P, M, h, w)
            Logits.
        original_sizes, reshaped_input_sizes : (B, 2)
            Heights and widths of images, and of what they became, as the processor gives them.
        mask_threshold : float
            Logits above it are inside.
        binarize : bool
            Give bool; else logits, float32.
        pad_size : dict, optional
            `height` and `width` of the network's input. Default: the processor's.

        Returns
        -------
        list of array or tensor (P, M, H, W)
            One for each image.

        Raises
        ------
        TypeError, ValueError, IndexError
            As `masks.post_process` says. Ours.
        """
        return post_process(
            masks,
            original_sizes,
            threshold=mask_threshold,
            binarize=binarize,
            frames=frames_of(pad_size or vars(self)["pad_size"], reshaped_input_sizes),
        )


class SamImageProcessorPil(SamImageProcessor):
    """Image processor of SAM that resizes with Pillow, whose bytes are others.

    Parameters, attributes and methods are `SamImageProcessor`'s.
    """

    _backend = PIL

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, as they are written: under the name of `SamImageProcessor`."""
        return super().to_dict() | {"image_processor_type": "SamImageProcessor"}


class Sam2ImageProcessor(ImageProcessor):
    """Image processor of SAM 2 and EdgeTAM: images become squares of 1024.

    Parameters, attributes and methods are `ImageProcessor`'s.
    """

    names = tuple(name for name in ImageProcessor.names if name != "mask_pad_size")
    defaults = ImageProcessor.defaults | {
        "size": {"height": 1024, "width": 1024},
        "mask_size": {"height": 256, "width": 256},
        **_IMAGENET,
    }

    def post_process_masks(
        self,
        masks: Any,
        original_sizes: Any,
        mask_threshold: float = 0.0,
        binarize: bool = True,
        max_hole_area: float = 0.0,
        max_sprinkle_area: float = 0.0,
        apply_non_overlapping_constraints: bool = False,
        **_: Any,
    ) -> list[Any]:
        """Return masks at the size of images.

        Parameters
        ----------
        masks : array or tensor (B, P, M, h, w), or list of (P, M, h, w)
            Logits.
        original_sizes : (B, 2)
            Heights and widths of images, as the processor gives them.
        mask_threshold : float
            Logits above it are inside.
        binarize : bool
            Give bool; else logits, float32.
        max_hole_area, max_sprinkle_area : float
            Without effect, as upstream.
        apply_non_overlapping_constraints : bool
            Where objects overlap, only the one with the largest logit stays.

        Returns
        -------
        list of array or tensor (P, M, H, W)
            One for each image.

        Raises
        ------
        TypeError, ValueError, IndexError
            As `masks.post_process` says. Ours.
        """
        return post_process(
            masks,
            original_sizes,
            threshold=mask_threshold,
            binarize=binarize,
            non_overlapping=apply_non_overlapping_constraints,
        )


class Sam3ImageProcessor(Sam2ImageProcessor):
    """Image processor of SAM 3: images become squares of 1008.

    Parameters, attributes and methods are `ImageProcessor`'s.
    """

    defaults = Sam2ImageProcessor.defaults | {
        "size": {"height": 1008, "width": 1008},
        "mask_size": {"height": 288, "width": 288},
        **_HALVES,
    }


_KINDS = {
    kind.__name__: kind for kind in (SamImageProcessor, Sam2ImageProcessor, Sam3ImageProcessor)
}


def image_processor_class(
    settings: Mapping[str, Any], default: type[ImageProcessor]
) -> type[ImageProcessor]:
    """Return the class that settings of an image processor name; `default` where it is not here."""
    name = str(settings.get("image_processor_type", "")).removesuffix("Fast")
    return _KINDS.get(name, default)


def frames_of(pad_size: Any, sizes: Any) -> Frames:
    """Return where images lie in an input of size `pad_size`, a dictionary or `SizeDict`."""
    return Frames((pad_size["height"], pad_size["width"]), listed(sizes))


__dir__ = public_names(__name__)
