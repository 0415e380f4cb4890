"""Models that many requests share: one image is encoded at a time, and kept by its content."""

import hashlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.serve import stopping
from sam_rlx.apps.serve.images import read_upright
from sam_rlx.apps.serve.limits import LIMITS, BusyError, Limits
from sam_rlx.concept import ConceptPredictor
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.image import ImagePredictor, MaskPrediction
from sam_rlx.model import Model

CACHE_BYTES = 1 << 30
_POLL = 0.5  # seconds between looks at whether who waits is still there

# The bytes of an image file, or RGB uint8 (H, W, 3).
Source: TypeAlias = bytes | NDArray[np.uint8]
# Called with how many images are encoded before this one.
Waiting: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Encoded:
    """What an encoder gave for an image of size `hw` (H, W)."""

    key: bytes
    hw: tuple[int, int]
    arrays: tuple[NDArray[np.float32], ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


class Cache:
    """Encoded images by content; the one that was not used for longest goes first.

    Parameters
    ----------
    limit : int
        Bytes in all. What is larger alone is not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[bytes, Encoded] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0

    def get(self, key: bytes) -> Encoded | None:
        """Return what was kept, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, entry: Encoded) -> None:
        """Keep an entry, and no more than the limit."""
        with self._lock:
            if entry.key in self._entries or entry.nbytes > self._limit:
                return
            self._entries[entry.key] = entry
            self.nbytes += entry.nbytes
            while self.nbytes > self._limit:
                _, oldest = self._entries.popitem(last=False)
                self.nbytes -= oldest.nbytes


