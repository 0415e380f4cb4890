"""Which number format each tensor of a model gets in a GGUF file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sam_rlx.gguf_file import FORMATS

# What stays float32 besides tensors of one axis and single rows: tables of positions, embeddings
# and tokens of prompts and queries, and heads whose few numbers decide about a whole mask.
_EXACT = re.compile(
    r"""
    rel_pos_[hw]$ | pos_embed | positional | tpos_enc$ | boxRPB_embed
    | point_embeddings | not_a_point_embed | no_mask_embed | label_embed | cls_embed
    | iou_token | mask_tokens | obj_score_token | presence_token | query_embed
    | reference_points | bbox_embed | iou_prediction_head | pred_obj_score_head
    | output_hypernetworks_mlps
    """,
    re.VERBOSE,
)
# What is float16 in packed files: the few numbers that turn each click into its mask. On sam3-nano
# in Q8_0 they take more of the mask IoU than all others do.
_HALF = re.compile(r"mask_decoder\.")
# What is Q8_0 at least: the first two blocks of SAM 3's trunk, since all others work on what they
# have rounded. On sam3-nano in Q4_0 they take four tenths of the mask IoU that is lost.
_FINE = re.compile(r"vision_backbone\.trunk\.blocks\.[01]\.")
# For rows that 256 does not divide: finer than every format of 256 numbers, so nothing is lost.
_SMALL_BLOCKS = "Q8_0"


@dataclass(frozen=True)
class Choice:
    """A tensor with the format it gets. `wanted` is the one it would have got if it fitted."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    wanted: str

    @property
    def fell_back(self) -> bool:
        """Whether the rows do not fit the blocks of the format that was asked for."""
        return self.dtype != self.wanted

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape in the file: a packed 1x1 convolution is a matrix there."""
        return self.shape[:2] if self.is_packed_conv else self.shape

    @property
    def is_packed_conv(self) -> bool:
        """Whether this is a 1x1 convolution in a packed format."""
        return FORMATS[self.dtype].numbers > 1 and len(self.shape) == 4


def plan(tensors: Iterable[tuple[str, tuple[int, ...]]], dtype: str) -> list[Choice]:
    """Choose a format for each tensor.

    Matrices and 1x1 convolutions get `dtype`. Rows that are no multiple of its 256 numbers get
    Q8_0, and float16 if 32 does not divide them either. With a packed `dtype`, larger convolutions
    and the mask decoder of clicks are float16, and the first two blocks of SAM 3's trunk at least
    Q8_0. Everything small or delicate is float32.

    Parameters
    ----------
    tensors : iterable of (str, tuple of int)
        Meta's names, and shapes.
    dtype : str
        ``"F32"``, ``"F16"``, ``"BF16"``, ``"Q8_0"``, ``"Q4_0"``, or ``"Q2_K"`` to ``"Q8_K"``.
    """
    return [_choose(name, shape, dtype) for name, shape in tensors]


def _choose(name: str, shape: tuple[int, ...], dtype: str) -> Choice:
    plain = FORMATS[dtype].numbers == 1
    is_matrix = len(shape) == 2 or (len(shape) == 4 and shape[2:] == (1, 1))
    is_vector = len(shape) < 2 or shape[0] == 1 or 0 in shape
    if is_vector or _EXACT.search(name) or not (is_matrix or len(shape) == 4):
        return Choice(name, shape, "F32", "F32")
    if plain or not is_matrix or _HALF.search(name):
        kept = dtype if plain else "F16"
        return Choice(name, shape, kept, kept)
    wanted = "Q8_0" if _FINE.search(name) and dtype != "Q8_K" else dtype
    return Choice(name, shape, _fitting(shape[1], wanted), wanted)


def _fitting(length: int, dtype: str) -> str:
    for candidate in (dtype, _SMALL_BLOCKS):
        if length % FORMATS[candidate].numbers == 0:
            return candidate
    return "F16"
