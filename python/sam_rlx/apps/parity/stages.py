"""The stages of a report, and our side of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.media.frame_source import EndOfFrames
from sam_rlx._internal.media.frames import open_frames
from sam_rlx.apps.parity.layers import Arrays, record_ours
from sam_rlx.concept import ConceptPredictor
from sam_rlx.generator import MaskGenerator
from sam_rlx.image import ImagePredictor
from sam_rlx.model import Model
from sam_rlx.video import VideoPredictor

TEXT = "the object"
# Everything mode at a size that a reference on a CPU takes seconds for.
EVERYTHING: dict[str, Any] = {
    "points_per_side": 6,
    "pred_iou_thresh": 0.5,
    "stability_score_thresh": 0.6,
}


@dataclass
class Outcome:
    """Results of one stage on one image.

    Attributes
    ----------
    layers : dict
        Arrays by path, in the order of computation.
    masks : ndarray (K, H, W) of bool, or None
        Masks, in the order of the call.
    scores : ndarray (K,) or None
        Their scores.
    """

    layers: Arrays = field(default_factory=dict)
    masks: NDArray[np.bool_] | None = None
    scores: NDArray[Any] | None = None


def prompts(stage: str, hw: tuple[int, int], mask_side: int) -> dict[str, Any]:
    """Return the arguments of `predict` for a stage ``point``, ``box`` or ``mask``."""
    height, width = hw
    if stage == "point":
        middle = [[width / 2, height / 2], [width / 8, height / 8]]
        return {"point_coords": np.array(middle), "point_labels": np.array([1, 0])}
    if stage == "box":
        return {"box": middle_box(hw)}
    y, x = (np.mgrid[:mask_side, :mask_side] - mask_side / 2) / mask_side
    logits = 12 * (0.3 - np.hypot(x, y)).astype(np.float32)
    return {"mask_input": logits[None]}


CLICKS = ("point", "box", "mask")
CLIPS = ("video", "video_text")  # stages that take frames (T, H, W, 3) instead of an image
NUM_FRAMES = 4  # of an image that moves
MAX_FRAMES = 8  # of a clip


def moving(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return frames (T, H, W, 3) in which an image moves."""
    return np.stack([np.roll(image, (2 * t, 5 * t), (0, 1)) for t in range(NUM_FRAMES)])


def read_clip(clip: Any) -> NDArray[np.uint8]:
    """Return the first frames (T, H, W, 3) of what `VideoPredictor` takes."""
    source = open_frames(clip)
    frames: list[NDArray[np.uint8]] = []
    with suppress(EndOfFrames):
        while len(frames) < min(MAX_FRAMES, source.count or MAX_FRAMES):
            frames.append(source.read(len(frames)))
    return np.stack(frames)


@contextmanager
def folder_of(frames: NDArray[np.uint8]) -> Iterator[str]:
    """Give a folder of frames as JPEG while the block runs: both sides read the same files."""
    with TemporaryDirectory() as folder:
        for t, frame in enumerate(frames):
            image = io.pillow("Image").fromarray(frame)
            image.save(Path(folder) / f"{t:05}.jpg", quality=95)
        yield folder


