"""What a request must have before anything looks at it: token, own host, own origin, small body."""

import asyncio
import base64
import binascii
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import SplitResult, parse_qs, urlsplit

from starlette.exceptions import HTTPException

from sam_rlx.apps.serve.connections import VISIT, Visit
from sam_rlx.apps.serve.limits import LIMITS, Budget, BusyError, Limits

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Only this says nothing that needs a token.
_OPEN = "/health"
_WS_FORBIDDEN = 4403


def allowed_hosts(host: str) -> frozenset[str] | None:
    """Return the names by which a server on `host` may be called; None: any.

    A page of another site can make a browser send requests to this machine under that site's name:
    those are refused. Who listens on all addresses is called by names that nobody knows here.
    """
    if host in ("0.0.0.0", "::", ""):
        return None
    return frozenset((*_LOOPBACK, host.lower()))


class Guard:
    """Refuses requests before they reach the application.

    Parameters
    ----------
    app : ASGI application
    token : str
        In the address (``?token=``, or as the first part of the path), in the header ``Token`` or
        ``Authorization``.
    hosts : set of str, or None
        Allowed names in the header ``Host``, without port.
    limits : Limits
        Of bodies.
    budget : Budget, optional
        What bodies may take, with all else that clients hold.
    """

    def __init__(
        self,
        app: App,
        token: str,
        hosts: frozenset[str] | None,
        limits: Limits = LIMITS,
        budget: Budget | None = None,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = hosts
        self._limits = limits
        self._budget = budget or Budget(limits.held_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(scope, receive, send, 403, refusal)
            return
        visit: Visit | None = scope.get("state", {}).get(VISIT)
        try:
            if visit is not None and not _is_open(scope):
                visit.admit()
        except BusyError as error:
            await _refuse(scope, receive, send, 503, str(error))
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        length = headers.get("content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self._limits.body_bytes:
            await _refuse(scope, receive, send, 413, _too_large(self._limits))
            return
        body = _Body(receive, self._limits, self._budget)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.close()

    def _refusal(self, scope: Scope, headers: dict[str, bytes]) -> str | None:
        """Return why a request is refused, or None. Takes a token off the path."""
        host = headers.get("host", b"").decode("latin-1").lower()
        name = _parts(f"//{host}").hostname if _is_plain(host) else None
        if name is None or (self._hosts is not None and name not in self._hosts):
            return "host: expected the address that sam-rlx serve printed, found another name"
        origin = headers.get("origin")
        if origin is not None and _parts(origin.decode("latin-1").lower()).netloc != host:
            return "origin: expected a page of this server, found one of another site"
        if _is_open(scope):
            return None
        if not self._has_token(scope, headers):
            return "token: expected the one in the address that sam-rlx serve printed, found none"
        return None

    def _has_token(self, scope: Scope, headers: dict[str, bytes]) -> bool:
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        if self._is_token(first.encode("utf-8", "replace")):
            scope["path"] = f"/{rest}"
            scope["raw_path"] = scope["path"].encode("utf-8", "replace")
            return True
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = [value.encode("utf-8", "replace") for value in query.get("token", [])]
        given.append(headers.get("token", b""))
        kind, _, value = headers.get("authorization", b"").partition(b" ")
        if kind.lower() in (b"bearer", b"token"):
            given.append(value.strip())
        elif kind.lower() == b"basic":
            given.append(_password(value))
        return any([self._is_token(value) for value in given])  # noqa: C419  no early end

    def _is_token(self, value: bytes) -> bool:
        return secrets.compare_digest(value, self._token)


class _Body:
    """The body of a request: it comes within limits of size and time."""

    def __init__(self, receive: Receive, limits: Limits, budget: Budget) -> None:
        self._receive = receive
        self._limits = limits
        self._budget = budget
        self._end = asyncio.get_running_loop().time() + limits.body_seconds
        self._taken = 0
        self._is_complete = False

    async def receive(self) -> Message:
        """Receive a part of it, and what comes behind it."""
        if self._is_complete:
            return await self._receive()
        wait = self._end - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(wait, 0.0))
        except TimeoutError as error:
            text = f"body: expected it within {self._limits.body_seconds:g} s, found a part"
            raise HTTPException(408, text) from error
        self._is_complete = not message.get("more_body", False)
        part = len(message.get("body", b""))
        if self._taken + part > self._limits.body_bytes:
            raise HTTPException(413, _too_large(self._limits))
        try:
            self._budget.take(part)
        except BusyError as error:
            raise HTTPException(503, str(error)) from error
        self._taken += part
        return message

    def close(self) -> None:
        """Give its bytes back."""
        self._budget.give(self._taken)


def _too_large(limits: Limits) -> str:
    return f"body: expected at most {limits.body_bytes} bytes, found more"


def _is_open(scope: Scope) -> bool:
    return bool(scope["path"] == _OPEN and scope["type"] == "http")


def _parts(address: str) -> SplitResult:
    """Return the parts of an address; none of what is no address."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return urlsplit("")
    return parts


def _is_plain(host: str) -> bool:
    return bool(host) and not set(host) & set("/@\\?# ")


def _password(value: bytes) -> bytes:
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


async def _refuse(scope: Scope, receive: Receive, send: Send, code: int, text: str) -> None:
    if scope["type"] == "websocket":
        # A code can be given only to who was let in.
        if (await receive())["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": _WS_FORBIDDEN, "reason": text[:120]})
        return
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
