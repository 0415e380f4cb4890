"""What calls take besides prompts: settings by ultralytics' names, checked before any work."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from sam_rlx._internal.arrays.checks import as_flag, as_integer, as_number
from sam_rlx._internal.nearest import did_you_mean
from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

# Settings that act, with their defaults.
DEFAULTS: dict[str, Any] = {
    "conf": 0.25,
    "iou": 0.7,
    "imgsz": None,
    "device": None,
    "max_det": 300,
    "classes": None,
    "verbose": True,
    "save": False,
    "save_txt": False,
    "save_conf": False,
    "save_crop": False,
    "show": False,
    "show_labels": True,
    "show_conf": True,
    "show_boxes": True,
    "line_width": None,
    "project": None,
    "name": None,
    "exist_ok": False,
    "vid_stride": 1,
    "task": "segment",
    "mode": "predict",
    "model": None,
}
_FLAGS = tuple(name for name, value in DEFAULTS.items() if isinstance(value, bool))
# Settings that change nothing here: masks are as large as the image, one image goes at a time,
# results are float32.
_WITHOUT_EFFECT = frozenset(
    ("agnostic_nms", "batch", "compile", "half", "rect", "retina_masks", "stream_buffer")
)
_REFUSED = {
    "augment": "no image is changed before it is segmented",
    "embed": "ImagePredictor.image_embeddings of sam_rlx gives the features of an image",
    "save_frames": "save=True writes the clip",
    "visualize": "ImagePredictor.image_embeddings of sam_rlx gives the features of an image",
}
_told: set[str] = set()


class PromptWarning(UserWarning):
    """A prompt or setting means something else than a reader may think."""


def tell_once(key: str, text: str) -> None:
    """Warn, once in this process."""
    if key not in _told:
        _told.add(key)
        warnings.warn(text, PromptWarning, stacklevel=4)


class Settings(SimpleNamespace):
    """The settings of a predictor, as attributes."""

    def changed(self, where: str, given: Mapping[str, Any], prompts: Iterable[str]) -> Settings:
        """Return new settings, some of which are given; others of its call are prompts.

        Raises
        ------
        InvalidArgumentError
            A name is unknown, or a value of the wrong type or range.
        UnsupportedError
            It is a setting that is not supported here, or another device.
        """
        for name, value in given.items():
            if name in _REFUSED:
                if value:
                    raise UnsupportedError(
                        f"{name}: expected {name}={DEFAULTS.get(name, False)}, found "
                        f"{shown(value)}: {_REFUSED[name]}"
                    )
            elif name not in DEFAULTS and name not in _WITHOUT_EFFECT:
                known = (*prompts, *DEFAULTS, *_WITHOUT_EFFECT)
                raise ArgumentTypeError(
                    f"{where}: expected one of {sorted(known)}, found {name!r}"
                    f"{did_you_mean(name, known)}"
                )
        acting = {name: _checked(name, given[name]) for name in given if name in DEFAULTS}
        return Settings(**vars(self) | acting)


def _checked(name: str, value: Any) -> Any:
    if name in _FLAGS:
        return as_flag(name, value)
    if name in ("conf", "iou"):
        return DEFAULTS[name] if value is None else as_number(name, value, 0.0, 1.0)
    if name in ("max_det", "vid_stride"):
        return as_integer(name, value, 1)
    if name == "classes":
        return None if value is None else _as_classes(value)
    if name == "device":
        found = value if isinstance(value, str) or value is None else str(value)
        check_device(found or None)
    elif name in ("task", "mode") and value != DEFAULTS[name]:
        raise UnsupportedError(f"{name}: expected {DEFAULTS[name]!r}, found {shown(value)}")
    return value


def _as_classes(classes: Any) -> frozenset[int]:
    numbers = classes if isinstance(classes, Iterable) else [classes]
    return frozenset(as_integer("classes", number, 0) for number in numbers)


def check_side(imgsz: Any, side: int) -> None:
    """Say once that the network runs at its own size, if another one is asked for."""
    if imgsz is None:
        return
    wanted = list(imgsz) if isinstance(imgsz, (list, tuple)) else [imgsz]
    if not 1 <= len(wanted) <= 2:
        raise InvalidArgumentError(f"imgsz: expected a side or two, found {shown(imgsz)}")
    if any(as_integer("imgsz", each, 1) != side for each in wanted):
        tell_once(
            "imgsz",
            f"imgsz={imgsz}: the network runs at its own side of {side}; "
            "sam_rlx.load_model(file, image_size=) loads it for another one",
        )


__dir__ = public_names(__name__)
