"""One call at a time."""

import threading
from types import TracebackType

from sam_rlx.errors import StateError


class Exclusive:
    """A context that one thread at a time is in; another one gets a `StateError`, no wait.

    Parameters
    ----------
    owner : str
        Class of the object that is guarded, for the message.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._busy = threading.Lock()

    def __enter__(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise StateError(f"{self._owner}: expected one call at a time, found it in use")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._busy.release()
