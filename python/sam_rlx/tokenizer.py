"""Texts become the numbers that SAM 3's text encoder reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_integer, as_texts
from sam_rlx._internal.public import public_names
from sam_rlx.errors import TruncationWarning

_MERGES = Path(__file__).with_name("assets") / "clip-merges.bin"


@cache
def _tokenizer() -> _core.Tokenizer:
    return _core.Tokenizer(_MERGES.read_bytes())


class Tokenizer:
    """The byte pair encoding of SAM 3: CLIP's vocabulary, 49,408 ids.

    The ids are those of upstream's ``SimpleTokenizer``: the text is repaired (wrong encodings,
    curly quotes, ligatures, other widths, control characters), HTML entities are replaced, white
    space becomes single spaces, letters become lower case, and words are split into parts.

    Parameters
    ----------
    context_length : int
        Ids per text.

    Raises
    ------
    InvalidArgumentError
        `context_length` is no positive integer.

    Examples
    --------
    >>> import sam_rlx
    >>> sam_rlx.Tokenizer()("yellow school bus")[0, :6]
    array([49406,  4481,  1228,  2840, 49407,     0])
    """

    def __init__(self, context_length: int = 32) -> None:
        self._context_length = as_integer("context_length", context_length, 1)

    def __repr__(self) -> str:
        return f"<Tokenizer {self.context_length} ids a text, {self.vocab_size} ids>"

    @property
    def context_length(self) -> int:
        """Ids per text."""
        return self._context_length

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return _tokenizer().vocab_size

    def __call__(self, text: str | Sequence[str]) -> NDArray[np.int64]:
        """Tokenize one text or several.

        Parameters
        ----------
        text : str or sequence of str
            N texts; a single str is one. Empty ones are allowed.

        Returns
        -------
        ndarray (N, context_length), int64
            ``<start_of_text>`` (49406), the text, ``<end_of_text>`` (49407), then zeros. A
            longer text is cut, and ends with ``<end_of_text>`` all the same.

        Raises
        ------
        InvalidArgumentError
            `text` is of another type.

        Warns
        -----
        TruncationWarning
            A text was cut.
        """
        texts = as_texts("text", text, "surrogatepass")  # as upstream
        from sam_rlx._internal.text.cleaning import clean

        ids, lengths = _tokenizer()([clean(each) for each in texts], self._context_length)
        for each, length in zip(texts, lengths.tolist(), strict=True):
            if length > self._context_length:
                warnings.warn(
                    f"text: expected at most {self._context_length} tokens, start and end "
                    f"included, found {length}: the end of {_shortened(each)} has no effect",
                    TruncationWarning,
                    stacklevel=2,
                )
        return ids


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


__dir__ = public_names(__name__)
