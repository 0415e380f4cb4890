"""The chains of multiply-adds that measure a core: what they compute, and how much it is."""

import sys
from pathlib import Path

import pytest
from support.ops import ISAS, _testing

pytestmark = pytest.mark.source_tree

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROUNDS = 4096


def chain(begin, steps):
    """Value of a chain in float64; a float32 one ends within 1000 roundings of it."""
    factor, term = 0.9990000128746033, 0.0010000000474974513  # float32's nearest
    value = float(begin)
    for _ in range(steps):
        value = value * factor + term
    return value


@pytest.mark.parametrize("isa", ISAS)
def test_chains_do_what_their_benchmark_counts(isa, monkeypatch):
    """They begin with 0, 1, 2, ... in every lane, 12 or 16 of them; a round has 48 steps."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import peak

    lanes = peak.flop(isa) // (2 * 48 * ROUNDS)
    sys.modules.pop("peak")
    count = 12 if lanes <= 8 else 16
    assert _testing.bench.chains(0, isa=isa) == lanes * sum(range(count))
    expected = lanes * sum(chain(i, ROUNDS * 48 // count) for i in range(count))
    assert _testing.bench.chains(ROUNDS, isa=isa) == pytest.approx(expected, rel=1e-4)
