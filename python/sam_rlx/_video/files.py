"""Sessions of the video predictor on disk."""

import os
import re
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _saved_arrays as saved_arrays
from sam_rlx._core import Exclusive
from sam_rlx._printable import shown
from sam_rlx._saved_arrays import Field, Schema
from sam_rlx._video import object_names
from sam_rlx._video.commits import VideoCommits
from sam_rlx._video.frames import FrameSource
from sam_rlx.errors import CheckpointError, InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model

# The first one has names of objects in Python's notation.
_FORMATS = ("sam_rlx.video_session.2", "sam_rlx.video_session.1")
_MAX_FRAMES = 1 << 31
_MAX_NUMBER = 1 << 31
_RESIZES = ("video", "float", "integer")
_OPTIONS = (
    "fill_hole_area",
    "non_overlap_masks",
    "keep_corrections",
    "history",
    "memory_selection",
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


class VideoFiles(VideoCommits):
    """Names of objects, and sessions on disk: a part of `VideoPredictor`."""

    _model: Model
    _exclusive: Exclusive
    _source: FrameSource | None
    _options: dict[str, Any]
    _resize: str

    def __init__(
        self, model: Model, frames: Any = None, *, num_threads: int | None = None, **options: Any
    ) -> None:
        raise NotImplementedError

    def _prepare(self) -> None:
        raise NotImplementedError

    def _handle(self, obj_id: Hashable) -> int:
        return self._handles.get(obj_id, self._next_handle)

    def _adopt(self, obj_id: Hashable) -> None:
        if obj_id not in self._handles:
            self._handles[obj_id] = self._next_handle
            self._next_handle += 1

    def _known(self, obj_id: Hashable) -> int:
        try:
            return self._handles[obj_id]
        except (KeyError, TypeError):
            raise InvalidArgumentError(
                f"obj_id: expected one of {list(self._handles)}, found {obj_id!r}"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session, without its frames, as NPZ.

        Parameters
        ----------
        path : str or path
            Used as it is; no suffix is added. The file appears complete or not at all.

        Raises
        ------
        InvalidArgumentError
            The name of an object is no plain Python value: str, int, float, bool, None, bytes, or a
            tuple of these.
        UnsupportedError
            There is a phrase.
        StateError
            The predictor is in use.
        """
        with self._exclusive:
            self._begin()
            if self._phrases:
                raise UnsupportedError("save: expected a session without phrases, found one with")
            names = {handle: _name_text(obj_id) for obj_id, handle in self._handles.items()}
            if self._handles:
                self._prepare()
            state = self._core.export_state()
            pushed = self._pushed
            self._commit()
        saved_arrays.write(
            path,
            {
                "format": _FORMATS[0],
                **saved_arrays.identity(self._model),
                "options": np.asarray([self._options[name] for name in _OPTIONS], np.int64),
                "resize": self._resize,
                "pushed": -1 if self._source is not None else pushed,
                "names": np.asarray([names[h] for h in state["handles"].tolist()], np.str_),
                **{f"state.{name}": array for name, array in state.items()},
            },
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: Model,
        frames: Any = None,
        *,
        num_threads: int | None = None,
    ) -> Self:
        """Go on with a session of `save`.

        Parameters
        ----------
        path : str or path
            The file.
        model : Model
            The model that made it.
        frames : path, sequence or iterable, optional
            The frames of the session; None for one of `push`, which goes on after its last frame.
        num_threads : int, optional
            As for `VideoPredictor`.

        Returns
        -------
        VideoPredictor

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CheckpointError
            The file is damaged, of another kind, or made by another kind of model.
        """
        fields = saved_arrays.read(path, "a video session", _FORMATS, _SCHEMA)
        try:
            options, names = _options(fields), _names(fields)
            pushed = int(fields["pushed"])
            if not -1 <= pushed < _MAX_FRAMES:
                raise ValueError(f"{pushed} frames")
        except (ValueError, OverflowError, RecursionError) as error:
            raise CheckpointError(f"{path}: expected a video session, found {error}") from error
        saved_arrays.check_identity(path, fields, saved_arrays.identity(model))
        if (pushed >= 0) != (frames is None):
            kind = "a video" if pushed < 0 else "push"
            raise CheckpointError(f"{path}: expected a session with its frames, found {kind}")
        session = cls(model, frames, num_threads=num_threads, **options)
        try:
            session._core.import_state(
                {
                    name.removeprefix("state."): array
                    for name, array in fields.items()
                    if name.startswith("state.")
                }
            )
        except (CheckpointError, InvalidArgumentError) as error:
            raise CheckpointError(f"{path}: {error}") from error
        session._pushed = max(pushed, 0)
        session._handles = names
        session._next_handle = max(names.values(), default=-1) + 1
        session._commit()
        return session


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
    if not 0 <= options["fill_hole_area"] < _MAX_NUMBER:
        raise ValueError(f"a fill_hole_area of {options['fill_hole_area']}")
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


def _names(fields: Mapping[str, NDArray[Any]]) -> dict[Hashable, int]:
    """Return the names of the objects with their handles."""
    texts = saved_arrays.texts(fields["names"])
    handles = fields["state.handles"].tolist()
    if len(texts) != len(handles):
        raise ValueError(f"{len(texts)} names of {len(handles)} objects")
    if saved_arrays.scalar(fields["format"]) == _FORMATS[0]:
        names = [object_names.from_text(text) for text in texts]
    else:
        names = [_old_name(text) for text in texts]
    if len(set(names)) != len(names) or len(set(handles)) != len(handles):
        raise ValueError("two objects of one name or number")
    if not all(0 <= handle < _MAX_NUMBER for handle in handles):
        raise ValueError("numbers of objects out of range")
    return dict(zip(names, handles, strict=True))


def _old_name(text: str) -> Hashable:
    try:
        return object_names.from_old_text(text)
    except ValueError as error:
        raise ValueError(f"{error}; save the session again with numbers or plain text") from error
