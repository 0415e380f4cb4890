"""Results as a table: a row for each object."""

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.packages import optional


def columns(
    instances: Sequence[Instance], pixels: NDArray[np.uint8] | None = None
) -> dict[str, list[Any]]:
    """Return the columns of a table of objects.

    Parameters
    ----------
    instances : sequence of Instance
        The objects.
    pixels : uint8 (H, W, 3), optional
        Their image; gives ``red, green, blue``: the mean value, 0 to 255, under the mask.

    Returns
    -------
    dict
        ``index, name, object, frame, score, area`` in pixels, ``x, y, width, height`` of the box in
        pixels, ``centroid_x, centroid_y`` (mean pixel index). None where nothing is known.
    """
    boxes = [instance.box for instance in instances]
    centroids = [instance.centroid for instance in instances]
    table: dict[str, list[Any]] = {
        "index": list(range(len(instances))),
        "name": [instance.name for instance in instances],
        "object": [instance.track for instance in instances],
        "frame": [instance.frame for instance in instances],
        "score": [instance.score for instance in instances],
        "area": [instance.area for instance in instances],
    }
    for column, name in enumerate(("x", "y", "width", "height")):
        table[name] = [box[column] for box in boxes]
    for column, name in enumerate(("centroid_x", "centroid_y")):
        table[name] = [centroid[column] for centroid in centroids]
    if pixels is not None:
        means = [instance.mean_color(pixels) for instance in instances]
        for column, name in enumerate(("red", "green", "blue")):
            table[name] = [mean[column] for mean in means]
    return table


def csv_text(table: dict[str, list[Any]]) -> str:
    """Return a table as CSV with a line of names; what is not known is empty."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow("" if value is None or value != value else value for value in row)
    return text.getvalue()


def data_frame(table: dict[str, list[Any]]) -> Any:
    """Return a table as a pandas.DataFrame; `MissingExtraError` without pandas."""
    return optional("to_pandas", "pandas", "pandas").DataFrame(table)
