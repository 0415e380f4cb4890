"""A server that runs until Ctrl-C."""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from sam_rlx import _core
from sam_rlx.apps.serve.connections import Visits, protocol_of
from sam_rlx.apps.serve.limits import LIMITS, Limits
from sam_rlx.apps.serve.stopping import Stop, poll

_GRACE = 3  # seconds that open requests have when the server ends
_BACKLOG = 512
# A server that begins anew takes its port at once. On Windows SO_REUSEADDR would let any other
# program take the port of a server that runs.
_PORT_OPTION: int | None = getattr(
    socket, "SO_EXCLUSIVEADDRUSE", getattr(socket, "SO_REUSEADDR", None)
)
_TICKS = 10  # of a tenth of a second, between two looks at the connections


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    `OSError` if it is taken, or `host` is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if _PORT_OPTION is not None:
            listener.setsockopt(socket.SOL_SOCKET, _PORT_OPTION, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (TypeError, ValueError) as error:  # NUL, letters that no name has
        listener.close()
        raise OSError(f"--host: expected an address, found {host[:100]!r}") from error
    except BaseException:
        listener.close()
        raise
    return listener


def run(
    app: Any,
    listener: socket.socket,
    ready: Callable[[], None],
    stop: Stop,
    limits: Limits = LIMITS,
) -> None:
    """Serve until Ctrl-C or a signal to end; ``KeyboardInterrupt`` is left to the caller.

    Parameters
    ----------
    app : ASGI application
    listener : socket
        From `listen`; closed in the end.
    ready : callable
        Called when requests are taken.
    stop : Stop
        Set when the server ends, so that computations end too. Who sets it ends the server.
    limits : Limits
        Of connections.
    """
    # It stays: what computes in the end is to end before Python does.
    _core.set_poll_hook(poll)
    visits = Visits(limits)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        http=protocol_of(visits),
        ws="websockets-sansio",
        ws_max_size=limits.body_bytes + (1 << 20),
        ws_per_message_deflate=False,  # masks are packed, and each would wait for the compression
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config, ready, stop, visits)
    with contextlib.closing(listener):
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it takes requests, and looks after its connections."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], stop: Stop, visits: Visits
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._stop = stop
        self._visits = visits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            self._visits.sweep()
        return await super().on_tick(counter) or self._stop.is_set

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop.set()
        await super().shutdown(sockets)
