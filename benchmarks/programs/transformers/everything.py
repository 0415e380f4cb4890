"""Everything mode and single prompts: what transformers' page and the course on it show.

The pages are docs/source/en/tasks/mask_generation.md, its first half, and the parts on the
pipeline of model_doc/sam.md and sam2.md and of the card of facebook/sam-vit-base; the notebook is
automatic_mask_generation.ipynb of HF's notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import transformers

OPTIONS: dict[str, Any] = {}  # other bounds than the pipeline's, for small models


def by_name(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """All masks of an image, by the name of a model."""
    generator = transformers.pipeline("mask-generation", model=folder, device="cpu")
    outputs = generator(images[0], points_per_batch=64, **OPTIONS)
    yield np.stack([np.asarray(mask) for mask in outputs["masks"]])
    yield outputs["scores"]


def by_objects(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """The same by a model and its image processor, drawn on the image."""
    kind = "Sam2Processor" if name == "EdgeTam" else f"{name}Processor"
    model = getattr(transformers, f"{name}Model").from_pretrained(folder)
    processor = getattr(transformers, kind).from_pretrained(folder)
    generator = transformers.pipeline(
        "mask-generation",
        model=model,
        image_processor=processor.image_processor,
        device="cpu",
        **OPTIONS,
    )
    outputs = generator(images[0], points_per_batch=256)
    colours, drawn = np.random.default_rng(0), np.asarray(images[0]).astype(np.float64)
    for mask in outputs["masks"]:
        inside = np.asarray(mask)
        drawn[inside] = 0.4 * drawn[inside] + 0.6 * colours.uniform(0, 255, 3)
    yield drawn


def with_crops_and_boxes(name: str, folder: str, images: list[Any]) -> Iterator[Any]:
    """Masks of crops too, and their boxes and run lengths, of several images."""
    generator = transformers.pipeline("mask-generation", model=folder, device="cpu", **OPTIONS)
    found = generator(images, crops_n_layers=1, output_bboxes_mask=True, output_rle_mask=True)
    for outputs in found:
        yield outputs["bounding_boxes"]
        yield np.array([sum(rle["counts"]) for rle in outputs["rle_mask"]])


STEPS = (by_name, by_objects, with_crops_and_boxes)
