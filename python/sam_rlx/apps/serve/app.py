"""The application: addresses, and what answers them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from sam_rlx.apps.annotator.front import joined
from sam_rlx.apps.annotator.json_reader import check_values
from sam_rlx.apps.serve import anylabeling, osam
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.guard import IS_BELOW, Guard
from sam_rlx.apps.serve.label_studio import Backend
from sam_rlx.apps.serve.limits import Budget, BusyError, Limits
from sam_rlx.apps.serve.local_files import LocalFiles
from sam_rlx.apps.serve.stopping import Stop, StoppedError
from sam_rlx.apps.serve.tabs import Tab
from sam_rlx.apps.serve.threads import Threads
from sam_rlx.errors import InvalidArgumentError, SamRlxError, UnsupportedError

_LOG = logging.getLogger("sam_rlx")
_TRY_AGAIN = 1013
_WRONG = 400
_HTML, _SCRIPT = "text/html; charset=utf-8", "text/javascript; charset=utf-8"


def _content(folder: str, name: str) -> bytes:
    return resources.files("sam_rlx").joinpath(folder, name).read_bytes()


# By address: what gives the bytes, and their type. They are made once, when the server starts.
_FILES: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "/": (partial(_content, "apps/serve", "page.html"), _HTML),
    "/p/{project}": (partial(_content, "apps/serve", "page.html"), _HTML),
    "/page.js": (partial(_content, "apps/serve", "page.js"), _SCRIPT),
    "/front.js": (lambda: joined().encode(), _SCRIPT),
    "/example.jpg": (partial(_content, "assets", "coins.jpg"), "image/jpeg"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Answer: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
Failed: TypeAlias = Callable[[int, str], Response]


class _Sessions:
    """The tabs that are open."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        budget: Budget,
        stop: Stop,
        local: Mapping[str, LocalFiles],
    ) -> None:
        self._engine = engine
        self._local = local
        self._threads = threads
        self._budget = budget
        self._stop = stop
        self._open = 0

    async def serve(self, socket: WebSocket) -> None:
        if self._open >= (most := self._engine.limits.tabs):
            await socket.accept()
            await socket.close(_TRY_AGAIN, f"expected at most {most} tabs, found more")
            return
        self._open += 1
        try:
            await Tab(
                socket, self._engine, self._threads, self._budget, self._stop, self._local
            ).run()
        finally:
            self._open -= 1


def _file(token: str, read: Callable[[], bytes], kind: str) -> Handler:
    """Return a handler that sends a file of the package; a page gets the token of its scripts.

    Addresses are relative: a server in front may have the page below any path.
    """
    content = read()

    async def send(request: Request) -> Response:
        below = b"" if request.scope.get(IS_BELOW) else f"{token}/".encode()
        if "project" in request.path_params:  # one folder further down
            below = b"../" + below
        found = content.replace(b"{below}", below) if kind == _HTML else content
        return Response(found, media_type=kind, headers=_HEADERS)

    return send


def _health(engine: Engine) -> Handler:
    async def answer(_: Request) -> Response:
        return _Json(
            {
                "status": "UP",
                "models_loaded": len(engine.models),
                "queue": len(engine.queue),
                "encoded": engine.num_encoded,
                "cache_bytes": engine.cache.nbytes,
            }
        )

    return answer


async def _no_video(_: Request) -> Response:
    return _Json(anylabeling.NO_VIDEO, status_code=501)


def _got(answer: Callable[[Request], dict[str, Any]]) -> Handler:
    async def handle(request: Request) -> Response:
        return _Json(answer(request))

    return handle


def _error(code: int, text: str) -> Response:
    return _Json({"error": text}, status_code=code)


def _told_to_anylabeling(code: int, text: str) -> Response:
    """Return an error with status 200: of others its client reads no data, and deletes shapes.

    But for a body that it does not send.
    """
    answer = anylabeling.failed(f"HTTP_{code}", text)
    return _Json(answer, status_code=code if code == _WRONG else 200)


