"""A tab of a browser: one WebSocket, one session of its own.

A message, either way, is binary: the length of its head (4 bytes, little endian), the head as JSON,
and behind it its buffers, whose lengths the head tells as ``buffers``. Beside the messages of a
session a tab sends ``{type: "open", model, names}`` with the files of images, which begins a new
session, and gets ``{type: "welcome", models, max_bytes}`` first and ``{type: "opened"}`` then, and
``{type: "note", text}`` of what an image has that a user should know.
"""

import asyncio
import io as streams
import json
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from sam_rlx import io
from sam_rlx._interactive import fields
from sam_rlx._interactive.image_session import ImageSession
from sam_rlx._interactive.sources import ImageSource
from sam_rlx._serve.engine import Encoded, Engine
from sam_rlx._serve.guard import MAX_BODY
from sam_rlx.errors import InvalidArgumentError, MediaWarning, SamRlxError

MAX_TABS = 32
_MAX_IMAGES = 1000
_MAX_WAITING = 2000  # messages that a browser has not taken yet
_TRY_AGAIN = 1013
_SMALL_RANGE = 26  # of 256: less than a tenth
_warned = threading.Lock()  # what Python warns of is recorded for the whole process

Parts = tuple[dict[str, Any], list[memoryview]]


class Uploads(ImageSource):
    """Files of images that a tab sent, decoded when their turn comes, upright.

    Parameters
    ----------
    names, files : sequences of str and bytes
    note : callable
        Takes a text that the tab shows: what a page cannot see as a warning.
    """

    def __init__(
        self, names: Sequence[str], files: Sequence[bytes], note: Callable[[str], None]
    ) -> None:
        if not files or len(names) != len(files):
            raise InvalidArgumentError(
                f"open: expected images and as many names, found {len(files)} and {len(names)}"
            )
        self._items = list(zip(names, files, strict=True))
        self._note = note

    def name(self, index: int) -> str:
        """Return the name of a file."""
        return str(self._items[index][0])

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return an image as RGB (H, W, 3); a small range of values is stretched, with a note."""
        name, contents = self._items[index]
        with _warned, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", MediaWarning)
            pixels = io.read_image(streams.BytesIO(contents))
        texts = [str(one.message) for one in told if issubclass(one.category, MediaWarning)]
        if texts and int(pixels.max()) - int(pixels.min()) < _SMALL_RANGE:
            with _warned, warnings.catch_warnings():
                warnings.simplefilter("ignore", MediaWarning)
                pixels = io.read_image(streams.BytesIO(contents), stretch=True)
            texts = ["its values use less than a tenth of their range, and are stretched to all"]
        if texts:
            self._note(f"{name}: {'; '.join(texts)}")
        return pixels


def packed(head: Mapping[str, Any], buffers: Sequence[Any]) -> bytes:
    """Return a message as one piece."""
    text = json.dumps({**head, "buffers": [len(buffer) for buffer in buffers]}).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *buffers])


def unpacked(message: bytes) -> Parts:
    """Return head and buffers of a message; `InvalidArgumentError` for any other bytes."""
    view = memoryview(message)
    start = 4 + int.from_bytes(view[:4], "little")
    try:
        head = json.loads(bytes(view[4:start]))
        lengths = [int(length) for length in head.pop("buffers", [])]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(f"message: expected a head of JSON, found {error}") from error
    if min(lengths, default=0) < 0 or start + sum(lengths) != len(view):
        raise InvalidArgumentError("message: expected the buffers that its head tells of")
    buffers = []
    for length in lengths:
        buffers.append(view[start : start + length])
        start += length
    return head, buffers


class Tab:
    """Serves one WebSocket until it is closed."""

    def __init__(self, socket: WebSocket, engine: Engine) -> None:
        self._socket = socket
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(_MAX_WAITING)
        self._session: ImageSession | None = None
        self._name = engine.default

    async def run(self) -> None:
        """Take messages until the tab goes."""
        await self._socket.accept()
        welcome = {"type": "welcome", "models": list(self._engine.models), "max_bytes": MAX_BODY}
        self._put(packed(welcome, []))
        writer = asyncio.create_task(self._write())
        try:
            while True:
                await self._take(await self._socket.receive_bytes())
        except (WebSocketDisconnect, KeyError):  # KeyError: a message of text
            pass
        finally:
            writer.cancel()
            if self._session is not None:
                self._session.close()

    async def _write(self) -> None:
        while True:
            await self._socket.send_bytes(await self._outgoing.get())

    async def _take(self, message: bytes) -> None:
        try:
            head, buffers = unpacked(message)
            if head.get("type") == "open":
                await self._begin(head, buffers)
            elif self._session is None:
                raise InvalidArgumentError("message: expected an open image before, found none")
            elif head.get("type") == "ready":  # which may compress an image
                await run_in_threadpool(self._session.receive, head, buffers)
            else:
                self._session.receive(head, buffers)
        except (SamRlxError, OSError) as error:
            self._put(packed({"type": "error", "text": str(error)}, []))

    async def _begin(self, head: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Begin a session with the images of a message, instead of an earlier one."""
        self._name = self._engine.name_of(head.get("model", self._engine.default))
        if len(buffers) > _MAX_IMAGES:
            raise InvalidArgumentError(
                f"open: expected at most {_MAX_IMAGES} images, found {len(buffers)}"
            )
        names = fields.items(head, "names", lambda entry, at: fields.text({at: entry}, at))
        files = [bytes(buffer) for buffer in buffers]
        uploads = Uploads(names, files, self._note)
        session = await run_in_threadpool(
            ImageSession,
            self._engine.models[self._name],
            uploads,
            send=self._send,
            num_threads=self._engine.num_threads,
            encode=self._encode,
        )
        if self._session is not None:
            self._session.close()
        self._session = session
        self._put(packed({"type": "opened", "count": len(uploads)}, []))

    def _encode(self, image: NDArray[np.uint8], texts: bool) -> Sequence[NDArray[np.float32]]:
        """Encode for the session, in its thread: one image of all tabs at a time."""

        def waiting(before: int) -> None:
            self._send({"type": "status", "text": f"{before} before this image", "part": None}, [])

        found: Encoded = self._engine.encode(self._name, image, waiting, texts)
        return found.arrays

    def _note(self, text: str) -> None:
        self._send({"type": "note", "text": text, "to": "page"}, [])

    def _send(self, head: Mapping[str, Any], buffers: Sequence[Any], view: object = None) -> None:
        """Hand a message over, from any thread."""
        message = packed(head, buffers)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, message)

    def _put(self, message: bytes) -> None:
        try:
            self._outgoing.put_nowait(message)
        except asyncio.QueueFull:  # a browser that takes nothing
            self._loop.create_task(self._socket.close(_TRY_AGAIN))
