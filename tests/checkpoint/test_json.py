"""The JSON parser agrees with Python's on what is valid, and refuses the rest."""

import json

import hypothesis
import pytest
import sam_rlx.errors
from hypothesis import strategies as st

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FINITE | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@hypothesis.given(VALUES, st.booleans(), st.sampled_from([None, 2]))
@hypothesis.settings(max_examples=100, suppress_health_check=list(hypothesis.HealthCheck))
def test_reads_what_python_writes(testing, value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert testing.parse_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[1,]",
        '{"a":1,}',
        "{'a':1}",
        "{a:1}",
        '{"a" 1}',
        "01",
        "-",
        "1.",
        ".5",
        "+1",
        "1e",
        "NaN",
        "Infinity",
        "1e999",
        "tru",
        "nul",
        '"',
        '"\t"',
        '"\\x"',
        '"\\u12"',
        '"\\u12g4"',
        '"\\ud800"',
        '"\\udc00"',
        '"\\ud800\\u0041"',
        "1 2",
        "[1}",
        "/**/1",
        "1" * 100,
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        "[" * 40 + "]" * 40,
    ],
)
def test_refuses_what_is_no_json(testing, text):
    with pytest.raises(sam_rlx.errors.CheckpointError, match="json"):
        testing.parse_json(text)


def test_whole_numbers_beyond_64_bits_become_floating(testing):
    assert testing.parse_json("18446744073709551616") == 2.0**64
