"""The tokenizer of SAM 3's texts as transformers makes it: CLIP's byte pairs, without torch."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentIndexError, ArgumentTypeError
from sam_rlx.compat.transformers.batch import BatchFeature
from sam_rlx.compat.transformers.sources import source_files, take_source_options
from sam_rlx.errors import CheckpointError, HubError, InvalidArgumentError

_VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))  # bytes that are shown
_END = "</w>"  # behind the last part of a word
_SPACES = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# Where words of Meta's tokenizer, which has the byte pairs, end otherwise: it has marks of its own,
# and takes the long s for an s.
_CUTS = re.compile("(?<=<)(?=start_of_text>|end_of_text>)|(?<=')(?=\u017f)")
_WHOLE, _VOCAB, _MERGES, _MARKS = _FILES = (
    *("tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json"),
)
_SPECIAL = {
    "bos_token": "<|startoftext|>",
    "eos_token": "<|endoftext|>",
    "pad_token": "<|endoftext|>",
    "unk_token": "<|endoftext|>",
}


class CLIPTokenizer:
    """Turns texts into ids: NFC, single spaces, lower case, byte pairs, start and end.

    Texts are neither repaired nor unescaped, nor cut at a length.

    Parameters
    ----------
    vocab : dict of str to int
        Ids of the parts, and of the marks for start, end and padding.
    merges : sequence of (str, str)
        Pairs of parts that become one, best first.
    **special_tokens : str
        ``bos_token``, ``eos_token``, ``pad_token``, ``unk_token``; others are ignored.

    Raises
    ------
    CheckpointError
        A merge joins what no merge before it makes, or a mark has no id.
    """

    model_max_length = 77

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]] = (),
        **special_tokens: Any,
    ) -> None:
        self.vocab = dict(vocab)
        self.merges = [(left, right) for left, right in merges]
        given = {key: _content(value) for key, value in special_tokens.items() if key in _SPECIAL}
        marks = _SPECIAL | given
        self.bos_token, self.eos_token, self.pad_token, self.unk_token = (
            marks[key] for key in _SPECIAL
        )
        self.bos_token_id, self.eos_token_id, self.pad_token_id, self.unk_token_id = (
            self._id(marks[key]) for key in _SPECIAL
        )
        self._core, parts = _byte_pairs(self.merges)
        ids = (self.vocab.get(part, self.unk_token_id) for part in parts)
        self._ids = np.fromiter(ids, np.int64, len(parts))
        ordered = sorted(set(marks.values()), key=len, reverse=True)
        self._marks = re.compile(f"({'|'.join(map(re.escape, ordered))})")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.vocab_size} ids>"

    def __reduce__(self) -> tuple[Any, ...]:
        marks = {key: getattr(self, key) for key in _SPECIAL}
        return _again, (type(self), self.vocab, self.merges, marks)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.vocab)

    def __len__(self) -> int:
        return self.vocab_size

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str], **kwargs: Any) -> Self:
        """Read a tokenizer from a folder or a hub repository.

        Parameters
        ----------
        source : str or path
            Has ``tokenizer.json``, or ``vocab.json`` and ``merges.txt``; the marks are those of
            ``tokenizer_config.json``, where that is there.
        **kwargs
            `subfolder`, `revision`, `token`, `cache_dir`, `local_files_only`. Others have no
            effect.

        Raises
        ------
        OSError
            The source has no such files.
        CheckpointError
            A file is not as it should be.
        """
        files = source_files(source, _FILES, take_source_options(kwargs))
        marks = _read(files[_MARKS]) if _MARKS in files else {}
        if _WHOLE in files:
            return cls(*_whole(files[_WHOLE]), **marks)
        if _VOCAB not in files or _MERGES not in files:
            raise HubError(
                f"{os.fspath(source)}: expected {_WHOLE}, or {_VOCAB} and {_MERGES}, found "
                f"{sorted(files)}"
            )
        lines = files[_MERGES].read_text("utf-8").splitlines()
        rows = [line for line in lines if line and not line.startswith("#version")]
        return cls(_read(files[_VOCAB]), [*map(_pair, rows)], **marks)

    def save_pretrained(self, save_directory: str | os.PathLike[str], **_: Any) -> list[str]:
        """Write the files to a folder, which is made, and return their names."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        marks = {key: getattr(self, key) for key in _SPECIAL}
        merges = "".join(f"{left} {right}\n" for left, right in self.merges)
        (folder / _MERGES).write_text(f"#version: 0.2\n{merges}", "utf-8")
        settings = {"tokenizer_class": "CLIPTokenizer", **marks}
        for name, value in ((_VOCAB, self.vocab), (_MARKS, settings)):
            (folder / name).write_text(json.dumps(value, ensure_ascii=False), "utf-8")
        return [str(folder / name) for name in (_VOCAB, _MERGES, _MARKS)]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, start and end included."""
        ids = [self.bos_token_id]
        for index, piece in enumerate(self._marks.split(text)):
            ids += [self._id(piece)] if index % 2 else self._parts(piece)
        return [*ids, self.eos_token_id]

    def __call__(
        self,
        text: str | Sequence[str],
        padding: bool | str = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **_: Any,
    ) -> BatchFeature:
        """Return ``input_ids`` and ``attention_mask`` of one text or several.

        Parameters
        ----------
        text : str or list of str
            N texts.
        padding : bool or str
            ``"max_length"``: to `max_length` ids at least. True: to the longest text.
        max_length : int, optional
            For `padding`. Longer texts are not cut.
        return_tensors : str, optional
            "pt", "np", or None: lists, flat ones for a single text.

        Returns
        -------
        BatchFeature
            Two entries (N, L), int64.

        Raises
        ------
        InvalidArgumentError, TypeError, IndexError
            There is another type than texts, or no text.
        """
        rows = [self.encode(each) for each in _texts(text)]
        width = max(map(len, rows)) if padding else 0
        if padding == "max_length":
            width = max_length or self.model_max_length
        masks = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        ids = [row + [self.pad_token_id] * (width - len(row)) for row in rows]
        if return_tensors is None and isinstance(text, str):
            return BatchFeature({"input_ids": ids[0], "attention_mask": masks[0]})
        return BatchFeature({"input_ids": ids, "attention_mask": masks}, return_tensors)

    def _id(self, token: str) -> int:
        try:
            return self.vocab[token]
        except KeyError as error:
            raise CheckpointError(
                f"tokenizer: expected an id of {token!r}, found {len(self.vocab)} ids of others"
            ) from error

    def _parts(self, text: str) -> list[int]:
        """Return the ids of a text without marks."""
        plain = _SPACES.sub(" ", unicodedata.normalize("NFC", text))
        lower = "".join(map(str.lower, plain))  # letter by letter: a last sigma is not special
        pieces = _CUTS.split(lower)
        room = 2 + max(len(piece.encode("utf-8")) for piece in pieces)
        found, lengths = self._core(pieces, room)
        rows = zip(found, lengths.tolist(), strict=True)
        return [int(self._ids[i]) for row, length in rows for i in row[1 : length - 1]]


def _texts(text: Any) -> list[str]:
    """Return texts as a list, with upstream's errors for anything else."""
    if isinstance(text, str):
        return [text]
    if not isinstance(text, (list, tuple)):
        raise InvalidArgumentError(
            f"text: expected a str or a list of str, found {type(text).__name__}"
        )
    if not text:
        raise ArgumentIndexError("text: expected at least one text, found none")
    if not isinstance(text[0], (str, list, tuple)):
        raise InvalidArgumentError(f"text: expected str, found {type(text[0]).__name__}")
    for each in text:
        if not isinstance(each, str):
            raise ArgumentTypeError(f"text: expected str, found {type(each).__name__}")
    return list(text)


