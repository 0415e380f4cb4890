"""What all models of clicks share: tensors to the core and back."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.base import PreTrainedModel
from sam_rlx.compat.transformers.batch import ModelOutput
from sam_rlx.compat.transformers.click_prompts import ClickPrompts
from sam_rlx.compat.transformers.inputs import floats_of
from sam_rlx.compat.transformers.refusals import refuse_inner_values
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

Map = NDArray[np.float32]


class ClickModel(PreTrainedModel):
    """What all click models share."""

    takes_images = False
    _output: ClassVar[type[ModelOutput]]

    def _adopt(self, model: Model) -> None:
        self.model = model
        self._network = _core.TensorPredictor(model.core)

    def _side(self) -> int:
        return self.model.img_size

    def _pixels(self, value: Any, error: type[InvalidArgumentError]) -> Map:
        """Return normalized images; another size is an error of the type that upstream raises."""
        pixels = floats_of("pixel_values", value)
        side = self._side()
        if pixels.ndim != 4 or pixels.shape[1:] != (3, side, side):
            raise error(
                f"pixel_values: expected shape (images, 3, {side}, {side}), found {pixels.shape}"
            )
        return pixels

    def _encode(self, pixels: Map, **options: bool) -> tuple[Map, ...]:
        with self._turns:
            return self._network.encode(pixels, **options)

    def _prompt_embeddings(self, prompts: ClickPrompts) -> tuple[Any, Any]:
        with self._turns:
            sparse, dense = self._network.prompt_embeddings(
                prompts.points, prompts.labels, prompts.boxes, prompts.masks
            )
        given = (prompts.points, prompts.boxes)
        images = next((value.shape[0] for value in given if value is not None), 1)
        if prompts.masks is None:
            dense = np.repeat(dense, images, axis=0)
        return None if sparse is None else as_result(sparse), as_result(dense)

    def _decode(
        self, maps: list[Map], prompts: ClickPrompts, multimask: Any, hq_token_only: Any = False
    ) -> dict[str, Any]:
        prompts.check_images(maps[0].shape[0])
        with self._turns:
            masks, scores, objects = self._network.decode(
                maps,
                *(prompts.points, prompts.labels, prompts.boxes, prompts.masks),
                bool(multimask),
                bool(hq_token_only),
            )
        found = {"iou_scores": as_result(scores), "pred_masks": as_result(masks)}
        return found if objects is None else {**found, "object_score_logits": as_result(objects)}

    def masks_of_points(
        self, pixel_values: Any, points: NDArray[np.float32], **rules: Any
    ) -> _core.PointMasks:
        """Find the masks of points on a normalized image.

        Parameters
        ----------
        pixel_values : tensor or array
            Float32 (1, 3, S, S).
        points : ndarray (N, 2)
            x and y in pixels of the network's input, each an object of its own.
        **rules
            Of `_core.point_masks`.

        Returns
        -------
        PointMasks
            Those that the rules keep, in the order of the points.

        Raises
        ------
        RuntimeError
            The image has another size.
        """
        pixels = self._pixels(pixel_values, ArgumentRuntimeError)
        with self._turns:
            maps = self._network.encode(pixels, no_mem_embed=getattr(self, "_adds_no_memory", True))
            return _core.point_masks(
                self._network, [each[0] for each in maps], points.astype(np.float64), **rules
            )

    def _result(self, values: dict[str, Any], asked: dict[str, Any]) -> Any:
        """Return the output, or its tuple for ``return_dict=False``."""
        output = self._output(**values)
        wanted = asked.get("return_dict")
        wanted = getattr(self.config, "return_dict", True) if wanted is None else wanted
        return output if wanted else output.to_tuple()

    def _refuse_inner(self, asked: dict[str, Any], **more: Any) -> None:
        names = ("output_attentions", "output_hidden_states")
        refuse_inner_values(
            type(self).__name__, {**{name: asked.get(name) for name in names}, **more}
        )


def check_one(pixel_values: Any, image_embeddings: Any) -> None:
    """Raise `ValueError` unless one of the two is given."""
    if (pixel_values is None) == (image_embeddings is None):
        found = "neither" if pixel_values is None else "both"
        raise InvalidArgumentError(
            f"pixel_values: expected pixel_values or image_embeddings, found {found}"
        )


def check_shape(name: str, found: Map, expected: tuple[int, ...]) -> Map:
    """Return an array of this shape behind its first axis; `RuntimeError` for another."""
    if found.shape[1:] != expected or found.ndim != 1 + len(expected):
        raise ArgumentRuntimeError(
            f"{name}: expected shape (images, {', '.join(map(str, expected))}), found {found.shape}"
        )
    return found


def check_labels(points: Any, labels: Any) -> None:
    """Raise `ValueError` for points without labels."""
    if points is not None and labels is None:
        raise InvalidArgumentError("input_labels: expected a label for each point, found none")


__dir__ = public_names(__name__)
