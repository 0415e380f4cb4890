"""``auto_annotate``: label files of a folder, from the boxes of a detector."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.ultralytics.models.sam.model import SAM
from sam_rlx.compat.ultralytics.sources import items
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

__all__ = ["auto_annotate"]


def auto_annotate(
    data: str | os.PathLike[str],
    det_model: str | Callable[..., Any] = "yolo26x.pt",
    sam_model: Any = "sam_b.pt",
    device: str = "",
    conf: float = 0.25,
    iou: float = 0.45,
    imgsz: int = 640,
    max_det: int = 300,
    classes: Sequence[int] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Write a label file for each image of a folder: the outlines of what a detector finds.

    Parameters
    ----------
    data : str or path
        A folder of images.
    det_model : callable
        Gets an image (H, W, 3) in BGR; gives boxes (N, 4), or (N, 6) with score and class, or
        results with ``boxes``. A model object of an installed ultralytics is one, and gets `conf`,
        `iou`, `imgsz`, `max_det`, `classes` and `device` too. A name is an `UnsupportedError`: no
        detector is part of this package.
    sam_model : SAM, str or path
        The model of the masks.
    device : str
        Of the detector; the masks are computed on the CPU.
    conf, max_det, classes
        Limits of what is taken from the detector.
    iou, imgsz
        For the detector alone.
    output_dir : str or path, optional
        Default: beside `data`, its name and ``_auto_annotate_labels``.

    Raises
    ------
    UnsupportedError
        `det_model` is a name.
    InvalidArgumentError
        The detector gives something else.
    """
    if not callable(det_model):
        raise UnsupportedError(
            f"det_model: expected a function that gives boxes, found {det_model!r}: no detector is "
            "part of sam_rlx; an object of ultralytics.YOLO is taken where that is installed"
        )
    of_ultralytics = type(det_model).__module__.partition(".")[0] == "ultralytics"
    options: dict[str, Any] = {}
    if of_ultralytics:
        options = {"conf": conf, "iou": iou, "imgsz": imgsz, "max_det": max_det}
        options |= {"classes": classes, "device": device, "verbose": False}
    else:
        check_device(device or None)
    sam = sam_model if isinstance(sam_model, SAM) else SAM(sam_model)
    folder = Path(data)
    target = (
        Path(output_dir) if output_dir else folder.with_name(f"{folder.stem}_auto_annotate_labels")
    )
    target.mkdir(parents=True, exist_ok=True)
    for item in items(folder):
        image = np.ascontiguousarray(item.pixels[:, :, ::-1])
        rows = _rows(det_model(image, **options))
        rows = rows[rows[:, 4] >= conf]
        if classes is not None:
            rows = rows[np.isin(rows[:, 5], list(classes))]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")[:max_det]]
        lines = []
        if len(rows):
            (found,) = sam.predict(image, bboxes=rows[:, :4], conf=0.0, verbose=False)
            for number, outline in zip(rows[:, 5], _outlines(found, len(rows)), strict=True):
                if len(outline):
                    corners = " ".join(f"{value:.6g}" for value in outline.ravel())
                    lines.append(f"{int(number)} {corners}\n")
            (target / f"{Path(item.path).stem}.txt").write_text("".join(lines), encoding="utf-8")


def _outlines(found: Any, count: int) -> list[NDArray[np.float32]]:
    """Return the outline of each object; an empty mask has none."""
    outlines = [np.zeros((0, 2), np.float32)] * count
    if found.masks is not None:
        for number, outline in zip(
            np.asarray(found.boxes.cls).tolist(), found.masks.xyn, strict=True
        ):
            outlines[int(number)] = outline
    return outlines


def _rows(found: Any) -> NDArray[np.float64]:
    """Return boxes (N, 6): corners, score and class."""
    if isinstance(found, (list, tuple)) and len(found) == 1 and hasattr(found[0], "boxes"):
        found = found[0]
    boxes = getattr(found, "boxes", None)
    if boxes is not None:
        parts = (boxes.xyxy, boxes.conf, boxes.cls)
        found = np.column_stack([np.asarray(to_array(part, np.float64)) for part in parts])
    rows = to_array(found, np.float64)
    if rows is not None and rows.size == 0:
        return np.zeros((0, 6))
    if rows is None or rows.ndim != 2 or rows.shape[1] not in (4, 6):
        raise InvalidArgumentError(
            "det_model: expected boxes (N, 4) or (N, 6), or results with boxes, found "
            f"{type(found).__name__}{'' if rows is None else f' of shape {rows.shape}'}"
        )
    if rows.shape[1] == 4:
        rows = np.column_stack([rows, np.ones(len(rows)), np.zeros(len(rows))])
    return rows


__dir__ = public_names(__name__)
