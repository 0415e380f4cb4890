"""How messages describe objects."""

from typing import Any

from sam_rlx.apps.annotator.tracks import stale_runs
from sam_rlx.apps.annotator.values import BoxPrompt, Gone, Object, Point


def described(one: Object, mask: int | None = None) -> dict[str, Any]:
    """Return what a message says of an object of an image, whose mask has a number.

    Of an object of a clip, without one, points and boxes end with their frame.
    """
    points = [each for each in one.prompts if isinstance(each, Point)]
    boxes = {each.frame: each for each in one.prompts if isinstance(each, BoxPrompt)}
    of_clip = mask is None
    return {
        "id": one.number,
        "name": one.name,
        "color": list(one.color),
        "class": one.class_number,
        "note": one.note,
        "locked": one.locked,
        "points": [[p.x, p.y, p.label, *([p.frame] if of_clip else ())] for p in points],
        "point_numbers": [each.number for each in points],
        "boxes": [[*b.box, *([b.frame] if of_clip else ())] for b in boxes.values()],
        "box_numbers": [each.number for each in boxes.values()],
        "candidate": one.candidate,
        "candidates": max(len(one.candidates), 1),
        "score": None if of_clip else one.score,
        "how": None if of_clip else one.masks[min(one.masks)].how,
        "text": one.text,
        "stale": stale_runs(one) if of_clip else [],
        "gone": [each.frame for each in one.prompts if isinstance(each, Gone)],
        "mask": mask,
    }
