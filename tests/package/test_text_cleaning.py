"""The cleaning of texts is that of ftfy, which SAM 3's upstream uses."""

from __future__ import annotations

import html
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sam_rlx._internal.text import cleaning as text_cleaning
from sam_rlx._internal.text import mojibake
from support import prompts

# Lead and continuation bytes, spaces, marks of loss: the stuff that repairs are made of.
BROKEN = st.lists(
    st.sampled_from(
        b"\xc0\x80\xc2\xc3\xa0\xa9\xe2\x82\xac\xed\xa0\xbd\xb8\x8d\xf0\x9f\x98 ?\x1a\na"
    ),
    max_size=14,
)


@settings(max_examples=300)
@given(BROKEN, st.sampled_from(prompts.ENCODINGS))
@example(list(b"\xed\xa0\xbd\xed\xb8\n"), "latin-1")
@example(list(b"a\xc3\xa9\xc0\n"), "latin-1")
@example(list(b"\xc3 quele \xc3 la"), "latin-1")
def test_repair_of_any_bytes(data, encoding):
    ftfy = pytest.importorskip("ftfy", reason="compares with it")
    text = bytes(data).decode(encoding, "replace")
    assert mojibake.fix_encoding(text) == ftfy.fix_encoding(text)
    assert text_cleaning.fix_text(text) == ftfy.fix_text(text)


def test_signs_of_a_wrong_encoding():
    """Each pair of the characters that can be one, and many longer runs."""
    badness = pytest.importorskip("ftfy.badness", reason="compares with it")
    letters = set(" aZ?\n.5'-")
    for encoding in prompts.ENCODINGS:
        letters |= set(bytes(range(128, 256)).decode(encoding, "ignore"))
    letters |= {chr(code) for code in range(0x80, 0x100)}
    every = sorted(letters)
    pairs = [a + b for a in every for b in every]
    generator = np.random.default_rng(3)
    picks = generator.integers(0, len(every), (20_000, 5))
    texts = pairs + ["".join(every[i] for i in row) for row in picks]
    assert [mojibake.is_bad(t) for t in texts] == [badness.is_bad(t) for t in texts]


def test_tables_of_the_cleaning():
    chardata = pytest.importorskip("ftfy.chardata", reason="compares with it")
    forms = {code: form for code, form in text_cleaning._plain_forms().items() if form != chr(code)}
    assert forms == {**chardata.LIGATURES, **chardata.WIDTH_MAP}
    assert text_cleaning._entities() == chardata.HTML_ENTITIES
    assert text_cleaning._REMOVED.keys() == chardata.CONTROL_CHARS.keys()


def test_lines_are_repaired_one_by_one():
    """What the texts hold decides line by line, but from a line with `<` on entities stay."""
    ftfy = pytest.importorskip("ftfy", reason="compares with it")
    for text in (
        "&eacute;\n<b>&eacute;\n&eacute;",
        "\u00c3\u00a9\n\u00e9",
        "\r\n\r\ra",
        "\u00c3" + "\u00a9" * 3,
    ):
        assert text_cleaning.fix_text(text) == ftfy.fix_text(text)


def test_the_boundary_of_long_lines(monkeypatch):
    """Lines of more than a million characters are repaired in parts, a pair of bytes may be cut."""
    ftfy = pytest.importorskip("ftfy", reason="compares with it")
    text = "\u00c3\u00a9" * 11
    monkeypatch.setattr(text_cleaning, "_MAX_SEGMENT", 5)
    found = text_cleaning.fix_text(text)
    assert found == ftfy.fix_text(text, max_decode_length=5)
    assert found != ftfy.fix_text(text)


@given(st.text(st.characters(max_codepoint=126, min_codepoint=32), max_size=60))
def test_printable_ascii_changes_in_entities_and_case_alone(text):
    plain = " ".join(html.unescape(html.unescape(text)).split())
    if "&" not in text:
        assert text_cleaning.fix_text(text) == text
        assert text_cleaning.clean(text) == plain.lower()


def test_clean():
    found = text_cleaning.clean(
        " \u201cCaf\u00c3\u00a9\u201d &amp;amp;\u3000\ufb01sh\n\x1b[31mRED "
    )
    assert found == '"caf\u00e9" & fish red'
    assert unicodedata.is_normalized("NFC", found)
    assert text_cleaning.clean("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"
