"""Features of images in the states of `Sam3Processor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentKeyError
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.errors import InvalidArgumentError


class BackboneOut(dict[str, Any]):
    """Upstream's ``backbone_out``: what was computed of images and texts.

    ``encoded`` holds what the decoder takes, arrays or tensors whose first axis counts the images:
    programs cut it by ``[i : i + 1]`` to get the state of one of several. Other keys
    of upstream's, such as ``backbone_fpn``, are an error: the core has no such maps.
    """

    def __missing__(self, key: str) -> Any:
        raise ArgumentKeyError(
            f"backbone_out: expected one of {sorted(self)}, found "
            f"{key!r}; Sam3Processor and predict_inst take the state itself"
        )


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
