"""Linear layers with GGUF's blocks: to the bit what their unpacked numbers give."""

import numpy as np
import pytest
import sam_rlx.errors
from support import gguf_files as files
from support.ops import ISAS, THREADS, _testing, normal, op, rng

# Formats that can be written.
WRITTEN = ("Q4_0", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K")


def unpacked(kind, blocks, cols, path):
    tensor = files.Tensor(kind, (len(blocks), cols), blocks.tobytes())
    path.write_bytes(files.gguf_bytes({"w": tensor}))
    return _testing.open_checkpoint(path)["w"]


def weights(kind, rows, cols, path):
    if kind in WRITTEN:
        blocks = _testing.quantize(kind, normal(rng(rows, cols), rows * cols), 1).reshape(rows, -1)
    else:  # only read
        blocks = files.random_blocks(kind, rows, cols)
    return blocks, unpacked(kind, blocks, cols, path)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", files.PACKED)
def test_every_format(isa, kind, tmp_path):
    blocks, plain = weights(kind, 37, 512, tmp_path / "w")
    x, bias, residual = (normal(rng(i), *s) for i, s in enumerate([(9, 512), (37,), (9, 37)]))
    for gelu, fused in ((False, {}), (True, {"bias": bias}), (False, {"residual": residual})):
        name = "gelu" if gelu else "none"
        expected = op("linear", x, plain, isa=isa, activation=name, **fused)
        for threads in THREADS:
            options = {"gelu": gelu, "isa": isa, "num_threads": threads, **fused}
            found = op("linear_blocks", x, blocks, kind, **options)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("rows", "out", "cols"), [(1, 1, 32), (5, 3, 96), (64, 2100, 544), (3, 1500, 2304), (0, 5, 32)]
)
def test_sizes(isa, rows, out, cols, tmp_path):
    """The larger ones are unpacked in several parts."""
    blocks, plain = weights("Q8_0", out, cols, tmp_path / "w")
    x, bias, residual = (
        normal(rng(i), *s) for i, s in enumerate([(rows, cols), (out,), (rows, out)])
    )
    fused = {"bias": bias, "residual": residual, "in_place": rows > 0}
    expected = op("linear", x, plain, isa=isa, **fused)
    for threads in THREADS:
        found = op("linear_blocks", x, blocks, "Q8_0", isa=isa, num_threads=threads, **fused)
        np.testing.assert_array_equal(found, expected)


def test_refuses_rows_that_are_no_blocks():
    x, blocks = np.zeros((2, 48), np.float32), np.zeros((3, 51), np.uint8)
    with pytest.raises(sam_rlx.errors.InvalidArgumentError, match="whole blocks of 32, found 48"):
        op("linear_blocks", x, blocks, "Q8_0")
