"""States of upstream's video predictors: a call that fails leaves them as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sam_rlx import _core


@contextmanager
def all_or_nothing(state: dict[str, Any]) -> Iterator[None]:
    """Make a state, its ``session`` and its ``tracker`` what they were if the block fails."""
    session: _core.VideoPredictor = state["session"]
    tracker: _core.MaskletTracker | None = state.get("tracker")
    core = session.state
    masklets = None if tracker is None else tracker.state
    kept = {
        key: value.copy() if isinstance(value, (dict, list, set)) else value
        for key, value in state.items()
    }
    try:
        yield
    except BaseException:
        session.state = core
        if tracker is not None and masklets is not None:
            tracker.state = masklets
        state.clear()
        state.update(kept)
        raise
