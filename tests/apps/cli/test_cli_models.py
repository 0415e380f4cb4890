"""``sam-rlx models``: every released file, with all that a person chooses by."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sam_rlx import _core
from sam_rlx._internal.weights.sources import PACKAGED

Run = Callable[..., tuple[int, str, str]]


def test_all_released_files_are_listed(run_cli: Run) -> None:
    code, told, errors = run_cli("models")
    assert (code, errors) == (0, "")
    for row in _core.releases():
        line = next(line for line in told.splitlines() if row["file"] in line)
        assert f"{row['bytes'] / 1e6:,.0f} MB" in line
        assert row["license"] in line
        assert row["source"] in told
        assert f"{row['variant']} " in told
        assert row["purpose"]
        assert row["purpose"] in told
    assert all(name in told for name in PACKAGED)


@pytest.mark.parametrize("family", ["sam", "sam2", "sam3"])
def test_one_family(run_cli: Run, family: str) -> None:
    code, told, _ = run_cli("models", family, "--json")
    assert code == 0
    assert json.loads(told)["models"] == [
        row for row in _core.releases() if row["family"] == family
    ]


def test_a_family_that_there_is_not(run_cli: Run) -> None:
    code, told, errors = run_cli("models", "sam4")
    assert (code, told) == (2, "")
    assert "sam4" in errors
