"""Folders, images and clips of this machine that the page shows where they lie.

The command line names them. No request names a path: files are found by the id of their project.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.hints import not_found
from sam_rlx._internal.files.suffixes import is_clip
from sam_rlx._internal.media.frames import open_frames
from sam_rlx._internal.media.image_files import open_image
from sam_rlx.apps.annotator.clip_items import clip_location
from sam_rlx.apps.annotator.projects import Location, OpenProject, open_project
from sam_rlx.apps.annotator.sources import ImageSource
from sam_rlx.apps.annotator.store import log_of
from sam_rlx.apps.annotator.values import Kind
from sam_rlx.apps.serve.clips import kind_of

_DIGITS = 16  # of an id, as the page's own projects have them


@dataclass(frozen=True)
class LocalFiles:
    """A folder of images, an image or a clip, with its project beside it.

    A clip may be a folder of numbered images.

    Attributes
    ----------
    path : Path
    kind : {"image", "clip"}
    location : Location
        Of the project.
    count : int
        Of images; 1 for a clip.
    """

    path: Path
    kind: Kind
    location: Location
    count: int

    @property
    def identity(self) -> str:
        """The id of the project in addresses: the same each time."""
        path = str(self.location.snapshot.resolve())
        return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]

    def open(self, address: str) -> OpenProject:
        """Open the project."""
        return open_project(self.location, address)

    def listed(self) -> dict[str, Any]:
        """Return what the first page lists: id, name, number of images, time of change."""
        snapshot = self.location.snapshot
        times = [one.stat().st_mtime for one in (snapshot, log_of(snapshot)) if one.is_file()]
        changed = max(times, default=self.path.stat().st_mtime if self.path.exists() else 0.0)
        return {
            "id": self.identity,
            "name": self.path.name,
            "images": self.count,
            "changed": changed,
        }


def local_files_of(path: Path, clip: bool = False) -> LocalFiles:
    """Return what a path names; with `clip` a folder is the frames of one.

    Raises
    ------
    FileNotFoundError
        There is no such file or folder, or no image in the folder.
    InvalidArgumentError
        It is neither an image nor a clip.
    MissingExtraError
        A package that decodes clips is not installed.
    """
    path = path.absolute()
    if not path.exists():
        raise not_found("path", path, "a folder, an image or a clip")
    if (path.is_file() and _is_clip(path)) or (clip and path.is_dir()):
        return LocalFiles(path, "clip", clip_location(open_frames(path), path), 1)
    sources = ImageSource(path)
    if path.is_file():
        with open_image(path):  # it begins as an image
            pass
    return LocalFiles(path, "image", sources.location, len(sources))


def _is_clip(path: Path) -> bool:
    return is_clip(path) or (path.suffix.lower() == ".gif" and kind_of(path.read_bytes()) == "clip")
