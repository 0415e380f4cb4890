"""Which number format each tensor of a model gets in a GGUF file."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sam_rlx._internal.weights.gguf.file import FORMATS

# What stays float32 besides tensors of one axis and single rows: tables of positions, embeddings
# and tokens of prompts and queries, and heads whose few numbers decide about a whole mask.
_EXACT = re.compile(
    r"""
    rel_pos_[hw]$ | attention_biases$ | pos_embed | positional | tpos_enc$ | boxRPB_embed
    | point_embeddings | not_a_point_embed | no_mask_embed | label_embed | cls_embed
    | iou_token | mask_tokens | obj_score_token | presence_token | query_embed
    | reference_points | bbox_embed | iou_prediction_head | pred_obj_score_head
    | output_hypernetworks_mlps | hf_mlp | perceiver\.latents
    | output_(in)?valid_embed | no_obj_embed_spatial
    """,
    re.VERBOSE,
)
# What is float16 in packed files: the few numbers that turn each click into its mask, and those
# that turn a text into instances. On sam3-nano in Q8_0 they take more of the mask IoU of clicks,
# and as much of that of texts, as all others do.
_HALF = re.compile(
    r"mask_decoder\. | ^detector\.(transformer|geometry_encoder|segmentation_head|dot_prod)",
    re.VERBOSE,
)
# What is Q8_0 at least: the first two blocks of SAM 3's trunk, since all others work on what they
# have rounded. On sam3-nano in Q4_0 they take four tenths of the mask IoU that is lost.
_FINE = re.compile(r"vision_backbone\.trunk\.blocks\.[01]\.")
# For rows that 256 does not divide: finer than every format of 256 numbers, so nothing is lost.
_SMALL_BLOCKS = "Q8_0"
_HALVES = ("F16", "BF16")
# How wide kernels may be that a reader gives back.
_LARGEST_SIDE = 16


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
        """Shape in the file: a packed convolution is a matrix there."""
        return _as_matrix(self.shape) if self.packed_side else self.shape

    @property
    def packed_side(self) -> int:
        """Side of the kernel if this is a convolution in a packed format, else 0."""
        return _kernel_side(self.shape) if FORMATS[self.dtype].numbers > 1 else 0


def plan(
    tensors: Iterable[tuple[str, str, tuple[int, ...]]],
    dtype: str,
    overrides: Sequence[tuple[str, str]] = (),
) -> list[Choice]:
    """Choose a format for each tensor.

    Matrices and 1x1 convolutions get `dtype`. Rows that are no multiple of its 256 numbers get
    Q8_0, and float16 if 32 does not divide them either. With a packed `dtype`, larger convolutions,
    the mask decoder of clicks and SAM 3's detector behind trunk and text are float16, and the first
    two blocks of its trunk at least Q8_0. Everything small or delicate is float32, or what the
    source has if that is narrower and `dtype` is not F32.

    Parameters
    ----------
    tensors : iterable of (str, str, tuple of int)
        Meta's names, number formats of the source, and shapes.
    dtype : str
        A name in `sam_rlx._internal.weights.gguf.file.FORMATS`.
    overrides : sequence of (str, str)
        Regular expressions and formats: a tensor of at least two axes with a name in which the
        first of these expressions is found gets that format instead.
    """
    rules = [(re.compile(pattern), wanted) for pattern, wanted in overrides]
    choices = []
    for name, source, shape in tensors:
        wanted = next((wanted for rule, wanted in rules if rule.search(name)), None)
        if wanted is None or len(shape) < 2:
            choices.append(_choose(name, source, shape, dtype))
        else:
            choices.append(Choice(name, shape, _fitting(_row_length(shape), wanted), wanted))
    return choices


def _choose(name: str, source: str, shape: tuple[int, ...], dtype: str) -> Choice:
    plain = FORMATS[dtype].numbers == 1
    is_matrix = len(shape) == 2 or (len(shape) == 4 and shape[2:] == (1, 1))
    is_vector = len(shape) < 2 or shape[0] == 1 or 0 in shape
    narrow = source if source in _HALVES and dtype != "F32" else None
    if is_vector or _EXACT.search(name) or not (is_matrix or len(shape) == 4):
        kept = narrow or "F32"
        return Choice(name, shape, kept, kept)
    if plain or not is_matrix or _HALF.search(name):
        kept = dtype if plain else narrow or "F16"
        return Choice(name, shape, kept, kept)
    wanted = "Q8_0" if _FINE.search(name) and dtype != "Q8_K" else dtype
    return Choice(name, shape, _fitting(_row_length(shape), wanted), wanted)


def _kernel_side(shape: tuple[int, ...]) -> int:
    square = len(shape) == 4 and shape[2] == shape[3]
    return shape[3] if square and 1 <= shape[3] <= _LARGEST_SIDE else 0


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0], shape[1] * shape[2] * shape[3]


def _row_length(shape: tuple[int, ...]) -> int:
    return _as_matrix(shape)[1] if _kernel_side(shape) else shape[-1]


def _fitting(length: int, dtype: str) -> str:
    for candidate in (dtype, _SMALL_BLOCKS):
        if length % FORMATS[candidate].numbers == 0:
            return candidate
    return "F16"
