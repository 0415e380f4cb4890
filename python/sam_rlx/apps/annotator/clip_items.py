"""A clip as an item of a project, and where its project is kept."""

import hashlib
from typing import Any

from sam_rlx._internal.media.frames import FrameSource
from sam_rlx.apps.annotator.identity import key_of, stat_of
from sam_rlx.apps.annotator.projects import Location, location_of_arrays, location_of_files
from sam_rlx.apps.annotator.values import Item

_READ = 16  # frames of a clip that is no file, by which it is known


def clip_location(source: FrameSource, frames: Any) -> Location:
    """Return where the project of a clip is kept: beside its file, in its folder, or by content."""
    files = list(source.files)
    if not files:
        return location_of_arrays([clip_key(source)])
    folder = files[0].parent if len(files) > 1 or isinstance(frames, (list, tuple)) else None
    return location_of_files(files[:1], folder)


def clip_key(source: FrameSource) -> str:
    """Return the key of a clip: of its file, of the names and sizes of its files, or of frames."""
    files = list(source.files)
    if len(files) == 1:
        return key_of(files[0])
    found = hashlib.sha256(f"{source.count}\n".encode())
    if files:
        for path in files:
            found.update(f"{path.name} {stat_of(path)[0]}\n".encode("utf-8", "surrogateescape"))
    else:
        last = (source.count or 1) - 1
        for index in sorted({last * k // (_READ - 1) for k in range(_READ)}):
            frame = source.read(index)
            found.update(f"{frame.shape}".encode() + frame.tobytes())
    return found.hexdigest()[:_READ]


def clip_item(source: FrameSource, hw: tuple[int, int]) -> Item:
    """Return the item of a clip of frames (H, W)."""
    files = list(source.files)
    stat = stat_of(files[0]) if len(files) == 1 else (0, 0)
    name = files[0].name if len(files) == 1 else files[0].parent.name if files else ""
    return Item(clip_key(source), name or "clip", "clip", hw, source.count or 1, "begun", stat=stat)
