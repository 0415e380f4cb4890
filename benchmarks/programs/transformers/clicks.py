"""Clicks and boxes on images: what transformers' pages, tutorials and cards of SAM show.

Pages: docs/source/en/model_doc/{sam,sam2,sam3_tracker,sam_hq,edgetam}.md and
tasks/mask_generation.md. Tutorials: the notebooks on SAM of huggingface/notebooks and of
NielsRogge/Transformers-Tutorials. Cards: facebook/sam-vit-base, facebook/sam2.1-hiera-tiny,
Zigeng/SlimSAM-uniform-77, flaviagiammarino/medsam-vit-base. Where a source writes
``with torch.no_grad():`` there is ``detach()``, so that the steps run without PyTorch too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import transformers

POINT, OTHER, BOX = [40, 30], [20, 50], [10, 15, 70, 60]


def _start(folder: str) -> tuple[Any, Any]:
    model = transformers.AutoModelForMaskGeneration.from_pretrained(folder).to("cpu").eval()
    return model, transformers.AutoProcessor.from_pretrained(folder)


def _masks(processor: Any, outputs: Any, inputs: Any, **options: Any) -> Any:
    """Return masks of all images, as each family's page asks for them."""
    sizes = [inputs["original_sizes"]]
    if "reshaped_input_sizes" in inputs:
        sizes.append(inputs["reshaped_input_sizes"])
    return processor.post_process_masks(outputs.pred_masks.cpu().detach(), *sizes, **options)


def _deep(folder: str, value: Any) -> Any:
    """Return points or labels one level deeper where SAM 2's processor wants them so."""
    return value if _is_sam(folder) else [value]


def _is_sam(folder: str) -> bool:
    return transformers.AutoConfig.from_pretrained(folder).model_type in ("sam", "sam_hq")


def one_click(folder: str, images: list[Any]) -> Iterator[Any]:
    """One click, three masks: the first program of each page and card."""
    model, processor = _start(folder)
    points, labels = _deep(folder, [[POINT]]), _deep(folder, [[1]])
    inputs = processor(images[0], input_points=points, input_labels=labels, return_tensors="pt")
    outputs = model(**inputs.to("cpu"))
    yield _masks(processor, outputs, inputs)[0]
    yield outputs.iou_scores.cpu().detach()


def one_box(folder: str, images: list[Any]) -> Iterator[Any]:
    """One box, one mask, and its probabilities: the programs of MedSAM."""
    model, processor = _start(folder)
    inputs = processor(images[0], input_boxes=[[BOX]], return_tensors="pt").to("cpu")
    outputs = model(**inputs, multimask_output=False)
    logits = _masks(processor, outputs, inputs, binarize=False)[0]
    yield logits
    yield logits.sigmoid() > 0.5
    yield outputs.iou_scores.detach().squeeze()


def several_objects(folder: str, images: list[Any]) -> Iterator[Any]:
    """Several objects of one image by points, by boxes, and by several points each."""
    model, processor = _start(folder)
    objects, labels = [[[POINT], [OTHER]]], [[[1], [1]]]
    for given in (
        {"input_points": objects, "input_labels": labels},
        {"input_boxes": [[BOX, [5, 5, 30, 30]]]},
        {"input_points": [[[POINT, OTHER]]], "input_labels": [[[1, 0]]]},
    ):
        inputs = processor(images[0], return_tensors="pt", **given)
        outputs = model(**inputs, multimask_output=False)
        yield _masks(processor, outputs, inputs)[0]
        yield outputs.iou_scores.detach()


def batch(folder: str, images: list[Any]) -> Iterator[Any]:
    """Several images in one call, each with a click; then with a box."""
    model, processor = _start(folder)
    points, labels = [[[POINT]], [[OTHER]]], [[[1]], [[1]]]
    for given in (
        {"input_points": points, "input_labels": labels},
        {"input_boxes": [[BOX], [[1, 2, 20, 30]]]},
    ):
        inputs = processor(images, return_tensors="pt", **given)
        outputs = model(**inputs, multimask_output=False)
        yield from _masks(processor, outputs, inputs)


def ragged_batch(folder: str, images: list[Any]) -> Iterator[Any]:
    """Images with different numbers of objects and points; for SAM 2 and 3."""
    model, processor = _start(folder)
    inputs = processor(
        images,
        input_points=[[[POINT, OTHER]], [[[10, 20]], [[30, 10]]]],
        input_labels=[[[1, 0]], [[1], [1]]],
        return_tensors="pt",
    )
    outputs = model(**inputs, multimask_output=False)
    yield from _masks(processor, outputs, inputs)


