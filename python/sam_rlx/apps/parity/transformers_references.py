"""transformers' classes on the networks of a checkpoint: one class for each family."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core, io
from sam_rlx.apps.parity import hugging_face, packages
from sam_rlx.apps.parity.layers import Recorder
from sam_rlx.apps.parity.networks import Weights
from sam_rlx.apps.parity.references import Reference
from sam_rlx.apps.parity.stages import CLICKS, THRESHOLD, middle_box
from sam_rlx.model import Model
from sam_rlx.tokenizer import Tokenizer

_IMAGES = "images are resized as Meta's predictors do; transformers' processors resize otherwise"
_NO_EVERYTHING = "everything mode is not compared: transformers has it as a pipeline of its own"
_MASK_ALONE = (
    "a mask without points goes to the prompt encoder and the decoder as in Meta's predictors; "
    "transformers adds an empty point"
)
_MAX_HOLE_AREA = 256.0  # of Meta's predictor for clicks on SAM 3
_END_OF_TEXT = 49407


class TransformersReference(Reference):
    """A class of transformers on one model. `exact` runs in float64."""

    name = "transformers"

    def __init__(self, model: Model, weights: Weights) -> None:
        self._model, self._weights = model, weights
        self.package = packages.transformers()
        self.mask_side = model.mask_side
        self._exact = False
        self._build()

    def _build(self) -> None:
        """Make the network, its tables in the precision that runs."""
        torch, family = self.package.torch, self._model.family
        with packages.running(torch, exact=self._exact):
            network = hugging_face.build(self.package, self._model)
            network = network.double() if self._exact else network.float()
            self._names = hugging_face.Names(family, network, self._weights)
            self.network = hugging_face.fill(torch, network, self._names, self._model.source)
        before = {path: str(self._names.module(name)) for path, name in self.before.items()}
        self._recorder = Recorder(self.network, self.name_of, before)

    def prepare(self, exact: bool) -> None:
        """Give the network the precision: tables are part of it, so it is made anew."""
        if exact != self._exact:
            self._exact = exact
            self._build()

    def name_of(self, path: str) -> str:
        """Return the name of a layer in the network: the module that has the same tensors."""
        module = self._names.module(path)
        if module is not None:
            return module
        begin, _, last = path.rpartition(".")
        parent = self._names.module(begin)
        return path if parent is None else f"{parent}.{last}"

    # ---------------------------------------------------------------- images and prompts

    def _tensor(self, values: Any) -> Any:
        torch = self.package.torch
        return torch.as_tensor(np.array(values), dtype=torch.get_default_dtype())

    def _pixels(self, image: NDArray[np.uint8]) -> Any:
        """Resize and normalize an image: (1, 3, S, S)."""
        raise NotImplementedError

    def _normalized(self, pixels: Any) -> Any:
        """Subtract the mean of (..., 3, H, W), and divide by the deviation."""
        mean, std = (
            self._tensor(self._model.config[name]).reshape(3, 1, 1)
            for name in ("pixel_mean", "pixel_std")
        )
        return (pixels - mean) / std

    def _resized(self, pixels: Any, side: int) -> Any:
        return self.package.torch.nn.functional.interpolate(
            pixels, (side, side), mode="bilinear", align_corners=False, antialias=True
        )

    def _scaled(self, points: Any) -> Any:
        """Return points (N, 2) of the image in pixels of the input."""
        height, width = self._hw
        side = self._model.img_size
        return self._tensor(points) * self._tensor([side / width, side / height])

    def _enlarged(self, logits: Any) -> Any:
        """Resize logits (1, K, h, w) to the size of the image."""
        return self.package.torch.nn.functional.interpolate(
            logits, self._hw, mode="bilinear", align_corners=False
        )

    def encode(self, image: NDArray[np.uint8]) -> None:
        """Encode an image for clicks."""
        self._hw = image.shape[:2]
        self._embeddings = self._encoded(self._pixels(image))

    def _encoded(self, pixels: Any) -> Any:
        return self._clicks.get_image_embeddings(pixels)

    @property
    def _clicks(self) -> Any:
        """The class that takes clicks."""
        raise NotImplementedError

    def predict(self, **arguments: Any) -> Any:
        """Predict logits (K, H, W), scores (K,) and low-resolution logits."""
        multimask_output, prompts = arguments.pop("multimask_output"), arguments
        given: dict[str, Any] = {}
        if "point_coords" in prompts:
            given["input_points"] = self._scaled(prompts["point_coords"])[None, None]
            labels = self.package.torch.as_tensor(prompts["point_labels"])
            given["input_labels"] = labels[None, None]
        if "box" in prompts:
            corners = self._scaled(np.reshape(prompts["box"], (2, 2)))
            given["input_boxes"] = corners.reshape(1, 1, 4)
        if "mask_input" in prompts:
            given["input_masks"] = self._tensor(prompts["mask_input"])[None]
        masks, scores = self._decoded(given, multimask_output)
        return self._enlarged(masks[0])[0], scores[0, 0], masks[0, 0]

    def _decoded(self, prompts: dict[str, Any], multimask_output: bool) -> tuple[Any, Any]:
        """Return low-resolution logits (1, 1, K, h, w) and scores (1, 1, K)."""
        found = self._clicks(
            image_embeddings=self._embeddings, multimask_output=multimask_output, **prompts
        )
        return found.pred_masks, found.iou_scores


class _HighResolutionReference(TransformersReference):
    """What SAM 2's class and SAM 3's for clicks share."""

    def _decoded(self, prompts: dict[str, Any], multimask_output: bool) -> tuple[Any, Any]:
        """Return logits and scores. Without points the decoder gets none, not an empty one."""
        if set(prompts) != {"input_masks"}:
            return super()._decoded(prompts, multimask_output)
        model, maps = self._clicks, self._embeddings
        _, dense = model.prompt_encoder(None, None, None, prompts["input_masks"])
        masks, scores, *_ = model.mask_decoder(
            image_embeddings=maps[-1],
            image_positional_embeddings=model.get_image_wide_positional_embeddings(),
            sparse_prompt_embeddings=dense.new_zeros(1, 1, 0, dense.shape[1]),
            dense_prompt_embeddings=dense,
            multimask_output=multimask_output,
            high_resolution_features=maps[:-1],
        )
        return masks, scores


class SamReference(TransformersReference):
    """`SamModel`."""

    stages = ("image", *CLICKS)
    before: ClassVar = {"image_encoder.patch_embed": "image_encoder.blocks.0"}
    notes: tuple[str, ...] = (
        _IMAGES,
        _NO_EVERYTHING,
        "norms of the mask decoder have Meta's epsilon, 1e-5; transformers' default is 1e-6",
    )

    @property
    def _clicks(self) -> Any:
        return self.network

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Of the tokens (IoU, masks, prompts) ours finishes IoU and the masks asked for."""
        if path == "mask_decoder.transformer.queries":
            theirs = theirs[0, 0, self._tokens(stage)]
        return super().shared(path, stage, ours, theirs)

    def _tokens(self, stage: str) -> list[int]:
        count = self.network.mask_decoder.num_mask_tokens
        return [0, *(range(2, 1 + count) if stage == "point" else (1,))]

    def _size(self) -> tuple[int, int]:
        """Return height and width of the resized image: the long side fills the input."""
        scale = self._model.img_size / max(self._hw)
        height, width = (int(side * scale + 0.5) for side in self._hw)
        return height, width

    def _pixels(self, image: NDArray[np.uint8]) -> Any:
        """Resize with Pillow, normalize, and fill up with zeros below and on the right."""
        height, width = self._size()
        pillow = io.pillow("Image")
        small = np.array(
            pillow.fromarray(image).resize((width, height), pillow.Resampling.BILINEAR)
        )
        pixels = self._normalized(self._tensor(small).permute(2, 0, 1))
        side = self._model.img_size
        pad = self.package.torch.nn.functional.pad
        return pad(pixels, (0, side - width, 0, side - height))[None]

    def _scaled(self, points: Any) -> Any:
        (height, width), (new_height, new_width) = self._hw, self._size()
        return self._tensor(points) * self._tensor([new_width / width, new_height / height])

    def _enlarged(self, logits: Any) -> Any:
        interpolate = self.package.torch.nn.functional.interpolate
        side = self._model.img_size
        whole = interpolate(logits, (side, side), mode="bilinear", align_corners=False)
        height, width = self._size()
        return super()._enlarged(whole[..., :height, :width])


