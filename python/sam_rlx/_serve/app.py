"""The application: addresses, and what answers them."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from sam_rlx._serve import anylabeling, osam
from sam_rlx._serve.engine import BusyError, Engine
from sam_rlx._serve.guard import Guard
from sam_rlx._serve.label_studio import Backend
from sam_rlx._serve.tabs import MAX_TABS, Tab
from sam_rlx.errors import InvalidArgumentError, SamRlxError, UnsupportedError

_LOG = logging.getLogger("sam_rlx")
_TRY_AGAIN = 1013
# By address: file of the package, folder in it, and type. They are read once, when the server
# starts.
_FILES = {
    "/": ("_serve", "page.html", "text/html; charset=utf-8"),
    "/page.js": ("_serve", "page.js", "text/javascript; charset=utf-8"),
    "/front.js": ("_front", "front.js", "text/javascript; charset=utf-8"),
    "/example.jpg": ("assets", "coins.jpg", "image/jpeg"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Answer: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]


def create_app(
    engine: Engine,
    token: str,
    hosts: frozenset[str] | None,
    label_studio: str | None = None,
    **limits: Any,
) -> Guard:
    """Return the ASGI application.

    Parameters
    ----------
    engine : Engine
    token, hosts
        As for `Guard`.
    label_studio : str, optional
        Address of a Label Studio server, whose backend this is.
    **limits
        `max_body` and `body_seconds` of `Guard`.
    """
    routes: list[BaseRoute] = [
        *(Route(path, _file(token, *where), methods=["GET"]) for path, where in _FILES.items()),
        Route("/health", _health(engine), methods=["GET"]),
        Route("/api/generate", _posted(lambda body: osam.generate(engine, body)), methods=["POST"]),
        Route("/v1/models", _got(lambda _: anylabeling.models(engine)), methods=["GET"]),
        Route(
            "/v1/models/{name}/info",
            _got(lambda request: anylabeling.info(engine, request.path_params["name"])),
            methods=["GET"],
        ),
        Route(
            "/v1/predict", _posted(lambda body: anylabeling.predict(engine, body)), methods=["POST"]
        ),
        Route("/v1/video/{rest:path}", _no_video, methods=["GET", "POST", "DELETE", "PUT"]),
        WebSocketRoute("/session", _Sessions(engine).serve),
    ]
    if label_studio is not None:
        backend = Backend(engine, label_studio)
        routes.append(Route("/setup", _posted(backend.setup), methods=["POST"]))
        routes.append(Route("/predict", _posted(backend.predict), methods=["POST"]))
        routes.append(Route("/webhook", _posted(lambda _: {}), methods=["POST"]))
    return Guard(Starlette(routes=routes), token, hosts, **limits)


class _Sessions:
    """The tabs that are open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open = 0

    async def serve(self, socket: WebSocket) -> None:
        if self._open >= MAX_TABS:
            await socket.accept()
            await socket.close(_TRY_AGAIN, f"expected at most {MAX_TABS} tabs, found more")
            return
        self._open += 1
        try:
            await Tab(socket, self._engine).run()
        finally:
            self._open -= 1


def _file(token: str, folder: str, name: str, kind: str) -> Handler:
    """Return a handler that sends a file of the package; a page gets the token of its scripts."""
    content = resources.files("sam_rlx").joinpath(folder, name).read_bytes()
    if name.endswith(".html"):
        content = content.replace(b"{token}", token.encode())

    async def send(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return send


def _health(engine: Engine) -> Handler:
    async def answer(_: Request) -> Response:
        return JSONResponse(
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
    return JSONResponse(anylabeling.NO_VIDEO, status_code=501)


def _got(answer: Callable[[Request], dict[str, Any]]) -> Handler:
    async def handle(request: Request) -> Response:
        return JSONResponse(answer(request))

    return handle


def _posted(answer: Answer) -> Handler:
    """Return a handler of JSON: `answer` runs in a thread, and its errors are told."""

    async def handle(request: Request) -> Response:
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"body: expected JSON, found {error}") from error
        if not isinstance(body, dict):
            return _error(400, "body: expected an object of JSON, found another value")
        try:
            return JSONResponse(await run_in_threadpool(answer, body))
        except (InvalidArgumentError, UnsupportedError) as error:
            return _error(400, str(error))
        except BusyError as error:
            return _error(503, str(error))
        except (SamRlxError, MemoryError) as error:
            _LOG.error("sam_rlx: a request failed", exc_info=error)
            return _error(500, f"{type(error).__name__}: {error}")

    return handle


def _error(code: int, text: str) -> Response:
    return JSONResponse({"error": text}, status_code=code)
