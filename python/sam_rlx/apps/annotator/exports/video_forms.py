"""Clips with their masks: an overlay as MP4, and what is cut out, with opacity, by frame."""

from pathlib import Path

import numpy as np

from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx.apps.annotator.exports.images_form import overlay_of
from sam_rlx.apps.annotator.exports.work import Options, Work, put_png


def write_overlay_clip(folder: Path, work: Work, options: Options) -> None:
    """Write ``overlay.mp4``: each frame with its masks."""
    clip = work.clip
    assert clip is not None
    by_frame = {still.frame: still for still in work.stills}
    with ClipWriter(folder / "overlay.mp4", clip.rate) as writer:
        for frame in range(clip.count):
            pixels = clip.read(frame)
            known = by_frame.get(frame)
            writer.add(pixels if known is None else overlay_of(known, pixels))


def write_alpha_frames(folder: Path, work: Work, options: Options) -> None:
    """Write ``000000.png``, ...: each frame as RGBA, opaque where an object is."""
    clip = work.clip
    assert clip is not None
    by_frame = {still.frame: still for still in work.stills}
    for frame in range(clip.count):
        pixels = clip.read(frame)
        opacity = np.zeros(clip.hw, np.uint8)
        for one in by_frame[frame].objects if frame in by_frame else ():
            opacity[one.pixels()] = 255
        put_png(folder, f"{frame:06d}.png", np.dstack([pixels, opacity]))
