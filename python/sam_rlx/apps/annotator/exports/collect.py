"""From a project to what an export writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.exports.work import Clip, Shown, Still, Work, chosen
from sam_rlx.apps.annotator.values import ClassDef, Document, Project
from sam_rlx.errors import InvalidArgumentError

Which: TypeAlias = Literal["done", "some", "all"]


@dataclass(frozen=True, eq=False)
class Source:
    """An image of a project: its key, name, size, pixels, and file if it has one."""

    key: str
    name: str
    hw: Callable[[], tuple[int, int]]
    read: Callable[[], NDArray[np.uint8]]
    file: Path | None = None


def image_work(
    project: Project,
    document_of: Callable[[str], Document],
    sources: Sequence[Source],
    which: str = "some",
    classes: Sequence[str] | None = None,
) -> Work:
    """Return the images of a project that are exported.

    Parameters
    ----------
    project : Project
    document_of : callable
        Returns the document of a key.
    sources : sequence of Source
    which : {"done", "some", "all"}
        Images that are done, those with objects, or all; never those that are left out or that
        cannot be read.
    classes : sequence of str, optional
        Names of those whose objects are written. Default: all.

    Raises
    ------
    InvalidArgumentError
        There is no such class, or `which` is something else.
    """
    if which not in get_args(Which):
        raise InvalidArgumentError(f"images: expected one of {get_args(Which)}, found {which!r}")
    kept = chosen(project.classes, classes)
    items = {item.key: item for item in project.items}
    stills = []
    for source in sources:
        item = items.get(source.key)
        state = "new" if item is None else item.state
        document = document_of(source.key)
        wanted = {"done": state == "done", "some": bool(document.objects), "all": True}[which]
        if not wanted or state in ("left out", "unreadable"):
            continue
        objects = _shown(project, document, 0, kept)
        packed = next((one.mask.packed.hw for one in objects), None)
        hw = packed or (item.hw if item is not None else None) or source.hw()
        key = source.key.partition("-")[0]
        stills.append(Still(source.name, hw, objects, key, source.read, source.file))
    return Work(kept, tuple(stills))


def clip_work(
    project: Project,
    document: Document,
    clip: Callable[[tuple[Still, ...]], Clip],
    name: str,
    hw: tuple[int, int],
    read: Callable[[int], NDArray[np.uint8]],
    classes: Sequence[str] | None = None,
) -> Work:
    """Return a clip with its frames that have masks; `clip` makes it of them."""
    kept = chosen(project.classes, classes)
    stem = Path(name).stem or "clip"
    stills = []
    for frame in sorted({frame for one in document.objects for frame in one.masks}):
        objects = _shown(project, document, frame, kept)
        if objects:
            still = Still(
                f"{stem}/{frame:06d}.jpg", hw, objects, "", _reader(read, frame), frame=frame
            )
            stills.append(still)
    return Work(kept, tuple(stills), clip(tuple(stills)))


def _reader(
    read: Callable[[int], NDArray[np.uint8]], frame: int
) -> Callable[[], NDArray[np.uint8]]:
    return lambda: read(frame)


def _shown(
    project: Project, document: Document, frame: int, classes: Sequence[ClassDef]
) -> tuple[Shown, ...]:
    found = []
    for one in document.objects:
        of_class, mask = project.class_of(one), one.masks.get(frame)
        if mask is not None and of_class in classes:
            found.append(Shown(one, of_class, mask))
    return tuple(found)
