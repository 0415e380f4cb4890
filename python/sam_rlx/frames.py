"""Frames of a video by number, as `VideoPredictor` sees them."""

from sam_rlx._public import public_names
from sam_rlx._video.frames import FrameSource, open_frames

__all__ = ["FrameSource", "open_frames"]

__dir__ = public_names(__name__)
