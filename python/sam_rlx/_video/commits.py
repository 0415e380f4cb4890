"""All or nothing: what calls change in a session of the video predictor."""

from collections.abc import Hashable
from dataclasses import dataclass

from sam_rlx import _core
from sam_rlx._video.phrases import Phrases, PhrasesState


@dataclass(frozen=True, eq=False)
class Committed:
    """A session after its last successful call. Nothing in it is changed any more."""

    core: _core.SessionState
    phrases: PhrasesState
    handles: dict[Hashable, int]
    next_handle: int
    pushed: int
    orig_hw: tuple[int, int] | None
    obj_ids: list[Hashable]


class VideoCommits:
    """Begin and end of a call: a part of `VideoPredictor`.

    A call begins with `_begin`, and ends with `_commit` when all of it has succeeded. One that
    fails in between, by an error or by Ctrl-C at any point, just ends: the next call undoes what it
    did. Properties read what is committed, so that other threads may use them during a call.
    """

    _core: _core.VideoPredictor
    _phrases: Phrases
    _handles: dict[Hashable, int]
    _next_handle: int
    _pushed: int
    _committed: Committed
    _is_open: bool

    def _begin(self) -> None:
        if self._is_open:
            before = self._committed
            self._core.state = before.core
            self._phrases.restore(before.phrases)
            self._handles = dict(before.handles)
            self._next_handle = before.next_handle
            self._pushed = before.pushed
        self._is_open = True

    def _commit(self) -> None:
        self._committed = Committed(
            core=self._core.state,
            phrases=self._phrases.state(),
            handles=dict(self._handles),
            next_handle=self._next_handle,
            pushed=self._pushed,
            orig_hw=self._core.orig_hw,
            obj_ids=[*self._handles, *self._phrases.obj_ids()],
        )
        self._is_open = False
