"""What is not part of this package, and the words that say so."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from sam_rlx._internal.packages import installed_originals
from sam_rlx._internal.public import public_names
from sam_rlx.errors import UnsupportedError

# Models of ultralytics that are other networks.
OTHERS = ("FastSAM", "NAS", "RTDETR", "YOLO", "YOLOE", "YOLOWorld")
_INSTEAD = {
    "train": "networks are not trained here; fine-tune with the authors' code and load the file",
    "val": "benchmarks of data sets are not part of this package",
    "export": "sam_rlx.conversion writes safetensors, GGUF and folders for transformers",
    "benchmark": "sam-rlx info tells what runs; docs/performance.md has the seconds",
    "track": "SAM2VideoPredictor and SAM3VideoPredictor follow objects through a clip",
    "tune": "networks are not trained here",
    "embed": "ImagePredictor.image_embeddings of sam_rlx gives the features of an image",
}
METHODS = tuple(_INSTEAD)


def refused_method(name: str) -> Callable[..., Any]:
    """Return a method that raises `UnsupportedError` with the words of its name."""

    def refuse(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        raise UnsupportedError(
            f"{type(self).__name__}.{name}: expected predict, found {name}: {_INSTEAD[name]}"
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"SAM.{name}"
    refuse.__doc__ = f"Raise `UnsupportedError`: {_INSTEAD[name]}."
    return refuse


def other_model(name: str) -> Any:
    """Return another model's class: that of an installed ultralytics, else one that refuses."""
    package = sys.modules.get("ultralytics")
    ours = package is not None and package.__name__.startswith("sam_rlx.")
    if not ours and installed_originals()["ultralytics"] is not None:
        return getattr(importlib.import_module("ultralytics"), name)
    return _refusing(name)


@functools.cache
def _refusing(name: str) -> type:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        """Refuse another network than those of Segment Anything."""
        raise UnsupportedError(
            f"{name}: expected SAM, found another network, which is not part of sam_rlx: run it "
            "with its own package, and give its boxes (boxes.xyxy) to SAM"
        )

    return type(name, (), {"__module__": __name__, "__new__": refuse, "__doc__": refuse.__doc__})


__dir__ = public_names(__name__)
