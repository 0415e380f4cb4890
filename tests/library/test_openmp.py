"""libgomp's waiting threads: what it is told when the extension loads it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

CODE = "import os; before = dict(os.environ); import sam_rlx; assert dict(os.environ) == before"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the tests themselves run with."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)


def spin_count(run_python: Callable[..., object], **environment: str) -> str:
    """Return the turns that libgomp says it spins."""
    found = run_python("-c", CODE, OMP_DISPLAY_ENV="verbose", **environment)
    assert found.returncode == 0, found.stderr
    shown = re.search(r"GOMP_SPINCOUNT = '(\w+)'", found.stderr)
    if shown is None:
        pytest.skip("the extension was built with another OpenMP library than libgomp")
    return shown[1]


def test_waiting_threads_sleep_soon(run_python: Callable[..., object]) -> None:
    assert spin_count(run_python) == "10000"


def test_the_environment_counts(run_python: Callable[..., object]) -> None:
    assert spin_count(run_python, GOMP_SPINCOUNT="7") == "7"
    assert spin_count(run_python, OMP_WAIT_POLICY="passive") == "0"