def _byte_pairs(merges: Sequence[tuple[str, str]]) -> tuple[_core.Tokenizer, list[str]]:
    """Return the core's tokenizer for these merges, and what its ids stand for."""
    hidden = range(0x100, 0x100 + 256 - len(_VISIBLE))  # letters that stand for other bytes
    symbols = [*map(chr, _VISIBLE), *map(chr, hidden)]
    parts = [*symbols, *(symbol + _END for symbol in symbols)]
    number = {part: index for index, part in enumerate(parts)}
    pairs = np.empty((len(merges), 2), "<u2")
    for index, (left, right) in enumerate(merges):
        joined = left + right
        if left not in number or right not in number or joined in number:
            raise CheckpointError(
                f"tokenizer: expected parts that earlier merges make, found merge {index}: "
                f"{left!r} and {right!r}"
            )
        pairs[index] = number[left], number[right]
        number[joined] = len(parts)
        parts.append(joined)
    return _core.Tokenizer(pairs.tobytes()), parts


def _whole(path: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the ids and merges of a ``tokenizer.json``."""
    found = _read(path)
    try:
        added = {token["content"]: token["id"] for token in found["added_tokens"]}
        return {**found["model"]["vocab"], **added}, [*map(_pair, found["model"]["merges"])]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: expected a BPE tokenizer, found {error}") from error


def _pair(merge: Any) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _content(token: Any) -> str:
    """Return the text of a mark, which files write as a text or as a dict."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: expected JSON, found {error}") from error
    return found


def _again(
    kind: type[CLIPTokenizer],
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    marks: dict[str, str],
) -> CLIPTokenizer:
    return kind(vocab, merges, **marks)


__dir__ = public_names(__name__)
