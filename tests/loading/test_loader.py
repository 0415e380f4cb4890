"""Parameters are checked all together, then filled."""

import numpy as np
import pytest
import sam_rlx.errors
from support import checkpoint_files as files

WEIGHTS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.bias": np.array([np.nan, np.inf], np.float32),
    "blocks.0.freqs": np.ones(4, np.float16),
    "odd": np.ones((1,) * 6, np.float32),
}
SHAPES = [("a.weight", [2, 3]), ("a.bias", [2]), ("blocks.0.freqs", [4])]


@pytest.fixture
def state_dict(testing, tmp_path):
    tensors = {name: files.stored(value) for name, value in WEIGHTS.items()}
    tensors["table"] = files.stored(np.ones(1, np.complex64))
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    return testing.open_checkpoint(path)


def test_fills_every_parameter_and_reports_the_rest(state_dict):
    report, values, count = state_dict.load(SHAPES, strict=False)
    assert count == 12
    assert report == {
        "missing": [],
        "misshaped": [],
        "unexpected": ["odd"],
        "ignored": [],
        "skipped": ["table: complex64"],
    }
    for name, value in values.items():
        np.testing.assert_array_equal(value, WEIGHTS[name])


def test_ignored_names_are_no_error(state_dict):
    report, _, _ = state_dict.load(SHAPES[:2], ignored=["blocks.{i}.freqs", "od"])
    assert report["ignored"] == ["blocks.0.freqs", "odd"]
    assert report["unexpected"] == []


def test_every_problem_is_in_one_error(state_dict, tmp_path):
    wanted = [("a.weight", [3, 2]), ("a.bias", []), ("b", [4, 4]), ("odd", [1]), ("c.d", [])]
    with pytest.raises(sam_rlx.errors.CheckpointError) as caught:
        state_dict.load(wanted)
    path = tmp_path / "x.safetensors"
    assert str(caught.value).splitlines() == [
        f"{path}: expected the parameters of the model, found 2 missing, 3 misshaped, 1 unexpected",
        "  a.weight: expected shape (3, 2), found (2, 3)",
        "  a.bias: expected shape (), found (2,)",
        "  b: expected shape (4, 4), found no tensor",
        "  odd: expected shape (1,), found (1, 1, 1, 1, 1, 1)",
        "  c.d: expected shape (), found no tensor",
        "  blocks.0.freqs: expected no tensor, found shape (4,)",
    ]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_whole_numbers_are_no_weights(testing, tmp_path, dtype):
    """Their scales would be in other tensors, which `strict=False` leaves out."""
    path = tmp_path / "x.safetensors"
    tensors = {"a.weight": files.stored(np.ones((2, 3), dtype))}
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    found = {"bool": "BOOL", "uint8": "U8"}.get(dtype, dtype.replace("int", "I"))
    message = rf"a\.weight: expected floating-point numbers, found {found}$"
    with pytest.raises(sam_rlx.errors.CheckpointError, match=message):
        testing.open_checkpoint(path).load(SHAPES[:1], strict=False)


def test_unexpected_tensors_are_an_error_only_when_strict(state_dict):
    state_dict.load(SHAPES, strict=False)
    with pytest.raises(sam_rlx.errors.CheckpointError, match="odd: expected no tensor"):
        state_dict.load(SHAPES, strict=True)


def test_missing_tensors_are_always_an_error(state_dict):
    with pytest.raises(sam_rlx.errors.CheckpointError, match="1 missing, 0 misshaped"):
        state_dict.load([*SHAPES, ("x", [1])], strict=False)
