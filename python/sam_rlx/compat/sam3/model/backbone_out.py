"""Features of images in the states of `Sam3Processor`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentKeyError
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

_MAPS = ("vision_features", "vision_pos_enc", "backbone_fpn")


class BackboneOut(dict[str, Any]):
    """Upstream's ``backbone_out``: what was computed of images and texts.

    ``encoded`` holds what the decoder takes, arrays or tensors whose first axis counts the images:
    programs cut it by ``[i : i + 1]`` to get the state of one of several. Upstream's maps,
    ``backbone_fpn`` and its like, are computed of the images when they are asked for, which
    nothing here needs; a change of them has no effect on what is found. A pickle has those that
    were asked for before.

    Parameters
    ----------
    values : mapping
        Parts by their keys.
    network : sam_rlx.Model, optional
        The model that gives the maps of `images`.
    images : sequence of ndarray, uint8 (H, W, 3)
        What was encoded.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        network: Model | None = None,
        images: Sequence[NDArray[np.uint8]] = (),
    ) -> None:
        super().__init__(values)
        self._network, self._images = network, images

    def __reduce__(self) -> tuple[Any, ...]:
        return BackboneOut, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> BackboneOut:
        return BackboneOut(copy.deepcopy(dict(self), memo), self._network, self._images)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key in _MAPS and self._network is not None)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the part of a key, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default

    def __missing__(self, key: str) -> Any:
        if self._network is not None and key in _MAPS:
            self.update(_maps(self._network, self._images))
            return self[key]
        raise ArgumentKeyError(
            f"backbone_out: expected one of {sorted(self)}, found "
            f"{key!r}; Sam3Processor and predict_inst take the state itself"
        )


def _maps(model: Model, images: Sequence[NDArray[np.uint8]]) -> dict[str, Any]:
    """Return upstream's maps of images (H, W, 3), and the encodings of their positions."""
    network, side = _core.ConceptNetwork(model.core), model.img_size
    pixels = np.stack([_core.resize_image(image, (side, side)) for image in images])
    planes = pixels.transpose(0, 3, 1, 2) / np.float32(127.5) - np.float32(1)
    found = zip(*(network.vision(image).fpn_hidden_states for image in planes), strict=True)
    levels = [np.stack(level) for level in found]
    positions = network.position_encodings()[: len(levels)]
    maps = [as_result(level) for level in levels]
    return {
        "vision_features": maps[-1],
        "vision_pos_enc": [as_result(np.stack([each] * len(images))) for each in positions],
        "backbone_fpn": maps,
    }


def _arrays(out: Mapping[str, Any]) -> list[NDArray[np.float32]]:
    arrays = [to_array(part, np.float32) for part in out.get("encoded", ())]
    if not arrays:
        raise InvalidArgumentError(
            f"backbone_out: expected one of set_image with its encoded, found {sorted(out)}"
        )
    return [array for array in arrays if array is not None]


def one_image(out: Mapping[str, Any]) -> list[NDArray[np.float32]]:
    """Return what was computed of the one image; several are an `InvalidArgumentError`."""
    arrays = _arrays(out)
    counts = sorted({len(array) for array in arrays})
    if counts != [1]:
        raise InvalidArgumentError(
            f"state: expected one of one image, found one of several, {counts}; cut each part of "
            "backbone_out by [i : i + 1], or call set_image for each"
        )
    return arrays


def together(images: Sequence[Sequence[NDArray[np.float32]]]) -> list[Any]:
    """Return features of several images, whose first axis is 1, as one with all of them."""
    parts = zip(*images, strict=True)
    return [as_result(part[0] if len(part) == 1 else np.concatenate(part)) for part in parts]


__dir__ = public_names(__name__)
