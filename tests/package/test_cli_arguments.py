"""Values of options that no command can use: one line, and the status of a wrong command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

COMMANDS = {
    "threads": ["segment", "a.png", "--point", "1,1", "--json", "-", "--threads"],
    "key": ["info", "sam-nano", "--key"],
    "precision": ["demo", "--precision"],
    "points": ["everything", "a.png", "--json", "-", "--points-per-side"],
}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("threads", str(2**31)),
        ("threads", "9" * 5000),
        ("threads", "1e3"),
        ("threads", "-1"),
        ("key", "\udcff"),
        ("precision", "\udcff"),
        ("points", "nan"),
    ],
)
def test_a_value_that_cannot_be_used(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from sam_rlx.apps import cli

    with pytest.raises(SystemExit) as end:
        cli.main([*COMMANDS[option], value])
    assert end.value.code == 2
    assert "sam-rlx" in capsys.readouterr().err


def test_a_key_of_the_models_that_there_are(
    run_cli: Callable[..., tuple[int, str, str]],
) -> None:
    status, _, err = run_cli("info", "sam-nano", "--key", "é")
    assert status == 1
    assert "Traceback" not in err
