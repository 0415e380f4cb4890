"""From decoded frames to RGB and to other sizes, by FFmpeg's filters.

The conversion is asked for by name: what PyAV's own does with the matrix of the colours and with
the chroma of 10 bits differs between its versions.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.media.frame_source import WAY_OUT
from sam_rlx._internal.media.orientation import Orientation, orientation
from sam_rlx.errors import InvalidArgumentError

_Steps = tuple[tuple[str, str], ...]
# Of FFmpeg's command and of OpenCV; of decord, with which upstream's SAM 2 reads video files.
_BICUBIC, _BILINEAR = "flags=bicubic", "flags=bilinear"


def deep_format(frame: Any) -> str | None:
    """Return the format of more than 8 bits that keeps the values of a grey or RGB frame.

    None: it has 8 bits, or is a video's YUV, whose range is not that of its bits.
    """
    layout = frame.format
    if layout.components[0].bits <= 8 or any(part.is_chroma for part in layout.components):
        return None
    return "rgb48le" if layout.is_rgb else "gray16le"


class ClipPixels:
    """Pixels of the frames of a video.

    Parameters
    ----------
    av : module
        PyAV.
    hw : (int, int)
        Height and width that all frames get, upright.
    value_range : (low, high), optional
        Values that become 0 and 255, for grey and RGB frames of more than 8 bits.
    """

    def __init__(
        self, av: Any, hw: tuple[int, int], value_range: tuple[float, float] | None
    ) -> None:
        self._av = av
        self._hw = hw
        self._range = value_range
        self._graph: tuple[Any, Any] | None = None

    def rgb(self, frame: Any) -> NDArray[np.uint8]:
        """Return a frame as RGB (H, W, 3), upright."""
        turned = orientation(frame)
        height, width = self._hw[::-1] if turned.transposed else self._hw
        deep = deep_format(frame)
        if deep is None and self._range is not None:
            raise InvalidArgumentError(
                "value_range: expected grey or RGB frames of more than 8 bits, found "
                f"{frame.format.name}"
            )
        if deep is None and (frame.height, frame.width) == (height, width):
            steps: _Steps = (("scale", _BICUBIC), ("format", "rgb24"))
            return turned.apply(self._filtered(frame, steps))
        if deep is not None:
            values = frame.to_ndarray(format=deep)
            pixels = as_rgb(values, stretch=self._range or False, way_out=WAY_OUT)
            frame = self._like(pixels, frame)
        return turned.apply(self._resized(frame, height, width, _BICUBIC))

    def square(self, frame: Any, side: int) -> NDArray[np.uint8]:
        """Return a frame as RGB (side, side, 3), upright, resized as it was decoded."""
        turned = orientation(frame)
        if deep_format(frame) is not None or self._range is not None:
            frame, turned = self._like(self.rgb(frame), frame), Orientation()
        steps = (*turned.filters, ("scale", f"{side}:{side}:{_BILINEAR}"), ("format", "rgb24"))
        return self._filtered(frame, steps)

    def _resized(self, frame: Any, height: int, width: int, flags: str) -> NDArray[np.uint8]:
        if (frame.height, frame.width) == (height, width):
            pixels: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
            return pixels
        return self._filtered(frame, (("scale", f"{width}:{height}:{flags}"), ("format", "rgb24")))

    def _like(self, pixels: NDArray[np.uint8], frame: Any) -> Any:
        """Return pixels as a frame with the times of another one."""
        new = self._av.VideoFrame.from_ndarray(pixels, format="rgb24")
        new.pts, new.time_base = frame.pts, frame.time_base
        return new

    def _filtered(self, frame: Any, steps: _Steps) -> NDArray[np.uint8]:
        # A call that stops halfway may leave a frame in the filter: the next one makes another.
        key = (steps, frame.width, frame.height, frame.format.name, frame.time_base)
        kept, self._graph = self._graph, None
        graph = kept[1] if kept is not None and kept[0] == key else self._make(frame, steps)
        graph.push(frame)
        pixels: NDArray[np.uint8] = graph.pull().to_ndarray(format="rgb24")
        self._graph = (key, graph)
        return pixels

    def _make(self, frame: Any, steps: Sequence[tuple[str, str]]) -> Any:
        graph = self._av.filter.Graph()
        format_ = {"width": frame.width, "height": frame.height, "format": frame.format}
        filters = [graph.add_buffer(**format_, time_base=frame.time_base)]
        filters += [graph.add(*step) for step in (*steps, ("buffersink", ""))]
        for first, second in pairwise(filters):
            first.link_to(second)
        graph.configure()
        return graph
