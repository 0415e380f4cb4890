"""Frames of a video by number, as `VideoPredictor` sees them."""

from sam_rlx._internal.media.frames import FrameSource, open_frames
from sam_rlx._internal.public import public_names

__all__ = ["FrameSource", "open_frames"]

__dir__ = public_names(__name__)
