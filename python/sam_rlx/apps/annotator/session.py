"""What image and video sessions share: views, messages, a worker, and the way back."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, TypeVar

from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.limits import MAX_VIEWS, MAX_WAITING, MAX_WAITING_BYTES
from sam_rlx.apps.annotator.worker import During, Worker
from sam_rlx.errors import InvalidArgumentError, SamRlxError, StateError

_LOG = logging.getLogger("sam_rlx")
_MAX_NAME = 100  # letters of a view's name
_POLL = 0.2  # seconds between looks at signals while a caller waits

# (head, buffers, view): hands a message to one view, or to all with None.
Send = Callable[[dict[str, Any], list[bytes], "str | None"], None]
Answer = dict[str, Any] | None
_Part = TypeVar("_Part")


def still(part: _Part | None) -> _Part:
    """Return a part of a session that is open; `StateError` once it is forgotten."""
    if part is None:
        raise StateError("widget: expected an open one, found a closed one")
    return part


class Session:
    """The part of a session that hosts see.

    Parameters
    ----------
    send : callable, optional
        ``send(head, buffers, view)``, called from any thread; it must not block for long.
    changed : callable, optional
        ``changed(revision)``, after what has changed was sent.
    during : callable, optional
        As for `Worker`.
    """

    # By type of message: the method that does it in the thread of the session.
    handlers: ClassVar[dict[str, str]] = {}
    # Those that work after `close` too.
    after_close: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        during: During = nullcontext,
    ) -> None:
        self._send_to_host = send
        self._changed = changed
        self._lock = threading.RLock()
        self._worker = Worker("widget", during)
        self._waiting_bytes = 0  # of files
        self._views: set[str] = set()
        self._status: tuple[str, float | None] = ("", None)
        self.revision = 0

    # ---------------------------------------------------------------- from hosts

    def receive(self, head: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message of a view. Returns at once; never raises for what a message says.

        A session that is closed says nothing.
        """
        if self._worker.is_closed:
            return
        try:
            kind, view, answer = self._checked(head)
            self._check_room(kind, buffers)
            self._take(kind, head, buffers, view, answer)
        except (InvalidArgumentError, StateError) as error:
            asks = head.get("view") if isinstance(head, Mapping) else None
            self.send({"type": "error", "text": str(error)}, [], asks or None)

    def _take(
        self, kind: str, head: Any, buffers: Sequence[Any], view: str, answer: Answer
    ) -> None:
        if kind == "bye":
            self._views.discard(view)
            self._worker.drop(("hover", view))
        elif kind == "leave":
            self._worker.drop(("hover", view))
        elif kind == "ready":
            if head.get("again") and view in self._views:
                return
            fields.at_most("views", len(self._views), MAX_VIEWS)
            self._views.add(view)
            self._guarded(lambda: self.on_ready(view, answer), view, answer)
        elif kind == "stop":
            self.on_stop()
        elif kind == "hover":
            hover = partial(self.on_hover, head, view, answer)
            self._worker.preview(("hover", view), partial(self._guarded, hover, view, answer))
        else:
            contents = bytes(buffers[0]) if buffers else b""
            self._enqueue(kind, {**head, "contents": contents}, view, answer)

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
        count = len(head["contents"])
        with self._lock:
            self._waiting_bytes += count

        def taken() -> None:
            with self._lock:
                self._waiting_bytes -= count
            work(head, view, answer)

        self.run(taken, view, answer)

    def _check_room(self, kind: str, buffers: Sequence[Any]) -> None:
        """Refuse what a view asks for while too much of it waits."""
        if kind not in self.handlers:
            return
        count = self._waiting_bytes + (len(buffers[0]) if buffers else 0)
        if len(self._worker) >= MAX_WAITING or count > MAX_WAITING_BYTES:
            raise InvalidArgumentError(
                f"{kind}: expected at most {MAX_WAITING} requests and {MAX_WAITING_BYTES} bytes "
                "that wait, found more"
            )

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

        Raises what the work raises; `StateError` after `close`, but for what is made of results.
        Ctrl-C ends the wait, not the work.
        """
        work = getattr(self, self.handlers[kind])
        if self._worker.is_own_thread or (self._worker.is_closed and kind in self.after_close):
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
                if self._worker.is_closed:
                    raise StateError("widget: expected an open one, found a closed one") from None
            except CancelledError:
                raise StateError(
                    "widget: expected an open one, found one that was closed"
                ) from None

    def close(self) -> None:
        """End the work of the session; views get no more answers.

        What was made stays; images, predictors and the host's callables are let go of.
        """
        self.on_stop()
        self._send_to_host = self._changed = None
        self._worker.close(self.forget)

    # ---------------------------------------------------------------- to views

    def send(self, head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        """Hand a message to the host. It says to whom, since a host may hand it to every view."""
        send_to_host = self._send_to_host
        if send_to_host is not None:
            send_to_host({**head, "to": view}, buffers, view)

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
        changed = self._changed
        if changed is not None:
            changed(self.revision)

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

    def forget(self) -> None:
        """Let go of what is needed for new results only."""
        raise NotImplementedError
