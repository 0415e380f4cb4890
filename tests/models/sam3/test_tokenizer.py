"""SAM 3's tokenizer: the same ids as upstream's for any text."""

from __future__ import annotations

import importlib.util
import re
import time
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sam_rlx import _core
from sam_rlx._internal.text import mojibake
from sam_rlx.apps.parity import sam3_network
from support import prompts
from support.cases import quick

START, END = 49406, 49407
TABLES = Path(__file__).parents[2] / "data" / "tokenizer" / "make_tables.py"
EXAMPLES = [
    ("a cat", [320, 2368]),
    ("A  CAT", [320, 2368]),
    (" a\tcat\n", [320, 2368]),
    ("visual", [7195]),
    ("", []),
    ("person", [2533]),
    ("yellow school bus", [4481, 1228, 2840]),
    ("player in white", [2477, 530, 1579]),
    ("it's 3 dogs!", [585, 568, 274, 3255, 256]),
    ("don't", [847, 713]),
    ("1234", [272, 273, 274, 275]),
    ("ice-cream", [733, 268, 3867]),
    ("caf\u00e9", [15304]),
    ("\u72d7", [163, 233, 501]),
    ("&amp;lt; tom &amp; jerry", [283, 2435, 261, 9164]),
    ("\u201cquoted\u201d", [257, 27706, 257]),
    ("xxx\U0001f600", [8352, 7334]),
    ("\ufb01re", [1769]),
    ("\uff21\uff22", [3937]),
    ("<start_of_text> hello", [START, 3306]),
]


@pytest.fixture(scope="module")
def reference():
    pytest.importorskip("support.upstream", reason="needs the reference packages")
    upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    tokenizer = upstream_sam3.tokenizer()
    return lambda texts, context_length=32: tokenizer(texts, context_length).numpy()


def ours(texts, context_length=32):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sam_rlx.TruncationWarning)
        return sam_rlx.Tokenizer(context_length)(texts)


def same_ids(found, expected, texts):
    wrong = np.flatnonzero((found != expected).any(axis=1))
    assert not len(wrong), f"{texts[wrong[0]]!r}: {found[wrong[0]]} is not {expected[wrong[0]]}"
    assert found.dtype == expected.dtype


@pytest.mark.parametrize(("text", "ids"), EXAMPLES, ids=[repr(text) for text, _ in EXAMPLES])
def test_examples(text, ids):
    found = sam_rlx.Tokenizer()(text)
    assert found.shape == (1, 32)
    assert found.dtype == np.int64
    assert found[0].tolist() == [START, *ids, END] + [0] * (30 - len(ids))


# ---------------------------------------------------------------- upstream


@pytest.mark.parity
@pytest.mark.parametrize("count", quick([1000, 10_000], 0))
def test_many_prompts(reference, count):
    texts = list(prompts.draw(count, seed=7))
    expected = reference(texts)
    same_ids(ours(texts), expected, texts)
    # The prompts are what they are meant to be: short and long, empty, repaired, unescaped.
    assert 0.01 * count < np.sum(expected[:, 31] == END) < 0.8 * count
    assert 0.01 * count < np.sum(expected[:, 1] == END) < 0.8 * count
    assert sum(mojibake.fix_encoding(text) != text for text in texts) > 0.1 * count
    assert np.unique(expected).size > 0.2 * count


@pytest.mark.parity
@pytest.mark.parametrize("step", quick([11, 1], 0))
def test_characters(reference, step):
    """Each that Python's Unicode and upstream's know, alone and between letters."""
    known = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) != "Cn"]
    known = [c for c in known if not 0x3400 <= ord(c) < 0xD7A4 or ord(c) % 97 == 0]
    known = [c for c in known if ord(c) < 0x20000 or ord(c) % 997 == 0]
    texts = [c if i % 2 else f"a{c}b" for i, c in enumerate(known[::step])]
    same_ids(ours(texts, 16), reference(texts, 16), texts)


@pytest.mark.parity
@settings(max_examples=300)
@given(st.text(st.characters(exclude_categories=["Cn", "Cs"]), max_size=40))  # of every Unicode
@example("\u0345")
@example("a\u0345\u0345b")
@example("'\u017f <\u017ftart_of_text> !'s")
@example("<b>&eacute;</b>\n&eacute;")
@example("&lt;\n&amp;lt;")
def test_any_text(reference, text):
    same_ids(ours([text]), reference([text]), [text])


