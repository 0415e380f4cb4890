"""``Results``: what a call gives for one image."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.drawing import overlay
from sam_rlx._internal.drawing.captions import draw_captions
from sam_rlx._internal.files.inputs import file_name as portable
from sam_rlx._internal.media.image_files import pillow
from sam_rlx._internal.media.image_writer import SUFFIXES, write_pixels
from sam_rlx._internal.packages import missing
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentIndexError
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.ultralytics.engine.base_tensor import BaseTensor, Boxes, Masks
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

__all__ = ["BaseTensor", "Boxes", "Masks", "Results"]
_PARTS = ("boxes", "masks")
_OPACITY = 0.5


class Results:
    """Masks and boxes of one image.

    Parameters
    ----------
    orig_img : ndarray (H, W, 3), uint8
        The image, BGR.
    path : str
        Of its file.
    names : dict of int to str
        Names of the classes.
    boxes : array or tensor (N, 6) or (N, 7), optional
        As `Boxes` takes them.
    masks : array or tensor (N, H, W), optional
        As `Masks` takes them.
    probs, keypoints, obb : None
        Of other networks.
    speed : dict of str to float, optional
        Milliseconds of ``preprocess``, ``inference`` and ``postprocess``.

    Attributes
    ----------
    orig_img, path, names, speed
        As given.
    orig_shape : (int, int)
        Height and width of the image.
    boxes : Boxes or None
        None without objects' boxes.
    masks : Masks or None
        None without objects.
    probs, keypoints, obb : None
        Of other networks.
    save_dir : str or None
        The folder of the files of ``save=True``.
    """

    def __init__(
        self,
        orig_img: NDArray[np.uint8],
        path: str,
        names: Mapping[int, str],
        boxes: Any = None,
        masks: Any = None,
        probs: None = None,
        keypoints: None = None,
        obb: None = None,
        speed: Mapping[str, float] | None = None,
    ) -> None:
        for name, value in (("probs", probs), ("keypoints", keypoints), ("obb", obb)):
            if value is not None:
                raise UnsupportedError(f"{name}: expected None, found values of another network")
        self.orig_img, self.path, self.names = orig_img, path, dict(names)
        self.orig_shape = (orig_img.shape[0], orig_img.shape[1])
        self.boxes = None if boxes is None else Boxes(boxes, self.orig_shape)
        self.masks = None if masks is None else Masks(masks, self.orig_shape)
        self.probs = self.keypoints = self.obb = None
        steps = ("preprocess", "inference", "postprocess")
        self.speed: dict[str, Any] = dict(speed or dict.fromkeys(steps))
        self.save_dir: str | None = None

    # ---------------------------------------------------------------- parts and copies

    def __len__(self) -> int:
        parts = (getattr(self, name) for name in _PARTS)
        return next((len(part) for part in parts if part is not None), 0)

    def __getitem__(self, idx: Any) -> Self:
        if isinstance(idx, int) and not -len(self) <= idx < len(self):
            raise ArgumentIndexError(f"Results: expected less than {len(self)}, found {idx}")
        return self._each(lambda part: part[idx])

    def __repr__(self) -> str:
        return f"<Results {self.path}, {len(self)} objects, {self.orig_shape}>"

    def _each(self, change: Any) -> Self:
        """Return new results, whose parts are changed."""
        found = self.new()
        for name in _PARTS:
            part = getattr(self, name)
            setattr(found, name, None if part is None else change(part))
        return found

    def new(self) -> Self:
        """Return results of the same image without objects."""
        found = type(self)(self.orig_img, self.path, self.names, speed=self.speed)
        found.save_dir = self.save_dir
        return found

    def update(
        self,
        boxes: Any = None,
        masks: Any = None,
        probs: None = None,
        obb: None = None,
        keypoints: None = None,
    ) -> None:
        """Replace boxes, which are clipped to the image, or masks."""
        if any(value is not None for value in (probs, obb, keypoints)):
            raise UnsupportedError(
                "update: expected boxes and masks, found those of other networks"
            )
        if boxes is not None:
            height, width = self.orig_shape
            found = Boxes(boxes, self.orig_shape)
            rows = found.plain().copy()
            rows[:, :4] = np.clip(rows[:, :4], 0, [width, height, width, height])
            self.boxes = Boxes(found._like(rows), self.orig_shape)
        if masks is not None:
            self.masks = Masks(masks, self.orig_shape)

    def cpu(self) -> Self:
        """Return a copy that shares the values."""
        return self._each(lambda part: part.cpu())

    def numpy(self) -> Self:
        """Return a copy with plain arrays."""
        return self._each(lambda part: part.numpy())

    def cuda(self) -> Self:
        """Raise `UnsupportedError`: there is no such device, unless any is taken."""
        return self._each(lambda part: part.cuda())

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return a copy with values of another type; other devices are an `UnsupportedError`."""
        return self._each(lambda part: part.to(*args, **kwargs))

    # ---------------------------------------------------------------- drawing

    def plot(
        self,
        conf: bool = True,
        line_width: float | None = None,
        font_size: float | None = None,
        font: str = "Arial.ttf",
        pil: bool = False,
        img: NDArray[np.uint8] | None = None,
        im_gpu: Any = None,
        kpt_radius: int = 5,
        kpt_line: bool = True,
        labels: bool = True,
        boxes: bool = True,
        masks: bool = True,
        probs: bool = True,
        show: bool = False,
        save: bool = False,
        filename: str | os.PathLike[str] | None = None,
        color_mode: str = "class",
        txt_color: tuple[int, int, int] = (255, 255, 255),
    ) -> Any:
        """Draw the objects over their image.

        Parameters
        ----------
        conf : bool
            Captions have the score.
        line_width : float, optional
            Of outlines and boxes in pixels. Default: by the size of the image.
        font_size, font, im_gpu, kpt_radius, kpt_line, probs, txt_color
            Without effect.
        pil : bool
            Return a PIL image, which is RGB.
        img : ndarray (H, W, 3), uint8, optional
            BGR: drawn on instead of `orig_img`.
        labels, boxes, masks : bool
            Whether they are drawn.
        show : bool
            Also show it.
        save : bool
            Also write it as `filename`.
        filename : str or path, optional
            Default: that of `save`.
        color_mode : {"class", "instance"}
            What chooses the colours.

        Returns
        -------
        ndarray (H, W, 3), uint8
            BGR.
        """
        drawn = self._drawn(self.orig_img if img is None else img, line_width, color_mode,
                            (conf, labels, boxes, masks))  # fmt: skip
        if show:
            pillow("Image").fromarray(drawn).show(title=self.path)
        if save:
            write_pixels(self._target(filename), drawn, is_result=True)
        if pil:
            return pillow("Image").fromarray(drawn)
        return np.ascontiguousarray(drawn[:, :, ::-1])

    def _drawn(
        self,
        image: NDArray[np.uint8],
        width: float | None,
        color_mode: str,
        wanted: tuple[bool, bool, bool, bool],
    ) -> NDArray[np.uint8]:
        """Return RGB; `wanted` is scores, captions, boxes and masks."""
        with_scores, with_captions, with_boxes, with_masks = wanted
        pixels = np.ascontiguousarray(image[:, :, ::-1])
        rows = [] if self.boxes is None else self.boxes.plain().tolist()
        instances = [] if self.masks is None else self.masks.instances()
        count = len(self)
        by_class = color_mode == "class" and len({row[-1] for row in rows}) > 1
        colors = [overlay.color(int(rows[i][-1]) if by_class else i) for i in range(count)]
        order = sorted(range(count), key=lambda i: -instances[i].area if instances else 0)
        runs = [instances[i].counts for i in order] if instances and with_masks else []
        corners = [rows[i][:4] for i in order] if rows and with_boxes else []
        drawn = _core.overlay(
            pixels,
            runs,
            [colors[i] for i in order][: len(runs)],
            _OPACITY,
            overlay.line_width(self.orig_shape) if width is None else float(width),
            np.array(corners, np.float64).reshape(-1, 4),
            [colors[i] for i in order][: len(corners)],
            np.zeros((0, 2)),
            [],
        )
        if not (with_captions and rows):
            return drawn
        captions = [self._caption(rows[i], with_scores) for i in order]
        shapes = (self._shape(instances, rows, i) for i in order)
        return draw_captions(drawn, shapes, captions, [colors[i] for i in order])

    def _shape(self, instances: Any, rows: list[list[float]], index: int) -> NDArray[np.bool_]:
        """Return where the caption of an object belongs: its mask, or its box."""
        if instances and instances[index].size == self.orig_shape:
            mask: NDArray[np.bool_] = instances[index].mask()
            return mask
        box = np.zeros(self.orig_shape, bool)
        x0, y0, x1, y1 = (max(0, int(value)) for value in rows[index][:4])
        box[y0 : y1 + 1, x0 : x1 + 1] = True
        return box

    def _caption(self, row: list[float], with_score: bool) -> str:
        track = [f"id:{int(row[4])}"] if len(row) == 7 else []
        score = [f"{row[-2]:.2f}"] if with_score else []
        return " ".join([*track, self.names.get(int(row[-1]), str(int(row[-1]))), *score])

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Show what `plot` draws, in the viewer of the system."""
        self.plot(*args, **{**kwargs, "show": True})

    # ---------------------------------------------------------------- files

    def _target(self, filename: str | os.PathLike[str] | None) -> Path:
        if filename is not None:
            return Path(filename)
        name = Path(self.path).name
        return Path(
            f"results_{name if name.lower().endswith(SUFFIXES) else Path(name).stem + '.jpg'}"
        )

    def save(
        self, filename: str | os.PathLike[str] | None = None, *args: Any, **kwargs: Any
    ) -> str:
        """Write what `plot` draws; return the name of the file.

        `filename` ends in ``.png``, ``.jpg`` or ``.webp``. Default: ``results_`` and the name of
        the image. Further arguments are those of `plot`.
        """
        target = self._target(filename)
        self.plot(*args, **{**kwargs, "save": True, "filename": target})
        return str(target)

    def save_txt(self, txt_file: str | os.PathLike[str], save_conf: bool = False) -> str:
        """Append one line for each object; return the name of the file.

        A line is the class and the outline, or centre, width and height where there are no masks,
        as fractions of the image's sides; then the score with `save_conf`, and in clips the number
        of the object. Objects with an empty mask have none.
        """
        target = Path(txt_file)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self._lines(save_conf))
        return str(target)

    def _lines(self, save_conf: bool) -> list[str]:
        if self.boxes is None:
            return []
        rows = self.boxes.plain().tolist()
        shapes = np.asarray(self.boxes.xywhn) if self.masks is None else self.masks.xyn
        lines = []
        for row, shape in zip(rows, shapes, strict=True):
            if len(shape):
                numbers = [f"{value:.6g}" for value in np.ravel(shape)]
                score = [f"{row[-2]:.6g}"] if save_conf else []
                track = [str(int(row[4]))] if len(row) == 7 else []
                lines.append(" ".join([str(int(row[-1])), *numbers, *score, *track]))
        return lines

    def save_crop(
        self, save_dir: str | os.PathLike[str], file_name: str | os.PathLike[str] = "im.jpg"
    ) -> None:
        """Write the box of each object as JPEG, in a folder of its class.

        Files that are there stay: the name gets a number.
        """
        stem = Path(file_name).stem
        height, width = self.orig_shape
        for row in [] if self.boxes is None else self.boxes.plain().tolist():
            x0, y0 = (max(0, int(value)) for value in row[:2])
            x1, y1 = min(width, round(row[2])), min(height, round(row[3]))
            if x1 <= x0 or y1 <= y0:
                continue
            name = self.names.get(int(row[-1]), str(int(row[-1])))
            folder = Path(save_dir) / portable(name)
            folder.mkdir(parents=True, exist_ok=True)
            target, number = folder / f"{stem}.jpg", 1
            while target.exists():
                number += 1
                target = folder / f"{stem}{number}.jpg"
            write_pixels(target, np.ascontiguousarray(self.orig_img[y0:y1, x0:x1, ::-1]))

    # ---------------------------------------------------------------- tables

    def summary(self, normalize: bool = False, decimals: int = 5) -> list[dict[str, Any]]:
        """Return a dict for each object.

        Keys are ``name``, ``class``, ``confidence``, ``box`` (``x1, y1, x2, y2``), in clips
        ``track_id``, and ``segments``: the outline as lists ``x`` and ``y``. In pixels, or with
        `normalize` as fractions of the image's sides.
        """
        if self.boxes is None:
            return []
        corners = np.asarray(self.boxes.xyxyn if normalize else self.boxes.xyxy).tolist()
        lines = None
        if self.masks is not None:
            lines = self.masks.xyn if normalize else self.masks.xy
        found = []
        for index, row in enumerate(self.boxes.plain().tolist()):
            box = (round(value, decimals) for value in corners[index])
            entry: dict[str, Any] = {
                "name": self.names.get(int(row[-1]), str(int(row[-1]))),
                "class": int(row[-1]),
                "confidence": round(row[-2], decimals),
                "box": dict(zip(("x1", "y1", "x2", "y2"), box, strict=True)),
            }
            if len(row) == 7:
                entry["track_id"] = int(row[4])
            if lines is not None:
                x, y = lines[index].astype(np.float64).round(decimals).T.tolist()
                entry["segments"] = {"x": x, "y": y}
            found.append(entry)
        return found

    def to_json(self, normalize: bool = False, decimals: int = 5) -> str:
        """Return `summary` as JSON."""
        return json.dumps(self.summary(normalize, decimals), indent=2)

    tojson = to_json

    def to_df(self, normalize: bool = False, decimals: int = 5) -> Any:
        """Return `summary` as a DataFrame of pandas, or of polars.

        Of the two the one that the program has imported, else the one that is installed.

        Raises
        ------
        MissingExtraError
            Neither is installed.
        """
        names = sorted(("pandas", "polars"), key=lambda name: name not in sys.modules)
        for name in names:
            try:
                package = __import__(name)
            except ImportError:
                continue
            return package.DataFrame(self.summary(normalize, decimals))
        raise missing("to_df", "pandas", "neither it nor polars")

    def verbose(self) -> str:
        """Return how many objects of each class there are, in words."""
        if not len(self):
            return "(no detections), "
        if self.boxes is None:
            return f"{len(self)} masks, "
        counts = Counter(self.names.get(int(row[-1]), "") for row in self.boxes.plain().tolist())
        return "".join(f"{count} {name}{'s' * (count > 1)}, " for name, count in counts.items())


def as_results(
    image: NDArray[np.uint8],
    path: str,
    names: Mapping[int, str],
    rows: NDArray[np.float32],
    masks: NDArray[np.bool_],
    speed: Mapping[str, float],
) -> Results:
    """Return the results of an image in RGB, with tensors where the program uses PyTorch."""
    bgr = np.ascontiguousarray(image[:, :, ::-1])
    if len(masks) != len(rows):
        raise InvalidArgumentError(f"masks: expected {len(rows)}, found {len(masks)}")
    if not len(masks):
        return Results(bgr, path, names, as_result(rows), None, speed=speed)
    return Results(bgr, path, names, as_result(rows), as_result(masks), speed=speed)


__dir__ = public_names(__name__)
