"""What a source of frames is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx.errors import InvalidArgumentError

FrameKind: TypeAlias = Literal["images", "folder", "clip"]
Range: TypeAlias = tuple[float, float] | None
# What messages of frames advise for values of another range.
WAY_OUT = (
    "frames.open_frames(frames, value_range=(low, high)) maps the same values of all frames to 0 "
    "and 255; sam-rlx track has --range=LOW,HIGH"
)


class EndOfFrames(Exception):
    """A source without a known length has no such frame."""


class FrameSource(Protocol):
    """Frames by number, decoded when they are asked for."""

    @property
    def kind(self) -> FrameKind:
        """Where they come from: upstream's loaders resize each in its own way."""

    @property
    def count(self) -> int | None:
        """Number of frames, None if it is not known."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that are read; none of images in memory."""

    def name(self, index: int) -> str:
        """Return the name of frame `index` for its results: that of its file, or the number."""

    def time(self, index: int) -> Fraction | None:
        """Return when frame `index` is shown, in seconds from the first one; None: not known."""

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index` as RGB (H, W, 3)."""


# The pixels of a frame, RGB (H, W, 3), alone or with the size (H, W) that they had.
GivenFrame: TypeAlias = NDArray[np.uint8] | tuple[NDArray[np.uint8], tuple[int, int]]


class SessionSource(Protocol):
    """What a session of the core asks for frames, one call each: `FrameSource` in C++."""

    @property
    def count(self) -> int | None:
        """Number of frames, None until the end is found."""

    def read(self, index: int, side: int | None) -> GivenFrame | None:
        """Return a frame, with a side as a square and its size; None if the video has ended."""


def numbered(index: int) -> str:
    """Return the name of a frame that has no file of its own."""
    return f"{index:05d}"


def no_channel(found: str) -> InvalidArgumentError:
    """Return the error for a channel that cannot be chosen."""
    return InvalidArgumentError(
        f"channel: expected None for anything but a TIFF stack that tells its axes, found {found}"
    )