def middle_box(hw: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the box (x0, y0, x1, y1) of the middle of an image of size (H, W)."""
    height, width = hw
    return np.array([width / 4, height / 4, 3 * width / 4, 3 * height / 4], np.float32)


class Ours:
    """Our side: stages in their order on one image after the other."""

    def __init__(self, model: Model, num_threads: int | None) -> None:
        self._model, self._threads = model, num_threads
        # SAM 3 resizes bytes on a CPU, where the reference runs.
        resize: Any = {"resize": "integer"} if model.supports_text else {}
        self._image = ImagePredictor(model, num_threads=num_threads, **resize)
        self._concepts: ConceptPredictor | None = None
        self._pixels: NDArray[np.uint8] | None = None

    def run(self, stage: str, image: NDArray[np.uint8], text: str) -> Outcome:
        """Run one stage; ``image`` comes before clicks. Stages of `CLIPS` take frames."""
        if stage == "image":
            layers, _ = record_ours(self._image._core, lambda: self._image.set_image(image))
            return Outcome(layers)
        if stage in CLICKS:
            arguments = prompts(stage, image.shape[:2], self._model.mask_side)
            layers, found = record_ours(
                self._image._core,
                lambda: self._image.predict(**arguments, multimask_output=stage == "point"),
            )
            masks = found.masks.reshape(-1, *image.shape[:2])  # a mask prompt makes a batch of one
            return Outcome(layers, masks, found.iou_predictions.reshape(-1))
        if stage == "everything":
            generator = MaskGenerator(self._model, num_threads=self._threads, **EVERYTHING)
            return of_everything(
                [(r.segmentation, r.predicted_iou) for r in generator.generate(image)], image
            )
        if stage == "video":
            return self._video(image)
        if stage == "video_text":
            return self._video_text(image, text)
        return self._text(stage, image, text)

    def _video(self, frames: NDArray[np.uint8]) -> Outcome:
        with folder_of(frames) as folder:
            session = VideoPredictor(
                self._model, folder, num_threads=self._threads, fill_hole_area=0
            )

            def call() -> Any:
                session.add_prompt(0, 1, box=middle_box(frames.shape[1:3]))
                return [frame.masks[1] for frame in session.propagate()]

            layers, masks = record_ours(session._core, call, first=True)
        return Outcome(layers, np.stack(masks))

    def _video_text(self, frames: NDArray[np.uint8], text: str) -> Outcome:
        with folder_of(frames) as folder:
            session = VideoPredictor(
                self._model,
                folder,
                num_threads=self._threads,
                fill_hole_area=0,
                # As upstream: where nothing is followed yet, any finding is a new object.
                text_options={**VIDEO_TEXT, "new_det_thresh_without_masklets": False},
            )
            session.add_text(text)
            found = [(frame.masks, frame.scores) for frame in session.propagate()]
        return of_video_text(found, frames.shape[1:3])

    def _text(self, stage: str, image: NDArray[np.uint8], text: str) -> Outcome:
        if self._concepts is None:
            self._concepts = ConceptPredictor(
                self._model, num_threads=self._threads, resize="integer"
            )
        predictor = self._concepts
        arguments: dict[str, Any] = {"text": text}
        if stage == "example":
            arguments = {"boxes": [middle_box(image.shape[:2])]}

        def call() -> Any:
            predictor.set_image(image)
            return predictor.predict(**arguments, threshold=THRESHOLD)

        layers, found = record_ours(predictor._core, call)
        return Outcome(layers, found.masks, found.scores)


THRESHOLD = 0.3  # of texts: low, since small models and odd images give low scores
# Of texts on videos: the same, and objects are shown from their first frame on, as clips are short.
VIDEO_TEXT = {
    "score_threshold_detection": THRESHOLD,
    "new_det_thresh": 0.4,
    "hotstart_delay": 0,
    "hotstart_unmatch_thresh": 0,
    "hotstart_dup_thresh": 0,
    "fill_hole_area": 0,
}
# Stages whose layers other stages have already: their masks alone are compared.
MASKS_ALONE = ("everything", "video_text")


def of_video_text(
    frames: Sequence[tuple[Mapping[Any, NDArray[np.bool_]], Mapping[Any, float]]],
    hw: tuple[int, ...],
) -> Outcome:
    """Put masks and scores by object in the order of frames and of objects' numbers."""
    masks = [masks[obj] for masks, _ in frames for obj in sorted(masks)]
    scores = [scores[obj] for masks, scores in frames for obj in sorted(masks)]
    stacked = np.array(masks, bool).reshape(-1, *hw)
    return Outcome({}, stacked, np.array(scores, np.float64))


def of_everything(found: list[tuple[NDArray[np.bool_], float]], image: NDArray[Any]) -> Outcome:
    """Put masks in the order of their first pixels and sizes: both sides sort otherwise."""
    rows = sorted(found, key=lambda row: (int(row[0].sum()), int(row[0].argmax())))
    masks = np.array([mask for mask, _ in rows], bool).reshape(-1, *image.shape[:2])
    return Outcome({}, masks, np.array([score for _, score in rows], np.float64))
