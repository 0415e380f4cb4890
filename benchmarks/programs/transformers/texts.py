"""Texts and boxes on images: what transformers' page and card of SAM 3 show.

The page is docs/source/en/model_doc/sam3.md, the card that of facebook/sam3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import transformers

CPU = "cpu"


def _start(folder: str, **options: Any) -> tuple[Any, Any]:
    model = transformers.Sam3Model.from_pretrained(folder, **options).to(CPU).eval()
    return model, transformers.Sam3Processor.from_pretrained(folder)


def _instances(processor: Any, outputs: Any, inputs: Any) -> Iterator[Any]:
    sizes = inputs.get("original_sizes").tolist()
    for found in processor.post_process_instance_segmentation(
        outputs, threshold=0.0, mask_threshold=0.5, target_sizes=sizes
    ):
        yield found["masks"].bool()
        yield found["boxes"]
        yield found["scores"]


def one_text(folder: str, images: list[Any]) -> Iterator[Any]:
    """All that a text names on an image."""
    model, processor = _start(folder)
    inputs = processor(images=images[0], text="ear", return_tensors="pt").to(CPU)
    with torch.no_grad():
        outputs = model(**inputs)
    yield from _instances(processor, outputs, inputs)


def one_box(folder: str, images: list[Any]) -> Iterator[Any]:
    """All that is like what a box shows."""
    model, processor = _start(folder)
    inputs = processor(
        images=images[0],
        input_boxes=[[[10, 15, 40, 52]]],
        input_boxes_labels=[[1]],
        return_tensors="pt",
    ).to(CPU)
    with torch.no_grad():
        outputs = model(**inputs)
    yield from _instances(processor, outputs, inputs)


def several_boxes(folder: str, images: list[Any]) -> Iterator[Any]:
    """Boxes around what is meant and what is not, with a text and without."""
    model, processor = _start(folder)
    boxes, labels = [[[10, 15, 40, 52], [50, 8, 70, 30]]], [[1, 0]]
    for text in (None, "handle"):
        inputs = processor(
            images=images[0],
            text=text,
            input_boxes=boxes,
            input_boxes_labels=labels,
            return_tensors="pt",
        )
        with torch.no_grad():
            outputs = model(**inputs)
        yield from _instances(processor, outputs, inputs)


def batches(folder: str, images: list[Any]) -> Iterator[Any]:
    """Several images: texts, and a text beside boxes."""
    model, processor = _start(folder)
    inputs = processor(images=images, text=["ear", "dial"], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    yield from _instances(processor, outputs, inputs)
    inputs = processor(
        images=images,
        text=["laptop", None],
        input_boxes=[None, [[10, 15, 30, 35]]],
        input_boxes_labels=[None, [1]],
        return_tensors="pt",
    )
    with torch.no_grad():
        outputs = model(**inputs)
    yield from _instances(processor, outputs, inputs)


def semantic(folder: str, images: list[Any]) -> Iterator[Any]:
    """The map of all that a text names, and the mean of its logits."""
    model, processor = _start(folder)
    inputs = processor(images=images[0], text="ear", return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    sizes = inputs.get("original_sizes").tolist()
    maps = processor.post_process_semantic_segmentation(outputs, target_sizes=sizes)
    yield maps[0].bool()
    yield outputs.pred_masks
    yield outputs.semantic_seg


def features_again(folder: str, images: list[Any]) -> Iterator[Any]:
    """One image with several texts, and one text on several images."""
    model, processor = _start(folder)
    pixels = processor(images=images[0], return_tensors="pt")
    with torch.no_grad():
        vision = model.get_vision_features(pixel_values=pixels.pixel_values)
        for text in ("ear", "eye"):
            inputs = processor(text=text, return_tensors="pt")
            outputs = model(vision_embeds=vision, **inputs)
            yield from _instances(processor, outputs, pixels)
        inputs = processor(text="ear", return_tensors="pt")
        embeds = model.get_text_features(**inputs)
        for image in images:
            one = processor(images=image, return_tensors="pt")
            outputs = model(
                pixel_values=one.pixel_values,
                text_embeds=embeds,
                attention_mask=inputs.attention_mask,
            )
            yield from _instances(processor, outputs, one)


def smaller(folder: str, images: list[Any], length: int) -> Iterator[Any]:
    """Another side of images, by the settings."""
    settings = transformers.Sam3Config.from_pretrained(folder)
    settings.image_size = length
    model, _ = _start(folder, config=settings)
    processor = transformers.Sam3Processor.from_pretrained(
        folder, size={"height": length, "width": length}
    )
    inputs = processor(images=images[0], text="ear", return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    yield from _instances(processor, outputs, inputs)
