"""The bare image encoders: pixels in, a map out."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers import configs
from sam_rlx.compat.transformers.batch import ModelOutput
from sam_rlx.compat.transformers.click_models import ClickModel
from sam_rlx.compat.transformers.sam2_models import Sam2Model, Sam2VisionEncoderOutput
from sam_rlx.compat.transformers.sam_models import SamHQModel, SamModel
from sam_rlx.errors import InvalidArgumentError


class SamVisionEncoderOutput(ModelOutput):
    """What the encoders of SAM and SAM-HQ give."""

    fields = (
        *("last_hidden_state", "intermediate_embeddings", "hidden_states", "attentions"),
        "image_embeds",
    )


class _Encoder(ClickModel):
    """An image encoder in the folder of a whole model."""

    _whole: ClassVar[type[ClickModel]]

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return those of the whole model."""
        return cls._whole.rules(config)

    def forward(self, pixel_values: Any = None, **kwargs: Any) -> Any:
        """Encode normalized images.

        Parameters
        ----------
        pixel_values : tensor or array
            Float32 (B, 3, S, S).
        **kwargs
            ``return_dict=False`` gives a tuple; others have no effect.

        Returns
        -------
        ModelOutput
            ``last_hidden_state`` and what the class has besides.

        Raises
        ------
        ValueError
            No images, or of another size.
        """
        self._refuse_inner(kwargs)
        if pixel_values is None:
            raise InvalidArgumentError("pixel_values: expected images, found none")
        return self._result(self._maps_of(pixel_values), kwargs)

    def _maps_of(self, pixel_values: Any) -> dict[str, Any]:
        raise NotImplementedError


class SamVisionModel(_Encoder):
    """SAM's image encoder, from the folder of a `SamModel`."""

    config_class = configs.CLASSES["SamVisionConfig"]
    kinds = ("sam",)
    _whole = SamModel
    _output = SamVisionEncoderOutput

    def _maps_of(self, pixel_values: Any) -> dict[str, Any]:
        maps = self._encode(self._pixels(pixel_values, InvalidArgumentError))
        return {"last_hidden_state": as_result(maps[0])}


class SamHQVisionModel(_Encoder):
    """SAM-HQ's image encoder, from the folder of a `SamHQModel`."""

    config_class = configs.CLASSES["SamHQVisionConfig"]
    kinds = ("sam_hq",)
    _whole = SamHQModel
    _output = SamVisionEncoderOutput

    def _maps_of(self, pixel_values: Any) -> dict[str, Any]:
        pixels = self._pixels(pixel_values, InvalidArgumentError)
        embedding, *early = self._encode(pixels, all_maps=True)
        return {
            "last_hidden_state": as_result(embedding),
            "intermediate_embeddings": [as_result(each) for each in early],
        }


class Sam2VisionModel(_Encoder):
    """SAM 2's image encoder, from the folder of a `Sam2Model`: its trunk's coarsest map.

    The maps of its neck are those that the decoder reads, behind the decoder's own convolutions:
    `Sam2Model.get_image_features` gives them.
    """

    config_class = configs.CLASSES["Sam2VisionConfig"]
    kinds = ("sam2", "sam2_video")
    _whole = Sam2Model
    _output = Sam2VisionEncoderOutput

    def _maps_of(self, pixel_values: Any) -> dict[str, Any]:
        pixels = self._pixels(pixel_values, ArgumentRuntimeError)
        *_, last = self._encode(pixels, no_mem_embed=False, all_maps=True)
        return {"last_hidden_state": as_result(np.asarray(last))}


__dir__ = public_names(__name__)
