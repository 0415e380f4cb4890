"""The peak of multiply-adds, measured in the midst of a call."""

import signal
import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = [pytest.mark.bench, pytest.mark.source_tree]


@pytest.fixture
def peak(testing, monkeypatch):
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no interval timers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import peak

    yield peak
    sys.modules.pop("peak")


def test_chains_beside_a_call_stop_its_clock(peak, monkeypatch):
    """Three signals in a call of 1 + 2 + 3 + 4 seconds; each measurement takes 100."""
    now = 0.0
    rates = iter([50.0, 60.0, 80.0, 70.0, 40.0])
    timers = []

    def measured(threads, pieces, rounds):
        nonlocal now
        now += 100
        assert (threads, pieces, rounds) == (3, peak.SLICE_PIECES, 1)
        return next(rates)

    handler = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(peak, "gflops", measured)
    monkeypatch.setattr(peak.time, "perf_counter", lambda: now)
    monkeypatch.setattr(peak.signal, "setitimer", lambda *timer: timers.append(timer))
    with peak.Beside(3) as beside:
        for seconds in (1, 2, 3):
            now += seconds
            signal.raise_signal(signal.SIGALRM)
        now += 4
    assert next(rates, None) is None  # before, three times between, after
    assert beside.seconds == 1 + 2 + 3 + 4
    assert beside.gflop == 1 * 55 + 2 * 70 + 3 * 75 + 4 * 55
    assert timers == [(signal.ITIMER_REAL, peak.EVERY_S)] * 4 + [(signal.ITIMER_REAL, 0)]
    assert signal.getsignal(signal.SIGALRM) is handler


def test_the_timer_goes_on_through_a_call(peak, monkeypatch):
    slices = []
    measured = peak.gflops
    monkeypatch.setattr(
        peak, "gflops", lambda *given: slices.append(measured(*given)) or slices[-1]
    )
    with peak.Beside(1) as beside:
        while len(slices) < 4:
            time.sleep(0.001)
    assert min(slices) <= beside.gflop / beside.seconds <= max(slices)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_error_in_the_call_ends_the_timer(peak):
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), peak.Beside(1):
        1 / 0  # noqa: B018
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
