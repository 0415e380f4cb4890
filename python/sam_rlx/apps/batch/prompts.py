"""One rule for what points and boxes show, wherever they come from."""

from typing import Any

from sam_rlx._internal.arrays.prompts import as_marks
from sam_rlx.apps.batch.items import Prompt
from sam_rlx.errors import InvalidArgumentError


def objects(points: Any, labels: Any, boxes: Any, names: tuple[str, str, str]) -> list[Prompt]:
    """Return the objects that points and boxes show, as `ImagePredictor.predict` takes them.

    Points are one object, with one box or without. Several boxes are an object each.

    Parameters
    ----------
    points, labels, boxes : array (N, 2), (N,) and (B, 4), or None
        In pixels; one point or box may stand alone.
    names : tuple of str
        What points, labels and boxes are called in errors.

    Raises
    ------
    InvalidArgumentError
        A shape or value is wrong, an array is empty, or there are several boxes beside points.
    """
    marks = as_marks(names[:2], points, labels, 2)
    frames = as_marks((names[2], "labels"), boxes, None, 4)
    found = [] if frames is None else [tuple(row) for row in frames.values.tolist()]
    if marks is None:
        return [Prompt(str(number), box=box) for number, box in enumerate(found)]
    if len(found) > 1:
        raise InvalidArgumentError(
            f"{names[2]}: expected several alone, or one beside points, found {len(found)} with "
            "points"
        )
    pairs = tuple((x, y) for x, y in marks.values.tolist())
    return [Prompt("0", pairs, tuple(marks.labels.tolist()), found[0] if found else None)]
