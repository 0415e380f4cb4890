"""Every public callable with odd values for each of its arguments: errors of the library alone.

By default a part of the pairs of argument and value is tried, another one for each callable; all of
them with the marker ``slow``. The helpers of `compat` have tests of their own.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
import sam_rlx.batch
import sam_rlx.conversion
import sam_rlx.frames
from sam_rlx import io, viz
from support.odd_values import odd_values

IMAGE = np.zeros((40, 60, 3), np.uint8)
IMAGE[10:30, 15:45] = 200
MASK = IMAGE[:, :, 0] > 0
POINTS: dict[str, Any] = {"point_coords": [[30, 20]], "point_labels": [1]}
STRIDE = 7  # of the values that the default run tries


class Call:
    """A public callable, and arguments with which it works."""

    def __init__(self, call: Callable[..., object], *values: Any, **named: Any) -> None:
        self.call = call
        self._values = values
        self._named = named
        kinds = inspect.Parameter
        given = list(inspect.signature(call).parameters.values())[len(values) :]
        rest = [
            each.name
            for each in given
            if each.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
        self.parts: list[int | str] = list(dict.fromkeys([*range(len(values)), *named, *rest]))

    def run(self, part: int | str, value: Any) -> None:
        """Call it with one value in the position of another, or by name."""
        values, named = list(self._values), dict(self._named)
        if isinstance(part, int):
            values[part] = value
        else:
            named[part] = value
        found = self.call(*values, **named)
        if isinstance(found, Iterator):
            next(found, None)


@dataclass(frozen=True)
class Models:
    source: Path
    sam: sam_rlx.Model
    sam2: sam_rlx.Model
    sam3: sam_rlx.Model


@pytest.fixture(scope="module")
def models(
    tiny_checkpoint: Path,
    model: sam_rlx.Model,
    sam2_model: sam_rlx.Model,
    tmp_path_factory: pytest.TempPathFactory,
) -> Models:
    return Models(tiny_checkpoint, model, sam2_model, sam_rlx.load_model("sam3-nano"))


def image_calls(models: Models, folder: Path) -> Iterator[tuple[str, Call]]:
    predictor = sam_rlx.ImagePredictor(models.sam, num_threads=1)
    predictor.set_image(IMAGE)
    embedding = (predictor.image_embeddings, (40, 60))
    yield "ImagePredictor", Call(sam_rlx.ImagePredictor, models.sam)
    box = {"box": [10, 8, 50, 32], "multimask_output": False}
    yield "predict", Call(predictor.predict, **POINTS, **box)
    other = sam_rlx.ImagePredictor(models.sam, num_threads=1)
    yield "set_image", Call(other.set_image, IMAGE)
    yield "set_images", Call(other.set_images, [IMAGE])
    yield "select", Call(other.select, 0)
    yield "set_image_embedding", Call(other.set_image_embedding, *embedding)
    yield "save_embedding", Call(predictor.save_embedding, folder / "e.safetensors")
    yield "load_embedding", Call(other.load_embedding, folder / "e.safetensors")
    grid = {"points_per_side": 1, "num_threads": 1, "crop_n_layers": 0}
    yield "MaskGenerator", Call(sam_rlx.MaskGenerator, models.sam, **grid)
    generator = sam_rlx.MaskGenerator(models.sam, points_per_side=1, num_threads=1)
    yield "generate", Call(generator.generate, IMAGE)
    yield (
        "generate embedded",
        Call(generator.generate, embedding=embedding[0], orig_hw=embedding[1]),
    )


def other_calls(models: Models, folder: Path) -> Iterator[tuple[str, Call]]:
    yield "load_model", Call(sam_rlx.load_model, models.source, isa="generic")
    yield "Tokenizer", Call(sam_rlx.Tokenizer, 8)
    yield "tokenize", Call(sam_rlx.Tokenizer().__call__, "cup")
    yield "convert", Call(sam_rlx.conversion.convert, models.source, folder / "model.gguf")
    yield "open_frames", Call(sam_rlx.frames.open_frames, [IMAGE])
    yield "batch.read", Call(sam_rlx.batch.read, folder / "rows")
    none = (folder / "no.png", folder / "batch")
    yield "batch.run", Call(sam_rlx.batch.run, *none, workers=1, num_threads=1)
    # What needs no model.
    yield "color", Call(viz.color, 1)
    yield "overlay", Call(viz.overlay, IMAGE, [MASK], **POINTS)
    yield "overlay_records", Call(viz.overlay_records, IMAGE, [])
    yield "overlay_concepts", Call(viz.overlay_concepts, IMAGE, None)
    yield "read_image", Call(io.read_image, folder / "image.png")
    yield "read_mask", Call(io.read_mask, folder / "masks" / "0.png")
    yield "write_image", Call(io.write_image, folder / "image.png", IMAGE)
    yield "write_masks", Call(io.write_masks, folder / "masks", [MASK])
    yield "coco_annotation", Call(io.coco_annotation, MASK)
    yield "coco_document", Call(io.coco_document, {}, [])
    yield "coco_joined", Call(io.coco_joined, [])
    yield "write_sequence", Call(io.write_sequence, folder / "frames", [MASK])
    yield "write_video", Call(io.write_video, folder / "a.mp4", [IMAGE], 25)
    yield "write_yolo", Call(io.write_yolo, folder / "yolo", {})
    yield "batch.result", Call(sam_rlx.batch.result, {})
    yield "batch.to_coco", Call(sam_rlx.batch.to_coco, folder / "rows")
    yield "write_json", Call(io.write_json, folder / "a.json", {})
    yield "write_npz", Call(io.write_npz, folder / "a.npz", values=MASK)


def result_calls(models: Models, folder: Path) -> Iterator[tuple[str, Call]]:
    yield "Objects", Call(sam_rlx.Objects, [MASK], names="cup", scores=[0.5])
    result = sam_rlx.Objects([MASK, MASK])
    yield "cutout", Call(result.cutout, IMAGE, index=0)
    yield "plot", Call(result.plot, IMAGE)
    yield "polygons", Call(result.polygons)
    yield "to_geojson", Call(result.to_geojson)
    yield "to_coco", Call(result.to_coco)
    yield "to_yolo", Call(result.to_yolo)
    yield "to_csv", Call(result.to_csv)
    yield "save result", Call(result.save, folder / "result")


def concept_calls(models: Models, folder: Path) -> Iterator[tuple[str, Call]]:
    yield "ConceptPredictor", Call(sam_rlx.ConceptPredictor, models.sam3)
    predictor = sam_rlx.ConceptPredictor(models.sam3, num_threads=1)
    predictor.set_image(IMAGE)
    # The frame of this box is refused at last, before the network runs.
    boxes = {"boxes": [[100, 100, 120, 120]], "box_labels": [1]}
    yield "concepts", Call(predictor.predict, text="cup", **boxes, **POINTS)
    yield "encode_examples", Call(predictor.encode_examples, IMAGE, **boxes)
    examples = predictor.encode_examples(IMAGE, [[10, 8, 50, 32]])
    yield "save examples", Call(examples.save, folder / "examples.safetensors")
    examples.save(folder / "examples.safetensors")
    yield "load_examples", Call(predictor.load_examples, folder / "examples.safetensors")
    yield "with examples", Call(predictor.predict, examples=[examples], threshold=1.0)


def video_calls(models: Models, folder: Path) -> Iterator[tuple[str, Call]]:
    still = [IMAGE, IMAGE]
    yield "VideoPredictor", Call(sam_rlx.VideoPredictor, models.sam2, still)
    video = sam_rlx.VideoPredictor(models.sam2, still, num_threads=1)
    yield "add_prompt", Call(video.add_prompt, 0, 1, **POINTS)
    yield "add_prompt mask", Call(video.add_prompt, 0, 1, mask=MASK)
    yield "clear_prompts", Call(video.clear_prompts, 0, 1)
    yield "frame", Call(video.frame, 0)
    yield "propagate", Call(video.propagate)
    yield "remove_object", Call(video.remove_object, 2)
    stream = sam_rlx.VideoPredictor(models.sam2, num_threads=1)
    yield "push", Call(stream.push, IMAGE)
    saved = sam_rlx.VideoPredictor(models.sam2, still, num_threads=1)
    yield "save", Call(saved.save, folder / "session.safetensors")
    load = sam_rlx.VideoPredictor.load
    yield "load", Call(load, folder / "session.safetensors", models.sam2, still)
    texts = sam_rlx.VideoPredictor(models.sam3, still, num_threads=1)
    yield "add_text", Call(texts.add_text, "cup", frame_index=5)


def widget_calls(models: Models, folder: Path) -> Iterator[tuple[str, Call]]:
    pytest.importorskip("anywidget")
    from sam_rlx.widget import SegmentWidget, VideoWidget

    yield "SegmentWidget", Call(SegmentWidget, models.sam, IMAGE)
    widget = SegmentWidget(models.sam, [IMAGE, IMAGE], num_threads=1)
    yield "click", Call(widget.click, 30.0, 20.0, 1)
    yield "box", Call(widget.box, 10.0, 8.0, 50.0, 32.0)
    yield "text", Call(widget.text, "cup")
    yield "pick", Call(widget.pick, 1.0, 1.0)
    yield "start", Call(widget.start, MASK)
    yield "candidate", Call(widget.candidate, 0)
    yield "show", Call(widget.show, 0)
    yield "select object", Call(widget.select, 1)
    yield "rename", Call(widget.rename, 1, "cup")
    yield "recolor", Call(widget.recolor, 1, (1, 2, 3))
    yield "delete", Call(widget.delete, 7)
    yield "save objects", Call(widget.save, folder / "objects.json")
    yield "load objects", Call(widget.load, folder / "objects.json")
    yield "VideoWidget", Call(VideoWidget, models.sam2, [IMAGE, IMAGE])
    clip = VideoWidget(models.sam2, [IMAGE, IMAGE], num_threads=1)
    yield "click on a frame", Call(clip.click, 0, 30.0, 20.0)
    yield "box on a frame", Call(clip.box, 0, 10.0, 8.0, 50.0, 32.0)
    yield "preview", Call(clip.preview, 0)
    yield "masks of a frame", Call(clip.masks, 0)
    widget.close()
    clip.close()


GROUPS = (image_calls, other_calls, result_calls, concept_calls, video_calls, widget_calls)


def bare(call: Call, folder: Path, start: int, stride: int) -> list[str]:
    """Return the errors that are not of the library, a stride through all odd values."""
    found = []
    for number, name in enumerate(call.parts):
        for index, (kind, value) in enumerate(odd_values()):
            if (index + number + start) % stride or (name == "progress" and callable(value)):
                continue
            try:
                call.run(name, value)
            except sam_rlx.SamRlxError as error:
                if "expected" not in str(error):
                    found.append(f"{name}={kind}: {error}")
            except OSError as error:
                if error.errno is None and "expected" not in str(error):
                    found.append(f"{name}={kind}: {type(error).__name__}: {error}")
            except Exception as error:
                found.append(f"{name}={kind}: {type(error).__name__}: {str(error)[:200]}")
    return found


def run(group: Any, models: Models, folder: Path, stride: int) -> list[str]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, for NaN and infinity
        for start, (name, call) in enumerate(group(models, folder)):
            found += [f"{name}: {text}" for text in bare(call, folder, start, stride)]
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_some_odd_values(
    group: Any, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(group, models, tmp_path, STRIDE) == []


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_all_odd_values(
    group: Any, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(group, models, tmp_path, 1) == []


def test_every_public_callable_is_called(models: Models, tmp_path: Path) -> None:
    called = {
        getattr(call.call, "__func__", call.call)
        for group in GROUPS
        for _, call in group(models, tmp_path)
    }
    # Made by the library, or without arguments.
    passed_over = {
        "build_info",
        "Model",
        "MaskRecord",
        "MaskRecords",
        "MaskPrediction",
        "ConceptPrediction",
        "VideoFrame",
        "RawDetections",
        "Best",
    }
    for name in sam_rlx.__all__:
        value = getattr(sam_rlx, name)
        error = isinstance(value, type) and issubclass(value, (Exception, Warning))
        if callable(value) and not error and name not in passed_over:
            assert value in called or any(
                getattr(each, "__qualname__", "").startswith(f"{name}.") for each in called
            ), name
