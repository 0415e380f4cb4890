"""What helps with a file that is not what its name says: one list for images, clips, models, ..."""

import json
import os
import re
import zlib
from urllib.parse import unquote

from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError

_FILE_URL = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/+[^/]", re.IGNORECASE)
_LETTERS = re.compile(rb"[\s\xef\xbb\xbf]*")
_SHOWN = 120  # letters of a server's words
_MAX_KEYS = 6  # of such an error; documents of others have more
START = 4096  # bytes that `odd_file` looks at


def is_url(name: str | os.PathLike[str]) -> bool:
    """Tell whether a name is an address, also one that has become a path (``https:/host/a``)."""
    return bool(_URL.match(os.fspath(name)))


def local_name(where: str, name: str) -> str:
    """Return the path that a name of a file is, also a ``file:`` address of this machine.

    Programs write such addresses with escapes (``%20``) and without; a file that is called as it
    stands there is that file.

    Raises
    ------
    InvalidArgumentError
        It is another address.
    """
    match = _FILE_URL.fullmatch(name)
    if match is not None and (match["host"] or "").lower() in ("", "localhost"):
        path = match["path"]
        return path if "%" not in path or os.path.lexists(path) else unquote(path)
    if is_url(name):
        raise InvalidArgumentError(
            f"{where}: expected a file of this machine, found the address {shown(name)}: download "
            "it first, or give bytes"
        )
    return name


def not_found(
    where: str, name: str | os.PathLike[str], expected: str, nearest: str = ""
) -> FileNotFoundError:
    """Return the error for a name without a file; an address is told to be one."""
    if is_url(name):
        return FileNotFoundError(
            f"{where}: expected {expected}, found the address {os.fspath(name)!r}: download it "
            "first, and give the name of the file"
        )
    found = f"found none at {os.fspath(name)!r}"
    return FileNotFoundError(f"{where}: expected {expected}, {found}{nearest}")


def odd_file(start: bytes) -> str:
    """Return what a file is by its first bytes, if it cannot be a model, an image or a clip.

    Parameters
    ----------
    start : bytes
        The first `START` bytes, or all of a smaller file.

    Returns
    -------
    str
        Such as ``"a Git LFS pointer, not the file itself: git lfs pull"``; "" for anything else.
    """
    text = start[len(_LETTERS.match(start)[0]) :]  # type: ignore[index]
    lower = text[:64].lower()
    if not start:
        return "an empty file"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself: git lfs pull brings it"
    if lower.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "a web page, not the file itself: download the file that the page links to"
    if lower.startswith((b"<?xml", b"<error", b"<svg")):
        return _of_xml(text)
    if text.startswith(b"{"):
        return _of_json(text)
    if text.startswith(b"%PDF-"):
        return "a PDF document: convert its pages to PNG"
    return ""


_ITK = "SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(file)) gives an array of its slices"
SERIES = (
    "SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(folder) and "
    "SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(names))"
)
# First bytes, where they begin, what the file is, and the line that makes an array of it.
_VOLUMES = (
    (b"n+1\0", 344, "a NIfTI volume", _ITK),
    (b"ni1\0", 344, "a NIfTI volume", _ITK),
    (b"n+2\0", 4, "a NIfTI volume", _ITK),
    (b"NRRD000", 0, "an NRRD volume", _ITK),
    (b"ObjectType = Image", 0, "a MetaImage volume", _ITK),
    (b"NDims = ", 0, "a MetaImage volume", _ITK),
    (b"\x89HDF\r\n\x1a\n", 0, "an HDF5 file", "h5py.File(file)[name] of the package h5py"),
    (b"MATLAB 5.0 MAT", 0, "a MATLAB file", "scipy.io.loadmat(file)[name] of the package scipy"),
    (b"MAP ", 208, "an MRC volume", "mrcfile.open(file).data of the package mrcfile"),
    (b"ZISRAWFILE", 0, "a CZI file of Zeiss", "the package czifile or bioio reads it"),
    (b"\xda\xce\xbe\x0a", 0, "an ND2 file of Nikon", "nd2.imread(file) of the package nd2"),
    (b"p\0\0\0", 0, "a LIF file of Leica", "the package readlif or bioio reads it"),
    (b"# vtk DataFile", 0, "a VTK file", _ITK),
    (b"\x93NUMPY", 0, "a NumPy file", "numpy.load(file)"),
)
_DICOM = "pydicom.dcmread(file, force=True).pixel_array of the package pydicom"


def is_dicom(start: bytes) -> bool:
    """Tell whether a file begins as DICOM does: with its mark, or at once with an element."""
    element = start[:2] == b"\x08\0" and start[4:6] in (b"UI", b"CS", b"UL", b"DA", b"SH")
    return start[128:132] == b"DICM" or element


def volume(start: bytes) -> str:
    """Return what a volume is by its first bytes, and the line that makes an array of it, or ""."""
    packed = start.startswith(b"\x1f\x8b")
    if packed:
        try:
            start = zlib.decompressobj(31).decompress(start, START)
        except zlib.error:
            return ""
    if is_dicom(start):
        return f"a DICOM file: {_DICOM}"
    for magic, at, name, line in _VOLUMES:
        if start[at : at + len(magic)] == magic:
            return f"{name}: {line}"
    return "a file that gzip has packed: unpack it first" if packed else ""


def _of_xml(text: bytes) -> str:
    if b"<svg" in text:
        return "an SVG drawing, which has no pixels: convert it to PNG"
    code = re.search(rb"<Error>.*?<Code>([^<]{1,80})</Code>", text, re.DOTALL | re.IGNORECASE)
    if code is not None:
        words = code[1].decode("utf-8", "replace")
        return f"an error of a server ({words}), not the file itself: download it again"
    if b"<net " in text:
        return "the XML of an OpenVINO model"
    return "an XML file"


def _of_json(text: bytes) -> str:
    """Return the error that a server has sent instead of the file, "" for other JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for key in ("error", "message", "detail", "errors"):
        if isinstance(found, dict) and len(found) <= _MAX_KEYS and found.get(key):
            words = str(found[key])[:_SHOWN]
            return f"an error of a server ({words}), not the file itself: download it again"
    return ""
