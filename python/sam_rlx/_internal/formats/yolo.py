"""Label files of YOLO: one line an object, coordinates as fractions of the image's sides."""

import json
from collections.abc import Sequence

from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.formats.outlines import one_line
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError


def lines(
    instances: Sequence[Instance],
    categories: Sequence[str],
    *,
    box: bool = False,
    tolerance: float = 0.0,
) -> str:
    """Return the text of a label file; empty masks have no line.

    Parameters
    ----------
    instances : sequence of Instance
        The objects.
    categories : sequence of str
        Names in the order of the numbers 0, 1, 2, ...
    box : bool
        True: ``class cx cy width height``; False: ``class x0 y0 x1 y1 ...``. Parts and holes of a
        mask are joined by lines there and back.
    tolerance : float
        As for `polygons`.

    Raises
    ------
    InvalidArgumentError
        The name of an object is not among `categories`.
    """
    numbers = {name: number for number, name in enumerate(categories)}
    text = []
    for instance in instances:
        if instance.name not in numbers:
            raise InvalidArgumentError(
                f"categories: expected {shown(instance.name)} among them, found "
                f"{shown(list(categories))}"
            )
        if not instance.area:
            continue
        height, width = instance.size
        if box:
            x, y, w, h = instance.box
            values = [(x + w / 2) / width, (y + h / 2) / height, w / width, h / height]
        else:
            line = one_line(instance.outlines(tolerance))
            values = [
                value / (height if position % 2 else width) for position, value in enumerate(line)
            ]
        text.append(" ".join([str(numbers[instance.name]), *(f"{value:.6g}" for value in values)]))
    return "".join(f"{line}\n" for line in text)


def data_yaml(categories: Sequence[str], train: str = "images", val: str = "images") -> str:
    """Return the ``data.yaml`` of a folder with ``labels/`` beside its images, below it."""
    # JSON's texts are YAML's double-quoted ones.
    names = "".join(f"  {number}: {json.dumps(name)}\n" for number, name in enumerate(categories))
    return f"path: .\ntrain: {train}\nval: {val}\nnames:\n{names}"