# ---------------------------------------------------------------- length


def test_a_long_text_is_cut_and_says_so():
    with pytest.warns(sam_rlx.TruncationWarning, match="at most 32 tokens.*found 42") as caught:
        found = sam_rlx.Tokenizer()(["a cat", "cat " * 40])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found[1].tolist() == [START] + [2368] * 30 + [END]
    exact = sam_rlx.Tokenizer()("cat " * 30)  # no warning
    assert exact.tolist() == found[1:].tolist()


@pytest.mark.parity
@pytest.mark.parametrize("context_length", [1, 2, 3, 32, 77])
def test_other_lengths(reference, context_length):
    texts = ["", "cat", "a cat", "yellow school bus " * 12]
    same_ids(ours(texts, context_length), reference(texts, context_length), texts)


def test_long_words_take_no_long_time():
    """About as much for a letter as short ones: a search through the word takes 10 000 times it."""
    texts = ["ab" * 200_000, "\u72d7" * 100_000, "!" * 300_000]
    seconds = []
    for split in (False, True):
        words = [" ".join(re.findall(".{1,10}", text)) if split else text for text in texts]
        start = time.process_time()
        found = ours(words)
        seconds.append(time.process_time() - start)
        assert (found[:, 31] == END).all()
    assert seconds[0] < 100 * seconds[1]


def test_no_text():
    assert sam_rlx.Tokenizer()([]).shape == (0, 32)


def test_the_byte_of_an_exclamation_mark_has_the_id_of_padding():
    """It survives in front of a mark that it does not merge with, as in upstream."""
    assert ours("!\u266a")[0, :4].tolist() == [START, 0, 12382, END]


# ---------------------------------------------------------------- tables and errors


@pytest.mark.parity
def test_tables_are_what_their_script_makes():
    pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    spec = importlib.util.spec_from_file_location("make_tables", TABLES)
    make_tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_tables)
    merges = make_tables.merges(sam3_network.vocabulary().read_bytes())
    assert make_tables.MERGES.read_bytes() == merges
    # Another version of regex knows other characters; those of Python's Unicode do not change.
    lines = make_tables.RANGES.read_text()
    for name, kind in (("kLetters", "L"), ("kNumbers", "N")):
        body = lines.partition(f"{name}[] = {{")[2].partition("};")[0]
        ends = [int(part.strip(" {},\n"), 16) for part in body.split(",") if part.strip()]
        inside = np.zeros(0x110000, bool)
        for first, last in zip(ends[::2], ends[1::2], strict=True):
            inside[first : last + 1] = True
        for code in range(0x110000):
            category = unicodedata.category(chr(code))
            assert category == "Cn" or inside[code] == (category[0] == kind), hex(code)


def test_the_vocabulary():
    tokenizer = sam_rlx.Tokenizer()
    assert tokenizer.vocab_size == 49408
    assert tokenizer.context_length == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (3, "found int"),
        (None, "found NoneType"),
        (b"cat", "found b'cat'"),
        (["cat", 3], r"text\[1\]: expected a text, found 3"),
        ({"cat"}, "found set"),
    ],
)
def test_other_types_are_refused(text, message):
    with pytest.raises(sam_rlx.InvalidArgumentError, match=message):
        sam_rlx.Tokenizer()(text)


@pytest.mark.parametrize("length", [0, -1, 2.5, True, "3"])
def test_other_context_lengths_are_refused(length):
    with pytest.raises(sam_rlx.InvalidArgumentError, match="context_length: expected an int >= 1"):
        sam_rlx.Tokenizer(length)


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        (b"abc", "expected pairs of 16-bit numbers"),
        (b"\0\0\0\2", "expected parts that come before merge 0, found 0 and 512"),
        (b"\0" * 4 * 65536, "expected pairs"),
    ],
)
def test_damaged_merges_are_refused(merges, message):
    with pytest.raises(sam_rlx.InvalidArgumentError, match=message):
        _core.Tokenizer(merges)


def test_the_core_takes_utf8_alone():
    with pytest.raises(sam_rlx.InvalidArgumentError, match="text: expected UTF-8"):
        _core.Tokenizer(b"")([b"a\xe9"], 4)
