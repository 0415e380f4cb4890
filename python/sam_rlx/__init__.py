"""Segment Anything on ordinary CPUs."""

from typing import TYPE_CHECKING

import sam_rlx._internal.extension  # noqa: F401  # first: it loads the extension
from sam_rlx._internal.public import loader, public_names
from sam_rlx.concept import ConceptExamples, ConceptPrediction, ConceptPredictor, RawDetections
from sam_rlx.conversion import convert
from sam_rlx.errors import (
    CheckpointError,
    HubError,
    InternalError,
    InvalidArgumentError,
    MediaWarning,
    MissingExtraError,
    SamRlxError,
    StateError,
    TruncationWarning,
    UnsupportedError,
)
from sam_rlx.generator import MaskGenerator, MaskRecord, MaskRecords
from sam_rlx.image import ImagePredictor, MaskPrediction, Objects
from sam_rlx.model import Model, build_info, load_model
from sam_rlx.tokenizer import Tokenizer
from sam_rlx.video import VideoFrame, VideoPredictor

__all__ = [
    "CheckpointError",
    "ConceptExamples",
    "ConceptPrediction",
    "ConceptPredictor",
    "HubError",
    "ImagePredictor",
    "InternalError",
    "InvalidArgumentError",
    "MaskGenerator",
    "MaskPrediction",
    "MaskRecord",
    "MaskRecords",
    "MediaWarning",
    "MissingExtraError",
    "Model",
    "Objects",
    "RawDetections",
    "SamRlxError",
    "StateError",
    "Tokenizer",
    "TruncationWarning",
    "UnsupportedError",
    "VideoFrame",
    "VideoPredictor",
    "build_info",
    "convert",
    "load_model",
]

__version__: str = build_info()["version"]

# Public modules besides those of the classes above, and what they cannot be loaded without.
_PARTS = {
    "batch": None,
    "compat": None,
    "errors": None,
    "frames": None,
    "io": None,
    "parity": None,
    "viz": None,
    "widget": "anywidget",
}

if TYPE_CHECKING:
    from sam_rlx import batch, compat, errors, frames, io, parity, viz, widget  # noqa: F401
else:
    __getattr__ = loader(__name__, _PARTS)
__dir__ = public_names(__name__, _PARTS)
