"""Objects that phrases name in a video: a part of `VideoPredictor`."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._arrays import as_integer
from sam_rlx.errors import InvalidArgumentError, StateError
from sam_rlx.model import Model
from sam_rlx.tokenizer import Tokenizer

# The phrase of examples that come without one, as upstream.
VISUAL = "visual"
# Where nothing is followed yet, upstream takes any finding for a new object.
_DEFAULTS = {"new_det_thresh_without_masklets": True}
# Upstream's object of an example without a phrase is matched with nothing on other frames: its rule
# for errors of the detector would remove it.
_TRUSTED = {"hotstart_delay": 0}
# Of a stream, which may have no end: frames after which an object that is not seen is forgotten.
_FORGET = "forget_unseen_after"
_STREAM = {_FORGET: 300}


@dataclass
class Phrase:
    """What one phrase named so far.

    Attributes
    ----------
    text : str
        The phrase.
    core : _core.MaskletTracker
        Its objects.
    first : int
        The frame it was given on.
    done : set of int
        Frames that were searched by propagation.
    refined : dict
        By object that was clicked: frames that it was tracked on since then.
    """

    text: str
    core: _core.MaskletTracker
    first: int
    done: set[int] = field(default_factory=set)
    refined: dict[int, set[int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PhrasesState:
    """What the phrases of a session were after a call. Nothing in it is changed any more."""

    phrases: list[tuple[Phrase, _core.MaskletState, set[int], dict[int, set[int]]]]
    names: dict[int, int]
    next_name: int


def _copy_of(refined: dict[int, set[int]]) -> dict[int, set[int]]:
    return {handle: set(frames) for handle, frames in refined.items()}


class Phrases:
    """The phrases of a session.

    Parameters
    ----------
    model : Model
        Of SAM 3.
    core : _core.VideoPredictor
        The session.
    options : mapping
        Of upstream's video model.
    streaming : bool
        True: frames are never asked for again.
    """

    def __init__(
        self, model: Model, core: _core.VideoPredictor, options: Mapping[str, Any], streaming: bool
    ) -> None:
        self._model = model
        self._core = core
        if _FORGET in options and not streaming:
            raise InvalidArgumentError(
                f"phrase_options: expected {_FORGET} with pushed frames only, found frames"
            )
        self._options = {**_DEFAULTS, **(_STREAM if streaming else {}), **options}
        as_integer(_FORGET, self._options.get(_FORGET, 0), 0)
        self._streaming = streaming
        self._phrases: list[Phrase] = []
        self._names: dict[int, int] = {}
        self._next_name = 0

    def __bool__(self) -> bool:
        return bool(self._phrases)

    @property
    def delay(self) -> int:
        """Frames that are held back, since objects may turn out to be none."""
        return max((phrase.core.hotstart_delay for phrase in self._phrases), default=0)

    def reset(self) -> None:
        """Forget all phrases and their objects."""
        self._phrases.clear()
        self._names.clear()
        self._next_name = 0

    def state(self) -> PhrasesState:
        """Return a copy of all that calls change."""
        phrases = [(p, p.core.state, set(p.done), _copy_of(p.refined)) for p in self._phrases]
        return PhrasesState(phrases, dict(self._names), self._next_name)

    def restore(self, state: PhrasesState) -> None:
        """Go back to what `state` was."""
        for phrase, core, done, refined in state.phrases:
            phrase.core.state = core
            phrase.done = set(done)
            phrase.refined = _copy_of(refined)
        self._phrases = [phrase for phrase, *_ in state.phrases]
        self._names = dict(state.names)
        self._next_name = state.next_name

    # ---------------------------------------------------------------- names

    def reserve(self, obj_id: Hashable) -> None:
        """Give no object that is found the name of another one."""
        if isinstance(obj_id, (int, np.integer)):
            self._next_name = max(self._next_name, int(obj_id) + 1)

    def obj_ids(self) -> list[Hashable]:
        """Names of the objects that were found and are followed."""
        return [self._names[h] for phrase in self._phrases for h in phrase.core.obj_ids]

    def find(self, obj_id: Hashable) -> tuple[Phrase, int] | None:
        """Return the phrase and the number of an object."""
        for phrase in self._phrases:
            for handle in phrase.core.obj_ids:
                if self._names[handle] == obj_id:
                    return phrase, handle
        return None

    def first_frames(self) -> list[int]:
        """Return the frame of each phrase where tracking begins."""
        return [phrase.first for phrase in self._phrases]

    # ---------------------------------------------------------------- prompts

    def make(self, text: str | None, first: int) -> Phrase:
        """Add a phrase; `first`: the frame it begins on."""
        tokenizer = Tokenizer(self._model.config["text"]["context_length"])
        ids = tokenizer(VISUAL if text is None else text)[0]
        options = self._options if text is not None else {**self._options, **_TRUSTED}
        core = _core.MaskletTracker(self._core, ids.tolist(), text is not None, options)
        self._phrases.append(Phrase(VISUAL if text is None else text, core, first))
        return self._phrases[-1]

    def refine(
        self,
        frame: int,
        obj_id: Hashable,
        points: tuple[NDArray[np.float64], NDArray[np.int32]],
        clear_old_points: bool,
    ) -> None:
        """Correct an object that was found by clicks."""
        found = self.find(obj_id)
        assert found is not None
        phrase, handle = found
        if not phrase.core.has_results(frame):
            raise StateError(
                f"frame_index: expected a frame that was tracked, to correct what was found, "
                f"found {frame}"
            )
        phrase.core.refine(frame, handle, *points, clear_old_points)
        phrase.refined[handle] = set()

    def remove(self, obj_id: Hashable) -> bool:
        """Forget an object; False if it was not found by a phrase."""
        found = self.find(obj_id)
        if found is None:
            return False
        phrase, handle = found
        phrase.core.remove_object(handle)
        phrase.refined.pop(handle, None)
        return True

    # ---------------------------------------------------------------- frames

    def needs_frame(self, index: int) -> bool:
        """Whether the frame has to be at hand for `step`."""
        return any(index not in p.done or self._pending(p, index) for p in self._phrases)

    @staticmethod
    def _pending(phrase: Phrase, index: int) -> list[int]:
        alive = set(phrase.core.obj_ids)
        return [h for h, done in phrase.refined.items() if index not in done and h in alive]

    def step(self, index: int, reverse: bool, next_handle: int) -> int:
        """Do what a frame lacks; returns the next number of an object."""
        for phrase in self._phrases:
            if index not in phrase.done:
                next_handle = self.search(phrase, index, reverse, next_handle)
                if self._streaming:
                    phrase.core.drop_results_before(index)
                else:
                    phrase.done.add(index)
                pending = list(phrase.refined)
            elif pending := self._pending(phrase, index):
                phrase.core.track_refined(index, reverse, pending)
            if not self._streaming:
                for handle in pending:
                    phrase.refined[handle].add(index)
        if self._streaming:
            self._drop_forgotten()
        return next_handle

    def _drop_forgotten(self) -> None:
        alive = {handle for phrase in self._phrases for handle in phrase.core.obj_ids}
        self._names = {h: name for h, name in self._names.items() if h in alive}
        for phrase in self._phrases:
            phrase.refined = {h: done for h, done in phrase.refined.items() if h in alive}

    def search(self, phrase: Phrase, index: int, reverse: bool, next_handle: int) -> int:
        """Search a frame for one phrase; returns the next number of an object."""
        new = phrase.core.det_track_one_frame(index, reverse, next_handle)
        for handle in range(next_handle, next_handle + new):
            self._names[handle] = self._next_name
            self._next_name += 1
        return next_handle + new

    def results(
        self, index: int
    ) -> tuple[dict[Hashable, NDArray[np.bool_]], dict[Hashable, float], dict[Hashable, str]]:
        """Return masks, scores and phrases of what is seen on a frame, by object."""
        masks: dict[Hashable, NDArray[np.bool_]] = {}
        scores: dict[Hashable, float] = {}
        texts: dict[Hashable, str] = {}
        for phrase in self._phrases:
            handles, pixels, found = phrase.core.results(index)
            names = [self._names[handle] for handle in handles]
            masks.update(zip(names, pixels, strict=True))
            scores.update(zip(names, found, strict=True))
            texts.update((name, phrase.text) for name in names)
        return masks, scores, texts
