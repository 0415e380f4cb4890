"""A tab of a browser: one WebSocket, and a project that other tabs may show too.

A message, either way, is binary: the length of its head (4 bytes, little endian), the head as JSON,
and behind it its buffers, whose lengths the head tells as ``buffers``. Beside the messages of a
session a tab sends

- ``{type: "open", model, names, project, clip}`` with the files of images, which are added to a
  project; without one they begin a new one; with `clip` true they are the frames of a clip;
- ``{type: "resume", model, project, item}``: shows a project again, or one that lies beside the
  files which the command line named;
- ``{type: "remove", project}``: removes a project that no tab shows, with its images;

and gets ``{type: "welcome", models, max_bytes, projects}`` first, ``{type: "opened", count,
project, item}`` then, ``{type: "projects", projects}`` after a removal, and ``{type: "note",
text}`` of what a user should know.
"""

import asyncio
import contextlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect

from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.json_reader import check_values
from sam_rlx.apps.annotator.keys import keys_of
from sam_rlx.apps.annotator.projects import OpenProject
from sam_rlx.apps.annotator.sources import ImageSource
from sam_rlx.apps.annotator.values import Item
from sam_rlx.apps.annotator.video_session import VideoSession
from sam_rlx.apps.serve import kept
from sam_rlx.apps.serve.clips import check_clip, kind_of, tracker
from sam_rlx.apps.serve.connections import VISIT
from sam_rlx.apps.serve.engine import Encoded, Engine
from sam_rlx.apps.serve.images import check_size, read_upright
from sam_rlx.apps.serve.kept import KeptFiles
from sam_rlx.apps.serve.limits import Budget, BusyError, Share
from sam_rlx.apps.serve.local_files import LocalFiles
from sam_rlx.apps.serve.stopping import GivingWay, Stop
from sam_rlx.apps.serve.threads import Threads
from sam_rlx.errors import InvalidArgumentError, MediaWarning, SamRlxError

_TRY_AGAIN = 1013
_MAX_INCOMING = 10_000  # messages that wait for what an earlier one asks for
_ROWS = ImageSession.gestures
_SMALL_RANGE = 26  # of 256: less than a tenth

Parts = tuple[dict[str, Any], list[memoryview]]


