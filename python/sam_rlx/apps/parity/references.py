"""Meta's packages on the networks of a checkpoint: one class for each family."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.parity import networks, packages, sam3_network
from sam_rlx.apps.parity.layers import Recorder, in_our_layout
from sam_rlx.apps.parity.stages import (
    CLICKS,
    EVERYTHING,
    THRESHOLD,
    VIDEO_TEXT,
    Outcome,
    folder_of,
    middle_box,
    of_everything,
    of_video_text,
    prompts,
)
from sam_rlx.model import Model


class Reference:
    """Meta's package on one model. `exact` runs in float64."""

    name = ""
    notes: tuple[str, ...] = ()  # where it differs from Meta's code by design
    stages: tuple[str, ...] = ()
    before: ClassVar[Mapping[str, str]] = {}

    mask_side: int

    def __init__(self, package: Any, network: Any) -> None:
        self.package, self.network = package, network
        self._recorder = Recorder(network, self.name_of, self.before)

    def name_of(self, path: str) -> str:
        """Return the name of a layer in the network."""
        return path

    # What theirs chooses among several masks is chosen behind our layer, but for several masks.
    chosen_masks: str | None = None
    # Side of the map of tokens that rotations are made for, where the network has any.
    _grid: int | None = None

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return what both sides have of a layer, in our layout; None where nothing compares."""
        if path == self.chosen_masks and stage != "point":
            return None
        moved = in_our_layout(ours, theirs)
        return None if moved is None else (ours.reshape(moved.shape), moved)

    def prepare(self, exact: bool) -> None:
        """Give the network the precision, and make its tables anew."""
        if exact:
            self.network.double()
        else:
            self.network.float()
        if self._grid is not None:
            with packages.running(self.package.torch, exact=exact):
                networks.refresh(self.network, self._grid)

    def run(
        self, stage: str, image: NDArray[np.uint8], text: str, paths: list[str], exact: bool
    ) -> Outcome:
        """Run one stage and record the layers of `paths`. Stages of videos take frames."""
        with (
            packages.running(self.package.torch, exact=exact),
            self._recorder.recording(paths, first=stage == "video") as layers,
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
            outcome = of_everything(rows, image)
            return outcome.masks, outcome.scores
        if stage == "video":
            hw = image.shape[1:3]
            with folder_of(image) as folder:
                logits = [np.asarray(frame) for frame in self.track(folder, hw)]
            return np.stack([frame.reshape(hw) > 0 for frame in logits]), None
        if stage == "video_text":
            with folder_of(image) as folder:
                found = of_video_text(list(self.track_text(folder, text)), image.shape[1:3])
            return found.masks, found.scores
        return self.find(stage, image, text)

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

    def track(self, folder: str, hw: tuple[int, ...]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        raise NotImplementedError

    def track_text(self, folder: str, text: str) -> Iterator[tuple[Any, Any]]:
        """Follow all that a text names; yields masks (H, W) and scores by object."""
        raise NotImplementedError


class SamReference(Reference):
    """segment-anything."""

    name = "segment-anything"
    stages = ("image", *CLICKS, "everything")
    # Ours adds the table of positions in the pass that makes the patches.
    before: ClassVar = {"image_encoder.patch_embed": "image_encoder.blocks.0"}

    build: ClassVar[Callable[..., tuple[Any, Any]]] = staticmethod(networks.sam)

    def __init__(self, model: Model, weights: networks.Weights) -> None:
        super().__init__(*self.build(model, weights))
        self.mask_side = model.mask_side
        self._predictor: Any = None

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Of the tokens (IoU, masks, prompts) ours finishes IoU and the masks asked for."""
        if path == "mask_decoder.transformer.queries":
            theirs = theirs[0, self._tokens(stage)]
        return super().shared(path, stage, ours, theirs)

    def _tokens(self, stage: str) -> list[int]:
        count = self.network.mask_decoder.num_mask_tokens
        return [0, *(range(2, 1 + count) if stage == "point" else (1,))]

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


class MobileSamReference(SamReference):
    """mobilesam-mirror, which is MobileSAM's repository."""

    name = "mobilesam-mirror"
    before: ClassVar = {}
    build = staticmethod(networks.mobile_sam)


class SamHqReference(SamReference):
    """segment-anything-hq, which is SAM-HQ's repository."""

    name = "segment-anything-hq"
    build = staticmethod(networks.sam_hq)

    def encode(self, image: NDArray[np.uint8]) -> None:
        """Encode an image for clicks, with what ours makes of it at once."""
        super().encode(image)
        decoder = self.network.mask_decoder
        decoder.embedding_encoder(self._predictor.features)
        decoder.compress_vit_feat(self._predictor.interm_features[0].permute(0, 3, 1, 2))

    def _tokens(self, stage: str) -> list[int]:
        """Of the token of SAM-HQ, which is the last one, ours makes all that stand before it."""
        count = self.network.mask_decoder.num_mask_tokens
        return [0, *range(2 if stage == "point" else 1, 1 + count)]


class SamHqTinyReference(SamHqReference):
    """The same with MobileSAM's trunk."""

    before: ClassVar = {}


