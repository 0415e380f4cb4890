"""Clicks and boxes on images with SAM and SAM-HQ: what pages, cards and courses show.

`one_click`, `label_map` and `only_token` are of transformers' pages docs/source/en/model_doc/sam.md
and sam_hq.md, `commonest` is GATE's playgrounds/sam.py and the cards of facebook/sam-vit-base and
Zigeng/SlimSAM-uniform-77, `card_of_medsam` that of flaviagiammarino/medsam-vit-base. `course` is
segment_anything.ipynb of the course on HF's notebooks, `medsam` and `boxes_of_a_detector` are
notebooks of NielsRogge's Transformers-Tutorials, `server` is the function of a server, as CVAT's.
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
    model = getattr(transformers, f"{name}Model").from_pretrained(folder).to(CPU)
    return model, getattr(transformers, f"{name}Processor").from_pretrained(folder)


def _masks(processor: Any, outputs: Any, inputs: Any) -> Any:
    return processor.image_processor.post_process_masks(
        outputs.pred_masks.cpu(),
        inputs["original_sizes"].cpu(),
        inputs["reshaped_input_sizes"].cpu(),
    )


def one_click(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """One object by one click, with the classes that folders name."""
    model = transformers.AutoModelForMaskGeneration.from_pretrained(folder).to(CPU)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    inputs = processor(images[0], input_points=[[[40, 30]]], return_tensors="pt").to(CPU)
    with torch.no_grad():
        outputs = model(**inputs)
    yield from _masks(processor, outputs, inputs)
    yield outputs.iou_scores


def label_map(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """A map of labels that goes along with the image."""
    model, processor = _start(name, folder)
    labels = images[0].convert("L")
    inputs = processor(
        images[0], input_points=[[[40, 30]]], segmentation_maps=labels, return_tensors="pt"
    )
    yield inputs["labels"]
    with torch.no_grad():
        yield model(**inputs).pred_masks


def only_token(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """The mask of SAM-HQ's own token alone, by a box; SAM passes over the name."""
    model, processor = _start(name, folder)
    inputs = processor(images[0], input_boxes=[[[20, 10, 70, 50]]], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, hq_token_only=True, multimask_output=False)
    yield from _masks(processor, outputs, inputs)


def commonest(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """What most scripts do: one object by two points."""
    model, processor = _start(name, folder)
    inputs = processor(images[0], input_points=[[[40, 30], [60, 50]]], return_tensors="pt").to(CPU)
    outputs = model(**inputs)
    yield from _masks(processor, outputs, inputs)
    yield outputs.iou_scores.cpu()


def card_of_medsam(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Probabilities of one object by its box."""
    model, processor = _start(name, folder)
    inputs = processor(images[0], input_boxes=[[[20, 10, 70, 50]]], return_tensors="pt").to(CPU)
    outputs = model(**inputs, multimask_output=False)
    (found,) = processor.image_processor.post_process_masks(
        outputs.pred_masks.sigmoid().cpu(),
        inputs["original_sizes"].cpu(),
        inputs["reshaped_input_sizes"].cpu(),
        binarize=False,
    )
    yield found > 0.5


def medsam(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """A square image as an array, a box, and the small mask as bytes."""
    model, processor = _start(name, folder)
    square = np.array(images[0].resize((256, 256)))
    inputs = processor(square, input_boxes=[[[50, 60, 180, 200]]], return_tensors="pt").to(CPU)
    with torch.no_grad():
        outputs = model(**inputs, multimask_output=False)
    likely = outputs.pred_masks.squeeze(1).sigmoid().cpu().numpy().squeeze()
    yield (likely > 0.5).astype(np.uint8).astype(bool)


def boxes_of_a_detector(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """What a detector found becomes masks, which are made one for each box."""
    found = [{"box": (20, 10, 70, 50)}, {"box": (5, 5, 40, 60)}]  # stands for the detector
    segmentator = transformers.AutoModelForMaskGeneration.from_pretrained(folder).to(CPU)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    chosen = [[list(each["box"]) for each in found]]
    inputs = processor(images=images[0], input_boxes=chosen, return_tensors="pt").to(CPU)
    outputs = segmentator(**inputs)
    masks = processor.post_process_masks(
        masks=outputs.pred_masks,
        original_sizes=inputs.original_sizes,
        reshaped_input_sizes=inputs.reshaped_input_sizes,
    )[0]
    means = masks.cpu().float().permute(0, 2, 3, 1).mean(axis=-1)
    yield (means > 0).int().numpy().astype(bool)


def course(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Embeddings once, then points, boxes, both, and several objects on them."""
    model, processor = _start(name, folder)
    inputs = processor(images[0], return_tensors="pt").to(CPU)
    embeddings = model.get_image_embeddings(inputs["pixel_values"])
    prompts: tuple[dict[str, Any], ...] = (
        {"input_points": [[[40, 30]]]},
        {"input_boxes": [[[20, 10, 70, 50]]]},
        {"input_boxes": [[[20, 10, 70, 50]]], "input_points": [[[30, 20]]], "input_labels": [[0]]},
        {"input_boxes": [[[20, 10, 70, 50], [5, 5, 40, 60]]]},
        {"input_points": [[[[40, 30]], [[70, 60]]]], "input_labels": [[[1], [1]]]},
    )
    for prompt in prompts:
        inputs = processor(images[0], return_tensors="pt", **prompt).to(CPU)
        inputs.pop("pixel_values", None)
        inputs.update({"image_embeddings": embeddings})
        with torch.no_grad():
            outputs = model(**inputs)
        yield from _masks(processor, outputs, inputs)
        scores = outputs.iou_scores.reshape(-1)
        yield np.array([score.item() for score in scores])


def server(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Encode an image once, keep its embedding on disk, and answer thirty clicks."""
    model, processor = _start(name, folder)
    inputs = processor(images[0], return_tensors="pt")
    with tempfile.TemporaryDirectory() as home:
        with torch.no_grad():
            found = model.get_image_embeddings(inputs["pixel_values"])
        np.save(Path(home, "map.npy"), found.cpu().numpy())
        kept = torch.from_numpy(np.load(Path(home, "map.npy")))
    width, height = images[0].size
    for number in range(30):
        point = [number * width / 30, (7 * number) % height]
        inputs = processor(images[0], input_points=[[point]], return_tensors="pt")
        inputs.pop("pixel_values")
        with torch.no_grad():
            outputs = model(**inputs, image_embeddings=kept, multimask_output=False)
        yield from _masks(processor, outputs, inputs)


# What SamHQModel does alike: its embeddings are a pair.
OF_BOTH = (one_click, label_map, only_token, commonest)
STEPS = (*OF_BOTH, card_of_medsam, medsam, boxes_of_a_detector, course, server)
