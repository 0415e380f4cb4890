"""A server that runs until Ctrl-C."""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from sam_rlx._serve.guard import MAX_BODY

_GRACE = 3  # seconds that open requests have when the server ends
_BACKLOG = 128
# A server that begins anew takes its port at once. On Windows SO_REUSEADDR would let any other
# program take the port of a server that runs.
_PORT_OPTION: int | None = getattr(
    socket, "SO_EXCLUSIVEADDRUSE", getattr(socket, "SO_REUSEADDR", None)
)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one. `OSError` if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if _PORT_OPTION is not None:
            listener.setsockopt(socket.SOL_SOCKET, _PORT_OPTION, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def run(app: Any, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or a signal to end; ``KeyboardInterrupt`` is left to the caller."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=MAX_BODY + (1 << 20),
        ws_per_message_deflate=False,  # masks are packed, and each would wait for the compression
        timeout_graceful_shutdown=_GRACE,
        limit_concurrency=256,
    )
    server = _Server(config, ready)
    with contextlib.closing(listener):
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it takes requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