class Sam2Reference(Reference):
    """sam2."""

    name = "sam2"
    chosen_masks = "sam_mask_decoder.low_res_masks"
    _grid: int
    stages = ("image", *CLICKS, "everything", "video")
    before: ClassVar = {"image_encoder.trunk.patch_embed": "image_encoder.trunk.blocks.0"}

    build: ClassVar[Callable[..., tuple[Any, Any]]] = staticmethod(networks.sam2)

    def __init__(self, model: Model, weights: networks.Weights) -> None:
        super().__init__(*self.build(model, weights))
        self.mask_side = model.mask_side
        self._grid = model.config["image_size"] // 16
        self._predictor: Any = None

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

    def track(self, folder: str, hw: tuple[int, ...]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        state = self.network.init_state(video_path=folder)
        self.network.add_new_points_or_box(state, 0, 1, box=middle_box(hw))
        for _, _, logits in self.network.propagate_in_video(state):
            yield logits


class EdgeTamReference(Sam2Reference):
    """edgetam-dimos, which is EdgeTAM's repository."""

    name = "edgetam-dimos"
    before: ClassVar = {}
    build = staticmethod(networks.edgetam)


class HqSam2Reference(Sam2Reference):
    """HQ-SAM 2's code, folder sam-hq2 of SAM-HQ's repository."""

    name = "HQ-SAM 2"
    build = staticmethod(networks.hq_sam2)


class Sam3Reference(Reference):
    """sam3."""

    name = "sam3"
    chosen_masks = "tracker.sam_mask_decoder.low_res_masks"
    stages: tuple[str, ...] = ("image", *CLICKS, "text", "example", "video", "video_text")
    before: ClassVar = {
        "detector.backbone.vision_backbone.trunk.patch_embed": (
            "backbone.vision_backbone.trunk.ln_pre"
        )
    }

    def __init__(self, model: Model, weights: networks.Weights) -> None:
        super().__init__(*sam3_network.sam3(model, weights, video=True))
        self.mask_side = model.mask_side
        self._side = model.config["image_size"]
        self._grid = model.config["tracker"]["memory_attention"]["feat_size"]
        self._state: Any = None

    def name_of(self, path: str) -> str:
        """Return the name of a layer in the network."""
        return sam3_network.reference_name(path)

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

    def track(self, folder: str, hw: tuple[int, ...]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        box = middle_box(hw) / np.array([*hw[::-1], *hw[::-1]], np.float32)
        # The loader of Meta's video model: the tracker's own has the statistics of SAM 2.
        images, height, width = self.package.frames.load_resource_as_video_frames(
            folder, self._side, offload_video_to_cpu=True
        )
        with self._tracker() as tracker:
            state = tracker.init_state(height, width, len(images))
            state["images"] = images
            tracker.add_new_points_or_box(inference_state=state, frame_idx=0, obj_id=1, box=box)
            steps = tracker.propagate_in_video(
                state,
                start_frame_idx=0,
                max_frame_num_to_track=len(images),
                reverse=False,
                propagate_preflight=True,
            )
            for _, _, _, logits, _ in steps:
                yield logits

    @contextmanager
    def _tracker(self) -> Iterator[Any]:
        """Give the tracker, with the image encoder that it has in Meta's video models."""
        tracker = self.network.inst_interactive_predictor.model
        before, tracker.backbone = tracker.backbone, self.network.backbone
        try:
            yield tracker
        finally:
            tracker.backbone = before

    def track_text(self, folder: str, text: str) -> Iterator[tuple[Any, Any]]:
        """Follow all that a text names; yields masks (H, W) and scores by object."""
        kind = self.package.sam3_video_inference.Sam3VideoInferenceWithInstanceInteractivity
        # Meta's builder of the video model sets it, that of the image model does not.
        self.network.supervise_joint_box_scores = True
        try:
            with self._tracker() as tracker:
                model = kind(
                    detector=self.network,
                    tracker=tracker,
                    image_size=self._side,
                    **sam3_network.VIDEO_OPTIONS,
                    **VIDEO_TEXT,
                ).eval()
                state = model.init_state(folder, offload_video_to_cpu=True)
                model.add_prompt(state, 0, text_str=text)
                for _, found in model.propagate_in_video(state, 0):
                    rows = [found[f"out_{name}"] for name in ("obj_ids", "binary_masks", "probs")]
                    names = [int(name) for name in rows[0]]
                    masks, scores = (dict(zip(names, row, strict=True)) for row in rows[1:])
                    yield masks, scores
        finally:
            self.network.supervise_joint_box_scores = False


class Sam31Reference(Sam3Reference):
    """sam3 with the neck and the heads for clicks of SAM 3.1: all that it has for images."""

    chosen_masks = "tracker.model.interactive_sam_mask_decoder.low_res_masks"
    stages = ("image", *CLICKS, "text", "example")


REFERENCES: dict[str, type[Reference]] = {
    "sam": SamReference,
    "sam2": Sam2Reference,
    "sam3": Sam3Reference,
}
