"""Sessions of clips with texts: what they name, and what was found of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentKeyError, ArgumentRuntimeError
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.transformers.video_sessions import ClipSession
from sam_rlx.errors import InvalidArgumentError, StateError


class Sam3VideoInferenceSession(ClipSession):
    """A clip with texts. Parameters are `ClipSession`'s.

    Texts are kept here, as in upstream; objects are the core's, and are read from it.

    Attributes
    ----------
    prompts : dict of int to str
        The texts by their numbers.
    prompt_input_ids, prompt_attention_masks, prompt_embeddings : dict of int
        Ids (1, L) of each text, which of them count, and what the model made of them.
    hotstart_removed_obj_ids : set of int
        Objects that a run through the clip has removed: no result shows them.
    """

    _objects: _core.SteppedTexts | None

    def _begin(self) -> None:
        self.prompts: dict[int, str] = {}
        self.prompt_input_ids: dict[int, Any] = {}
        self.prompt_attention_masks: dict[int, Any] = {}
        self.prompt_embeddings: dict[int, Any] = {}
        self.hotstart_removed_obj_ids: set[int] = set()
        self._options: dict[str, Any] = {}
        self._is_reset = False

    # ---------------------------------------------------------------- texts

    def add_prompt(self, prompt_text: str) -> int:
        """Return the number of a text; one that is not known is added, without its ids."""
        for number, text in self.prompts.items():
            if text == prompt_text:
                return number
        number = len(self.prompts)
        self.prompts[number] = prompt_text
        return number

    # ---------------------------------------------------------------- objects

    def _state(self) -> dict[str, Any]:
        if self._objects is None:
            last = 0 if self._is_reset else -1
            return {"obj_ids": [], "texts": {}, "scores": {}, "removed": set(), "max_obj_id": last}
        return self._objects.state()

    def _names(self) -> list[Any]:
        return self.obj_ids

    @property
    def obj_ids(self) -> list[int]:
        """Numbers of the objects that are followed."""
        found: list[int] = self._state()["obj_ids"]
        return found

    @property
    def obj_id_to_prompt_id(self) -> dict[int, int]:
        """The text of each object that is followed."""
        found: dict[int, int] = self._state()["texts"]
        return found

    @property
    def obj_id_to_score(self) -> dict[int, float]:
        """Of all objects that there ever were the score they were found with.

        It is -10000 for those that turned out to be none.
        """
        found: dict[int, float] = self._state()["scores"]
        return found

    @property
    def removed_obj_ids(self) -> set[int]:
        """Objects that turned out to be none."""
        found: set[int] = self._state()["removed"]
        return found

    @property
    def max_obj_id(self) -> int:
        """The largest number of an object so far; -1 before the first."""
        found: int = self._state()["max_obj_id"]
        return found

    def obj_id_to_idx(self, obj_id: int) -> int:
        """Return the position of an object; `ArgumentKeyError`: there is none of this number."""
        ids = self.obj_ids
        if obj_id not in ids:
            raise ArgumentKeyError(f"obj_id: expected one of {ids}, found {obj_id!r}")
        return ids.index(obj_id)

    def remove_object(self, obj_id: int, strict: bool = False) -> None:
        """Forget an object. The model may find it anew, with another number.

        Parameters
        ----------
        obj_id : int
            Its number.
        strict : bool
            Whether one that is not known is an error.

        Raises
        ------
        RuntimeError
            With `strict`, there is no such object. Ours.
        """
        if self._objects is not None and obj_id in self.obj_ids:
            self._objects.remove_object(obj_id)
        elif strict:
            raise ArgumentRuntimeError(
                f"obj_id: expected one of {self.obj_ids}, found {obj_id!r}; strict=False ignores it"
            )

    # ---------------------------------------------------------------- begin again

    def reset_tracking_data(self) -> None:
        """Forget objects and their outputs; texts, frames and what was removed stay."""
        if self._objects is not None:
            self._objects.reset_objects()

    def reset_inference_session(self) -> None:
        """Forget objects and their outputs, and the maps of frames; texts stay."""
        self.reset_tracking_data()
        self.cache.clear_all()

    def reset_state(self) -> None:
        """Forget objects and texts. The objects that come then have numbers from 1 on."""
        for kept in (
            *(self.prompts, self.prompt_input_ids, self.prompt_attention_masks),
            self.prompt_embeddings,
        ):
            kept.clear()
        self._is_reset = True
        if self._objects is not None:
            self._objects.reset_texts()

    # ---------------------------------------------------------------- a run

    def _run(self, model: Any, frame_idx: int, *, streaming: bool, reverse: bool) -> dict[str, Any]:
        """Find the texts on a frame; return what the core gives, and its state."""
        pixels = self._frames().pixels(frame_idx)
        if not self.prompts:
            raise InvalidArgumentError(
                "session: expected texts, found none; give them with add_text_prompt first"
            )
        side = model.model.img_size
        if pixels.shape != (3, side, side):
            raise ArgumentRuntimeError(
                f"frame: expected shape (3, {side}, {side}), found {pixels.shape}"
            )
        texts = [self._text(model, number) for number in self.prompts]
        objects = self._objects_of(model)
        objects.set_frame(frame_idx, pixels)
        found = objects.run_texts(frame_idx, len(self._frames()), reverse, streaming, texts)
        return {**found, **objects.state()}

    def _text(self, model: Any, number: int) -> tuple[int, NDArray[Any], NDArray[Any]]:
        """Return a text as the core takes it; the model sees each once."""
        if number not in self.prompt_input_ids:
            raise ArgumentKeyError(
                f"session: expected ids of the text {self.prompts[number]!r}, found none; "
                "add_text_prompt of the processor makes them"
            )
        mask = self.prompt_attention_masks[number]
        if number not in self.prompt_embeddings:
            self.prompt_embeddings[number] = model.get_text_features(
                input_ids=self.prompt_input_ids[number], attention_mask=mask
            )
        tokens = to_array(self.prompt_embeddings[number].pooler_output, np.float32)
        counts = to_array(mask, np.int64)
        assert tokens is not None
        assert counts is not None
        return number, tokens[0], counts[0] == 0

    def _objects_of(self, model: Any) -> _core.SteppedTexts:
        options = model._rules_of_texts()
        if self._objects is None:
            self._objects = _core.SteppedTexts(model.model.core, 0, model._BFLOAT16_MEMORY, options)
            self._model, self._options = model.model, options
            if self._is_reset:
                self._objects.reset_texts()
        self._check_model(model.model)
        if self._options != options:
            raise StateError(
                "session: expected the settings that the model had at its first frame, found others"
            )
        return self._objects


__dir__ = public_names(__name__)
