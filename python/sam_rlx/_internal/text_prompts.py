"""Texts of a session of `VideoPredictor`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sam_rlx._internal.arrays import checks
from sam_rlx._internal.arrays.checks import as_integer
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError

# The text of examples that come without one, as upstream.
VISUAL = "visual"
# Where nothing is followed yet, upstream takes any finding for a new object.
_DEFAULTS = {"new_det_thresh_without_masklets": True}
# Upstream's object of an example without a text is matched with nothing on other frames: its rule
# for errors of the detector would remove it.
TRUSTED = {"hotstart_delay": 0}
# Of a stream, which may have no end: frames after which an object that is not seen is forgotten.
_FORGET = "forget_unseen_after"
_STREAM = {_FORGET: 300}


def checked_options(
    options: Mapping[str, Any], streaming: bool, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of upstream's video model, with those that differ here.

    `own` are the defaults of a model that are not its family's.
    """
    if _FORGET in options and not streaming:
        raise InvalidArgumentError(
            f"text_options: expected {_FORGET} with pushed frames only, found frames"
        )
    checked = {**_DEFAULTS, **own, **(_STREAM if streaming else {}), **options}
    as_integer(_FORGET, checked.get(_FORGET, 0), 0)
    return checked


def as_texts(text: str | Sequence[str] | None) -> list[str]:
    """Return texts as a list; without one, examples alone say what is meant."""
    if text is None:
        return [VISUAL]
    texts = checks.as_texts("text", text)
    if not texts:
        raise InvalidArgumentError(
            f"text: expected a str, or some in a sequence, found {shown(text)}"
        )
    return list(texts)
