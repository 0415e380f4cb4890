"""Sessions of the video predictor on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.files import object_names, saved_tensors
from sam_rlx._internal.printable import shown
from sam_rlx.errors import CheckpointError, InvalidArgumentError

_FORMAT = "sam_rlx.video_session.4"
_MAX_NUMBER = 1 << 31
_RESIZES = ("video", "float", "integer")
# Of options that are numbers.
_SMALLEST = {"fill_hole_area": 0, "min_mask_region_area": 0, "history": -1}
_FLAGS = ("non_overlap_masks", "keep_corrections", "memory_selection")


@dataclass(frozen=True, eq=False)
class Saved:
    """A session that was read.

    Attributes
    ----------
    options : dict
        Arguments of `VideoPredictor`.
    state : NamedTensors
        For the core.
    names : list
        Of the objects, in the order of their numbers in the state.
    """

    options: dict[str, Any]
    state: _core.NamedTensors
    names: list[Hashable]


def as_label(obj_id: Hashable) -> str:
    """Return what errors of the core call an object."""
    return shown(obj_id).encode("utf-8", "replace").decode()


def write(
    path: str | os.PathLike[str],
    identity: Mapping[str, str],
    session: _core.VideoSession,
    options: dict[str, Any],
    inputs: Iterable[Path],
) -> None:
    """Write a session, with the arguments of `VideoPredictor`; not over its inputs."""
    metadata = {"format": _FORMAT, "options": json.dumps(options), **identity}
    saved_tensors.write(path, session.save(_text_of), metadata, inputs)


def read(path: str | os.PathLike[str], identity: Mapping[str, str]) -> Saved:
    """Read a session."""
    state = saved_tensors.read(path, _FORMAT, ("options", "names"), identity)
    try:
        options, names = _options(state.metadata["options"]), _names(state.metadata["names"])
    except (ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected a video session, found {error}") from error
    return Saved(options, state, names)


def restore(path: str | os.PathLike[str], session: _core.VideoSession, saved: Saved) -> None:
    """Make a new session what the file says."""
    try:
        session.adopt(saved.state, saved.names, [as_label(name) for name in saved.names])
    except (CheckpointError, InvalidArgumentError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _text_of(obj_ids: list[Hashable]) -> str:
    """Return the names of objects as JSON of their texts."""
    return json.dumps([_name_text(obj_id) for obj_id in obj_ids])


def _name_text(obj_id: Hashable) -> str:
    try:
        return object_names.to_text(obj_id)
    except ValueError as error:
        raise InvalidArgumentError(
            f"save: expected names of objects that are plain values, found {shown(obj_id)}"
        ) from error


def _options(text: str) -> dict[str, Any]:
    """Return the arguments of `VideoPredictor` that a file holds."""
    options = json.loads(text)
    if not isinstance(options, dict) or options.keys() != {
        *_SMALLEST,
        *_FLAGS,
        "resize",
        "memory_rule",
    }:
        raise ValueError(f"the options {shown(options)}")
    for name, smallest in _SMALLEST.items():
        value = options[name]
        if type(value) is not int or not smallest <= value < _MAX_NUMBER:
            raise ValueError(f"a {name} of {shown(value)}")
    for name in _FLAGS:
        if not isinstance(options[name], bool):
            raise ValueError(f"a {name} of {shown(options[name])}")
    if options["resize"] not in _RESIZES:
        raise ValueError(f"a resize of {shown(options['resize'])}")
    if options["memory_rule"] not in (None, *_core.memory_rules()):
        raise ValueError(f"a memory_rule of {shown(options['memory_rule'])}")
    options["history"] = None if options["history"] < 0 else options["history"]
    return options


def _names(text: str) -> list[Hashable]:
    """Return the names of the objects."""
    texts = json.loads(text)
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError("names that are no texts")
    names = [object_names.from_text(each) for each in texts]
    if len(set(names)) != len(names):
        raise ValueError("two objects of one name")
    return names
