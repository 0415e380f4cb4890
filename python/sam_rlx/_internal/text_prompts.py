"""Texts of a session of `VideoPredictor`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sam_rlx._internal.arrays import checks
from sam_rlx._internal.arrays.checks import as_integer
from sam_rlx._internal.arrays.prompts import Marks, clamped
from sam_rlx._internal.printable import shown
from sam_rlx._internal.video_session import Session
from sam_rlx.errors import InvalidArgumentError

# The text of examples that come without one, as upstream.
VISUAL = "visual"
# Where nothing is followed yet, upstream takes any finding for a new object.
_DEFAULTS = {"new_det_thresh_without_masklets": True}
# Upstream's object of an example without a text is matched with nothing on other frames: its rule
# for errors of the detector would remove it.
_TRUSTED = {"hotstart_delay": 0}
# Of a stream, which may have no end: frames after which an object that is not seen is forgotten.
_FORGET = "forget_unseen_after"
_STREAM = {_FORGET: 300}


def checked_options(options: Mapping[str, Any], streaming: bool) -> dict[str, Any]:
    """Return the options of upstream's video model, with those that differ here."""
    if _FORGET in options and not streaming:
        raise InvalidArgumentError(
            f"text_options: expected {_FORGET} with pushed frames only, found frames"
        )
    checked = {**_DEFAULTS, **(_STREAM if streaming else {}), **options}
    as_integer(_FORGET, checked.get(_FORGET, 0), 0)
    return checked


def as_texts(text: str | Sequence[str] | None) -> list[str | None]:
    """Return texts as a list; None stands for examples alone."""
    if text is None:
        return [None]
    texts = checks.as_texts("text", text)
    if not texts:
        raise InvalidArgumentError(
            f"text: expected a str, or some in a sequence, found {shown(text)}"
        )
    return list(texts)


def add(
    session: Session, text: str | None, ids: list[int], options: dict[str, Any], first: int | None
) -> None:
    """Add a text, and its ids; `first`: the frame it begins on, by default 0."""
    if text is None:
        options = {**options, **_TRUSTED}
    session.texts[session.core.num_texts] = VISUAL if text is None else text
    session.core.add_text(ids, text is not None, options, first or 0)


def search(session: Session, index: int, examples: Marks | None) -> None:
    """Search a frame for the last text."""
    session.load(index)
    if examples is not None:
        assert session.core.orig_hw is not None
        examples = clamped(examples, session.core.orig_hw, "a frame")
        session.core.set_examples(index, examples.values, examples.labels)
    session.core.search(index)
