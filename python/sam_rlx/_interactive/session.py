"""What image and video sessions share: views, messages, a worker, and the way back."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any, ClassVar

from sam_rlx._interactive.worker import Worker
from sam_rlx._printable import shown
from sam_rlx.errors import InvalidArgumentError, SamRlxError

_LOG = logging.getLogger("sam_rlx")
_MAX_NAME = 100  # letters of a view's name
_POLL = 0.2  # seconds between looks at signals while a caller waits

# (head, buffers, view): hands a message to one view, or to all with None.
Send = Callable[[dict[str, Any], list[bytes], "str | None"], None]
Answer = dict[str, Any] | None


class Session:
    """The part of a session that hosts see.

    Parameters
    ----------
    send : callable, optional
        ``send(head, buffers, view)``, called from any thread; it must not block for long.
    changed : callable, optional
        ``changed(revision)``, after what has changed was sent.
    """

    # By type of message: the method that does it in the thread of the session.
    handlers: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
    ) -> None:
        self._send_to_host = send
        self._changed = changed
        self._lock = threading.RLock()
        self._worker = Worker("sam_rlx session")
        self._views: set[str] = set()
        self._status: tuple[str, float | None] = ("", None)
        self.revision = 0

    # ---------------------------------------------------------------- from hosts

    def receive(self, head: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message of a view. Returns at once; never raises for what a message says."""
        try:
            kind, view, answer = self._checked(head)
        except InvalidArgumentError as error:
            asks = head.get("view") if isinstance(head, Mapping) else None
            self.send({"type": "error", "text": str(error)}, [], asks or None)
            return
        if kind == "bye":
            self._views.discard(view)
            self._worker.drop(("hover", view))
        elif kind == "leave":
            self._worker.drop(("hover", view))
        elif kind == "ready":
            if head.get("again") and view in self._views:
                return
            self._views.add(view)
            self._guarded(lambda: self.on_ready(view, answer), view, answer)
        elif kind == "stop":
            self.on_stop()
        elif kind == "hover":
            hover = partial(self.on_hover, head, view, answer)
            self._worker.preview(("hover", view), partial(self._guarded, hover, view, answer))
        else:
            files = {"contents": bytes(buffers[0])} if buffers else {}
            self._enqueue(kind, {**head, **files}, view, answer)

    def _checked(self, head: Any) -> tuple[str, str, Answer]:
        if not isinstance(head, Mapping):
            raise InvalidArgumentError(f"message: expected an object, found {shown(head)}")
        kind, view, seq = head.get("type"), head.get("view"), head.get("seq")
        if not isinstance(view, str) or not 0 < len(view) <= _MAX_NAME:
            raise InvalidArgumentError(f"view: expected a text, found {shown(view)}")
        if not isinstance(seq, int) or isinstance(seq, bool):
            raise InvalidArgumentError(f"seq: expected an integer, found {shown(seq)}")
        known = {"ready", "bye", "leave", "stop", "hover", *self.handlers}
        if not isinstance(kind, str) or kind not in known:
            raise InvalidArgumentError(
                f"type: expected one of {sorted(known)}, found {shown(kind)}"
            )
        return kind, view, {"view": view, "seq": seq}

    def _enqueue(self, kind: str, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        work = getattr(self, self.handlers[kind])
        self.run(lambda: work(head, view, answer), view, answer)

    def run(self, work: Callable[[], Any], view: str | None = None, answer: Answer = None) -> None:
        """Do work in the thread of the session, and tell a view, or all of them, if it fails."""
        future = self._worker.submit(work)
        future.add_done_callback(lambda done: self._report(done, view, answer))

    def _report(self, done: "Future[Any]", view: str | None, answer: Answer) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._tell(error, view, answer)

    def _guarded(self, work: Callable[[], None], view: str, answer: Answer) -> None:
        try:
            work()
        except Exception as error:  # a view asked: it is told
            self._tell(error, view, answer)

    def _tell(self, error: BaseException, view: str | None, answer: Answer) -> None:
        if not isinstance(error, (SamRlxError, OSError)):
            _LOG.error("sam_rlx: a request of a view failed", exc_info=error)
        text = f"{error}" if isinstance(error, SamRlxError) else f"{type(error).__name__}: {error}"
        self.send({"type": "error", "text": text, "answer": answer}, [], view)

    # ---------------------------------------------------------------- from programs

    def call(self, kind: str, **fields: Any) -> Any:
        """Do what a message of this type does, and wait for it.

        Raises what the work raises. Ctrl-C ends the wait, not the work.
        """
        work = getattr(self, self.handlers[kind])
        if self._worker.is_own_thread:
            return work(fields, None, None)
        return self.wait(self._worker.submit(lambda: work(fields, None, None)))

    def wait(self, future: "Future[Any]") -> Any:
        """Wait for work, open to signals."""
        while True:
            try:
                return future.result(_POLL)
            except FutureTimeoutError:
                if future.done():  # the work itself timed out
                    raise

    def close(self) -> None:
        """End the work of the session; views get no more answers."""
        self.on_stop()
        self._worker.close()

    # ---------------------------------------------------------------- to views

    def send(self, head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        """Hand a message to the host. It says to whom, since a host may hand it to every view."""
        if self._send_to_host is not None:
            self._send_to_host({**head, "to": view}, buffers, view)

    def status(self, text: str, part: float | None = None) -> None:
        """Say to all views what is done; "" when nothing is."""
        self._status = (text, part)
        self.send(self.status_head(), [], None)

    def status_head(self) -> dict[str, Any]:
        """Return the message that says what is done."""
        text, part = self._status
        return {"type": "status", "text": text, "part": part}

    def publish(self) -> None:
        """Count a change, after what it gave was sent."""
        if self._changed is not None:
            self._changed(self.revision)

    # ---------------------------------------------------------------- of subclasses

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view all that it shows."""
        raise NotImplementedError

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view what a click would give."""
        raise NotImplementedError

    def on_stop(self) -> None:
        """Stop long work after its current step."""
        raise NotImplementedError
