"""What is run on both sides: one class for each family's reference, and ours beside it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core, io
from sam_rlx._parity import networks, packages, sam3_network
from sam_rlx._parity.layers import Arrays, Recorder, in_our_layout, record_ours
from sam_rlx.concept import ConceptPredictor
from sam_rlx.generator import MaskGenerator
from sam_rlx.image import ImagePredictor
from sam_rlx.model import Model, find_checkpoint
from sam_rlx.video import VideoPredictor

TEXT = "the object"
# Everything mode at a size that a reference on a CPU takes seconds for.
EVERYTHING = {"points_per_side": 6, "pred_iou_thresh": 0.5, "stability_score_thresh": 0.6}


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
        return {"box": np.array([width / 4, height / 4, 3 * width / 4, 3 * height / 4])}
    y, x = (np.mgrid[:mask_side, :mask_side] - mask_side / 2) / mask_side
    logits = 12 * (0.3 - np.hypot(x, y)).astype(np.float32)
    return {"mask_input": logits[None]}


CLICKS = ("point", "box", "mask")
NUM_FRAMES = 4


def write_clip(folder: Path, image: NDArray[np.uint8]) -> None:
    """Write frames in which an image moves, as JPEG: both sides read the same files."""
    for t in range(NUM_FRAMES):
        frame = np.roll(image, (2 * t, 5 * t), (0, 1))
        io.pillow("Image").fromarray(frame).save(folder / f"{t:05}.jpg", quality=95)


def middle_box(image: NDArray[Any]) -> NDArray[np.float32]:
    """Return the box (x0, y0, x1, y1) of the middle of an image."""
    height, width = image.shape[:2]
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
        """Run one stage; ``image`` comes before clicks."""
        if stage == "image":
            layers, _ = record_ours(self._image._core, lambda: self._image.set_image(image))
            return Outcome(layers)
        if stage in CLICKS:
            arguments = prompts(stage, image.shape[:2], self._model.mask_side)
            layers, found = record_ours(
                self._image._core,
                lambda: self._image.predict(**arguments, multimask_output=stage == "point"),
            )
            return Outcome(layers, found.masks, found.iou_predictions)
        if stage == "everything":
            generator = MaskGenerator(self._model, num_threads=self._threads, **EVERYTHING)
            return _everything(
                [(r.segmentation, r.predicted_iou) for r in generator.generate(image)], image
            )
        if stage == "video":
            return self._video(image)
        return self._text(stage, image, text)

    def _video(self, image: NDArray[np.uint8]) -> Outcome:
        with TemporaryDirectory() as folder:
            write_clip(Path(folder), image)
            session = VideoPredictor(
                self._model, folder, num_threads=self._threads, fill_hole_area=0
            )

            def call() -> Any:
                session.add_prompt(0, 1, box=middle_box(image))
                return [frame.masks[1] for frame in session.propagate()]

            layers, masks = record_ours(session._core, call)
        return Outcome(layers, np.stack(masks))

    def _text(self, stage: str, image: NDArray[np.uint8], text: str) -> Outcome:
        if self._concepts is None:
            self._concepts = ConceptPredictor(
                self._model, num_threads=self._threads, resize="integer"
            )
        predictor = self._concepts
        height, width = image.shape[:2]
        arguments: dict[str, Any] = {"text": text}
        if stage == "example":
            arguments = {"boxes": [[width / 4, height / 4, 3 * width / 4, 3 * height / 4]]}

        def call() -> Any:
            predictor.set_image(image)
            return predictor.predict(**arguments, threshold=THRESHOLD)

        layers, found = record_ours(predictor._core, call)
        return Outcome(layers, found.masks, found.scores)


THRESHOLD = 0.3  # of texts: low, since small models and odd images give low scores


def _everything(found: list[tuple[NDArray[np.bool_], float]], image: NDArray[Any]) -> Outcome:
    """Put masks in the order of their first pixels and sizes: both sides sort otherwise."""
    rows = sorted(found, key=lambda row: (int(row[0].sum()), int(row[0].argmax())))
    masks = np.array([mask for mask, _ in rows], bool).reshape(-1, *image.shape[:2])
    return Outcome({}, masks, np.array([score for _, score in rows], np.float64))


class Reference:
    """Meta's package on one model. `exact` runs in float64."""

    name = ""
    stages: tuple[str, ...] = ()
    before: ClassVar[Mapping[str, str]] = {}

    def __init__(self, package: Any, network: Any) -> None:
        self.package, self.network = package, network
        self._recorder = Recorder(network, self.name_of, self.before)

    def name_of(self, path: str) -> str:
        """Return the name of a layer in the network."""
        return path

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return what both sides have of a layer, in our layout; None where nothing compares."""
        moved = in_our_layout(ours, theirs)
        return None if moved is None else (ours.reshape(moved.shape), moved)

    def prepare(self, exact: bool) -> None:
        """Give the network the precision, and make its tables anew."""
        if exact:
            self.network.double()
        else:
            self.network.float()

    def run(
        self, stage: str, image: NDArray[np.uint8], text: str, paths: list[str], exact: bool
    ) -> Outcome:
        """Run one stage and record the layers of `paths`."""
        with (
            packages.running(self.package.torch, exact=exact),
            self._recorder.recording(paths) as layers,
        ):
            masks, scores = self._call(stage, image, text)
        return Outcome(dict(layers), masks, scores)

    def _call(self, stage: str, image: NDArray[np.uint8], text: str) -> tuple[Any, Any]:
        if stage == "image":
            self.encode(image)
            return None, None
        if stage in CLICKS:
            masks, scores = self.predict(
                **prompts(stage, image.shape[:2], self.mask_side),
                multimask_output=stage == "point",
            )[:2]
            return np.asarray(masks) > 0, np.asarray(scores)
        if stage == "everything":
            found = self.generator().generate(image)
            rows = [(r["segmentation"], r["predicted_iou"]) for r in found]
            outcome = _everything(rows, image)
            return outcome.masks, outcome.scores
        if stage == "video":
            with TemporaryDirectory() as folder:
                write_clip(Path(folder), image)
                logits = list(self.track(folder, image))
            return np.stack(
                [np.asarray(frame).reshape(image.shape[:2]) > 0 for frame in logits]
            ), None
        return self.find(stage, image, text)

    mask_side = 256

    def encode(self, image: NDArray[np.uint8]) -> None:
        """Encode an image for clicks."""
        raise NotImplementedError

    def predict(self, **arguments: Any) -> Any:
        """Predict logits (K, H, W), scores (K,) and low-resolution logits."""
        raise NotImplementedError

    def generator(self) -> Any:
        """Return the generator of everything mode."""
        raise NotImplementedError

    def find(self, stage: str, image: NDArray[np.uint8], text: str) -> tuple[Any, Any]:
        """Find what a text or an example shows."""
        raise NotImplementedError

    def track(self, folder: str, image: NDArray[np.uint8]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        raise NotImplementedError


class SamReference(Reference):
    """segment-anything."""

    name = "segment-anything"
    stages = ("image", *CLICKS, "everything")
    # Ours adds the table of positions in the pass that makes the patches.
    before: ClassVar = {"image_encoder.patch_embed": "image_encoder.blocks.0"}

    def __init__(self, model: Model, weights: networks.Weights) -> None:
        super().__init__(*networks.sam(model, weights))
        self.mask_side = model.mask_side
        self._predictor: Any = None

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Of the tokens (IoU, masks, prompts) ours finishes IoU and the masks asked for."""
        if path == "mask_decoder.transformer.queries":
            count = self.network.mask_decoder.num_mask_tokens
            theirs = theirs[0, [0, *(range(2, 1 + count) if stage == "point" else (1,))]]
        return super().shared(path, stage, ours, theirs)

    def encode(self, image: NDArray[np.uint8]) -> None:
        """Encode an image for clicks."""
        self._predictor = self.package.package.SamPredictor(self.network)
        self._predictor.set_image(image)

    def predict(self, **arguments: Any) -> Any:
        """Predict logits (K, H, W), scores (K,) and low-resolution logits."""
        return self._predictor.predict(**arguments, return_logits=True)

    def generator(self) -> Any:
        """Return the generator of everything mode."""
        return self.package.package.SamAutomaticMaskGenerator(self.network, **EVERYTHING)


