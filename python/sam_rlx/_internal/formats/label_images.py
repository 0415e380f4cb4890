"""Images whose pixels are the numbers of objects."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.formats.instances import Instance


def label_image(
    instances: Sequence[Instance], hw: tuple[int, int], numbers: Sequence[int] | None = None
) -> NDArray[Any]:
    """Return an array (H, W): 0 for the ground, the number of each object, by default i + 1.

    Where masks overlap, the smaller one is on top; of equal ones the later. The dtype is uint16,
    with numbers over 65,535 uint32.
    """
    if numbers is None:
        numbers = range(1, len(instances) + 1)
    most = max(numbers, default=0)
    labels = np.zeros(hw, np.uint16 if most <= np.iinfo(np.uint16).max else np.uint32)
    for index in sorted(range(len(instances)), key=lambda index: -instances[index].area):
        x, y, width, height = instances[index].box
        if width:
            window = labels[y : y + height, x : x + width]
            window[instances[index].window(x, y, width, height)] = numbers[index]
    return labels