class Uploads(ImageSource):
    """The images of a project of the page, decoded when their turn comes, upright.

    Parameters
    ----------
    project : OpenProject
        Its items are the images; other tabs may add some.
    files : KeptFiles
        Their contents.
    engine : Engine
        One image of all tabs and requests is decoded or encoded at a time.
    budget : Budget
        Of the last image.
    note : callable
        Takes a text that the tab shows: what a page cannot see as a warning.
    """

    can_be_ordered = True

    def __init__(
        self,
        project: OpenProject,
        files: KeptFiles,
        engine: Engine,
        budget: Budget,
        note: Callable[[str], None],
    ) -> None:
        self._project = project
        self._kept = files
        self._engine = engine
        self._note = note
        self._share = Share(budget)

    @property
    def _all(self) -> tuple[Item, ...]:
        items = self._project.history.project.items
        return tuple(one for one in items if one.kind == "image" and not kept.is_replaced(one))

    def __len__(self) -> int:
        return len(self._all)

    @property
    def files(self) -> list[Path]:
        """No files of the user's."""
        return []

    def close(self) -> None:
        """Forget the last image."""
        self._share.close()
        self._note = _pass

    def name(self, index: int) -> str:
        """Return the name of a file."""
        return self._all[index].path

    path = name

    def file(self, index: int) -> Path | None:
        """Return None: the contents are kept under other names."""
        return None

    def meet(self, project: OpenProject) -> list[str]:
        """Return nothing: the items are the images."""
        return []

    def key(self, index: int, project: OpenProject) -> str:
        """Return the key of an image."""
        return self._all[index].key

    def known_key(self, index: int) -> str:
        """Return the key of an image."""
        return self._all[index].key

    def file_key(self, index: int) -> str:
        """Return the key of its content."""
        return self._all[index].key.partition("-")[0]

    def index_of(self, key: str) -> int | None:
        """Return the index of an item; None if it is not there."""
        return next((at for at, one in enumerate(self._all) if one.key == key), None)

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return an image as RGB (H, W, 3); a small range of values is stretched, with a note."""
        contents = self._kept.read(self._all[index].key)
        most = self._engine.limits.pixels
        # What Python warns of is recorded for the whole process: within a turn nobody else reads.
        with self._engine.decodes.turn(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", MediaWarning)
            pixels = read_upright(contents, most)
            texts = [str(one.message) for one in told if issubclass(one.category, MediaWarning)]
            if texts and int(pixels.max()) - int(pixels.min()) < _SMALL_RANGE:
                pixels = read_upright(contents, most, stretch=True)
                texts = [
                    "its values use less than a tenth of their range, and are stretched to all"
                ]
        self._share.hold("image", pixels.nbytes)
        if texts:
            self._note(f"{self.name(index)}: {'; '.join(texts)}")
        return pixels


def _pass(text: str) -> None:
    """Tell nobody."""


def packed(head: Mapping[str, Any], buffers: Sequence[Any]) -> bytes:
    """Return a message as one piece."""
    told = {**head, "buffers": [len(buffer) for buffer in buffers]}
    text = json.dumps(told, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *buffers])


def unpacked(message: bytes, most: int = 1 << 31) -> Parts:
    """Return head and buffers of a message; `InvalidArgumentError` for any other bytes.

    The head has at most so many bytes.
    """
    view = memoryview(message)
    start = 4 + int.from_bytes(view[:4], "little")
    fields.at_most("message: bytes of its head", start - 4, most)
    try:
        head = json.loads(bytes(view[4:start]))
        lengths = list(head.pop("buffers", []))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(f"message: expected a head of JSON, found {error}") from error
    if not all(type(length) is int and length >= 0 for length in lengths):
        raise InvalidArgumentError("message: expected lengths of buffers, found other values")
    if start + sum(lengths) != len(view):
        raise InvalidArgumentError("message: expected the buffers that its head tells of")
    buffers = []
    for length in lengths:
        buffers.append(view[start : start + length])
        start += length
    return head, buffers


class Tab:
    """Serves one WebSocket until it is closed.

    Parameters
    ----------
    socket : WebSocket
    engine : Engine
    threads : Threads
        For what takes long.
    budget : Budget
        What this and all other clients may hold.
    stop : Stop
        Ends the work of all.
    local : mapping
        What is shown where it lies, by id.
    """

    def __init__(
        self,
        socket: WebSocket,
        engine: Engine,
        threads: Threads,
        budget: Budget,
        stop: Stop,
        local: Mapping[str, LocalFiles],
    ) -> None:
        self._socket = socket
        self._local = local
        self._engine = engine
        self._limits = engine.limits
        self._threads = threads
        self._budget = budget
        self._share = Share(budget)
        self._stop = Stop(stop)
        self._loop = asyncio.get_running_loop()
        self._incoming: deque[bytes] = deque()
        self._num_incoming = 0  # bytes
        self._came = asyncio.Event()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._unread = 0
        self._session: ImageSession | VideoSession | None = None

    async def run(self) -> None:
        """Take messages until the tab goes."""
        await self._socket.accept()
        most = self._limits.body_bytes
        welcome = {
            "type": "welcome",
            "models": list(self._engine.models),
            "max_bytes": most,
            "projects": self._projects(),
            "about": {"name": "", "kept": "", "where": "", "model": "", "keys": keys_of(_ROWS)},
        }
        self._put(packed(welcome, []))
        tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._work())]
        try:
            while True:
                self._keep(await self._socket.receive_bytes())
        except (WebSocketDisconnect, KeyError):  # KeyError: a message of text
            pass
        finally:
            self._stop.set()
            for task in tasks:
                task.cancel()
            session, self._session = self._session, None
            if session is not None:
                session.close()
            self._share.close()

    def _keep(self, message: bytes) -> None:
        """Keep a message for `_work`, so that the end of the tab is seen meanwhile."""
        count = self._num_incoming + len(message)
        if count > 2 * self._limits.body_bytes or len(self._incoming) > _MAX_INCOMING:
            self._drop()
            return
        try:
            self._share.hold("messages", count)
        except BusyError as error:
            self._tell(error)
            return
        self._num_incoming = count
        self._incoming.append(message)
        self._came.set()

    def _tell(self, error: BaseException) -> None:
        self._put(packed({"type": "error", "text": str(error)}, []))

    def _drop(self) -> None:
        """End a tab that sends too much, or takes nothing."""
        visit = self._socket.scope.get("state", {}).get(VISIT)
        if visit is None:
            self._ending = self._loop.create_task(self._socket.close(_TRY_AGAIN))
        else:
            visit.abort()

    async def _write(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                message = await self._outgoing.get()
                await self._socket.send_bytes(message)
                self._unread -= len(message)

    async def _work(self) -> None:
        """Take messages in their order."""
        while True:
            await self._came.wait()
            while self._incoming:
                message = self._incoming.popleft()
                await self._take(message)
                self._num_incoming -= len(message)
                self._share.hold("messages", self._num_incoming)
            self._came.clear()

    async def _take(self, message: bytes) -> None:
        try:
            head, buffers = unpacked(message, self._limits.head_bytes)
            if head.get("type") == "open":
                await self._begin(head, buffers)
            elif head.get("type") == "resume":
                name = self._model(head)
                await self._threads.run(lambda: self._resume(name, head))
            elif head.get("type") == "remove":
                self._not_local("remove", head.get("project"))
                kept.remove(head.get("project"))
                self._put(packed({"type": "projects", "projects": self._projects()}, []))
            elif self._session is None:
                raise InvalidArgumentError("message: expected an open image before, found none")
            elif head.get("type") in ("ready", "load"):  # which may compress an image, or parse
                session = self._session
                await self._threads.run(lambda: self._hand_over(session, head, buffers))
            else:
                self._session.receive(head, buffers)
        except (SamRlxError, OSError, MemoryError) as error:
            self._tell(error)

    def _hand_over(
        self,
        session: ImageSession | VideoSession,
        head: Mapping[str, Any],
        buffers: Sequence[memoryview],
    ) -> None:
        for buffer in buffers:
            check_values(str(head.get("name"))[:100], bytes(buffer), self._limits.document_values)
        session.receive(head, buffers)

    def _projects(self) -> list[dict[str, Any]]:
        """Return what the first page lists."""
        return [*(one.listed() for one in self._local.values()), *kept.listed()]

    def _not_local(self, what: str, identity: Any) -> None:
        """Refuse what is for the page's own projects alone."""
        if isinstance(identity, str) and identity in self._local:
            raise InvalidArgumentError(
                f"{what}: expected a project of the page, found that of "
                f"{self._local[identity].path.name}, whose files lie elsewhere on this machine"
            )

    def _address(self, identity: str) -> str:
        """Where this server shows a project, for who finds it held."""
        return f"http://{self._socket.headers.get('host', '')}/p/{identity}"

    def _model(self, head: Mapping[str, Any]) -> str:
        return self._engine.name_of(head.get("model", self._engine.default))

    async def _begin(self, head: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Add the images of a message to a project, and show the first of them."""
        name = self._model(head)
        fields.at_most("open: images", len(buffers), self._limits.images)
        names = fields.items(head, "names", lambda entry, at: fields.text({at: entry}, at))
        if not buffers or len(names) != len(buffers):
            raise InvalidArgumentError(
                f"open: expected images and as many names, found {len(buffers)} and {len(names)}"
            )
        clip = head.get("clip") is True
        given = head.get("project")
        await self._threads.run(lambda: self._open(name, given, names, buffers, clip))

    def _open(
        self,
        name: str,
        given: Any,
        names: Sequence[str],
        buffers: Sequence[memoryview],
        clip: bool,
    ) -> None:
        self._not_local("open", given)
        identity = kept.new_id() if given is None else given
        project = kept.open_kept(identity, self._address(identity), new=given is None)
        files = KeptFiles(identity, self._note)
        try:
            known = project.history.project.items
            contents = [bytes(buffer) for buffer in buffers]
            if clip:
                items = [files.add_clip(names, contents, known, self._wrong, kind_of)]
            else:
                items = files.add(names, contents, known, self._wrong, kind_of)
            project.add_items(items)
            first = next((one.key for one in items if not kept.is_replaced(one)), "")
            self._show(name, identity, project, files, first)
        except BaseException:
            project.close_unused()
            if given is None:
                kept.remove(identity)
            raise

    def _wrong(self, contents: bytes) -> str:
        """Return why a file is no image and no clip, "" if it begins as one."""
        check = check_size if kind_of(contents) == "image" else check_clip
        try:
            check(contents, self._limits.pixels)
        except (SamRlxError, OSError) as error:
            return str(error)
        return ""

    def _resume(self, name: str, head: Mapping[str, Any]) -> None:
        """Show a project again."""
        identity = str(head.get("project"))
        item = fields.text({"item": head.get("item", "")}, "item")
        local = self._local.get(identity)
        if local is None:
            project = kept.open_kept(identity, self._address(identity))
        else:
            project = local.open(self._address(identity))
        try:
            if local is not None:
                self._show_local(name, local, project, item)
            else:
                self._show(name, identity, project, KeptFiles(identity, self._note), item)
        except BaseException:
            project.close_unused()
            raise

    def _show(
        self, name: str, identity: str, project: OpenProject, files: KeptFiles, first: str
    ) -> None:
        """Show a project in this tab, instead of an earlier one."""
        item = project.history.project.item(first)
        clips = [one for one in project.history.project.items if one.kind == "clip"]
        images = len(project.history.project.items) - len(clips)
        if item is None and clips and not images:
            item = clips[0]
        if item is not None and item.kind == "clip":
            self._show_clip(name, identity, project, files.frames(item.key), item)
            return
        uploads = Uploads(project, files, self._engine, self._budget, self._note)
        if not len(uploads):
            raise InvalidArgumentError("project: expected images, found none in it")
        self._show_images(name, identity, project, uploads, first)

    def _show_local(self, name: str, local: LocalFiles, project: OpenProject, first: str) -> None:
        """Show what the command line named: what the address says, or what is not done yet."""
        if local.kind == "clip":
            self._show_clip(name, local.identity, project, local.path, None)
            return
        begun = (one.key for one in project.history.project.items if one.state == "begun")
        sources = ImageSource(local.path)
        self._show_images(name, local.identity, project, sources, first or next(begun, ""))

    def _show_images(
        self, name: str, identity: str, project: OpenProject, sources: ImageSource, first: str
    ) -> None:
        """Show images of a project in this tab, instead of what it showed."""
        with self._stop.ends_work():
            try:
                session = ImageSession(
                    self._engine.models[name],
                    sources,
                    project=project,
                    send=self._send,
                    num_threads=self._engine.num_threads,
                    encode=partial(self._encode, name),
                    during=self._stop.ends_work,
                    ahead=partial(self._encode_ahead, name),
                    first=first,
                )
            except BaseException:
                sources.close()
                raise
        self._put_session(identity, project, session, len(sources))

    def _show_clip(
        self, name: str, identity: str, project: OpenProject, frames: Any, item: Item | None
    ) -> None:
        """Show a clip of a project in this tab, instead of what it showed."""
        with self._stop.ends_work():
            session = VideoSession(
                tracker(self._engine, name),
                frames,
                project=project,
                send=self._send,
                num_threads=self._engine.num_threads,
                item=item,
                during=self._stop.ends_work,
            )
        self._put_session(identity, project, session, 1)

    def _put_session(
        self,
        identity: str,
        project: OpenProject,
        session: ImageSession | VideoSession,
        count: int,
    ) -> None:
        project.write()
        before, self._session = self._session, session
        if before is not None:
            before.close()
        if self._stop.is_set:  # the tab has gone meanwhile
            self._session = None
            session.close()
        items = [
            {"key": one.key, "name": one.path, "kind": one.kind, "state": one.state}
            for one in project.history.project.items
        ]
        opened = {"count": count, "project": identity, "item": session.key, "items": items}
        self._send({"type": "opened", **opened}, [])

    def _encode(
        self, name: str, image: NDArray[np.uint8], texts: bool
    ) -> Sequence[NDArray[np.float32]]:
        """Encode for the session, in its thread: one image of all tabs at a time."""

        def waiting(before: int) -> None:
            self._send({"type": "status", "text": f"{before} before this image", "part": None}, [])

        found: Encoded = self._engine.encode(name, image, waiting, texts)
        return found.arrays

    def _encode_ahead(
        self, name: str, image: NDArray[np.uint8], wanted: Callable[[], bool]
    ) -> bool:
        """Encode into the cache while neither the session nor another client wants anything."""
        queue = self._engine.queue
        if len(queue):
            return True
        try:
            with GivingWay(self._stop, lambda: wanted() or len(queue) > 1).ends_work():
                self._engine.encode(name, image)
        except (SamRlxError, MemoryError):
            return not wanted()
        return True

    def _note(self, text: str) -> None:
        self._send({"type": "note", "text": text, "to": "page"}, [])

    def _send(self, head: Mapping[str, Any], buffers: Sequence[Any], view: object = None) -> None:
        """Hand a message over, from any thread."""
        message = packed(head, buffers)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, message)

    def _put(self, message: bytes) -> None:
        if self._unread and self._unread + len(message) > self._limits.unread_bytes:
            self._drop()  # a browser that takes nothing
            return
        self._unread += len(message)
        self._outgoing.put_nowait(message)
