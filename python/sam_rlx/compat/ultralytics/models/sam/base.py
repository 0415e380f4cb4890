"""What all predictors do: settings, the model, one result for each image."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import of_mask
from sam_rlx.compat.common.devices import CPU
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.ultralytics.arguments import DEFAULTS, Settings, check_side
from sam_rlx.compat.ultralytics.engine.results import Results, as_results
from sam_rlx.compat.ultralytics.sources import Item
from sam_rlx.compat.ultralytics.weights import load
from sam_rlx.compat.ultralytics.writing import Writer
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model


@dataclass(frozen=True)
class Found:
    """Objects of one image, before the limits of a call.

    Attributes
    ----------
    masks : ndarray (N, H, W), bool
        At the size of the image.
    scores : ndarray (N,), float32
        0 to 1.
    classes : ndarray (N,), int64
        Keys of `names`.
    names : dict of int to str
        Names of the classes.
    boxes : ndarray (N, 4), float32, optional
        (x0, y0, x1, y1) in pixels. Default: around the masks.
    ids : sequence of int, optional
        Numbers of the objects of a clip.
    best : bool
        The network found the objects by itself, so that ``max_det`` limits them.
    """

    masks: NDArray[np.bool_]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]
    names: dict[int, str]
    boxes: NDArray[np.float32] | None = None
    ids: Sequence[int] | None = None
    best: bool = False

    def rows(self) -> NDArray[np.float32]:
        """Return what `Boxes` takes: (N, 6), or (N, 7) with `ids`."""
        boxes = self.boxes if self.boxes is not None else boxes_of(self.masks)
        parts = [boxes, np.stack([self.scores, self.classes], axis=1)]
        if self.ids is not None:
            parts.insert(1, np.array(self.ids).reshape(-1, 1))
        joined: NDArray[np.float32] = np.concatenate(parts, axis=1).astype(np.float32)
        return joined

    def kept(self, settings: Settings) -> NDArray[np.int64]:
        """Return the objects within the limits of a call, in their order."""
        wanted = self.scores > settings.conf
        if settings.classes is not None:
            wanted &= np.isin(self.classes, list(settings.classes))
        found = np.flatnonzero(wanted)
        if self.best and len(found) > settings.max_det:
            best = np.argsort(-self.scores[found], kind="stable")[: settings.max_det]
            found = np.sort(found[best])
        return found


def numbered(masks: NDArray[np.bool_], scores: NDArray[np.float32], best: bool = False) -> Found:
    """Return objects that are each a class of its own, called by its number."""
    numbers = np.arange(len(masks))
    return Found(masks, scores, numbers, {int(i): str(i) for i in numbers}, best=best)


def boxes_of(masks: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the corners (N, 4) of the smallest boxes around masks; zeros for empty ones."""
    found = np.array([of_mask(mask).box for mask in masks], np.float32).reshape(-1, 4)
    found[:, 2:] += found[:, :2]
    return found


class BasePredictor:
    """Settings, and results for each image of a source.

    Parameters
    ----------
    cfg : dict, optional
        Settings.
    overrides : dict, optional
        Settings that replace those, such as ``conf`` and ``model``.
    _callbacks : None
        Not taken.

    Attributes
    ----------
    args : Settings
        The settings, as attributes.
    device : str
        ``"cpu"``.
    """

    _PROMPTS: ClassVar[tuple[str, ...]] = ()
    _MODEL: ClassVar[str] = "sam_b.pt"
    device = CPU

    def __init__(
        self,
        cfg: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
        _callbacks: None = None,
    ) -> None:
        if _callbacks is not None:
            raise InvalidArgumentError(
                "_callbacks: expected None, found others: go through the results of stream=True"
            )
        where = type(self).__name__
        given = dict(cfg or {}) | dict(overrides or {})
        self.args = Settings(**DEFAULTS).changed(where, given, ())
        self._model: Model | None = None
        self._given: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._model or 'without a model'}>"

    # ---------------------------------------------------------------- the model

    def setup_model(self, model: Any = None, verbose: bool = True) -> None:
        """Load the model: a `SAM`, a file, or that of the setting ``model``."""
        self._model = load(model or self.args.model or self._MODEL)
        check_side(self.args.imgsz, self._model.img_size)
        self._set_up(self._model)

    def _set_up(self, model: Model) -> None:
        """Make what runs the model."""

    @property
    def model(self) -> Model:
        """The model, which is loaded when it is first needed."""
        if self._model is None:
            self.setup_model()
        assert self._model is not None
        return self._model

    # ---------------------------------------------------------------- calls

    def set_prompts(self, prompts: Mapping[str, Any]) -> None:
        """Set prompts for the next calls that have none."""
        self._given = self._checked_prompts(dict(prompts))

    def __call__(
        self, source: Any = None, model: Any = None, stream: bool = False, **kwargs: Any
    ) -> Any:
        """Segment the images of a source.

        Parameters
        ----------
        source : path, address, PIL image, array, tensor, or list of these, optional
            Arrays are BGR. Default: the image of ``set_image``, where there is that method.
        model : SAM or path, optional
            Another model, from now on.
        stream : bool
            Give a generator, which holds one result at a time.
        **kwargs
            Prompts, and settings of this call.

        Returns
        -------
        list of Results, or generator of them
            One for each image, or frame of a clip.
        """
        if model is not None:
            self.setup_model(model)
        prompts = {name: kwargs.pop(name) for name in self._PROMPTS if name in kwargs}
        settings = self.args.changed(type(self).__name__, kwargs, self._PROMPTS)
        if any(value is not None for value in prompts.values()) or not self._given:
            checked = self._checked_prompts(prompts)
        else:
            checked = self._given
        check_side(settings.imgsz, self.model.img_size)
        found = self._results(source, checked, settings)
        return found if stream else list(found)

    def _results(
        self, source: Any, prompts: dict[str, Any], settings: Settings
    ) -> Iterator[Results]:
        with Writer(settings) as writer:
            began = time.perf_counter()
            for item, found, prepared in self._found(source, prompts, settings):
                ended = time.perf_counter()
                kept = found.kept(settings)
                times = (prepared - began, ended - prepared, time.perf_counter() - ended)
                names = ("preprocess", "inference", "postprocess")
                result = as_results(
                    item.pixels,
                    item.path,
                    found.names,
                    found.rows()[kept],
                    found.masks[kept],
                    {name: 1000 * seconds for name, seconds in zip(names, times, strict=True)},
                )
                writer.add(item, result)
                yield result
                began = time.perf_counter()

    def _checked_prompts(self, prompts: dict[str, Any]) -> dict[str, Any]:
        """Return the prompts of a call as the predictor takes them."""
        return prompts

    def _found(
        self, source: Any, prompts: dict[str, Any], settings: Settings
    ) -> Iterator[tuple[Item, Found, float]]:
        """Yield images, their objects, and when the image had been read."""
        raise NotImplementedError


class KeepsImage(BasePredictor):
    """A predictor whose calls without a source are on the image of `set_image`."""

    _item: Item | None = None
    _kept: Any  # has encoded it

    def reset_image(self) -> None:
        """Forget the image of `set_image`."""
        if self._item is not None:
            self._kept.reset_image()
        self._item = None

    @property
    def features(self) -> Any:
        """What the encoder gave for the image of `set_image`, for `inference_features`."""
        if self._item is None:
            return None
        return tuple(as_result(part) for part in self._kept.image_embeddings)


__dir__ = public_names(__name__)
