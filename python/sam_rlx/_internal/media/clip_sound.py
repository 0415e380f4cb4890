"""The sound of a clip, copied as it is. Needs PyAV (extra ``video``)."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from sam_rlx._internal.packages import optional
from sam_rlx.errors import UnsupportedError


class ClipSound:
    """Packets of all sound streams of a clip, given to another file in the order of time.

    Parameters
    ----------
    source : Path
        A video file; it may have no sound.

    Raises
    ------
    MissingExtraError
        PyAV is not installed.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._input = optional("clip", "av", "av").open(str(source))
        self._outputs: dict[int, Any] = {}  # of the new file, by streams of the source
        self._start = self._first_frame()
        streams = self._input.streams.audio
        self._packets = iter(self._input.demux(streams) if streams else ())  # () would be all
        self._held: Any = None

    def _first_frame(self) -> Fraction:
        """Return when the first frame is shown, on the clock of the file."""
        for packet in self._input.demux(self._input.streams.video[0]):
            for frame in packet.decode():
                self._input.seek(0)
                return (
                    Fraction(frame.pts * frame.time_base) if frame.pts is not None else Fraction()
                )
        return Fraction()

    def begin(self, container: Any) -> None:
        """Add the streams to a new file, before its first packet.

        Raises
        ------
        UnsupportedError
            The file cannot hold the codec.
        """
        for stream in self._input.streams.audio:
            codec = stream.codec_context.name
            if codec not in container.supported_codecs:
                raise UnsupportedError(
                    f"{self._source}: expected sound that an MP4 file can hold, found {codec}: "
                    "rate=... instead of source=... writes a clip without sound"
                )
            self._outputs[stream.index] = container.add_stream_from_template(stream)

    def write_until(self, container: Any, time: Fraction) -> None:
        """Write the packets that begin before a time, in seconds from the first frame."""
        while (packet := self._next()) is not None:
            begins = packet.pts * packet.time_base - self._start
            if begins >= time:
                return
            self._held = None
            if begins < 0:  # before the first frame
                continue
            shift = round(self._start / packet.time_base)
            packet.pts -= shift
            packet.dts = packet.pts if packet.dts is None else packet.dts - shift
            packet.stream = self._outputs[packet.stream.index]
            container.mux(packet)

    def _next(self) -> Any:
        """Return the next packet, which stays until it is written; None after the last."""
        while self._held is None:
            packet = next(self._packets, None)
            if packet is None:
                return None
            if packet.pts is not None:  # the last one of each stream is empty
                self._held = packet
        return self._held

    def close(self) -> None:
        """Close the source."""
        self._input.close()
