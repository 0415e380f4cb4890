"""Kernel tables as a whole; each kernel is tested through its op."""

import re
from pathlib import Path

import pytest
from support.ops import ISAS, _testing

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


@pytest.mark.parametrize("isa", ISAS)
def test_benchmarks_of_kernels_run(isa):
    for name in members():
        work, unit, times = _testing.bench.kernel(name, 2, isa=isa)
        assert work > 0
        assert unit in ("FLOP", "B")
        assert len(times) == 2


def test_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="kernel: expected a row of the table, found fft"):
        _testing.bench.kernel("fft")
