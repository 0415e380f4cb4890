"""How files that this library writes are told from others.

Each kind of result has a mark that other programs pass over. Commands replace a file that has it,
and no other unless they are told to.
"""

import json
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from sam_rlx._image_files import open_image
from sam_rlx._packages import optional
from sam_rlx.errors import InvalidArgumentError

NAME = "sam_rlx"
# First in JSON documents that have no ``format`` of ours, such as COCO's.
JSON_MARK = {"info": {"software": NAME}}
# In the metadata of safetensors files.
SAFETENSORS_MARK = {"written_by": NAME}
# In the text of PNG files; in the EXIF tag of the other image files.
PNG_MARK = ("Software", NAME)
EXIF_SOFTWARE = 0x0131

_START = 1 << 16  # bytes
_TEXT = re.compile(
    rb'\s*\{\s*"info":\s*\{\s*"software":\s*"sam_rlx"'
    rb'|\s*\{\s*"format":\s*"sam_rlx\.'
    rb'|<\?xml [^>]*>\s*<testsuites [^>]*>\s*<testsuite name="sam_rlx\.'
    rb"|<!doctype html>[^\n]*\n<meta name='generator' content='sam_rlx'>"
)
_GGUF = re.compile(rb"\.naming.{12}short-1", re.DOTALL)  # between them: type and length of a text


def is_own_file(path: str | os.PathLike[str]) -> bool:
    """Tell whether this library has written a file, or the model in a folder for transformers.

    The kind follows from the first bytes. A damaged file is not ours.
    """
    target = Path(path)
    if target.is_dir():
        target = target / "model.safetensors"
    if not target.is_file():
        return False
    with target.open("rb") as file:
        start = file.read(_START)
    if start.startswith(b"PK"):
        return _is_npz(target)
    if start.startswith(b"GGUF"):
        return bool(_GGUF.search(start))
    if start[4:8] == b"ftyp":
        return _is_clip(target)
    if start[8:9] == b"{":
        return _is_safetensors(target)
    return bool(_TEXT.match(start)) or is_own_image(target)


def mark_npz(file: BinaryIO) -> None:
    """Add the mark to an NPZ archive that is open for reading and writing: its comment."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = NAME.encode()


def is_own_image(path: str | os.PathLike[str]) -> bool:
    """Tell whether `io.write_image` has written a file."""
    try:
        with open_image(path) as image:
            name, value = PNG_MARK
            return value in (image.info.get(name), image.getexif().get(EXIF_SOFTWARE))
    except (InvalidArgumentError, OSError):
        return False


def _is_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == NAME.encode()
    except (zipfile.BadZipFile, OSError):
        return False


def _is_clip(path: Path) -> bool:
    av = optional("clip", "av", "av")
    try:
        with av.open(str(path)) as container:
            return bool(container.metadata.get("comment") == NAME)
    except (av.FFmpegError, OSError, ValueError):
        return False


def _is_safetensors(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                return False
            found: Any = json.loads(file.read(length))["__metadata__"]
        return bool(SAFETENSORS_MARK.items() <= found.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