class SamHqReference(SamReference):
    """`SamHQModel`. Of several masks it gives all, the best one first."""

    notes = (
        *SamReference.notes,
        "of several masks the best one is compared, which sam_rlx gives as SAM-HQ's code does",
        "masks are made of the map behind the two-way transformer, as SAM-HQ's are; transformers "
        "makes them of the map before it, with rows and columns swapped",
    )

    def _tokens(self, stage: str) -> list[int]:
        count = self.network.mask_decoder.num_mask_tokens
        return [0, *range(2 if stage == "point" else 1, 1 + count)]

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Of several masks the best one."""
        if path == "mask_decoder.low_res_masks":
            theirs = theirs[:, :, :1]
        return super().shared(path, stage, ours, theirs)

    def _decoded(self, prompts: dict[str, Any], multimask_output: bool) -> tuple[Any, Any]:
        embedding, inner = self._embeddings
        found = self.network(
            image_embeddings=embedding,
            intermediate_embeddings=inner,
            multimask_output=multimask_output,
            **prompts,
        )
        return found.pred_masks[:, :, :1], found.iou_scores[:, :, :1]


class Sam2Reference(_HighResolutionReference):
    """`Sam2Model` and `Sam2VideoModel`."""

    stages = ("image", *CLICKS, "video")
    chosen_masks = "sam_mask_decoder.low_res_masks"
    before: ClassVar = {"image_encoder.trunk.patch_embed": "image_encoder.trunk.blocks.0"}
    notes = (
        _IMAGES,
        _NO_EVERYTHING,
        _MASK_ALONE,
        "memories are kept in float32; transformers rounds them to bfloat16",
        "holes are left on both sides: transformers fills none",
    )

    @property
    def _clicks(self) -> Any:
        return self.network.clicks

    @property
    def _session(self) -> Any:
        """The class of sessions."""
        return self.package.video.Sam2VideoInferenceSession

    def name_of(self, path: str) -> str:
        """Return the name of a layer in the network. Of the neck's levels the last comes first."""
        begin, _, last = path.rpartition(".")
        if begin == "image_encoder.neck" and last.isdecimal():
            deepest = len(self._model.config["neck"]["backbone_channel_list"]) - 1
            return f"{self._names.module(begin)}.{deepest - int(last)}"
        return super().name_of(path)

    def _pixels(self, image: NDArray[np.uint8]) -> Any:
        """Resize as float, and normalize."""
        pixels = self._tensor(image).permute(2, 0, 1)[None] / 255
        return self._normalized(self._resized(pixels, self._model.img_size))

    def track(self, folder: str, hw: tuple[int, ...]) -> Iterator[Any]:
        """Follow what is in the middle of the first frame; yields logits (1, 1, H, W)."""
        self._hw = hw
        side, torch = self._model.img_size, self.package.torch
        frames = [
            np.array(io.pillow("Image").open(path).resize((side, side)))
            for path in sorted(Path(folder).iterdir())
        ]
        video = self._normalized(self._tensor(np.stack(frames)).permute(0, 3, 1, 2) / 255)
        session = self._session(video, *self._hw, dtype=torch.get_default_dtype())
        corners = self._scaled(middle_box(self._hw).reshape(2, 2))
        box = {"point_coords": corners[None, None], "point_labels": torch.tensor([[[2, 3]]])}
        session.add_point_inputs(session.obj_id_to_idx(1), 0, box)
        session.obj_with_new_inputs = [1]
        for found in self.network.propagate_in_video_iterator(session, start_frame_idx=0):
            yield self._enlarged(found.pred_masks)


