"""Every dtype, in every container, becomes the same float32."""

import numpy as np
import pytest
from support import checkpoint_files as files

INTEGERS = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8}


def samples():
    """Tensors of every dtype and the float32 that they stand for."""
    rng = np.random.default_rng(0)
    floats = rng.standard_normal((3, 5)).astype(np.float32)
    floats[0] = [0.0, -0.0, np.inf, -np.inf, 1e-42]
    result = {"F32": (files.stored(floats), floats)}
    half = floats.astype(np.float16)
    result["F16"] = (files.stored(half), half.astype(np.float32))
    bits = floats.view(np.uint32) & np.uint32(0xFFFF0000)
    result["BF16"] = (files.bfloat16(floats), bits.view(np.float32))
    double = rng.standard_normal((2, 2, 2))
    result["F64"] = (files.stored(double), double.astype(np.float32))
    for name, dtype in INTEGERS.items():
        limits = np.iinfo(dtype)
        values = np.array([limits.min, limits.max, 0, 1, limits.max // 3], dtype)
        result[name] = (files.stored(values), values.astype(np.float32))
    flags = np.array([True, False, True])
    result["BOOL"] = (files.stored(flags), flags.astype(np.float32))
    result["scalar"] = (files.stored(np.array(2.5, np.float32)), np.array(2.5, np.float32))
    empty = np.zeros((0, 4), np.float32)
    result["empty"] = (files.stored(empty), empty)
    nan = np.array([0x7FC00001, 0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    result["nan"] = (files.Stored("F32", nan.tobytes(), (3,)), nan)
    return result


CONTAINERS = {
    "safetensors": lambda tensors: files.safetensors_bytes(*files.safetensors_parts(tensors)),
    "torch": files.torch_bytes,
    "torch-unaligned": lambda tensors: files.torch_bytes(tensors, align=1),
    "torch-zip64": lambda tensors: files.torch_bytes(tensors, zip64=True),
    "torch-wrapped": lambda tensors: files.torch_bytes(tensors, wrap="model"),
    "torch-legacy": files.legacy_bytes,
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("shift", range(4))
def test_every_dtype_widens_bit_exactly(testing, tmp_path, container, shift):
    filler = {"a": files.Stored("U8", bytes(shift), (shift,))}  # moves what comes after it
    tensors = filler | {name: tensor for name, (tensor, _) in samples().items()}
    path = tmp_path / "file"
    path.write_bytes(CONTAINERS[container](tensors))
    state_dict = testing.open_checkpoint(path)
    assert state_dict.keys() == list(tensors)
    assert state_dict.skipped == []
    for name, (tensor, expected) in samples().items():
        found = state_dict[name]
        assert found.shape == expected.shape
        assert state_dict.dtypes()[name] == tensor.dtype
        np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32), name)


@pytest.mark.parametrize("container", CONTAINERS)
def test_complex_tensors_are_skipped_and_reported(testing, tmp_path, container):
    path = tmp_path / "file"
    tensors = {
        "freqs_cis": files.stored(np.ones((2, 3), np.complex64)),
        "weight": files.stored(np.ones(3, np.float32)),
    }
    path.write_bytes(CONTAINERS[container](tensors))
    state_dict = testing.open_checkpoint(path)
    assert state_dict.keys() == ["weight"]
    assert state_dict.skipped == ["freqs_cis: complex64"]


def float8(exponent_bits, bias, has_infinity):
    """Return the numbers of all 256 codes: sign, exponent, mantissa."""
    mantissa_bits = 7 - exponent_bits
    top, scale = 2**exponent_bits - 1, 2**mantissa_bits
    values = []
    for code in range(256):
        sign = -1.0 if code >> 7 else 1.0
        exponent, mantissa = code >> mantissa_bits & top, code % scale
        value = 2.0 ** (max(exponent, 1) - bias) * (mantissa / scale + (exponent > 0))
        if exponent == top and has_infinity:
            value = np.nan if mantissa else np.inf
        if exponent == top and mantissa == scale - 1 and not has_infinity:
            value = np.nan
        values.append(sign * value)
    return np.array(values, np.float32)


FLOAT8 = {"F8_E4M3": (4, 7, False), "F8_E5M2": (5, 15, True)}


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_float8(testing, tmp_path, dtype):
    path = tmp_path / "file"
    codes = files.Stored(dtype, bytes(range(256)), (16, 16))
    path.write_bytes(CONTAINERS["safetensors"]({"x": codes}))
    state_dict = testing.open_checkpoint(path)
    assert state_dict.dtypes() == {"x": dtype}
    found = state_dict["x"].ravel()
    np.testing.assert_array_equal(found, float8(*FLOAT8[dtype]))
    np.testing.assert_array_equal(np.signbit(found), np.arange(256) >= 128)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("dtype", "theirs"), [("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")]
)
def test_float8_files_of_pytorch(testing, tmp_path, dtype, theirs):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    path = tmp_path / "file"
    codes = torch.arange(256, dtype=torch.uint8).view(getattr(torch, theirs))
    save_file({"x": codes}, path)
    state_dict = testing.open_checkpoint(path)
    assert state_dict.dtypes() == {"x": dtype}
    np.testing.assert_array_equal(state_dict["x"], codes.float().numpy())


def test_rank_above_five_is_read(testing, tmp_path):
    path = tmp_path / "file"
    values = np.arange(64, dtype=np.float32).reshape((2,) * 6)
    path.write_bytes(CONTAINERS["safetensors"]({"x": files.stored(values)}))
    np.testing.assert_array_equal(testing.open_checkpoint(path)["x"], values)


VIEWS = {
    "transposed": ((3, 2), (1, 3), 0),
    "offset": ((2, 2), (3, 1), 1),
    "stepped": ((2,), (2,), 1),
    "one element": ((1, 1), (1000, 7), 5),
    "expanded": ((3, 2), (0, 1), 2),
    "larger than its storage": ((2, 17, 6), (0, 0, 1), 0),
    "one number": ((5, 7), (0, 0), 3),
    "scalar": ((), (), 4),
    "nothing": ((2, 0), (9, 9), 6),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("legacy", [False, True])
def test_views_of_a_storage(testing, tmp_path, view, legacy):
    shape, stride, offset = VIEWS[view]
    values = np.arange(6, dtype=np.float32)
    storages = files.Storages(legacy=legacy)
    whole = storages.tensor(files.stored(values))
    tensor = files.Stored("F32", b"", shape, stride, offset)
    value = {"whole": whole, "view": storages.view(tensor, "0", 6)}
    data = files.legacy_bytes({}, value, storages) if legacy else b""
    path = tmp_path / "file"
    path.write_bytes(data or files.zip_bytes(files.torch_entries(value, storages)))
    state_dict = testing.open_checkpoint(path)
    expected = np.lib.stride_tricks.as_strided(
        values[offset:], shape, tuple(4 * step for step in stride)
    )
    np.testing.assert_array_equal(state_dict["view"], expected)
    np.testing.assert_array_equal(state_dict["whole"], values)