class _Json(JSONResponse):
    """JSON in ASCII: texts of clients may have what UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class _Posted:
    """Answers JSON with JSON, in a thread, until the client goes."""

    def __init__(
        self, answer: Answer, failed: Failed, limits: Limits, threads: Threads, stop: Stop
    ) -> None:
        self._answer = answer
        self._failed = failed
        self._limits = limits
        self._threads = threads
        self._stop = stop

    async def handle(self, request: Request) -> Response:
        """Answer a request."""
        try:
            body = await request.body()
        except ClientDisconnect:  # nobody is there to be told
            return self._failed(_WRONG, "body: expected all of it, found a part")
        stop = Stop(self._stop)
        watch = asyncio.create_task(_set_at_end(request, stop))
        try:
            return await self._threads.run(lambda: self._told(body, stop))
        finally:
            watch.cancel()

    def _told(self, body: bytes, stop: Stop) -> Response:
        """Return the answer, or what is wrong."""
        try:
            with stop.ends_work():
                return _Json(self._answer(_parsed(body, self._limits.json_values)))
        except (InvalidArgumentError, UnsupportedError) as error:
            return self._failed(_WRONG, str(error))
        except (BusyError, StoppedError) as error:
            return self._failed(503, str(error))
        except (SamRlxError, MemoryError) as error:
            _LOG.error("sam_rlx: a request failed", exc_info=error)
            return self._failed(500, f"{type(error).__name__}: {error}")


async def _set_at_end(request: Request, stop: Stop) -> None:
    """Wait until a client that has sent its request goes."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    stop.set()


def _parsed(body: bytes, most: int) -> dict[str, Any]:
    check_values("body", body, most)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"body: expected JSON, found {error}") from error
    if not isinstance(found, dict):
        raise InvalidArgumentError("body: expected an object of JSON, found another value")
    return found


def create_app(
    engine: Engine,
    token: str,
    hosts: frozenset[str] | None,
    label_studio: str | None = None,
    stop: Stop | None = None,
    public: str | None = None,
    local: Sequence[LocalFiles] = (),
) -> Guard:
    """Return the ASGI application. Its limits are those of the engine.

    Parameters
    ----------
    engine : Engine
    token, hosts
        As for `Guard`.
    label_studio : str, optional
        Address of a Label Studio server, whose backend this is.
    stop : Stop, optional
        Ends all work when it is set.
    public : str, optional
        Address by which a server in front is called.
    local : sequence of LocalFiles
        What the page shows where it lies.
    """
    stop, threads, budget = stop or Stop(), Threads(), Budget(engine.limits.held_bytes)
    sessions = _Sessions(engine, threads, budget, stop, {one.identity: one for one in local})

    def posted(path: str, answer: Answer, failed: Failed = _error) -> Route:
        handler = _Posted(answer, failed, engine.limits, threads, stop)
        return Route(path, handler.handle, methods=["POST"])

    routes: list[BaseRoute] = [
        *(Route(path, _file(token, *where), methods=["GET"]) for path, where in _FILES.items()),
        Route("/health", _health(engine), methods=["GET"]),
        posted("/api/generate", lambda body: osam.generate(engine, body)),
        Route("/v1/models", _got(lambda _: anylabeling.models(engine)), methods=["GET"]),
        Route(
            "/v1/models/{name}/info",
            _got(lambda request: anylabeling.info(engine, request.path_params["name"])),
            methods=["GET"],
        ),
        posted("/v1/predict", lambda body: anylabeling.predict(engine, body), _told_to_anylabeling),
        Route("/v1/video/{rest:path}", _no_video, methods=["GET", "POST", "DELETE", "PUT"]),
        WebSocketRoute("/session", sessions.serve),
    ]
    if label_studio is not None:
        backend = Backend(engine, label_studio)
        routes.append(posted("/setup", backend.setup))
        routes.append(posted("/predict", backend.predict))
        routes.append(posted("/webhook", lambda _: {}))
    return Guard(Starlette(routes=routes), token, hosts, engine.limits, budget, public)
