"""Which frames a clip has: from its packets where they tell, else by decoding it once."""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sam_rlx._internal.media.clip_packets import packet_check
from sam_rlx._internal.media.orientation import upright_hw

# Where each packet gives one frame. Others have hidden frames, or packets that repeat a frame.
_PLAIN_CODECS = {"h264", "hevc", "av1", "vp9", "prores", "mjpeg", "ffv1"}
_DECODERS = {"libdav1d": "av1", "libaom-av1": "av1", "libvpx-vp9": "vp9"}  # of others: their codecs
_PLAIN_FORMATS = {"mov", "matroska", "flv"}
# So many frames are decoded to see whether the first packets give the frames that they promise.
_PROBED = 3


@dataclass(frozen=True)
class ClipIndex:
    """Frames in the order in which they are shown.

    Attributes
    ----------
    count : int
        Number of frames that the decoder gives.
    times : list of int, optional
        Time stamp of each frame, rising. None: the stamps do not tell frames apart, which are
        counted from the start then.
    keys : list of int
        Numbers of key frames, rising.
    damaged : bool
        True: some packets cannot be decoded, and are not counted.
    hw : (int, int)
        Height and width of the first frame, upright.
    time_base : Fraction
        Seconds of a unit of the time stamps.
    """

    count: int
    times: list[int] | None
    keys: list[int]
    damaged: bool = False
    hw: tuple[int, int] = (0, 0)
    time_base: Fraction = Fraction(0)


@dataclass
class _Packets:
    """What the packets of a stream tell, in the order of decoding."""

    times: list[int | None] = field(default_factory=list)
    keys: list[bool] = field(default_factory=list)
    discarded: bool = False
    damaged: int = 0
    odd: bool = False  # some do not look like packets of their codec


def decoded(packets: Iterable[Any], damage: list[str] | None = None) -> Iterator[Any]:
    """Decode packets of PyAV frame by frame.

    Parameters
    ----------
    packets : iterable
        As the container gives them, the empty one at the end included.
    damage : list of str, optional
        Gets the decoder's words for each packet that cannot be decoded, which is left out. None:
        the decoder's error is raised.
    """
    ffmpeg_error = importlib.import_module("av").FFmpegError
    for packet in packets:
        try:
            frames = packet.decode()
        except ffmpeg_error as error:
            if damage is None or isinstance(error, MemoryError):
                raise
            damage.append(str(error))
            continue
        yield from frames


def index_packets(
    container: Any, stream: Any, file_size: int, notes: list[str]
) -> ClipIndex | None:
    """Return the frames that the packets promise; None if only decoding tells.

    What a user should know is added to `notes`.

    Raises
    ------
    EOFError
        The file ends before the frames of its table do.
    """
    found = _Packets()
    extradata = bytes(stream.codec_context.extradata or b"")
    looks_whole = packet_check(_codec(stream), extradata)
    for packet in container.demux(stream):
        if packet.size:
            found.times.append(packet.pts)
            found.keys.append(packet.is_keyframe)
            found.discarded |= packet.is_discard
            found.damaged += packet.is_corrupt
            found.odd = found.odd or not looks_whole(memoryview(packet))
    has_table = container_family(container) == "mov" and stream.frames > 0  # not in fragments
    is_short = has_table and len(found.times) < stream.frames
    entries = getattr(stream, "index_entries", ()) if is_short else ()
    ends = max((entry.pos + entry.size for entry in entries), default=0)
    if has_table and (found.damaged or ends > file_size):
        raise EOFError(f"{len(found.times)} of {stream.frames} frames: the file is cut off")
    if found.damaged:
        notes.append(f"{found.damaged} of {len(found.times)} packets are damaged or cut off")
    return _plain(found, container, stream)


def container_family(container: Any) -> str:
    """Return FFmpeg's first name of a container."""
    name: str = container.format.name
    return name.partition(",")[0]


def _codec(stream: Any) -> str:
    """Return FFmpeg's name of a codec, whose decoder may be called otherwise."""
    name: str = stream.codec_context.name
    return _DECODERS.get(name, name)


def _plain(found: _Packets, container: Any, stream: Any) -> ClipIndex | None:
    times = [time for time in found.times if time is not None]
    plain = (
        _codec(stream) in _PLAIN_CODECS
        and container_family(container) in _PLAIN_FORMATS
        and 0 < len(times) == len(found.times) == len(set(times))
        and not (found.discarded or found.damaged or found.odd)
        and found.keys[0]
        and times[0] == min(times)  # no frame before the first key frame, which may not decode
    )
    if not plain:
        return None
    ranked = sorted(zip(times, found.keys, strict=True))
    keys = [number for number, (_, is_key) in enumerate(ranked) if is_key]
    return ClipIndex(len(ranked), [time for time, _ in ranked], keys)


def confirmed(index: ClipIndex, container: Any, stream: Any) -> ClipIndex | None:
    """Return the index with the size of the first frame, if the first frames are as it says."""
    assert index.times is not None
    frames = decoded(container.demux(stream), [])
    first = [frame for _, frame in zip(range(_PROBED), frames, strict=False)]
    times = [frame.pts for frame in first]
    if times != index.times[: len(times)] or len(times) != min(_PROBED, index.count):
        return None
    return replace(index, hw=upright_hw(first[0]), time_base=stream.time_base)


def index_by_decoding(container: Any, stream: Any, notes: list[str]) -> tuple[ClipIndex, bool]:
    """Decode the whole clip: the frames that come out, and whether each packet gave one.

    Packets that cannot be decoded are left out, as FFmpeg's own command does, and `notes` gets
    their number. Where threads decode frames side by side, FFmpeg keeps errors of the last
    packets, as many as there are threads, to itself.
    """
    times: list[int | None] = []
    keys: list[int] = []
    damage: list[str] = []
    hw = (0, 0)
    packets = 0

    def counted() -> Iterator[Any]:
        nonlocal packets
        for packet in container.demux(stream):
            packets += packet.size > 0
            yield packet

    for number, frame in enumerate(decoded(counted(), damage)):
        hw = hw if number else upright_hw(frame)
        times.append(frame.pts)
        if frame.key_frame:
            keys.append(number)
    if damage and times:
        notes.append(f"{len(damage)} packets cannot be decoded and are left out: {damage[0]}")
    known = [time for time in times if time is not None]
    rising = len(known) == len(times) and all(a < b for a, b in pairwise(known))
    stamps = known if rising else None
    index = ClipIndex(len(times), stamps, keys, bool(damage), hw, Fraction(stream.time_base))
    return index, not damage and len(times) >= packets
