"""Clips with texts that transformers' Sam3VideoModel and the drop-in run alike. Needs torch.

A side is a model and its processor, made of one folder of small random weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support import concept_forms, hugging_face_models, hugging_face_sam3, tiny_sam3

FRAMES, HW = 12, (75, 100)
# transformers' pointers want maps wider than memories, and it has the width of these fixed.
SIZES = dataclasses.replace(tiny_sam3.TINY, d_model=128, mem_dim=64, vocab_size=514)
TEXTS = ("ear", "a blue dial")
# Settings by which random weights find objects, and lose some of them again.
LOOSE: dict[str, Any] = {
    "score_threshold_detection": 0.235,
    "new_det_thresh": 0.249,
    "assoc_iou_thresh": 0.3,
    "trk_assoc_iou_thresh": 0.4,
    "hotstart_delay": 6,
    "hotstart_unmatch_thresh": 3,
    "hotstart_dup_thresh": 4,
    "recondition_every_nth_frame": 2,
    "high_conf_thresh": 0.25,
    "high_iou_thresh": 0.4,
}


class Side(NamedTuple):
    """One of the two: a model and its processor."""

    model: Any
    processor: Any

    def session(self, video: Any, texts: Any) -> Any:
        """Return a session of a clip, or of a stream, with texts."""
        session = self.processor.init_video_session(video)
        return self.processor.add_text_prompt(session, list(texts))

    def results(self, session: Any, outputs: Any, sizes: Any = None) -> Any:
        """Return what a frame shows, for outputs of the session."""
        return self.processor.postprocess_outputs(session, outputs, original_sizes=sizes)


def theirs(seed: int = 0) -> Side:
    """Return transformers' model with random weights, and its processor."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config = transformers.Sam3VideoConfig(
        detector_config=hugging_face_sam3.detector_config(SIZES, projection_dim=32),
        tracker_config=hugging_face_sam3.tracker_config(SIZES),
        low_res_mask_size=4 * SIZES.grid,
    )
    model = hugging_face_models.fill(transformers.Sam3VideoModel(config), seed)
    _tell_queries_apart(model.detector_model)
    square, half = {"height": SIZES.img_size, "width": SIZES.img_size}, [0.5, 0.5, 0.5]
    processor = transformers.Sam3VideoProcessor(
        transformers.Sam3ImageProcessor(
            size=square, mask_size={"height": 4 * SIZES.grid, "width": 4 * SIZES.grid}
        ),
        transformers.Sam2VideoVideoProcessor(size=square, image_mean=half, image_std=half),
        transformers.CLIPTokenizer(vocab=concept_forms.vocabulary(), merges=[]),
    )
    return Side(model, processor)


def _tell_queries_apart(detector: Any) -> None:
    """Let the queries of random weights find different masks, with different scores."""
    factors = {"query_embed": 6.0, ".o_proj.": 0.15, ".fc2.": 0.15}
    for name, weight in detector.detr_decoder.named_parameters():
        weight.data *= next((value for part, value in factors.items() if part in name), 1.0)
    detector.dot_product_scoring.query_proj.weight.data *= 3


def save(side: Side, folder: Path) -> Path:
    """Write the folder of transformers' model and processor."""
    hugging_face_models.save(side.model, folder)
    side.processor.save_pretrained(folder)
    return folder


def ours(folder: Path, *, bfloat16_memory: bool = False, **options: Any) -> Side:
    """Return the drop-in's side of a folder; it keeps memories in this type."""
    from sam_rlx.compat.transformers.text_clips import Sam3VideoModel
    from sam_rlx.compat.transformers.text_processing import Sam3VideoProcessor

    kind = type("Sam3VideoModel", (Sam3VideoModel,), {"_BFLOAT16_MEMORY": bfloat16_memory})
    made: Any = kind
    return Side(made.from_pretrained(folder, **options), Sam3VideoProcessor.from_pretrained(folder))


def frames(count: int = FRAMES) -> NDArray[np.uint8]:
    """Draw frames (T, H, W, 3) of something that moves and becomes something else."""
    random = np.random.default_rng(3)
    first, last = (_patches(random) for _ in range(2))
    parts = np.linspace(0, 1, FRAMES)[:count]
    mixed = [(1 - part) * first + part * last for part in parts]
    moved = [np.roll(each, (index, 2 * index), (0, 1)) for index, each in enumerate(mixed)]
    noise = [10 * random.normal(size=first.shape) for _ in parts]
    return np.clip(np.stack(moved) + np.stack(noise), 0, 255).astype(np.uint8)


def _patches(random: np.random.Generator) -> NDArray[np.float64]:
    coarse = random.uniform(0, 255, (5, 5, 3))
    return coarse.repeat(HW[0] // 5, axis=0).repeat(HW[1] // 5, axis=1)


# ---------------------------------------------------------------- scripts: outputs and results


def whole(side: Side, video: Any, texts: Any = TEXTS, **options: Any) -> Iterator[Any]:
    """Run through a clip."""
    session = side.session(video, texts)
    for output in side.model.propagate_in_video_iterator(session, **options):
        yield output, side.results(session, output)


def stream(side: Side, video: Any, texts: Any = TEXTS) -> Iterator[Any]:
    """Give frames one by one."""
    session = side.session(None, texts)
    for frame in video:
        inputs = side.processor(images=frame, return_tensors="pt")
        output = side.model(session, frame=inputs.pixel_values[0])
        yield output, side.results(session, output, inputs.original_sizes)


def changed(side: Side, video: Any, texts: Any = TEXTS) -> Iterator[Any]:
    """Remove an object between, give a text later, run a frame twice, and begin again."""
    session = side.session(video, texts[:1])
    for frame in (0, 1, 2):
        output = side.model(session, frame_idx=frame)
        yield output, side.results(session, output)
    session.remove_object(session.obj_ids[0])
    side.processor.add_text_prompt(session, texts[1])
    for frame in (3, 4, 4, 2):
        output = side.model(session, frame_idx=frame)
        yield output, side.results(session, output)
    session.reset_tracking_data()
    for frame in (5, 6):
        output = side.model(session, frame_idx=frame)
        yield output, side.results(session, output)
    session.reset_state()
    side.processor.add_text_prompt(session, texts[1])
    for frame in (7, 8):
        output = side.model(session, frame_idx=frame, reverse=frame == 8)
        yield output, side.results(session, output)
