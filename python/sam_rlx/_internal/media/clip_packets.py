"""Whether packets of a video look whole, without decoding them."""

from collections.abc import Callable

_OBU_TYPES = {1, 2, 3, 4, 5, 6, 7, 8, 15}


def packet_check(codec: str, extradata: bytes) -> Callable[[memoryview], bool]:
    """Return a function that tells whether a packet can be one of its codec.

    Zeros, and what lies at the wrong position, cannot. What a decoder stumbles on deeper inside
    is not seen.

    Parameters
    ----------
    codec : str
        FFmpeg's name of the codec.
    extradata : bytes
        What the container has beside the packets.
    """
    if codec in ("h264", "hevc") and extradata[:1] == b"\1":
        at = 4 if codec == "h264" else 21
        bytes_of_length = (extradata[at] & 3) + 1 if len(extradata) > at else 4
        return lambda packet: _units_fit(packet, bytes_of_length)
    checks: dict[str, Callable[[memoryview], bool]] = {
        "vp9": lambda packet: packet[0] >> 6 == 2,
        "av1": lambda packet: not packet[0] & 0x81 and packet[0] >> 3 in _OBU_TYPES,
        "mjpeg": lambda packet: bytes(packet[:2]) == b"\xff\xd8",
        "prores": lambda packet: bytes(packet[4:8]) == b"icpf",
    }
    return checks.get(codec, lambda packet: True)


def _units_fit(packet: memoryview, bytes_of_length: int) -> bool:
    """Tell whether units with their length in front fill a packet."""
    at, end = 0, len(packet)
    while at + bytes_of_length < end:
        length = int.from_bytes(packet[at : at + bytes_of_length], "big")
        at += bytes_of_length
        if not length or packet[at] & 0x80:
            return False
        at += length
    return at == end
