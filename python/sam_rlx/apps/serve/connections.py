"""Connections: who has shown a token, who is slow, and who goes when there are too many."""

import asyncio
import time
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from sam_rlx.apps.serve.limits import BusyError, Limits

# Seconds in which a connection that is closed takes what it was sent before.
_CLOSE_SECONDS = 5.0
# The key of a connection's `Visit` in the ``state`` of a scope.
VISIT = "visit"


class Visit:
    """One connection, whatever protocol it speaks.

    Attributes
    ----------
    is_known : bool
        A request on it had the token.
    waits_since : float or None
        Since when the headers of a request are waited for; None while one is answered.
    """

    def __init__(self, visits: "Visits", transport: asyncio.Transport) -> None:
        self._visits = visits
        self.transport = transport
        self.is_known = False
        self.waits_since: float | None = time.monotonic()
        self._unsent = 0
        self._moved = time.monotonic()
        self._closed_since: float | None = None

    def admit(self) -> None:
        """Count the connection as one of a client; `BusyError` if there are too many."""
        if not self.is_known:
            self._visits.check_clients()
            self.is_known = True

    def abort(self) -> None:
        """End the connection, whatever was not sent yet."""
        self.transport.abort()

    def is_over(self, now: float, limits: Limits) -> bool:
        """End a connection that takes too long; whether it is gone."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent:
            self._moved = now
        self._unsent = unsent
        if self.transport.is_closing():
            self._closed_since = self._closed_since or now
            if unsent and now - self._closed_since < _CLOSE_SECONDS:
                return False
        elif self.waits_since is not None and now - self.waits_since > limits.header_seconds:
            pass
        elif now - self._moved < limits.stall_seconds:
            return False
        self.abort()
        return True


class Visits:
    """The connections of a server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[Visit, None] = {}  # the oldest one first

    def enter(self, transport: asyncio.Transport) -> Visit:
        """Add a connection; of too many without a token the oldest one goes."""
        visit = Visit(self, transport)
        self._open[visit] = None
        strangers = [one for one in self._open if not one.is_known]
        for one in strangers[: -self._limits.strangers]:
            one.abort()
            del self._open[one]
        return visit

    def check_clients(self) -> None:
        """Raise `BusyError` if there is no room for a connection with a token."""
        most = self._limits.clients
        if sum(one.is_known for one in self._open) >= most:
            raise BusyError(f"connections: expected at most {most} with a token, found more")

    def sweep(self) -> None:
        """End the connections that take too long."""
        now = time.monotonic()
        self._open = {one: None for one in self._open if not one.is_over(now, self._limits)}


def protocol_of(visits: Visits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol whose connections are `visits`."""

    class Connection(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.visit = visits.enter(cast(asyncio.Transport, transport))
            self.app_state = {**self.app_state, VISIT: self.visit}

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            is_page = self.transport.get_protocol() is not self  # a socket of a page by now
            if is_page or (self.cycle is not None and not self.cycle.response_complete):
                self.visit.waits_since = None
            elif self.visit.waits_since is None:
                self.visit.waits_since = time.monotonic()

    return Connection
