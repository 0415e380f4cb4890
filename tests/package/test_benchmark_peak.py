"""The peak of multiply-adds, measured in the midst of a call."""

import signal
import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.bench


@pytest.fixture
def peak(testing, monkeypatch):
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no interval timers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import peak

    yield peak
    sys.modules.pop("peak")


def test_chains_beside_a_call_stop_its_clock(peak):
    handler = signal.getsignal(signal.SIGALRM)
    slices = []
    measured = peak.gflops

    def slow(*arguments):  # longer than the timer's interval
        time.sleep(1.5 * peak.EVERY_S)
        slices.append(measured(*arguments))
        return slices[-1]

    peak.gflops = slow
    start = time.perf_counter()
    with peak.Beside(1) as beside:
        while len(slices) < 4:
            time.sleep(0.001)
    elapsed = time.perf_counter() - start
    pauses = len(slices) * 1.5 * peak.EVERY_S
    assert len(slices) == 5  # before, three times between, after
    assert 3 * peak.EVERY_S <= beside.seconds <= elapsed - pauses
    assert min(slices) <= beside.gflop / beside.seconds <= max(slices)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_error_in_the_call_ends_the_timer(peak):
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), peak.Beside(1):
        1 / 0  # noqa: B018
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
