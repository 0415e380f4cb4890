"""Frames of videos, as transformers loads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.packages import optional
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.compat.transformers.image_utils import fetched, is_url
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_BACKENDS = ("decord", "pyav", "opencv", "torchvision", "torchcodec")


@dataclass
class VideoMetadata(Mapping[str, Any]):
    """What is known of a video, by names that are keys and attributes.

    Attributes
    ----------
    total_num_frames : int
        Frames that the file says it has.
    fps : float or None
        Frames in a second.
    width, height : int or None
        Pixels.
    duration : float or None
        Seconds.
    video_backend : str or None
        What read it.
    frames_indices : array of int or None
        The frames that were taken.
    """

    total_num_frames: int
    fps: float | None = None
    width: int | None = None
    height: int | None = None
    duration: float | None = None
    video_backend: str | None = None
    frames_indices: Any = None

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def __getitem__(self, item: str) -> Any:
        return getattr(self, item)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    @property
    def timestamps(self) -> list[float]:
        """Seconds of the frames that were taken."""
        if self.fps is None or self.frames_indices is None:
            raise InvalidArgumentError(
                "timestamps: expected fps and frames_indices of the video, found None"
            )
        return [index / self.fps for index in self.frames_indices]


def default_sample_indices_fn(
    metadata: VideoMetadata,
    num_frames: int | None = None,
    fps: float | None = None,
    **_: Any,
) -> NDArray[np.int64]:
    """Return the frames to take: `num_frames`, or `fps` in a second, evenly; or all.

    Raises
    ------
    InvalidArgumentError
        More frames are asked for than there are, or the video's `fps` is not known.
    """
    total = metadata.total_num_frames
    if num_frames is None and fps is not None:
        if metadata.fps is None:
            raise InvalidArgumentError("fps: expected a video that tells its own, found None")
        num_frames = max(1, int(total / metadata.fps * fps))
    if num_frames is None:
        return np.arange(total)
    if num_frames > total:
        raise InvalidArgumentError(
            f"num_frames: expected at most {total}, which the video has, found {num_frames}"
        )
    return np.arange(num_frames) * total // num_frames


def load_video(
    video: Any,
    num_frames: int | None = None,
    fps: float | None = None,
    backend: str = "pyav",
    sample_indices_fn: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Return frames of a video and what is known of it.

    Parameters
    ----------
    video : str or frames
        Name of a file or URL; frames are returned as they are.
    num_frames : int, optional
        Frames to take, evenly. Default: all.
    fps : float, optional
        Frames to take of a second, instead of `num_frames`.
    backend : str
        "pyav"; others of transformers' names are refused.
    sample_indices_fn : callable, optional
        Of `metadata` and `kwargs`: indices of the frames to take.

    Returns
    -------
    frames : uint8 array (T, H, W, 3)
        RGB.
    metadata : VideoMetadata, or list of None for frames that were given

    Raises
    ------
    ValueError
        Both `num_frames` and `fps`, or more frames than there are. Ours, as all errors here.
    TypeError
        A text that is neither a file nor a URL.
    ImportError
        PyAV is not installed.
    UnsupportedError
        Another `backend`.
    """
    if fps is not None and num_frames is not None and sample_indices_fn is None:
        raise InvalidArgumentError("fps: expected it without num_frames, found both")
    if not isinstance(video, str):
        return video, [None] * len(video)
    source: Any = fetched(video) if is_url(video) else video
    if not is_url(video) and not Path(video).is_file():
        raise ArgumentTypeError(f"video: expected a URL or the name of a file, found {video!r}")
    if backend != "pyav":
        known = f"one of {list(_BACKENDS)}" if backend not in _BACKENDS else "'pyav'"
        raise UnsupportedError(f"backend: expected {known}, found {backend!r}")

    def chosen(metadata: VideoMetadata) -> Any:
        if sample_indices_fn is not None:
            return sample_indices_fn(metadata=metadata, **kwargs)
        return default_sample_indices_fn(metadata, num_frames, fps, **kwargs)

    return _read(source, chosen)


def _read(
    source: Any, chosen: Callable[[VideoMetadata], Any]
) -> tuple[NDArray[np.uint8], VideoMetadata]:
    """Read the frames that `chosen` returns the indices of, in the order of the file."""
    av = optional("load_video", "av", "av")
    with av.open(source) as container:
        stream = container.streams.video[0]
        rate = stream.average_rate
        metadata = VideoMetadata(
            total_num_frames=int(stream.frames),
            fps=float(rate),
            duration=float(stream.frames / rate if rate else 0),
            video_backend="pyav",
            height=stream.height,
            width=stream.width,
        )
        metadata.frames_indices = chosen(metadata)
        wanted, last = set(map(int, metadata.frames_indices)), int(metadata.frames_indices[-1])
        frames = []
        for index, frame in enumerate(container.decode(video=0)):
            if index > last:
                break
            if index in wanted:
                frames.append(frame.to_ndarray(format="rgb24"))
    return np.stack(frames), metadata


__dir__ = public_names(__name__)
