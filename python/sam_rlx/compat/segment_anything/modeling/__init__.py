"""Parts of the network: ``Sam``, and names that can be imported only."""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.unoffered import unoffered
from sam_rlx.compat.segment_anything.modeling.sam import Sam

_HERE = "segment_anything.modeling"
ImageEncoderViT = unoffered(f"{_HERE}.image_encoder", "ImageEncoderViT")
MaskDecoder = unoffered(f"{_HERE}.mask_decoder", "MaskDecoder")
PromptEncoder = unoffered(f"{_HERE}.prompt_encoder", "PromptEncoder")
TwoWayTransformer = unoffered(f"{_HERE}.transformer", "TwoWayTransformer")

__all__ = ["ImageEncoderViT", "MaskDecoder", "PromptEncoder", "Sam", "TwoWayTransformer"]

__dir__ = public_names(__name__)
