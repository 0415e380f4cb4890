"""States of upstream's video predictors: a call that fails leaves them as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sam_rlx import _core


@contextmanager
def all_or_nothing(state: dict[str, Any]) -> Iterator[None]:
    """Make a state and its ``session`` what they were if the block fails. Blocks do not nest."""
    session: _core.VideoPredictor = state["session"]
    session.begin()
    kept = {
        key: value.copy() if isinstance(value, (dict, list, set)) else value
        for key, value in state.items()
    }
    try:
        yield
        session.commit()
    except BaseException:
        session.begin()  # undoes what was not committed
        session.commit()
        state.clear()
        state.update(kept)
        raise
