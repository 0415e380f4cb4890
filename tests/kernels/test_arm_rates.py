"""ARM's loops by LLVM's model of its cores: a compiler or a change that slows them is noticed."""

import shutil
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

COMPILER = "aarch64-linux-gnu-g++"


@pytest.fixture
def arm_rates(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import arm_rates

    yield arm_rates
    sys.modules.pop("arm_rates")


def test_loops_are_found(arm_rates):
    text = """
.L1:
\tldr\tq0, [x0], 16
\tbne\t.L9
.L2:
\tsdot\tv1.4s, v2.16b, v0.4b[1]  // a comment
#APP
\tsdot\tv3.4s, v2.16b, v0.4b[2]
#NO_APP
\tcmp\tx0, x1
\tb.ne\t.L2
.L3:
\tsdot\tv3.4s, v2.16b, v0.4b[2]
\tb.ne\t.L3
"""
    kernel = next(k for k in arm_rates.KERNELS if "SDOT" in k.name)
    assert [len(block) for block in arm_rates.loops(text)] == [4, 2]
    assert [len(block) for block in arm_rates.own_loops(text, kernel)] == [4]
    assert arm_rates.count(arm_rates.loops(text)[0], kernel) == 2


@pytest.mark.build
@pytest.mark.slow
def test_shares_and_counts(arm_rates):
    mca = arm_rates.find_mca()
    if mca is None or shutil.which(COMPILER) is None:
        pytest.skip(f"needs {COMPILER} and llvm-mca {arm_rates.OLDEST} or newer")
    found = arm_rates.rates(COMPILER, mca)
    for rate in found:
        assert min(rate.shares.values()) >= rate.kernel.least, rate
    counts = arm_rates.image_counts(found)
    float32, layers = counts["float32"], counts["layers: float32"]
    assert counts["layers: int8 by SDOT"] <= 0.35 * layers
    assert counts["layers: int8 by USMMLA"] <= 0.35 * layers
    assert counts["int8 by USMMLA, attention BFMMLA"] <= 0.25 * float32
