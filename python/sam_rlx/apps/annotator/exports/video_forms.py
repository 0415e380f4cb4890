"""Clips with their masks: an overlay as MP4, and what is cut out, with opacity, by frame."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.packages import optional
from sam_rlx.apps.annotator.exports.images_form import overlay_of
from sam_rlx.apps.annotator.exports.work import Options, Work, put_png
from sam_rlx.errors import UnsupportedError

_ANIMATION = "qtrle"


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
    for frame, pixels in enumerate(_with_opacity(work)):
        put_png(folder, f"{frame:06d}.png", pixels)


def write_alpha_clip(folder: Path, work: Work, options: Options) -> None:
    """Write ``alpha.mov``, QuickTime Animation: each frame with its opacity, without loss.

    Its pixels are those of the frames: FFmpeg's conversion to the YUVA of ProRes writes some wrong.
    """
    clip = work.clip
    assert clip is not None
    av = optional("clip", "av", "av")
    if _ANIMATION not in av.codecs_available:
        raise UnsupportedError(f"clip: expected an encoder of {_ANIMATION}, found none")
    rate = Fraction(clip.rate).limit_denominator(1001)
    with av.open(str(folder / "alpha.mov"), "w", format="mov") as container:
        stream = container.add_stream(_ANIMATION, rate=rate)
        stream.height, stream.width = clip.hw
        stream.pix_fmt = "argb"
        for pixels in _with_opacity(work):
            argb = np.ascontiguousarray(pixels[..., [3, 0, 1, 2]])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(argb, format="argb")))
        container.mux(stream.encode(None))


def _with_opacity(work: Work) -> Iterator[NDArray[np.uint8]]:
    """Yield each frame as RGBA (H, W, 4), opaque where an object is."""
    clip = work.clip
    assert clip is not None
    by_frame = {still.frame: still for still in work.stills}
    for frame in range(clip.count):
        opacity = np.zeros(clip.hw, np.uint8)
        for one in by_frame[frame].objects if frame in by_frame else ():
            opacity[one.pixels()] = 255
        yield np.dstack([clip.read(frame), opacity])
