"""Follow clicked objects through a clip and a stream: what transformers' pages on clips show.

The pages are docs/source/en/model_doc/sam2_video.md, sam3_tracker_video.md and edgetam_video.md.
The classes are named by the caller, since the three pages make the same calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import transformers


def _boolean(processor: Any, session: Any, output: Any) -> Any:
    size = [[int(session.video_height), int(session.video_width)]]
    return processor.post_process_masks([output.pred_masks], original_sizes=size)[0]


def _start(name: str, folder: str) -> tuple[Any, Any]:
    kind = "Sam3TrackerVideoProcessor" if name.startswith("Sam3") else "Sam2VideoProcessor"
    model = getattr(transformers, name).from_pretrained(folder)
    return model.to("cpu").eval(), getattr(transformers, kind).from_pretrained(folder)


def one_click(name: str, folder: str, frames: Any) -> Iterator[Any]:
    """Click on one object of the first frame, and follow it."""
    model, processor = _start(name, folder)
    session = processor.init_video_session(video=frames, inference_device="cpu")
    processor.add_inputs_to_inference_session(
        inference_session=session,
        frame_idx=0,
        obj_ids=1,
        input_points=[[[[40, 30]]]],
        input_labels=[[[1]]],
    )
    yield _boolean(processor, session, model(inference_session=session, frame_idx=0))
    for output in model.propagate_in_video_iterator(session):
        yield _boolean(processor, session, output)


def refined(name: str, folder: str, frames: Any) -> Iterator[Any]:
    """Two objects in one call, a click that takes a part away, and all frames again."""
    model, processor = _start(name, folder)
    session = processor.init_video_session(video=frames, inference_device="cpu")
    processor.add_inputs_to_inference_session(
        inference_session=session,
        frame_idx=0,
        obj_ids=[2, 3],
        input_points=[[[[40, 30]], [[70, 60], [75, 50]]]],
        input_labels=[[[1], [1, 1]]],
    )
    yield _boolean(processor, session, model(inference_session=session, frame_idx=0))
    processor.add_inputs_to_inference_session(
        inference_session=session,
        frame_idx=0,
        obj_ids=2,
        input_points=[[[[55, 20]]]],
        input_labels=[[[0]]],
        clear_old_inputs=False,
    )
    yield _boolean(processor, session, model(inference_session=session, frame_idx=0))
    for output in model.propagate_in_video_iterator(session, max_frame_num_to_track=3):
        yield _boolean(processor, session, output)


def boxed(name: str, folder: str, frames: Any) -> Iterator[Any]:
    """A box, the object in reverse, and a session that is used again."""
    model, processor = _start(name, folder)
    session = processor.init_video_session(video=frames)
    for last in (len(frames) - 1, 2):
        processor.add_inputs_to_inference_session(
            inference_session=session, frame_idx=last, obj_ids=4, input_boxes=[[[20, 10, 70, 50]]]
        )
        yield _boolean(processor, session, model(session, frame_idx=last))
        for output in model.propagate_in_video_iterator(session, reverse=True):
            yield _boolean(processor, session, output)
        session.reset_inference_session()


def stream(name: str, folder: str, frames: Any) -> Iterator[Any]:
    """Frames that come one by one: the processor takes each as an image."""
    model, processor = _start(name, folder)
    session = processor.init_video_session(inference_device="cpu")
    for index, frame in enumerate(frames):
        inputs = processor(images=frame, device="cpu", return_tensors="pt")
        if index == 0:
            processor.add_inputs_to_inference_session(
                inference_session=session,
                frame_idx=0,
                obj_ids=1,
                input_points=[[[[40, 30]]]],
                input_labels=[[[1]]],
                original_size=inputs.original_sizes[0],
            )
        output = model(inference_session=session, frame=inputs.pixel_values[0])
        yield processor.post_process_masks(
            [output.pred_masks], original_sizes=inputs.original_sizes, binarize=False
        )[0]


STEPS = (one_click, refined, boxed, stream)
