"""What Python adds to the core's session of a video: frames on demand, and names of objects."""

from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.media.frames import ClipFrames, EndOfFrames, FrameSource
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError, StateError

# What a text found on a frame: names, masks (K, H, W), scores.
Found: TypeAlias = tuple[list[int], NDArray[np.bool_], list[float]]
# A frame: its number, the names of objects by number, what the core shows, what texts found.
FrameParts: TypeAlias = tuple[int, dict[int, Hashable], tuple[Any, ...], list[tuple[str, Found]]]
# Objects that texts name get integers above those that users have chosen, up to this.
_MAX_NAME = 1 << 62


class Session:
    """The core's session with its frames and names.

    What a call changes is in the core, which undoes it if the call fails. Here names may be left of
    objects that there are not: numbers are given anew only together with a name.

    Parameters
    ----------
    core : _core.VideoPredictor
        The session.
    source : FrameSource, optional
        Its frames. None: they are pushed.
    """

    def __init__(self, core: _core.VideoPredictor, source: FrameSource | None) -> None:
        self.core = core
        self.source = source
        self.texts: dict[int, str] = {}
        self._names: dict[int, Hashable] = {}

    # ---------------------------------------------------------------- names

    def published_names(self) -> list[Hashable]:
        """Return the objects of the last call that succeeded. Any thread may ask."""
        _, _, handles, found = self.core.published
        return [*(self._names[handle] for handle in handles), *found]

    def names(self) -> dict[int, Hashable]:
        """Return the objects that prompts show, by number."""
        return {handle: self._names[handle] for handle in self.core.objects}

    def found_handle(self, obj_id: Hashable) -> int | None:
        """Return the number of an object that a text named."""
        return next((h for h, name in self.core.found.items() if name == obj_id), None)

    def known_handle(self, obj_id: Hashable) -> int:
        """Return the number of an object that prompts show."""
        handles = {name: handle for handle, name in self.names().items()}
        try:
            return handles[obj_id]
        except (KeyError, TypeError):
            raise InvalidArgumentError(
                f"obj_id: expected one of {shown(list(handles))}, found {shown(obj_id)}"
            ) from None

    def handle_for(self, obj_id: Hashable) -> int:
        """Return the number of an object that prompts show; a new one gets the next."""
        handles = {name: handle for handle, name in self.names().items()}
        if obj_id not in handles:
            self.name(self.core.next_handle, obj_id)
            return self.core.next_handle
        return handles[obj_id]

    def name(self, handle: int, obj_id: Hashable) -> None:
        """Give a number a name."""
        self._names[handle] = obj_id
        self.core.set_label(handle, shown(obj_id).encode("utf-8", "replace").decode())

    def reserve(self, obj_id: Hashable) -> None:
        """Give no object that is found the name of another one."""
        if isinstance(obj_id, (int, np.integer)):
            self.core.reserve_names(min(int(obj_id) + 1, _MAX_NAME))

    # ---------------------------------------------------------------- frames

    def load(self, index: int) -> None:
        """Make sure that the core has encoded a frame."""
        if self.core.has_frame(index):
            return
        if self.source is None:
            pushed = self.core.num_pushed
            raise StateError(
                f"frame_index: expected {pushed - 1}, the last frame pushed, found {index}"
                if pushed
                else "VideoPredictor: expected a frame from push, found none"
            )
        try:
            self._read(self.source, index)
        except EndOfFrames as end:
            raise InvalidArgumentError(
                f"frame_index: expected less than {end.args[0]}, found {index}"
            ) from None

    def _read(self, source: FrameSource, index: int) -> None:
        if self.core.wants_squares:
            assert isinstance(source, ClipFrames)
            pixels, orig_hw = source.read_square(index, self.core.side)
            self.core.set_frame(index, pixels, orig_hw)
        else:
            self.core.set_frame(index, source.read(index))

    def prepare(self) -> None:
        """Encode the memory of frames with new prompts."""
        while (wanted := self.core.prepare()) is not None:
            self.load(wanted)

    def next(self, propagation: _core.Propagation, return_logits: bool) -> FrameParts | None:
        """Go on by a frame; None when its result is held back, or the video is over."""
        wanted, ready = self.core.next(propagation)
        while wanted is not None:
            assert self.source is not None
            if wanted == propagation.frame:
                try:
                    self._read(self.source, wanted)
                except EndOfFrames:
                    propagation.end()
            else:
                self.load(wanted)
            wanted, ready = self.core.next(propagation)
        return None if ready is None else self.frame(ready, "tracked", return_logits)

    def frame(self, index: int, source: str, return_logits: bool) -> FrameParts:
        """Return what is known of a frame."""
        *shown_there, found = self.core.result(index, source, return_logits)
        return index, self.names(), tuple(shown_there), self._with_texts(found)

    def _with_texts(self, found: list[Found]) -> list[tuple[str, Found]]:
        return [(self.texts[number], one) for number, one in enumerate(found)]