class Queue:
    """Turns in the order in which they are asked for, one at a time.

    Parameters
    ----------
    seconds : float
        How long who asks waits.
    most : int
        How many wait.
    """

    def __init__(self, seconds: float = LIMITS.queue_seconds, most: int = LIMITS.queue) -> None:
        self._seconds = seconds
        self._most = most
        self._changed = threading.Condition()
        self._tickets: deque[object] = deque()

    def __len__(self) -> int:
        return len(self._tickets)

    @contextmanager
    def turn(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Wait for a turn and have it while the block runs.

        Raises
        ------
        BusyError
            Too many wait, or the turn did not come in time.
        StoppedError
            The `Stop` of this thread was set meanwhile.
        """
        ticket = object()
        with self._changed:
            if len(self._tickets) > self._most:
                raise BusyError(f"queue: expected at most {self._most} images, found more")
            self._tickets.append(ticket)
        try:
            self._wait(ticket, waiting)
            yield
        finally:
            with self._changed:
                self._tickets.remove(ticket)
                self._changed.notify_all()

    def _wait(self, ticket: object, waiting: Waiting | None) -> None:
        end = time.monotonic() + self._seconds
        told = 0
        while (before := self._before(ticket, told, end)) > 0:
            if waiting is not None and before != told:
                waiting(before)
            told = before

    def _before(self, ticket: object, told: int, end: float) -> int:
        """Return how many come before a ticket, some time later if they are as many as told."""
        stopping.poll()
        with self._changed:
            before = self._tickets.index(ticket)
            if before > 0 and before == told:
                left = end - time.monotonic()
                if left <= 0:
                    raise BusyError(
                        f"queue: expected a turn within {self._seconds:g} s, found {before} images "
                        "before this one"
                    )
                self._changed.wait(min(left, _POLL))
        return before


class Engine:
    """Masks for images that come as bytes, from models with names.

    Parameters
    ----------
    models : mapping
        By name, at least one; the first is the default.
    num_threads : int, optional
        As for `ImagePredictor`.
    cache_bytes : int
        What encoded images may take.
    limits : Limits
        Of images and the queue.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        num_threads: int | None = None,
        cache_bytes: int = CACHE_BYTES,
        limits: Limits = LIMITS,
    ) -> None:
        self.models = dict(models)
        self.num_threads = num_threads
        self.limits = limits
        self.cache = Cache(cache_bytes)
        self.queue = Queue(limits.queue_seconds, limits.queue)
        # Files are decoded one at a time too: each takes memory for its pixels.
        self.decodes = Queue(limits.queue_seconds, limits.queue)
        self.num_encoded = 0
        self._clicks = {
            name: _Kind(ImagePredictor, model, num_threads) for name, model in models.items()
        }
        self._concepts: dict[str, _Kind] = {}
        self._lock = threading.Lock()

    @property
    def default(self) -> str:
        """The name of the first model."""
        return next(iter(self.models))

    def name_of(self, asked: Any) -> str:
        """Return the model that a request names; ":latest" may stand behind it."""
        if not isinstance(asked, str) or asked.removesuffix(":latest") not in self.models:
            raise InvalidArgumentError(
                f"model: expected one of {', '.join(self.models)}, found {str(asked)[:100]!r}"
            )
        return asked.removesuffix(":latest")

    def encode(
        self, name: str, source: Source, waiting: Waiting | None = None, texts: bool = False
    ) -> Encoded:
        """Return what clicks, or texts, need of an image; it is encoded once for each."""
        kind = self._finder(name) if texts else self._clicks[name]
        return self._encode(name, kind, source, waiting)

    def click(self, name: str, source: Source, prompts: Mapping[str, Any]) -> MaskPrediction:
        """Predict masks, as `ImagePredictor.predict`."""
        encoded = self.encode(name, source)
        found: MaskPrediction = self._clicks[name].predict(encoded, prompts)
        return found

    def find(self, name: str, source: Source, texts: Iterable[str], threshold: float) -> Any:
        """Return the `ConceptPrediction` of texts."""
        encoded = self.encode(name, source, texts=True)
        return self._finder(name).predict(encoded, {"text": list(texts), "threshold": threshold})

    def _finder(self, name: str) -> "_Kind":
        model = self.models[name]
        if not model.supports_text:
            raise UnsupportedError(f"texts: expected a model that finds texts, found {name}")
        with self._lock:
            if name not in self._concepts:
                self._concepts[name] = _Kind(ConceptPredictor, model, self.num_threads)
            return self._concepts[name]

    def _encode(self, name: str, kind: "_Kind", source: Source, waiting: Waiting | None) -> Encoded:
        stopping.poll()
        key = _key(name, kind, source)
        if (found := self.cache.get(key)) is not None:
            return found
        with self.queue.turn(waiting):
            # Another request may have brought the same image meanwhile.
            if (found := self.cache.get(key)) is not None:
                return found
            pixels = self._decoded(source) if isinstance(source, bytes) else source
            found = Encoded(key, (pixels.shape[0], pixels.shape[1]), kind.encode(pixels))
            self.num_encoded += 1
            self.cache.put(found)
            return found

    def _decoded(self, contents: bytes) -> NDArray[np.uint8]:
        with self.decodes.turn():
            return read_upright(contents, self.limits.pixels)


class _Kind:
    """Two predictors of one class and model: one encodes, the other one answers prompts."""

    def __init__(self, predictor: Any, model: Model, num_threads: int | None) -> None:
        self.name = predictor.__name__
        self._make: Callable[[], Any] = lambda: predictor(model, num_threads=num_threads)
        self._encoder = self._make()
        self._predictor = self._make()
        self._shown: bytes | None = None  # the image that `_predictor` has
        self._lock = threading.Lock()

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], ...]:
        """Encode an image. One call at a time: within a turn."""
        self._encoder.set_image(pixels)
        arrays: tuple[NDArray[np.float32], ...] = self._encoder.image_embeddings
        self._encoder.reset_image()
        return arrays

    def predict(self, encoded: Encoded, prompts: Mapping[str, Any]) -> Any:
        """Predict on an encoded image."""
        with self._lock:
            if self._shown != encoded.key:
                self._shown = None
                self._predictor.set_image_embedding(encoded.arrays, encoded.hw)
                self._shown = encoded.key
            return self._predictor.predict(**prompts)


def _key(name: str, kind: _Kind, source: Source) -> bytes:
    """Return what tells images, and what is computed of them, apart."""
    shape = b"file" if isinstance(source, bytes) else repr(source.shape).encode()
    digest = hashlib.blake2b(f"{name}\0{kind.name}\0".encode() + shape + b"\0", digest_size=32)
    digest.update(source if isinstance(source, bytes) else np.ascontiguousarray(source).data)
    return digest.digest()
