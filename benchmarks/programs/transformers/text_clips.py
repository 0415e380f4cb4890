"""Follow all that texts name through a clip and a stream: what transformers' page on them shows.

The page is docs/source/en/model_doc/sam3_video.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import transformers

CPU = "cpu"


def _start(folder: str) -> tuple[Any, Any]:
    model = transformers.Sam3VideoModel.from_pretrained(folder).to(CPU, dtype=torch.float32)
    return model.eval(), transformers.Sam3VideoProcessor.from_pretrained(folder)


def _shown(processed: dict[str, Any]) -> Iterator[Any]:
    for name in ("object_ids", "scores", "boxes", "masks"):
        yield processed[name]


def whole_clip(folder: str, frames: Any) -> Iterator[Any]:
    """One text, on all frames of a clip."""
    model, processor = _start(folder)
    session = processor.init_video_session(
        video=frames,
        inference_device=CPU,
        processing_device=CPU,
        video_storage_device=CPU,
        dtype=torch.float32,
    )
    session = processor.add_text_prompt(inference_session=session, text="ear")
    outputs_per_frame = {}
    for outputs in model.propagate_in_video_iterator(
        inference_session=session, max_frame_num_to_track=50
    ):
        processed = processor.postprocess_outputs(session, outputs)
        outputs_per_frame[outputs.frame_idx] = processed
    for index in range(len(outputs_per_frame)):
        yield from _shown(outputs_per_frame[index])


def several_texts(folder: str, frames: Any) -> Iterator[Any]:
    """Several texts at once; the objects of each."""
    model, processor = _start(folder)
    session = processor.init_video_session(video=frames, inference_device=CPU, dtype=torch.float32)
    texts = ["ear", "a blue dial"]
    session = processor.add_text_prompt(inference_session=session, text=texts)
    for outputs in model.propagate_in_video_iterator(
        inference_session=session, max_frame_num_to_track=4
    ):
        processed = processor.postprocess_outputs(session, outputs)
        yield from _shown(processed)
        for text in texts:
            yield torch.tensor(processed["prompt_to_obj_ids"].get(text, []), dtype=torch.int64)


def stream(folder: str, frames: Any) -> Iterator[Any]:
    """Frames that come one by one: the processor takes each as an image."""
    model, processor = _start(folder)
    session = processor.init_video_session(
        inference_device=CPU,
        processing_device=CPU,
        video_storage_device=CPU,
        dtype=torch.float32,
    )
    session = processor.add_text_prompt(inference_session=session, text="ear")
    for frame in frames:
        inputs = processor(images=frame, device=CPU, return_tensors="pt")
        outputs = model(inference_session=session, frame=inputs.pixel_values[0], reverse=False)
        yield from _shown(
            processor.postprocess_outputs(session, outputs, original_sizes=inputs.original_sizes)
        )


STEPS = (whole_clip, several_texts, stream)
