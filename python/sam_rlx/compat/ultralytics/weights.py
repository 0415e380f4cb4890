"""Models by ultralytics' names: files on the disk, packaged names and hub ids."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model, load_model

_SIZES = {"t": "tiny", "s": "small", "b": "base-plus", "l": "large"}
# Where the weights of ultralytics' names are.
HUB = {
    "sam_b": "facebook/sam-vit-base",
    "sam_l": "facebook/sam-vit-large",
    **{f"sam2_{key}": f"facebook/sam2-hiera-{size}" for key, size in _SIZES.items()},
    **{f"sam2.1_{key}": f"facebook/sam2.1-hiera-{size}" for key, size in _SIZES.items()},
    "sam3": "facebook/sam3",
}
_MOBILE_SAM = "https://github.com/ChaoningZhang/MobileSAM"
_OTHERS = re.compile(r"(fastsam|yolo|rtdetr|nas)[^/]*\.pt", re.IGNORECASE)


def load(source: Any) -> Model:
    """Return the model of a file, a name, a hub id, a `SAM`, or the model itself.

    Raises
    ------
    FileNotFoundError
        It is one of ultralytics' names, and there is no such file: the text says which hub id has
        the weights.
    UnsupportedError
        It is another network.
    """
    found = getattr(source, "model", source)
    if isinstance(found, Model):
        return found
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"model: expected a file, a name or a SAM, found {shown(source)}"
        )
    path = Path(source)
    if not path.exists():
        stem = path.name.removesuffix(".pt").removesuffix(".pth")
        if stem in HUB and path.name != stem:
            raise FileNotFoundError(
                f"model: expected the file {path}, found none. Nothing is downloaded from "
                f"ultralytics: SAM({HUB[stem]!r}) takes the weights from the hub (extra hub)"
            )
        if stem == "mobile_sam":
            raise FileNotFoundError(
                f"model: expected the file {path}, found none. Nothing is downloaded from "
                f"ultralytics: {_MOBILE_SAM} has it"
            )
        if _OTHERS.fullmatch(path.name):
            raise UnsupportedError(
                f"model: expected weights of Segment Anything, found {path.name!r}, another "
                "network: run it with its own package, and give its boxes (boxes.xyxy) to SAM"
            )
    return load_model(source)


__dir__ = public_names(__name__)
