"""What an image session holds, and what its views are sent of it."""

import itertools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clicks import Clicks, Encode, preview_hw, prompts_of
from sam_rlx.apps.annotator.document import Document, History, Segment
from sam_rlx.apps.annotator.export import Annotated
from sam_rlx.apps.annotator.layer import Layer
from sam_rlx.apps.annotator.masks import PackedMask
from sam_rlx.apps.annotator.session import Answer, Send, Session, still
from sam_rlx.apps.annotator.sources import ImageSource, encoded
from sam_rlx.apps.annotator.worker import During
from sam_rlx.errors import StateError
from sam_rlx.model import Model

_MAX_GRID = 1 << 22  # pixels of the masks that views get; a larger image's are sampled


class ImageState(Session):
    """Images with their objects, and the messages that show them. `ImageSession` adds gestures."""

    def __init__(
        self,
        model: Model,
        images: Any,
        *,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        num_threads: int | None = None,
        encode: Encode | None = None,
        during: During = nullcontext,
    ) -> None:
        super().__init__(send, changed, during)
        self.model = model
        self.sources = images if isinstance(images, ImageSource) else ImageSource(images)
        self._clicks_or_none: Clicks | None = Clicks(model, num_threads, encode)
        self._histories = [History() for _ in range(len(self.sources))]
        self._sizes: dict[int, tuple[int, int]] = {}
        self._layer: Layer | None = None
        self._stop = False
        self._sent: set[int] = set()
        self._numbers: dict[PackedMask, int] = {}
        self._counter = itertools.count(1)
        self._shown: tuple[int, bytes] | None = None  # index and file of the image that views see
        self.index = 0
        self._image: NDArray[np.uint8] | None = self.sources.read(0)
        self._sizes[0] = self.hw
        self.run(self._encode)

    # ---------------------------------------------------------------- what there is

    @property
    def image(self) -> NDArray[np.uint8]:
        """The current image, (H, W, 3); `StateError` after `close`."""
        return still(self._image)

    @property
    def hw(self) -> tuple[int, int]:
        """Height and width of the current image."""
        return self.image.shape[0], self.image.shape[1]

    @property
    def _clicks(self) -> Clicks:
        return still(self._clicks_or_none)

    def forget(self) -> None:
        """Let go of images, predictors and the layer; objects and names stay."""
        with self._lock:
            self._image = self._clicks_or_none = self._layer = self._shown = None
            self.sources.close()

    @property
    def document(self) -> Document:
        """The objects of the current image."""
        return self._history.document

    @property
    def _history(self) -> History:
        return self._histories[self.index]

    def annotated_indices(self) -> list[int]:
        """Return the numbers of the images with objects."""
        return [at for at in sorted(self._sizes) if self._histories[at].document.objects]

    def annotated(self, index: int) -> Annotated:
        """Return an image that was shown with its objects."""
        objects = self._histories[index].document.objects
        return Annotated(self.sources.name(index), self._sizes[index], objects)

    # ---------------------------------------------------------------- views

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view the image, all objects and the layer."""
        with self._lock:
            self._send_image(view, answer)
            self._send_state(view, None, known=set())
            self._send_layer(view, None)
            self.send(self.status_head(), [], view)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click would give, at the size of a preview."""
        point, label = fields.position(head), fields.label(head)
        if self._clicks.image is not self.image:
            raise StateError("hover: expected an encoded image, found none")
        one = self.document.selected or Segment(0, "", (0, 0, 0))
        start = one.start
        if not one.points and one.box is None and one.candidates:
            start = one.packed
        points, labels = (*one.points, point), (*one.labels, label)
        prompts = prompts_of(points, labels, one.box, self._clicks.logits(start))
        mask, score = self._clicks.hover(prompts)
        message = {"type": "hover", "mask": mask.head(0), "score": score, "answer": answer}
        self.send(message, [mask.bits.tobytes()], view)

    def on_stop(self) -> None:
        """Stop everything mode."""
        self._stop = True

    def _send_image(self, view: str | None, answer: Answer) -> None:
        if self._shown is None or self._shown[0] != self.index:
            self._shown = (self.index, encoded(self.image))
        height, width = self.hw
        small = preview_hw(self.hw)
        grid = (-(-height // self._step), -(-width // self._step))
        head = {
            "type": "image",
            "kind": "image",
            "index": self.index,
            "count": len(self.sources),
            "name": self.sources.name(self.index),
            "width": width,
            "height": height,
            "preview": [small[1], small[0]],
            "grid": [grid[1], grid[0]],
            "step": self._step,
            "texts": self.model.supports_text,
            "answer": answer,
        }
        self.send(head, [self._shown[1]], view)

    @property
    def _step(self) -> int:
        height, width = self.hw
        step = 1
        while (height // step) * (width // step) > _MAX_GRID:
            step += 1
        return step

    def _broadcast(self, answer: Answer) -> None:
        """Send all views what there is, with the masks that they do not have yet."""
        with self._lock:
            self.revision += 1
            self._sent = self._send_state(None, answer, known=self._sent)
        self.publish()

    def _send_state(self, view: str | None, answer: Answer, known: set[int]) -> set[int]:
        history, document = self._history, self.document
        # A mask that an undo brings back has another number, and is sent again.
        self._numbers = {
            one.packed: self._numbers.get(one.packed) or next(self._counter)
            for one in document.objects
        }
        numbers = [self._numbers[one.packed] for one in document.objects]
        changed = {
            number: one.packed
            for number, one in zip(numbers, document.objects, strict=True)
            if number not in known
        }
        sampled = [(number, mask.every(self._step)) for number, mask in changed.items()]
        head = {
            "type": "state",
            "revision": self.revision,
            "current": document.current,
            "can_undo": history.can_undo,
            "can_redo": history.can_redo,
            "objects": [
                _described(one, number)
                for one, number in zip(document.objects, numbers, strict=True)
            ],
            "masks": [mask.head(number) for number, mask in sampled],
            "answer": answer,
        }
        self.send(head, [mask.bits.tobytes() for _, mask in sampled], view)
        return set(numbers)

    # ---------------------------------------------------------------- work

    def _put(self, document: Document, answer: Answer, settle: bool = False) -> None:
        with self._lock:
            self._history.put(document)
            if settle:
                self._history.settle()
        self._broadcast(answer)

    def _encode(self) -> None:
        with self._working("encoding"):
            self._clicks.set_image(self.image)

    def _working(self, text: str) -> "_Working":
        return _Working(self, text)

    def _send_layer(self, view: str | None, answer: Answer) -> None:
        if self._layer is None:
            self.send({"type": "layer", "count": 0, "answer": answer}, [], view)
        else:
            head, bits = self._layer.message()
            self.send({"type": "layer", **head, "answer": answer}, [bits], view)


class _Working:
    """Says to views what is done while a block runs."""

    def __init__(self, session: Session, text: str) -> None:
        self._session = session
        self._text = text

    def __enter__(self) -> None:
        self._session.status(self._text)

    def __exit__(self, *error: object) -> None:
        self._session.status("")


def _described(one: Segment, mask: int) -> dict[str, Any]:
    return {
        "id": one.number,
        "name": one.name,
        "color": list(one.color),
        "points": [[x, y, label] for (x, y), label in zip(one.points, one.labels, strict=True)],
        "boxes": [] if one.box is None else [list(one.box)],
        "candidate": one.candidate,
        "candidates": len(one.candidates),
        "score": one.score,
        "text": one.text,
        "mask": mask,
    }
