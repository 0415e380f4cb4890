"""Clicks and boxes on images with SAM 2, EdgeTAM and SAM 3: what transformers' pages show.

The pages are docs/source/en/model_doc/sam2.md, edgetam.md and sam3_tracker.md, and the card of
facebook/sam2.1-hiera-tiny; the last step is the function of a server, as CVAT's for SAM is. The
classes are named by the caller, since the pages make the same calls: Sam2, EdgeTam, Sam3Tracker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

CPU = torch.device("cpu")


def _start(name: str, folder: str) -> tuple[Any, Any]:
    kind = "Sam2Processor" if name == "EdgeTam" else f"{name}Processor"
    model = getattr(transformers, f"{name}Model").from_pretrained(folder).to(CPU)
    return model, getattr(transformers, kind).from_pretrained(folder)


def _masks(processor: Any, outputs: Any, inputs: Any) -> Iterator[Any]:
    yield from processor.post_process_masks(outputs.pred_masks.cpu(), inputs["original_sizes"])
    yield outputs.iou_scores


def _predicted(name: str, folder: str, images: Any, **prompts: Any) -> Iterator[Any]:
    several = prompts.pop("multimask_output", True)
    model, processor = _start(name, folder)
    inputs = processor(images=images, return_tensors="pt", **prompts).to(model.device)
    with torch.no_grad():
        outputs = model(**inputs, multimask_output=several)
    yield from _masks(processor, outputs, inputs)


def one_click(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """One object by one click: three masks and their scores."""
    points, labels = [[[[40, 30]]]], [[[1]]]
    yield from _predicted(name, folder, images[0], input_points=points, input_labels=labels)


def several_points(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """One object by points, of which one takes a part away: one mask."""
    yield from _predicted(
        name,
        folder,
        images[0],
        input_points=[[[[40, 30], [60, 50], [20, 20]]]],
        input_labels=[[[1, 1, 0]]],
        multimask_output=False,
    )


def boxes(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """An object by its box, and two."""
    for chosen in ([[[20, 10, 70, 50]]], [[[20, 10, 70, 50], [5, 5, 40, 60]]]):
        yield from _predicted(name, folder, images[0], input_boxes=chosen, multimask_output=False)


def box_with_a_point(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """An object by its box and a point outside of it."""
    yield from _predicted(
        name,
        folder,
        images[0],
        input_boxes=[[[20, 10, 70, 50]]],
        input_points=[[[[60, 45]]]],
        input_labels=[[[0]]],
        multimask_output=False,
    )


def several_objects(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Two objects of an image by a point each."""
    yield from _predicted(
        name,
        folder,
        images[0],
        input_points=[[[[40, 30]], [[70, 60]]]],
        input_labels=[[[1], [1]]],
        multimask_output=False,
    )


def batches(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Two images, by points and by boxes."""
    yield from _predicted(
        name,
        folder,
        images,
        input_points=[[[[40, 30]]], [[[20, 15]]]],
        input_labels=[[[1]], [[1]]],
        multimask_output=False,
    )
    chosen = [[[20, 10, 70, 50]], [[5, 5, 30, 25]]]
    yield from _predicted(name, folder, images, input_boxes=chosen, multimask_output=False)


def ragged_batch(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Two images with two objects and one, of other numbers of points."""
    yield from _predicted(
        name,
        folder,
        images,
        input_points=[[[[40, 30]], [[70, 60], [75, 50]]], [[[20, 15]]]],
        input_labels=[[[1], [1, 0]], [[1]]],
        multimask_output=False,
    )


def mask_of_before(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """A second click on the mask of the first, without encoding the image again."""
    model, processor = _start(name, folder)
    inputs = processor(
        images=images[0], input_points=[[[[40, 30]]]], input_labels=[[[1]]], return_tensors="pt"
    )
    with torch.no_grad():
        outputs = model(**inputs)
    best = int(outputs.iou_scores.squeeze().argmax())
    inputs = processor(
        input_points=[[[[40, 30], [60, 50]]]],
        input_labels=[[[1, 0]]],
        original_sizes=inputs["original_sizes"],
        return_tensors="pt",
    )
    with torch.no_grad():
        again = model(
            **inputs,
            input_masks=outputs.pred_masks[:, :, best],
            image_embeddings=outputs.image_embeddings,
            multimask_output=False,
        )
    yield from _masks(processor, again, inputs)


def server(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Encode an image once, keep its embeddings on disk, and answer thirty clicks."""
    model, processor = _start(name, folder)
    inputs = processor(images=images[0], return_tensors="pt")
    with tempfile.TemporaryDirectory() as home:
        with torch.no_grad():
            for index, each in enumerate(model.get_image_embeddings(inputs.pixel_values)):
                np.save(Path(home, f"{index}.npy"), each.cpu().numpy())
        kept = [torch.from_numpy(np.load(path)) for path in sorted(Path(home).iterdir())]
    width, height = images[0].size
    for number in range(30):
        prompts = processor(
            input_points=[[[[number * width / 30, (7 * number) % height]]]],
            input_labels=[[[1]]],
            original_sizes=[[height, width]],
            return_tensors="pt",
        )
        with torch.no_grad():
            outputs = model(**prompts, image_embeddings=kept, multimask_output=False)
        yield from processor.post_process_masks(outputs.pred_masks, prompts["original_sizes"])


STEPS = (
    one_click,
    several_points,
    boxes,
    box_with_a_point,
    several_objects,
    batches,
    ragged_batch,
    mask_of_before,
    server,
)
