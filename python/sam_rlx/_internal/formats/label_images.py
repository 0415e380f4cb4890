"""Images whose pixels are the numbers of objects."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.formats.instances import Instance


def label_image(instances: Sequence[Instance], hw: tuple[int, int]) -> NDArray[Any]:
    """Return an array (H, W): 0 for the ground, i + 1 for object i.

    Where masks overlap, the smaller one is on top; of equal ones the later. The dtype is uint16,
    with over 65,535 objects uint32.
    """
    labels = np.zeros(hw, np.uint16 if len(instances) <= np.iinfo(np.uint16).max else np.uint32)
    for index in sorted(range(len(instances)), key=lambda index: -instances[index].area):
        x, y, width, height = instances[index].box
        if width:
            window = labels[y : y + height, x : x + width]
            window[instances[index].window(x, y, width, height)] = index + 1
    return labels
