"""One size for all frames of a video: that of the first one."""

import warnings

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.packages import optional
from sam_rlx.errors import MediaWarning


def resized_words(index: int, hw: tuple[int, int], first: tuple[int, int]) -> str:
    """Say that a frame, and others like it, get the size (H, W) of the first one."""
    return (
        f"frame {index} has {hw[0]} x {hw[1]} pixels; it and others of another size than "
        f"the first one are resized to {first[0]} x {first[1]}"
    )


class OneSize:
    """Resizes images of another size than the first frame, as FFmpeg does with those of a clip.

    Parameters
    ----------
    name : str
        Of the video, for the warning.

    Attributes
    ----------
    hw : (int, int) or None
        Height and width of the first frame; None until it has been given.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._told = False
        self.hw: tuple[int, int] | None = None

    def fit(self, index: int, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return frame `index` (H, W, 3) at the size of the first one, which comes before others.

        It is resized by Pillow's bicubic filter, the proportions are not kept.

        Raises
        ------
        MissingExtraError
            It is to be resized, and Pillow is not installed.

        Warns
        -----
        MediaWarning
            Once: frames have another size.
        """
        hw = (pixels.shape[0], pixels.shape[1])
        self.hw = self.hw or hw
        if hw == self.hw:
            return pixels
        if not self._told:
            self._told = True
            words = resized_words(index, hw, self.hw)
            warnings.warn(f"{self._name}: {words}", MediaWarning, stacklevel=5)
        images = optional("frames", "PIL.Image", "pillow")
        image = images.fromarray(np.ascontiguousarray(pixels))
        return np.array(image.resize(self.hw[::-1], images.Resampling.BICUBIC))