def embeddings_once(folder: str, images: list[Any]) -> Iterator[Any]:
    """Encode an image once, then ask with clicks and boxes: the course's notebook."""
    model, processor = _start(folder)
    inputs = processor(images[0], return_tensors="pt").to("cpu")
    embeddings = model.get_image_embeddings(inputs["pixel_values"])
    inputs.pop("pixel_values", None)
    prompts = (
        {"input_points": _deep(folder, [[POINT]]), "input_labels": _deep(folder, [[1]])},
        {"input_boxes": [[BOX]]},
    )
    for given in prompts:
        asked = processor(images[0], return_tensors="pt", **given)
        asked.pop("pixel_values", None)
        asked.update({"image_embeddings": embeddings})
        outputs = model(**asked)
        yield _masks(processor, outputs, asked)[0]
        scores = outputs.iou_scores.detach()
        yield np.array([score.item() for score in scores[0, 0]], np.float32)


def earlier_mask(folder: str, images: list[Any]) -> Iterator[Any]:
    """The best mask of a click as a prompt beside a second click; for SAM 2 and 3."""
    model, processor = _start(folder)
    inputs = processor(
        images[0], input_points=[[[POINT]]], input_labels=[[[1]]], return_tensors="pt"
    )
    outputs = model(**inputs)
    best = int(outputs.iou_scores.detach().squeeze().argmax())
    again = processor(
        input_points=[[[POINT, OTHER]]],
        input_labels=[[[1, 0]]],
        original_sizes=inputs["original_sizes"],
        return_tensors="pt",
    )
    second = model(
        **again,
        input_masks=outputs.pred_masks.detach()[:, :, best],
        image_embeddings=outputs.image_embeddings,
        multimask_output=False,
    )
    yield _masks(processor, second, again)[0]


def label_maps(folder: str, images: list[Any]) -> Iterator[Any]:
    """Maps beside an image, as fine-tuning prepares them."""
    _, processor = _start(folder)
    grey = images[0].convert("L")
    inputs = processor(images[0], segmentation_maps=grey, return_tensors="pt")
    yield inputs["labels"]
    yield inputs["pixel_values"]


def detected_boxes(folder: str, images: list[Any]) -> Iterator[Any]:
    """Masks of what a detector found: Grounding DINO with SAM. The detector is made up."""
    model, processor = _start(folder)
    found = [{"box": BOX, "score": 0.9}, {"box": [20, 5, 90, 40], "score": 0.5}]
    boxes = [[each["box"] for each in found]]
    inputs = processor(images=images[0], input_boxes=boxes, return_tensors="pt").to("cpu")
    outputs = model(**inputs)
    masks = _masks(processor, outputs, inputs)[0]
    # One mask for each box: the mean of its three is above 0.
    refined = masks.cpu().float().permute(0, 2, 3, 1).mean(-1) > 0
    yield refined


def image_processor_alone(folder: str, images: list[Any]) -> Iterator[Any]:
    """The commonest script: masks by the image processor, all on the CPU by name; for SAM."""
    model, processor = _start(folder)
    inputs = processor(images[0], input_points=[[POINT]], return_tensors="pt").to("cpu")
    outputs = model(**inputs)
    masks = processor.image_processor.post_process_masks(
        outputs.pred_masks.cpu().detach(),
        inputs["original_sizes"].cpu(),
        inputs["reshaped_input_sizes"].cpu(),
    )
    yield masks[0].cpu()
    yield outputs.iou_scores.cpu().detach()


def server(folder: str, images: list[Any]) -> Iterator[Any]:
    """A server's function: the embeddings of an image lie on disk, clicks come one by one."""
    model, processor = _start(folder)
    is_sam = _is_sam(folder)
    inputs = processor(images[0], return_tensors="pt")
    found = model.get_image_embeddings(inputs["pixel_values"])
    parts = [found] if is_sam else list(found)
    files = [Path(folder) / f"embeddings_{i}.npy" for i in range(len(parts))]
    for file, part in zip(files, parts, strict=True):
        np.save(file, part.detach().numpy())
    for step in range(5):
        point = [10 + 12 * step, 20 + 6 * step]
        kept = [_loaded(file) for file in files]
        if is_sam:
            asked = processor(images[0], input_points=[[point]], return_tensors="pt")
            asked.pop("pixel_values")
        else:
            sizes = inputs["original_sizes"]
            asked = processor(input_points=[[[point]]], original_sizes=sizes, return_tensors="pt")
        outputs = model(**asked, image_embeddings=kept[0] if is_sam else kept)
        yield _masks(processor, outputs, asked)[0]


def _loaded(file: Path) -> Any:
    torch = sys.modules.get("torch")
    return np.load(file) if torch is None else torch.from_numpy(np.load(file))


def everything(folder: str, images: list[Any]) -> Iterator[Any]:
    """All masks of an image: the pipeline of the pages and of the course's notebook."""
    generator = transformers.pipeline("mask-generation", model=folder, device="cpu")
    found = generator(
        images[0],
        points_per_batch=16,
        points_per_crop=6,
        pred_iou_thresh=-10.0,
        stability_score_thresh=0.0,
    )
    yield found["scores"]
    yield np.stack([np.asarray(mask) for mask in found["masks"]])
