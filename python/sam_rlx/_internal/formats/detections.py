"""Results as `supervision.Detections`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.packages import optional


def detections(instances: Sequence[Instance]) -> Any:
    """Return the objects that are not empty; `MissingExtraError` without supervision.

    Boxes are (x0, y0, x1, y1) of the first and last pixels, as supervision makes them of masks.
    Names are in ``data["class_name"]`` and numbered in their order. Objects of a video are
    ``tracker_id`` where all are called by whole numbers, else texts in ``data["object"]``.
    """
    supervision = optional("to_supervision", "supervision", "supervision")
    seen = [instance for instance in instances if instance.area]
    if not seen:
        return supervision.Detections.empty()
    masks = np.empty((len(seen), *seen[0].size), np.bool_)
    boxes = np.empty((len(seen), 4), np.float64)
    for index, instance in enumerate(seen):
        masks[index] = instance.mask()
        x, y, width, height = instance.box
        boxes[index] = x, y, x + width - 1, y + height - 1
    classes = list(dict.fromkeys(instance.name for instance in instances))
    data: dict[str, Any] = {"class_name": np.array([instance.name for instance in seen])}
    tracks = [instance.track for instance in seen]
    numbered = all(isinstance(track, (int, np.integer)) for track in tracks)
    if not numbered and None not in tracks:
        data["object"] = np.array([str(track) for track in tracks])
    scores = [instance.score for instance in seen]
    return supervision.Detections(
        xyxy=boxes,
        mask=masks,
        confidence=None if None in scores else np.array(scores, np.float32),
        class_id=np.array([classes.index(instance.name) for instance in seen]),
        tracker_id=np.array(tracks) if numbered else None,
        data=data,
    )
