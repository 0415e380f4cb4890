"""Kernel tables as a whole; each kernel is tested through its op."""

import pytest
from support.ops import ISAS, _testing


@pytest.mark.parametrize("isa", ISAS)
def test_every_row_is_filled(isa):
    assert _testing.missing_kernels(isa) == []


def test_unknown_isa():
    with pytest.raises(NotImplementedError, match="isa: expected one of"):
        _testing.missing_kernels("sse9")


@pytest.mark.parametrize("isa", ISAS)
def test_steady_state_allocates_nothing(isa):
    assert _testing.steady_state_allocations(isa, num_threads=2) == 0
