"""The helpers of ``sam3.visualization_utils`` that upstream's notebooks call.

Those that draw on a figure need matplotlib, which is no dependency of this package; `sam_rlx.viz`
draws on arrays without it. What reads upstream's data sets is not offered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io, viz
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.packages import optional
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects, require
from sam_rlx.compat.common.tensors import as_result, numbers
from sam_rlx.errors import InvalidArgumentError

_ALPHA = 0.6


def _matplotlib(module: str) -> Any:
    """Return a module of matplotlib; `MissingExtraError` without it."""
    return optional("visualization_utils", f"matplotlib.{module}", "matplotlib")


def _color(index: int) -> tuple[float, float, float]:
    red, green, blue = viz.color(index)
    return red / 255, green / 255, blue / 255


# ---------------------------------------------------------------- numbers


@expects("a box [x, y, w, h] or boxes (..., 4), and the sides of the image")
def normalize_bbox(bbox_xywh: Any, img_w: float, img_h: float) -> Any:
    """Divide boxes by the sides of the image: a list of four numbers, or an array (..., 4)."""
    sides = (img_w, img_h, img_w, img_h)
    if isinstance(bbox_xywh, list):
        require(
            len(bbox_xywh) == 4, f"bbox_xywh: expected a list of 4, found {len(bbox_xywh)} entries"
        )
        return [value / side for value, side in zip(bbox_xywh, sides, strict=True)]
    values = numbers(bbox_xywh)
    require(values.shape[-1:] == (4,), f"bbox_xywh: expected (..., 4), found {values.shape}")
    dtype = values.dtype if values.dtype.kind == "f" else np.float32
    return as_result(values.astype(dtype) / np.array(sides, dtype))


@expects("outputs by frame, as propagate_in_video gives them")
def prepare_masks_for_visualization(frame_to_output: dict[int, Any]) -> dict[int, Any]:
    """Replace the outputs of each frame by its masks by object, without empty ones."""
    for frame_idx, out in frame_to_output.items():
        pairs = zip(np.asarray(out["out_obj_ids"]).tolist(), out["out_binary_masks"], strict=True)
        frame_to_output[frame_idx] = {obj_id: mask for obj_id, mask in pairs if mask.any()}
    return frame_to_output


def load_frame(frame: Any) -> NDArray[Any]:
    """Return a frame as an array: an array as it is, a PIL image, or the path of an image."""
    if isinstance(frame, np.ndarray):
        return frame
    if hasattr(frame, "convert"):
        return np.array(frame)
    if isinstance(frame, (str, os.PathLike)) and os.path.isfile(frame):  # noqa: PTH113
        return io.read_image(frame)
    raise InvalidArgumentError(
        f"frame: expected an array, a PIL image or the path of an image, found {frame!r:.80}"
    )


def draw_box_on_image(image: Any, box: Sequence[float], color: Sequence[int] = (0, 255, 0)) -> Any:
    """Return a PIL image with the outline of a box (x, y, w, h), 3 pixels wide."""
    canvas = np.array(image.convert("RGB"))
    x, y, width, height = (int(value) for value in box)
    for inset in (-1, 0, 1):
        left, top = x + inset, y + inset
        right, bottom = x + width - 1 - inset, y + height - 1 - inset
        rows, columns = _within(top, bottom, canvas.shape[0]), _within(left, right, canvas.shape[1])
        for row in (top, bottom):
            if 0 <= row < canvas.shape[0]:
                canvas[row, columns] = color
        for column in (left, right):
            if 0 <= column < canvas.shape[1]:
                canvas[rows, column] = color
    return io.pillow("Image").fromarray(canvas)


def _within(first: int, last: int, length: int) -> slice:
    return slice(max(first, 0), max(min(last + 1, length), 0))


@expects("an image (H, W, 3) and the outputs of a frame")
def render_masklet_frame(
    img: NDArray[Any], outputs: Mapping[str, Any], frame_idx: int | None = None, alpha: float = 0.5
) -> NDArray[np.uint8]:
    """Return an image (H, W, 3), uint8, with masks, boxes, numbers and scores of a frame."""
    pixels = as_rgb(img)
    height, width = pixels.shape[:2]
    ids = np.asarray(outputs["out_obj_ids"]).astype(int).tolist()
    boxes = np.asarray(outputs["out_boxes_xywh"], np.float64).reshape(-1, 4)
    corners = boxes * np.array([width, height, width, height])
    corners[:, 2:] += corners[:, :2]
    captions = [
        f"id={obj_id}, p={float(score):.2f}"
        for obj_id, score in zip(ids, outputs["out_probs"], strict=True)
    ]
    return viz.overlay(
        pixels,
        np.asarray(outputs["out_binary_masks"], np.bool_).reshape(-1, height, width),
        boxes=corners,
        identities=ids,
        captions=captions,
        opacity=alpha,
    )


def save_masklet_image(
    frame: Any,
    outputs: Mapping[str, Any],
    out_path: str | os.PathLike[str],
    alpha: float = 0.5,
    frame_idx: int | None = None,
) -> None:
    """Write a frame with its masks as an image file."""
    io.write_image(out_path, render_masklet_frame(load_frame(frame), outputs, frame_idx, alpha))


# ---------------------------------------------------------------- figures


def show_mask(mask: Any, ax: Any, obj_id: int | None = None, random_color: bool = False) -> None:
    """Draw a mask on axes of matplotlib."""
    pixels = np.asarray(mask)
    height, width = pixels.shape[-2:]
    index = int(np.random.default_rng().integers(256)) if random_color else (obj_id or 0)
    color = np.array([*_color(index), _ALPHA])
    ax.imshow(pixels.reshape(height, width, 1) * color.reshape(1, 1, -1))


def show_box(box: Any, ax: Any) -> None:
    """Draw a box (x0, y0, x1, y1) on axes of matplotlib."""
    x0, y0, x1, y1 = np.asarray(box, np.float64).tolist()
    style = {"edgecolor": "green", "facecolor": (0, 0, 0, 0), "lw": 2}
    ax.add_patch(_matplotlib("pyplot").Rectangle((x0, y0), x1 - x0, y1 - y0, **style))


def show_points(coords: Any, labels: Any, ax: Any, marker_size: float = 375) -> None:
    """Draw points (N, 2) on axes of matplotlib: green where the label is 1, red where it is 0."""
    points, marks = np.asarray(coords), np.asarray(labels)
    for label, color in ((1, "green"), (0, "red")):
        chosen = points[marks == label]
        style = {"marker": "*", "s": marker_size, "edgecolor": "white", "linewidth": 1.25}
        ax.scatter(chosen[:, 0], chosen[:, 1], color=color, **style)


def plot_mask(mask: Any, color: Any = "r", ax: Any = None) -> None:
    """Draw a mask (H, W) with a color of matplotlib on axes, or on the current ones."""
    ax = _matplotlib("pyplot").gca() if ax is None else ax
    red, green, blue = _matplotlib("colors").to_rgb(color)
    ax.imshow(np.asarray(mask)[..., None] * np.array([red, green, blue, 0.5], np.float32))


def plot_results(img: Any, results: Mapping[str, Any]) -> None:
    """Draw what a state of `Sam3Processor` found on its PIL image, in a figure."""
    plt = _matplotlib("pyplot")
    plt.figure(figsize=(12, 8))
    plt.imshow(img)
    scores = np.asarray(results["scores"])
    print(f"found {len(scores)} object(s)")
    for index, score in enumerate(scores.tolist()):
        color = _color(index)
        plot_mask(np.asarray(results["masks"][index]).squeeze(0), color=color)
        x0, y0, x1, y1 = np.asarray(results["boxes"][index]).tolist()
        style = {"edgecolor": color, "facecolor": (0, 0, 0, 0), "lw": 2}
        plt.gca().add_patch(plt.Rectangle((x0, y0), x1 - x0, y1 - y0, **style))
        plt.text(x0, y0, f"(id={index}, prob={score:.2f})", color=color)


def visualize_formatted_frame_output(
    frame_idx: int,
    video_frames: Sequence[Any],
    outputs_list: Any,
    titles: Sequence[str] | None = None,
    points_list: Sequence[Any] | None = None,
    points_labels_list: Sequence[Any] | None = None,
    figsize: tuple[float, float] = (12, 8),
    title_suffix: str = "",
    prompt_info: Any = None,
) -> None:
    """Draw masks by object on a frame, one axes for each set of outputs.

    `outputs_list` holds dicts {frame: {object: mask}}, as `prepare_masks_for_visualization` gives
    them, or is one such dict. `points_list` and `points_labels_list` hold the points (N, 2) and
    labels of each set; `prompt_info` has no effect.
    """
    plt = _matplotlib("pyplot")
    sets = [outputs_list] if isinstance(outputs_list, dict) else list(outputs_list)
    image = load_frame(video_frames[frame_idx])
    figure = plt.figure(figsize=figsize)
    for index, outputs in enumerate(sets):
        ax = figure.add_subplot(1, len(sets), index + 1)
        title = titles[index] if titles is not None else f"Set {index + 1}"
        ax.set_title(f"Frame {frame_idx} - {title}{title_suffix}")
        ax.imshow(image)
        ax.axis("off")
        for obj_id, mask in outputs.get(frame_idx, {}).items():
            show_mask(mask, ax, obj_id=int(obj_id))
        if points_list is not None and points_list[index] is not None:
            labels = None if points_labels_list is None else points_labels_list[index]
            points = np.asarray(points_list[index])
            show_points(points, np.ones(len(points)) if labels is None else labels, ax)


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"visualization_utils: expected a helper of upstream's notebooks, found "
        f"{name}: drawing on arrays is in sam_rlx.viz"
    )


__dir__ = public_names(__name__)