class Sam2Reference(Reference):
    """sam2."""

    name = "sam2"
    stages = ("image", *CLICKS, "everything", "video")
    before: ClassVar = {"image_encoder.trunk.patch_embed": "image_encoder.trunk.blocks.0"}

    def __init__(self, model: Model, weights: networks.Weights) -> None:
        super().__init__(*networks.sam2(model, weights))
        self.mask_side = model.mask_side
        self._grid = model.config["image_size"] // 16
        self._predictor: Any = None

    def prepare(self, exact: bool) -> None:
        """Give the network the precision, and make its tables anew."""
        super().prepare(exact)
        with packages.running(self.package.torch, exact=exact):
            networks.refresh(self.package, self.network, self._grid)

    def _fitted(self, predictor: Any) -> Any:
        """Give a predictor the sizes of the maps, which upstream writes down at 1024."""
        predictor._bb_feat_sizes = [(n * self._grid, n * self._grid) for n in (4, 2, 1)]
        return predictor

    def encode(self, image: NDArray[np.uint8]) -> None:
        """Encode an image for clicks."""
        self._predictor = self._fitted(self.package.image.SAM2ImagePredictor(self.network))
        self._predictor.set_image(image)

    def predict(self, **arguments: Any) -> Any:
        """Predict logits (K, H, W), scores (K,) and low-resolution logits."""
        return self._predictor.predict(**arguments, return_logits=True)

    def generator(self) -> Any:
        """Return the generator of everything mode."""
        generator = self.package.generator.SAM2AutomaticMaskGenerator(self.network, **EVERYTHING)
        self._fitted(generator.predictor)
        return generator

    def track(self, folder: str, image: NDArray[np.uint8]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        state = self.network.init_state(video_path=folder)
        self.network.add_new_points_or_box(state, 0, 1, box=middle_box(image))
        for _, _, logits in self.network.propagate_in_video(state):
            yield logits


class Sam3Reference(Reference):
    """sam3."""

    name = "sam3"
    stages = ("image", *CLICKS, "text", "example", "video")
    before: ClassVar = {
        "detector.backbone.vision_backbone.trunk.patch_embed": (
            "backbone.vision_backbone.trunk.ln_pre"
        )
    }

    def __init__(self, model: Model, weights: networks.Weights) -> None:
        super().__init__(*sam3_network.sam3(model, weights))
        self.mask_side = model.mask_side
        self._side = model.config["image_size"]
        self._grid = model.config["tracker"]["memory_attention"]["feat_size"]
        self._state: Any = None

    def name_of(self, path: str) -> str:
        """Return the name of a layer in the network."""
        return sam3_network.reference_name(path)

    def prepare(self, exact: bool) -> None:
        """Give the network the precision, and make its tables anew."""
        super().prepare(exact)
        with packages.running(self.package.torch, exact=exact):
            networks.refresh(self.package, self.network, self._grid)

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Of the decoder ours puts the presence token before the queries, theirs has it apart.

        Theirs scores the queries of all layers, ours those of the last. Theirs adds the result of
        the attention to the prompt behind the module.
        """
        if path.endswith(".cross_attend_prompt"):
            return None
        if path.startswith("detector.transformer.decoder.layers."):
            ours = ours[1:]
        if path == "detector.dot_prod_scoring":
            theirs = theirs[-1]
        return super().shared(path, stage, ours, theirs)

    def _processor(self) -> Any:
        return self.package.sam3_image_processor.Sam3Processor(
            self.network, resolution=self._side, device="cpu", confidence_threshold=THRESHOLD
        )

    def _set_image(self, image: NDArray[np.uint8]) -> tuple[Any, Any]:
        processor = self._processor()
        pixels = self.package.torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
        return processor, processor.set_image(pixels)

    def encode(self, image: NDArray[np.uint8]) -> None:
        """Encode an image for clicks."""
        _, self._state = self._set_image(image)

    def predict(self, **arguments: Any) -> Any:
        """Predict logits (K, H, W), scores (K,) and low-resolution logits."""
        return self.network.predict_inst(self._state, **arguments, return_logits=True)

    def find(self, stage: str, image: NDArray[np.uint8], text: str) -> tuple[Any, Any]:
        """Find what a text or an example shows."""
        processor, state = self._set_image(image)
        if stage == "text":
            state = processor.set_text_prompt(text, state)
        else:
            state = processor.add_geometric_prompt([0.5, 0.5, 0.5, 0.5], True, state)
        masks = state["masks"].numpy().reshape(-1, *image.shape[:2])
        return masks.astype(bool), state["scores"].numpy().reshape(-1)

    def track(self, folder: str, image: NDArray[np.uint8]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        tracker = self.network.inst_interactive_predictor.model
        height, width = image.shape[:2]
        box = middle_box(image) / np.array([width, height, width, height], np.float32)
        before, tracker.backbone = tracker.backbone, self.network.backbone
        try:
            # The loader of Meta's video model: the tracker's own has the statistics of SAM 2.
            images, height, width = self.package.frames.load_resource_as_video_frames(
                folder, self._side, offload_video_to_cpu=True
            )
            state = tracker.init_state(height, width, len(images))
            state["images"] = images
            tracker.add_new_points_or_box(inference_state=state, frame_idx=0, obj_id=1, box=box)
            steps = tracker.propagate_in_video(
                state,
                start_frame_idx=0,
                max_frame_num_to_track=NUM_FRAMES,
                reverse=False,
                propagate_preflight=True,
            )
            for _, _, _, logits, _ in steps:
                yield logits
        finally:
            tracker.backbone = before


_REFERENCES = {"sam": SamReference, "sam2": Sam2Reference, "sam3": Sam3Reference}


def stages_of(checkpoint: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the stages of a checkpoint's family. Reads the names of its tensors only."""
    family = _core.Checkpoint(str(find_checkpoint(checkpoint))).to_meta_names()
    return _REFERENCES[family].stages


def reference_of(model: Model, weights: networks.Weights) -> Reference:
    """Build the reference of a model's family."""
    return _REFERENCES[model.family](model, weights)