class EdgeTamReference(Sam2Reference):
    """`EdgeTamModel` and `EdgeTamVideoModel`."""

    before: ClassVar = {}

    @property
    def _session(self) -> Any:
        return self.package.edgetam_video.EdgeTamVideoInferenceSession


class Sam3Reference(_HighResolutionReference):
    """`Sam3Model` and `Sam3TrackerModel`."""

    stages = ("image", *CLICKS, "text", "example")
    chosen_masks = "tracker.sam_mask_decoder.low_res_masks"
    before: ClassVar = {
        "detector.backbone.vision_backbone.trunk.patch_embed": (
            "detector.backbone.vision_backbone.trunk.ln_pre"
        )
    }
    notes = (
        _IMAGES,
        _MASK_ALONE,
        "norms have Meta's epsilon, 1e-5; transformers' default is 1e-6",
        "no_memory_embedding is added to the level that is decoded, as Meta does; transformers "
        "adds it to a level that it drops",
        "texts carry the class token of the geometry encoder, as Meta's do; transformers leaves "
        "it out",
        "holes of masks of clicks are filled by sam_rlx, as Meta's predictor does; transformers "
        "leaves them",
        "ids of texts come from sam_rlx.Tokenizer: transformers' tokenizer has to be downloaded",
        "videos are not compared: transformers fixes the width of memories, and resizes mask "
        "logits before the sigmoid, Meta after it",
    )

    @property
    def _clicks(self) -> Any:
        return self.network.tracker_model

    def shared(
        self, path: str, stage: str, ours: NDArray[Any], theirs: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Theirs scores the queries of all layers, and has a padded box beside a text."""
        if path.endswith(".cross_attend_prompt"):
            return None
        if path == "detector.dot_prod_scoring":
            theirs = theirs[-1]
        if path.startswith("detector.geometry_encoder") and stage == "text":
            theirs = theirs[:, :1]
        return super().shared(path, stage, ours, theirs)

    def _pixels(self, image: NDArray[np.uint8]) -> Any:
        """Resize bytes, as on a CPU, and normalize."""
        torch = self.package.torch
        small = self._resized(
            torch.from_numpy(np.array(image)).permute(2, 0, 1)[None], self._model.img_size
        )
        return self._normalized(self._tensor(small.numpy()) / 255)

    def _enlarged(self, logits: Any) -> Any:
        low_res = logits[0].numpy().astype(np.float32)
        filled = _core.remove_small_mask_regions(low_res, _MAX_HOLE_AREA, 0, 0)
        return super()._enlarged(self._tensor(filled)[None])

    def _encoded(self, pixels: Any) -> Any:
        found = self._clicks.get_image_features(pixels, return_dict=True)
        sizes = self._clicks.backbone_feature_sizes
        maps = list(found.fpn_hidden_states)[: len(sizes)]
        maps[-1] = maps[-1] + self._clicks.no_memory_embedding
        return [
            level.permute(1, 2, 0).reshape(1, -1, *size)
            for level, size in zip(maps, sizes, strict=True)
        ]

    def find(self, stage: str, image: NDArray[np.uint8], text: str) -> tuple[Any, Any]:
        """Find what a text or an example shows."""
        self._hw, torch = image.shape[:2], self.package.torch
        context = self._model.config["text"]["context_length"]
        ids = Tokenizer(context)(text if stage == "text" else "visual")[0].tolist()
        ids = ids[: ids.index(_END_OF_TEXT) + 1]
        # A box that is padding gives the class token alone.
        middle, label = ([0.0] * 4, -10) if stage == "text" else ([0.5] * 4, 1)
        found = self.network.detector_model(
            pixel_values=self._pixels(image),
            input_ids=torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            input_boxes=self._tensor([[middle]]),
            input_boxes_labels=torch.tensor([[label]]),
        )
        presence = found.presence_logits[0].clamp(-10, 10).sigmoid()
        scores = found.pred_logits[0].sigmoid() * presence
        kept = scores > THRESHOLD
        masks = super()._enlarged(found.pred_masks[0][kept][None])[0] > 0
        return masks.numpy(), scores[kept].numpy()


REFERENCES = {"sam": SamReference, "sam2": Sam2Reference, "sam3": Sam3Reference}
