"""The tokenizer of SAM 3's texts, beside transformers' own."""

from __future__ import annotations

import copy
import json
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from sam_rlx.compat.transformers.text import CLIPTokenizer
from sam_rlx.errors import CheckpointError, SamRlxError

VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
SYMBOLS = [*map(chr, VISIBLE), *map(chr, range(0x100, 0x100 + 256 - len(VISIBLE)))]
MARKS = ("<|startoftext|>", "<|endoftext|>")
MERGES = [
    ("c", "a"),
    ("ca", "t</w>"),
    ("o", "g</w>"),
    ("d", "og</w>"),
    ("Ã", "©</w>"),
    ("<", "|</w>"),
]
TEXTS = [
    *("cat", "dog", "", " a  dog\tand\na cat ", "cats", "CAT", "12 cats", "don't", "'s'S we'll"),
    *(
        "\u201ccat\u201d  &amp; Dog",
        "é",
        "e\u0301",
        "ΟΔΟΣ",
        "İstanbul",
        "\u017f",
        "'\u017f",
        "!!'\u017fs",
        "日本 2½ Ⅷ",
        "🐈‍⬛ x",
    ),
    *(
        "<|startoftext|>",
        "a<|endoftext|>b",
        "a<|ENDOFTEXT|>b",
        "<start_of_text>",
        "!!<end_of_text>b",
    ),
    *(
        "\u00a0x\x85y\x1cz",
        "a\x00b",
        "\u2028",
        "\ufb01",
        "a " * 40,
        "_a_",
        "a_b-c.d",
        "\ufeffx",
        "x\u200dy",
    ),
]


def vocabulary(merges: list[tuple[str, str]]) -> dict[str, int]:
    parts = [
        *SYMBOLS,
        *(symbol + "</w>" for symbol in SYMBOLS),
        *(a + b for a, b in merges),
        *MARKS,
    ]
    return {part: index for index, part in enumerate(parts)}


@pytest.fixture(params=[(), MERGES], ids=["bytes", "merges"])
def both(request):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    merges = list(request.param)
    vocab = vocabulary(merges)
    theirs = transformers.CLIPTokenizer(vocab=vocab, merges=merges)
    return CLIPTokenizer(vocab, merges), theirs


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_transformers(both, text):
    ours, theirs = both
    assert ours.encode(text) == theirs(text).input_ids


def test_ids_of_random_texts(both):
    ours, theirs = both
    choose = random.Random(5)
    letters = "catdog '\u2019<>|_sSéΣ\u0130\t1²Ⅷ日🐈-.,&;\u017f\u00a0\u3000"
    for _ in range(400):
        text = "".join(choose.choices(letters, k=choose.randrange(30)))
        assert ours.encode(text) == theirs(text).input_ids, repr(text)


@pytest.mark.parametrize("kind", ["pt", "np", None])
@pytest.mark.parametrize("text", ["cat", ["cat"], ("cat", "a dog"), "a " * 40])
def test_what_a_call_gives(both, text, kind):
    arguments = {"padding": "max_length", "max_length": 32, "return_tensors": kind}
    if kind == "np" and text == "a " * 40:
        text = [text]
    found, expected = (each(text, **arguments) for each in both)
    assert list(found) == list(expected)
    for name in expected:
        a, b = found[name], expected[name]
        if kind is None:
            assert a == b
        else:
            assert type(a) is type(b)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_without_padding_and_to_the_longest(both):
    for padding in (False, True):
        found, expected = (each(["cat", "a dog"], padding=padding) for each in both)
        assert dict(found) == dict(expected)


@pytest.mark.parametrize("text", [5, [None], None, [], [["a"]], ["a", 5]])
def test_what_is_refused(both, text):
    ours, theirs = both
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs(text, padding="max_length", max_length=32, return_tensors="pt")
    with pytest.raises(expected.type) as found:
        ours(text, padding="max_length", max_length=32, return_tensors="pt")
    assert isinstance(found.value, SamRlxError)


def test_folders_of_both_kinds(both, tmp_path):
    ours, theirs = both
    theirs.save_pretrained(tmp_path)
    again = CLIPTokenizer.from_pretrained(tmp_path)
    assert again.encode("a cat, é <|") == ours.encode("a cat, é <|")

    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    folder = tmp_path / "files"
    folder.mkdir()
    ours.save_pretrained(folder)
    for kind in (CLIPTokenizer.from_pretrained, transformers.CLIPTokenizer.from_pretrained):
        tokenizer = kind(folder)
        assert list(tokenizer("a cat, é <|").input_ids) == ours.encode("a cat, é <|")


def test_copies():
    tokenizer = CLIPTokenizer(vocabulary(MERGES), MERGES)
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert again.encode("a cat") == tokenizer.encode("a cat")


def test_an_unknown_part_has_the_id_of_the_unknown_token():
    vocab = vocabulary([])
    del vocab["t</w>"]
    tokenizer = CLIPTokenizer(vocab)
    assert tokenizer.encode("cat") == [
        *(vocab[MARKS[0]], vocab["c"], vocab["a"], vocab[MARKS[1]], vocab[MARKS[1]])
    ]


def test_files_that_are_no_tokenizer(tmp_path: Path):
    with pytest.raises(OSError, match=r"expected tokenizer\.json"):
        CLIPTokenizer.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{", "utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: expected JSON"):
        CLIPTokenizer.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": []}), "utf-8")
    with pytest.raises(CheckpointError, match="expected a BPE tokenizer"):
        CLIPTokenizer.from_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="expected parts that earlier merges make"):
        CLIPTokenizer(vocabulary([]), [("ca", "t")])
    with pytest.raises(CheckpointError, match="expected an id of"):
        CLIPTokenizer({})
