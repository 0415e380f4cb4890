"""What a predictor's core knows of an image, beside the attributes that programs read and set."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.compat.common.tensor import to_array

Arrays = tuple[NDArray[np.float32], ...]


class EncodedCore:
    """A core predictor with the features that it holds, so that others are given to it in time.

    Programs keep a predictor's features and set them later, or change them in place. So features
    are compared with those of the core by their values before each use. It can be pickled and
    copied: a copy begins without an image.

    Parameters
    ----------
    make : callable
        Makes the core predictor; a function or class of a module with its arguments.
    *args
        Arguments of `make`.
    """

    def __init__(self, make: Callable[..., _core.ImagePredictor], *args: Any) -> None:
        self._make = make, args
        self.core = make(*args)
        self._held: Arrays | None = None
        self._orig_hw: tuple[int, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        make, args = self._make
        return EncodedCore, (make, *args)

    def encode(self, image: NDArray[np.uint8]) -> Arrays:
        """Encode an image (H, W, 3) and return its features."""
        self._held = None
        self.core.set_image(image)
        return self._hold(self.core.image_embeddings, image.shape[:2])

    def encode_input(self, pixel_values: NDArray[np.float32], orig_hw: tuple[int, int]) -> Arrays:
        """Do the same with the network's input (1, 3, S, S) for an image of this size."""
        self._held = None
        self.core.set_input(pixel_values, orig_hw)
        return self._hold(self.core.image_embeddings, orig_hw)

    def _hold(self, features: Arrays, orig_hw: tuple[int, int]) -> Arrays:
        self._held, self._orig_hw = tuple(map(np.copy, features)), orig_hw
        return features

    def use(self, features: Sequence[Any], orig_hw: tuple[int, int]) -> _core.ImagePredictor:
        """Return the core with these features as its image."""
        arrays = tuple(_features(part) for part in features)
        held = self._held
        same = held is not None and len(held) == len(arrays) and self._orig_hw == orig_hw
        if not (same and held and all(map(np.array_equal, held, arrays))):
            self._held = None
            self.core.set_image_embeddings(arrays, orig_hw)
            self._hold(arrays, orig_hw)
        return self.core

    def reset(self) -> None:
        """Forget the image."""
        self._held = None
        self.core.reset_image()


def make_core(model: Any, *args: Any) -> _core.ImagePredictor:
    """Make the core's predictor of a `sam_rlx.Model` for all cores."""
    return _core.ImagePredictor(model.core, 0, *args)


def _features(part: Any) -> NDArray[np.float32]:
    array = to_array(part, np.float32)
    assert array is not None
    return array
