"""Upstream's ``Sam3Processor``: ``sam3.model.sam3_image_processor``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import CPU, check_device
from sam_rlx.compat.common.errors import (
    ArgumentAttributeError,
    ArgumentTypeError,
    expects,
    require,
)
from sam_rlx.compat.common.network import WithModel
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.common.turns import Turns
from sam_rlx.compat.sam3.model.backbone_out import BackboneOut, one_image, together
from sam_rlx.compat.sam3.model.geometry import GeometricPrompt
from sam_rlx.compat.sam3.model.sam3_image import Sam3Image
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.tokenizer import Tokenizer

__all__ = ["Sam3Processor"]

State = dict[str, Any]
_FIXED = ("model", "transform", "find_stage")
_TEXT_KEYS = ("language_features", "language_mask", "language_embeds")
_RESULT_KEYS = ("geometric_prompt", "boxes", "masks", "masks_logits", "scores")
# torchvision's factor from 0 to 1 to bytes, whose fractions are cut off.
_BYTES = np.float32(256.0 - 1e-3)


class Sam3Processor(WithModel):
    """Texts and boxes on images, with upstream's methods and states.

    Parameters
    ----------
    model : Sam3Image
        From `build_sam3_image_model`.
    resolution : int, optional
        Side of the network's input; only that of the model, which is the default (upstream's is
        1008, that of the released model).
    device : str
        ``"cpu"``.
    confidence_threshold : float
        Instances with a score above it are kept.
    """

    def __init__(
        self,
        model: Sam3Image,
        resolution: int | None = None,
        device: Any = "cpu",
        confidence_threshold: float = 0.5,
    ) -> None:
        self.model = model.to(device)
        if resolution is not None:
            self.resolution = resolution
        self.device = CPU
        self.confidence_threshold = confidence_threshold
        # States of several threads take turns with the one core.
        self._turns = Turns()
        self._clicks = model.inst_interactive_predictor is not None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "device":
            check_device(value)
            value = CPU
        elif name in _FIXED and (name != "model" or name in vars(self)):
            raise ArgumentAttributeError(
                f"Sam3Processor.{name}: expected no change once the processor is made, found "
                f"{value!r}; make another processor"
            )
        super().__setattr__(name, value)

    @property
    def resolution(self) -> int:
        """Side of the network's input."""
        return int(self.model.image_size)

    @resolution.setter
    def resolution(self, value: int) -> None:
        if value != self.resolution:
            raise UnsupportedError(f"resolution: expected {self.resolution}, found {value}")

    @property
    def _core(self) -> _core.ConceptPredictor:
        """The core of the model, also where it has got other weights."""
        model, held = self.model.model, vars(self).get("_held")
        if held is None or held[0] is not model:
            core = _core.ConceptPredictor(model.core, 0, "integer", self._clicks)
            held = self._held = model, core
        return held[1]

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.model.model.config["text"]["context_length"])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.model, self.resolution, self.device, self.confidence_threshold)
        return Sam3Processor, arguments

    def set_image(self, image: Any, state: State | None = None) -> State:
        """Encode an image.

        Parameters
        ----------
        image : PIL image, or array
            Channels first (3, H, W), as upstream's tensors; uint8, or float in 0 to 1. With
            channels last the results get the size (W, 3), as upstream.
        state : dict, optional
            Gets the image instead of an earlier one; its prompts stay. Default: a new one.

        Returns
        -------
        dict
            ``original_height``, ``original_width`` and ``backbone_out``.

        Raises
        ------
        ValueError
            `image` is of another type.
        """
        if state is None:
            state = {}
        if hasattr(image, "convert"):
            width, height = image.size
        elif hasattr(image, "__array__"):
            height, width = np.shape(image)[-2:]
        else:
            raise InvalidArgumentError(
                f"image: expected a PIL image or a tensor, found {type(image).__name__}"
            )
        out = self._encode([image], [(height, width)])
        state["original_height"] = height
        state["original_width"] = width
        state["backbone_out"] = out
        return state

    def set_image_batch(self, images: list[Any], state: State | None = None) -> State:
        """Encode PIL images for `Sam3Image.predict_inst_batch`.

        Returns
        -------
        dict
            `state` with ``original_heights``, ``original_widths`` and ``backbone_out``.

        Raises
        ------
        ValueError
            `images` is not a list.
        AssertionError
            It is empty, or its first entry is no PIL image.
        """
        if state is None:
            state = {}
        if not isinstance(images, list):
            raise InvalidArgumentError(f"images: expected a list, found {type(images).__name__}")
        require(len(images) > 0, "images: expected at least one, found none")
        require(
            hasattr(images[0], "convert"),
            f"images: expected PIL images, found {type(images[0]).__name__}",
        )
        sizes = [(image.height, image.width) for image in images]
        out = self._encode(images, sizes)
        state["original_heights"] = [height for height, _ in sizes]
        state["original_widths"] = [width for _, width in sizes]
        state["backbone_out"] = out
        return state

    def _encode(self, images: list[Any], sizes: list[tuple[int, int]]) -> BackboneOut:
        encoded, clicks, kept = [], [], []
        with self._turns, self._without_image():
            for image, size in zip(images, sizes, strict=True):
                pixels = _as_bytes(image)
                self._core.set_image(pixels, size)
                kept.append(pixels)
                encoded.append([part[None] for part in self._core.image_embeddings])
                if self._clicks:
                    found = self._core.concept_image
                    assert found is not None
                    clicks.append(found.take_click_embeddings())
        out: State = {"encoded": together(encoded), "sam2_backbone_out": None}
        if clicks:
            out["sam2_backbone_out"] = {"encoded": together(clicks)}
        return BackboneOut(out, self.model.model, kept)

    def _use(self, state: State) -> None:
        """Bring the core to the image of a state."""
        parts = one_image(state["backbone_out"])
        hw = state["original_height"], state["original_width"]
        self._core.set_image_embeddings([part[0] for part in parts], hw)

    @contextmanager
    def _without_image(self) -> Iterator[None]:
        """Leave no image behind: states hold them."""
        try:
            yield
        finally:
            self._core.set_concept_image(None)

    def set_text_prompt(self, prompt: str, state: State) -> State:
        """Replace the text of a state, keep its boxes, and find.

        Returns
        -------
        dict
            `state` with ``masks_logits`` float32 (n, 1, H, W), which are probabilities, ``masks``
            bool (n, 1, H, W), ``boxes`` float32 (n, 4) as (x0, y0, x1, y1) in pixels, not clipped,
            and ``scores`` float32 (n,).

        Raises
        ------
        ValueError
            The state has no image.
        """
        if "backbone_out" not in state:
            raise InvalidArgumentError("state: expected one of set_image, found no image in it")
        geometry = state.get("geometric_prompt", GeometricPrompt())
        return self._forward_grounding(state, self._tokenizer([prompt]), geometry)

    @expects("a box (cx, cy, w, h) of numbers, a label and a state")
    def add_geometric_prompt(self, box: Any, label: bool, state: State) -> State:
        """Add a box (cx, cy, w, h), fractions of the sides, and find.

        A state without a text gets the text ``"visual"``. `label` is True for an example of
        what is meant, and False for one of what is not. Returns as `set_text_prompt`.

        Raises
        ------
        ValueError
            The state has no image, or the box has not four numbers.
        """
        if "backbone_out" not in state:
            raise InvalidArgumentError("state: expected one of set_image, found no image in it")
        values = np.asarray(box, np.float32).ravel()
        if len(values) != 4:
            raise InvalidArgumentError(f"box: expected (cx, cy, w, h), found {box!r}")
        if not np.isfinite(values).all():
            raise InvalidArgumentError(f"box: expected finite fractions, found {values.tolist()}")
        mark = np.asarray(label)
        if mark.dtype.kind not in "biuf" or mark.size != 1:
            raise ArgumentTypeError(f"label: expected True or False, found {label!r}")
        text = state["backbone_out"].get("language_features")
        before = state.get("geometric_prompt", GeometricPrompt())
        geometry = GeometricPrompt([*before.boxes, values.tolist()], [*before.labels, bool(mark)])
        text = self._tokenizer(["visual"]) if text is None else text
        return self._forward_grounding(state, text, geometry)

    def reset_all_prompts(self, state: State) -> None:
        """Remove text, boxes and results from a state; the image stays."""
        for key in _TEXT_KEYS:
            state.get("backbone_out", {}).pop(key, None)
        for key in _RESULT_KEYS:
            state.pop(key, None)

    @expects("a threshold that is a number, and a state")
    def set_confidence_threshold(self, threshold: float, state: State | None = None) -> Any:
        """Set the threshold, and find again if the state has results; return the state."""
        before, self.confidence_threshold = self.confidence_threshold, threshold
        if state is None or "boxes" not in state:
            return state
        text = state["backbone_out"]["language_features"]
        try:
            return self._forward_grounding(state, text, state["geometric_prompt"])
        except BaseException:
            self.confidence_threshold = before
            raise

    def _forward_grounding(
        self, state: State, text: Any = None, prompt: GeometricPrompt | None = None
    ) -> State:
        """Find, and only then put prompts and results into the state, whose own are the defaults.

        Programs call it after they have changed the prompts of a state.
        """
        text = state["backbone_out"].get("language_features") if text is None else text
        prompt = state.get("geometric_prompt") if prompt is None else prompt
        if text is None or prompt is None:
            raise InvalidArgumentError(
                "state: expected a text (backbone.forward_text) and a geometric_prompt, found "
                f"{sorted(state)} with {sorted(state['backbone_out'])}"
            )
        hw = state["original_height"], state["original_width"]
        boxes = np.array(prompt.boxes, np.float64) if prompt.boxes else None
        labels = np.array(prompt.labels, np.int32) if prompt.boxes else None
        with self._turns, self._without_image():
            self._use(state)
            (found,) = self._core.find(
                text,
                boxes=boxes,
                box_labels=labels,
                threshold=float(self.confidence_threshold),
                fractions=True,
            )
            masks = np.empty((len(found.scores), *hw), np.float32)
            self._core.upscale(found.low_res_masks, masks, True)
        state["backbone_out"]["language_features"] = text
        state["geometric_prompt"] = prompt
        state["masks_logits"] = as_result(masks[:, None])
        state["masks"] = as_result(masks[:, None] > 0.5)
        state["boxes"] = as_result(found.boxes)
        state["scores"] = as_result(found.scores)
        return state


def _as_bytes(image: Any) -> NDArray[np.uint8]:
    """Return the image as upstream's transform sees it, (H, W, 3), in memory of its own."""
    if hasattr(image, "convert"):
        return as_rgb(image)
    array = np.asarray(image)
    if array.dtype.kind == "f":
        array = (array.astype(np.float32) * _BYTES).astype(np.uint8)
    pixels = as_rgb(array)
    return pixels.copy() if np.may_share_memory(pixels, array) else pixels


__dir__ = public_names(__name__)
