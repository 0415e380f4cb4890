"""Kernel tables as a whole; each kernel is tested through its op."""

import re
from pathlib import Path

import pytest
from support.ops import ISAS, _testing

pytestmark = pytest.mark.source_tree

HEADER = Path(__file__).parents[2] / "cpp/kernels/kernel_table.h"


def members():
    """Names of the kernels in the declaration of the table."""
    table = HEADER.read_text().split("struct KernelTable {")[1].split("\n};")[0]
    return re.findall(r"\(\*(\w+)\)\(", table)


@pytest.mark.parametrize("isa", ISAS)
def test_every_row_is_filled(isa):
    assert _testing.missing_kernels(isa) == []


def test_unknown_isa():
    with pytest.raises(NotImplementedError, match="isa: expected one of"):
        _testing.missing_kernels("sse9")


@pytest.mark.parametrize("isa", ISAS)
def test_steady_state_allocates_nothing(isa):
    assert _testing.steady_state_allocations(isa, num_threads=2) == 0


def test_every_kernel_has_a_benchmark():
    assert members() == [name for name, _ in _testing.bench.kernels()]


LEFT = ("left", "left_columns")  # ways to pack the left operand


def expected_work(nr):
    """(Amount, unit) of each benchmark, with panels of `nr` columns.

    A product is two operations; memory is what is read and written once, float32 or narrower.
    """
    block, weight = 128 * 768, 768 * 768
    flop = {
        **dict.fromkeys(("gemm", "bfloat16_gemm", "int16_gemm", "int8_gemm"), 2 * 128 * 768 * 768),
        "attend_columns": 2 * (2 * 512 * 64 * nr),  # scores and values
        "attend_int16": 2 * (2 * 128 * 64 * nr),
        "pair_products": 3 * (2 * 64 * 128 * nr),
        **dict.fromkeys(("position_scores", "position_scores_int16"), 2 * 64 * 64 * 7 * nr),
        "depthwise_row": 2 * 7 * 7 * 64 * 256,
    }
    in_place_or_copied = """pack_a_columns transpose_block unpack_columns
        layer_norm_rows exp_columns softmax_rows softmax_groups layer_norm_columns gelu"""
    memory = {
        **dict.fromkeys(in_place_or_copied.split(), (4 + 4) * block),
        **dict.fromkeys(("widen_bfloat16", "round_bfloat16"), (4 + 2) * block),
        **dict.fromkeys(
            [f"pack_{kind}_{how}" for kind in ("bfloat16", "int16") for how in LEFT],
            (4 + 2) * block,
        ),
        "pack_weight": (4 + 4) * weight,
        "pack_int8_weight": (4 + 1) * weight,
        "pack_int16_weight": (4 + 2) * weight,
        "quantize_rows": (4 + 1) * block,
        **dict.fromkeys(("pack_bfloat16_rows", "pack_int16_rows"), (4 + 2) * 768 * nr),
        "softmax_columns": (4 + 4) * 512 * nr,
        "softmax_bfloat16": (4 + 2) * 512 * nr,
    }
    return {
        **{name: (float(amount), "FLOP") for name, amount in flop.items()},
        **{name: (float(amount), "B") for name, amount in memory.items()},
    }


@pytest.mark.parametrize("isa", ISAS)
def test_benchmarks_of_kernels_say_what_they_do(isa):
    found = {name: _testing.bench.kernel(name, 2, isa=isa) for name in members()}
    for name, (_, _, times) in found.items():
        assert len(times) == 2, name
        assert all(wall >= 0 and cpu >= 0 for wall, cpu in times), name
    work = {name: (amount, unit) for name, (amount, unit, _) in found.items()}
    # Whole panels of gemm_mr or gemm_nr rows out of 128.
    for name in ("pack_a_rows", "pack_b_rows"):
        amount, unit = work.pop(name)
        assert (amount % (8 * 768), unit) == (0, "B")
        assert 96 < amount / (8 * 768) <= 128
    nr = int(work["softmax_columns"][0]) // (8 * 512)
    assert nr in (8, 12, 16, 32, 64)
    assert work == expected_work(nr)


def test_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="kernel: expected a row of the table, found fft"):
        _testing.bench.kernel("fft")
