"""What upstream's processor takes: ``sam3.model.sam3_image``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.click_predictor import Masks
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.common.state_dicts import EmptyModel, LoadResult
from sam_rlx.compat.common.turns import Turns
from sam_rlx.compat.sam3.model import state_dicts
from sam_rlx.compat.sam3.model.backbone_out import one_image
from sam_rlx.compat.sam3.model.geometry import GeometricPrompt
from sam_rlx.compat.sam3.model.sam1_task_predictor import SAM3InteractiveImagePredictor
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model
from sam_rlx.tokenizer import Tokenizer


class Backbone(Network):
    """The part of a model that programs give a text by hand."""

    def __init__(self, model: Model | EmptyModel) -> None:
        self.model: Any = model

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.model.config["text"]["context_length"])

    def forward_text(
        self,
        captions: list[str],
        input_boxes: Any = None,
        additional_text: Any = None,
        device: Any = "cpu",
    ) -> dict[str, Any]:
        """Return the text of a state, to be put into its ``backbone_out``: one caption.

        It is encoded when the processor finds.
        """
        check_device(device)
        if len(captions) != 1 or input_boxes is not None or additional_text is not None:
            raise UnsupportedError(
                "forward_text: expected one caption alone, as Sam3Processor.set_text_prompt "
                f"takes them, found {len(captions)}"
            )
        return {"language_features": self._tokenizer(list(captions))}

    def forward_image(self, *_args: Any, **_kwargs: Any) -> Any:
        """Raise `UnsupportedError`: `Sam3Processor.set_image` takes the image itself."""
        raise UnsupportedError(
            "forward_image: expected an image for Sam3Processor.set_image, which gives backbone_out"
        )


class Sam3Image(Network):
    """A SAM 3 model for images. Made by `build_sam3_image_model`.

    Attributes
    ----------
    model : sam_rlx.Model
        The weights.
    image_size : int
        Side of the square input in pixels.
    inst_interactive_predictor : SAM3InteractiveImagePredictor or None
        Takes clicks, if the model was built for them.
    """

    # Options of upstream's network, which are those of the weights, and its parts.
    _FIXED = frozenset(
        {
            "image_size", "backbone", "geometry_encoder", "transformer", "segmentation_head",
            "dot_prod_scoring", "class_embed", "matcher", "hidden_dim", "num_feature_levels",
            "multimask_output", "use_instance_query", "use_dot_prod_scoring",
            "interactivity_in_encoder", "supervise_joint_box_scores", "num_interactive_steps_val",
            "detach_presence_in_joint_score",
        }
    )  # fmt: skip
    _MADE = frozenset({"image_size", "backbone"})

    def __init__(self, model: Model | EmptyModel, enable_inst_interactivity: bool = False) -> None:
        if model.family != "sam3":
            raise UnsupportedError(f"model: expected family sam3, found {model.family}")
        self.model: Any = model
        self.image_size = model.img_size
        self.inst_interactive_predictor = (
            SAM3InteractiveImagePredictor(self) if enable_inst_interactivity else None
        )
        self._turns = Turns()
        self.backbone = Backbone(model)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Take weights by the names of upstream's image model, or by those of its files.

        See `Network.load_state_dict`.
        """
        return super().load_state_dict(state_dicts.names_of_file(state_dict), strict, assign)

    def _load(self, path: str, strict: bool) -> Model:
        return state_dicts.of_family(super()._load(path, strict), path)

    def _metadata(self) -> dict[str, str]:
        return state_dicts.metadata_of(self.model)

    def _loaded(self) -> None:
        vars(self)["image_size"] = self.model.img_size
        self.backbone.model = self.model

    def _get_dummy_prompt(self, num_prompts: int = 1) -> GeometricPrompt:
        """Return the boxes of a state without any; `num_prompts` is 1."""
        if num_prompts != 1:
            raise UnsupportedError(f"num_prompts: expected 1, found {num_prompts}")
        return GeometricPrompt()

    def predict_inst(self, inference_state: dict[str, Any], **kwargs: Any) -> Masks:
        """Predict masks of one object on the image of a state.

        Parameters
        ----------
        inference_state : dict
            From `Sam3Processor.set_image`.
        **kwargs
            As for `SAM2ImagePredictor.predict`.

        Returns
        -------
        tuple of ndarray, float32
            Masks ([B,] K, H, W), predicted IoU ([B,] K), logits ([B,] K, S, S).

        Raises
        ------
        UnsupportedError
            The model was built without ``enable_inst_interactivity``.
        """
        hw = inference_state["original_height"], inference_state["original_width"]
        with self._turns:
            predictor = self._with_images(inference_state, [hw], False)
            try:
                return predictor.predict(**kwargs)
            finally:
                predictor.reset_predictor()

    def predict_inst_batch(self, inference_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Predict for each image of a state of `Sam3Processor.set_image_batch`.

        Takes the arguments of `SAM2ImagePredictor.predict_batch` and returns its three lists.
        Raises as `predict_inst`.
        """
        heights, widths = inference_state["original_heights"], inference_state["original_widths"]
        with self._turns:
            sizes = list(zip(heights, widths, strict=True))
            predictor = self._with_images(inference_state, sizes, True)
            try:
                return predictor.predict_batch(*args, **kwargs)
            finally:
                predictor.reset_predictor()

    def _with_images(
        self, state: dict[str, Any], sizes: list[tuple[int, int]], is_batch: bool
    ) -> SAM3InteractiveImagePredictor:
        predictor = self.inst_interactive_predictor
        if predictor is None:
            raise UnsupportedError(
                "predict_inst: expected a model with enable_inst_interactivity, found one without"
            )
        found = state["backbone_out"]["sam2_backbone_out"]
        features = found["encoded"] if is_batch else one_image(found)
        predictor.set_encoded(features, sizes, is_batch)
        return predictor


__dir__ = public_names(__name__)
