"""Sessions of the video predictor on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.files import object_names, saved_arrays
from sam_rlx._internal.files.saved_arrays import Field, Schema
from sam_rlx._internal.printable import shown
from sam_rlx.errors import CheckpointError, InvalidArgumentError

_FORMAT = "sam_rlx.video_session.3"
_MAX_FRAMES = 1 << 31
_MAX_NUMBER = 1 << 31
_RESIZES = ("video", "float", "integer")
_OPTIONS = (
    "fill_hole_area",
    "non_overlap_masks",
    "keep_corrections",
    "history",
    "memory_selection",
    "min_mask_region_area",
)
# The core looks into the arrays of its state.
_SCHEMA: Schema = {
    **saved_arrays.IDENTITY,
    "options": Field("i", 1),
    "resize": Field("U", 0),
    "pushed": Field("i", 0),
    "names": Field("U", 1),
    "state.handles": Field("i", 1),
    re.compile(r"state\.[a-z0-9_.]{1,80}"): Field("if", range(1, 6)),
}


@dataclass(frozen=True, eq=False)
class Saved:
    """A session that was read.

    Attributes
    ----------
    options : dict
        Arguments of `VideoPredictor`.
    state : dict
        For the core.
    pushed : int
        Frames, 0 for a video.
    names : list
        Of the objects, in the order of their numbers in the state.
    """

    options: dict[str, Any]
    state: dict[str, NDArray[Any]]
    pushed: int
    names: list[Hashable]


def as_label(obj_id: Hashable) -> str:
    """Return what errors of the core call an object."""
    return shown(obj_id).encode("utf-8", "replace").decode()


def state_of(session: _core.VideoSession, has_frames: bool) -> dict[str, Any]:
    """Return the arrays of a session."""
    for obj_id in session.obj_ids:
        _name_text(obj_id)
    state = session.export_state()
    names = [_name_text(obj_id) for obj_id in state.pop("obj_ids")]
    return {
        "pushed": -1 if has_frames else session.num_pushed,
        "names": np.asarray(names, np.str_),
        **{f"state.{name}": array for name, array in state.items()},
    }


def write(
    path: str | os.PathLike[str],
    identity: Mapping[str, Any],
    state: Mapping[str, Any],
    options: dict[str, Any],
    inputs: Iterable[Path],
) -> None:
    """Write what `state_of` gave, with the arguments of `VideoPredictor`; not over its inputs."""
    saved_arrays.write(
        path,
        {
            "format": _FORMAT,
            **identity,
            "options": np.asarray([options[name] for name in _OPTIONS], np.int64),
            "resize": options["resize"],
            **state,
        },
        inputs,
    )


def read(path: str | os.PathLike[str], identity: Mapping[str, Any], is_pushed: bool) -> Saved:
    """Read a session; `is_pushed`: whether it has no frames of a video."""
    fields = saved_arrays.read(path, "a video session", (_FORMAT,), _SCHEMA)
    try:
        options, names = _options(fields), _names(fields)
        pushed = int(fields["pushed"])
        if not -1 <= pushed < _MAX_FRAMES:
            raise ValueError(f"{pushed} frames")
    except (ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected a video session, found {error}") from error
    saved_arrays.check_identity(path, fields, identity)
    if (pushed >= 0) != is_pushed:
        kind = "a video" if pushed < 0 else "push"
        raise CheckpointError(f"{path}: expected a session with its frames, found {kind}")
    state = {
        name.removeprefix("state."): array
        for name, array in fields.items()
        if name.startswith("state.")
    }
    return Saved(options, state, max(pushed, 0), names)


def restore(path: str | os.PathLike[str], session: _core.VideoSession, saved: Saved) -> None:
    """Make a new session what the file says."""
    try:
        session.import_state(
            saved.state, saved.names, [as_label(name) for name in saved.names], saved.pushed
        )
    except (CheckpointError, InvalidArgumentError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _name_text(obj_id: Hashable) -> str:
    try:
        return object_names.to_text(obj_id)
    except ValueError as error:
        raise InvalidArgumentError(
            f"save: expected names of objects that are plain values, found {shown(obj_id)}"
        ) from error


def _options(fields: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the arguments of `VideoPredictor` that a file holds."""
    values = fields["options"].tolist()
    if len(values) != len(_OPTIONS):
        raise ValueError(f"{len(values)} options")
    options: dict[str, Any] = dict(zip(_OPTIONS, values, strict=True))
    for name in ("fill_hole_area", "min_mask_region_area"):
        if not 0 <= options[name] < _MAX_NUMBER:
            raise ValueError(f"a {name} of {options[name]}")
    if not -1 <= options["history"] < _MAX_NUMBER:
        raise ValueError(f"a history of {options['history']}")
    for name in ("non_overlap_masks", "keep_corrections", "memory_selection"):
        if options[name] not in (0, 1):
            raise ValueError(f"a {name} of {options[name]}")
    options["history"] = None if options["history"] < 0 else options["history"]
    options["resize"] = saved_arrays.scalar(fields["resize"])
    if options["resize"] not in _RESIZES:
        raise ValueError(f"a resize of {options['resize']!r}")
    return options


def _names(fields: Mapping[str, NDArray[Any]]) -> list[Hashable]:
    """Return the names of the objects."""
    texts = saved_arrays.texts(fields["names"])
    handles = fields["state.handles"].tolist()
    if len(texts) != len(handles):
        raise ValueError(f"{len(texts)} names of {len(handles)} objects")
    names = [object_names.from_text(text) for text in texts]
    if len(set(names)) != len(names) or len(set(handles)) != len(handles):
        raise ValueError("two objects of one name or number")
    if not all(0 <= handle < _MAX_NUMBER for handle in handles):
        raise ValueError("numbers of objects out of range")
    return names
