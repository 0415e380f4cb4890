"""Sessions of the video predictor on disk."""

import ast
import os
import zipfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sam_rlx._core import Exclusive
from sam_rlx.errors import CheckpointError, InvalidArgumentError, UnsupportedError
from sam_rlx.files import atomic_write
from sam_rlx.frames import FrameSource
from sam_rlx.model import Model
from sam_rlx.video_commits import VideoCommits

_FORMAT = "sam_rlx.video_session.1"
_IDENTITY = ("family", "variant", "img_size")
_OPTIONS = (
    "fill_hole_area",
    "non_overlap_masks",
    "keep_corrections",
    "history",
    "memory_selection",
)


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
            The name of an object is no plain Python value (str, int, float, tuple, ...).
        UnsupportedError
            There is a phrase.
        StateError
            The predictor is in use.
        """
        with self._exclusive:
            self._begin()
            if self._phrases:
                raise UnsupportedError("save: expected a session without phrases, found one with")
            names = {handle: repr(obj_id) for obj_id, handle in self._handles.items()}
            for obj_id, handle in self._handles.items():
                if _plain(names[handle]) != obj_id:
                    raise InvalidArgumentError(
                        f"save: expected names of objects that are plain values, found {obj_id!r}"
                    )
            if self._handles:
                self._prepare()
            state = self._core.export_state()
            pushed = self._pushed
            self._commit()
        arrays: dict[str, Any] = {f"state.{name}": array for name, array in state.items()}
        with atomic_write(path) as file:
            np.savez(
                file,
                format=_FORMAT,
                **self._identity(),
                options=[self._options[name] for name in _OPTIONS],
                resize=self._resize,
                pushed=-1 if self._source is not None else pushed,
                names=np.asarray([names[h] for h in state["handles"].tolist()], np.str_),
                **arrays,
            )

    def _identity(self) -> dict[str, Any]:
        return {name: getattr(self._model, name) for name in _IDENTITY}

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
        fields = _read_session(os.fspath(path))
        name = os.fspath(path)
        options: dict[str, Any] = dict(
            zip(_OPTIONS, fields["options"].astype(np.int64).tolist(), strict=True)
        )
        options["history"] = None if options["history"] < 0 else options["history"]
        options["resize"] = fields["resize"].item()
        session = cls(model, frames, num_threads=num_threads, **options)
        for key, value in session._identity().items():
            if fields[key].item() != value:
                raise CheckpointError(
                    f"{name}: expected {key} {value!r}, found {fields[key].item()!r}"
                )
        pushed = int(fields["pushed"])
        if (pushed >= 0) != (session._source is None):
            kind = "a video" if pushed < 0 else "push"
            raise CheckpointError(f"{name}: expected a session with its frames, found {kind}")
        state = {
            key.removeprefix("state."): value
            for key, value in fields.items()
            if key.startswith("state.")
        }
        session._core.import_state(state)
        session._pushed = max(pushed, 0)
        handles = state["handles"].tolist()
        names = [_plain(text) for text in fields["names"].tolist()]
        session._handles = dict(zip(names, handles, strict=True))
        session._next_handle = max(handles, default=-1) + 1
        session._commit()
        return session


def _plain(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def _read_session(name: str) -> dict[str, NDArray[Any]]:
    try:
        with Path(name).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            fields = {key: archive[key] for key in archive.files}
        if fields["format"].item() != _FORMAT:
            raise ValueError(f"format {fields['format'].item()!r}")
        missing = {"options", "resize", "pushed", "names", *_IDENTITY} - fields.keys()
        if missing:
            raise ValueError(f"no {sorted(missing)}")
    except (ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{name}: expected a video session, found {error}") from error
    return fields
