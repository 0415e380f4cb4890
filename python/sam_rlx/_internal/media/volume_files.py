"""Files of arrays: those of NumPy are frames, other volumes are told how they become an array."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx._internal.files import hints
from sam_rlx.errors import InvalidArgumentError

_NPY, _ZIP = b"\x93NUMPY", b"PK\3\4"


def numpy_array(source: Path | bytes, start: bytes) -> Any:
    """Return the array of a NumPy file, which is mapped and not read; None: it is another file.

    Parameters
    ----------
    source : path or bytes
        The file, or its contents.
    start : bytes
        Its first bytes.

    Raises
    ------
    InvalidArgumentError
        It is damaged, holds Python objects, or several arrays.
    """
    import zipfile  # slow to load, seldom needed

    file: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    name = "frames" if isinstance(source, bytes) else str(source)
    archive = start.startswith(_ZIP) and _is_npz(file)
    if not start.startswith(_NPY) and not archive:
        return None
    try:
        mapped = isinstance(source, Path) and not archive
        found = np.load(file, mmap_mode="r" if mapped else None, allow_pickle=False)
        if not archive:
            return found
        with found:
            names = found.files
            if len(names) == 1:
                return found[names[0]]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidArgumentError(f"{name}: expected a NumPy file, found {error}") from error
    listed = ", ".join(map(repr, names)) or "none"
    raise InvalidArgumentError(
        f"{name}: expected one array in a NumPy file, found {listed}: give one of them, "
        "numpy.load(file)[name]"
    )


def _is_npz(file: Any) -> bool:
    import zipfile  # slow to load, seldom needed

    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return all(name.endswith(".npy") for name in archive.namelist())


def refuse_volume(source: Path | bytes, start: bytes) -> None:
    """Raise `InvalidArgumentError` for a volume of another library, with the line that reads it."""
    words = hints.volume(start)
    if words:
        name = "frames" if isinstance(source, bytes) else str(source)
        raise InvalidArgumentError(
            f"{name}: expected a video or images, found {words}; give the array as frames"
        )


def refuse_volume_folder(folder: Path) -> None:
    """Raise `InvalidArgumentError` for a folder that is one volume, with the line that reads it."""
    for marker in ("zarr.json", ".zarray", ".zgroup"):
        if (folder / marker).is_file():
            raise InvalidArgumentError(
                f"{folder}: expected images, found a zarr array or group: zarr.open(folder) of the "
                "package zarr gives it; give an array of it as frames"
            )
    for path in sorted(path for path in folder.iterdir() if path.is_file())[:3]:
        with path.open("rb") as file:
            if hints.is_dicom(file.read(hints.START)):
                raise InvalidArgumentError(
                    f"{folder}: expected images, found DICOM files: {hints.SERIES} of the package "
                    "SimpleITK give an array of its slices"
                )
