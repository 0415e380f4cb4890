"""Which module has which name; and the long paths of upstream's that lead there."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.transformers.configs import CLASSES
from sam_rlx.compat.transformers.refusals import refused_class

_OURS = __package__ or ""
_FAST = ("Sam", "Sam2", "Sam3")
# Modules here, and the names of upstream's that they have.
MODULES: dict[str, str] = {
    "sam_models": "SamModel SamHQModel SamPreTrainedModel SamHQPreTrainedModel",
    "sam2_models": "Sam2Model EdgeTamModel Sam3TrackerModel Sam2PreTrainedModel "
    "EdgeTamPreTrainedModel Sam3TrackerPreTrainedModel",
    "model_sam3": "Sam3Model Sam3PreTrainedModel",
    "processing_sam3": "Sam3Processor",
    "pipeline": "MaskGenerationPipeline",
    "vision_models": "SamVisionModel SamHQVisionModel Sam2VisionModel",
    "video": "Sam2VideoModel Sam3TrackerVideoModel EdgeTamVideoModel Sam2VideoSegmentationOutput "
    "Sam3TrackerVideoSegmentationOutput EdgeTamVideoSegmentationOutput",
    "video_sessions": "Sam2VideoInferenceSession Sam3TrackerVideoInferenceSession "
    "EdgeTamVideoInferenceSession",
    "video_processing": "Sam2VideoProcessor Sam3TrackerVideoProcessor",
    "text_clips": "Sam3VideoModel Sam3VideoSegmentationOutput",
    "text_sessions": "Sam3VideoInferenceSession",
    "text_processing": "Sam3VideoProcessor",
    "auto": "AutoConfig AutoModel AutoModelForMaskGeneration AutoProcessor AutoImageProcessor "
    "AutoVideoProcessor pipeline",
    "processors": "SamProcessor SamHQProcessor Sam2Processor Sam3TrackerProcessor",
    "image_processors": "SamImageProcessor SamImageProcessorPil Sam2ImageProcessor "
    "Sam3ImageProcessor",
    "video_processors": "Sam2VideoVideoProcessor",
    "base": "PreTrainedModel",
    "batch": "BatchFeature",
    "configs": "PretrainedConfig PreTrainedConfig " + " ".join(CLASSES),
}
# Deprecated names that upstream still has.
_ALIASES = {f"{family}ImageProcessorFast": f"{family}ImageProcessor" for family in _FAST}
_LITE = "there is no such network here. SAM 3 is there: Sam3Model."
_ENCODER = "this bare encoder is not here. Use get_image_features or get_vision_features."
REFUSED = {
    **dict.fromkeys(("Sam3LiteTextModel", "Sam3LiteTextTextModel"), _LITE),
    **dict.fromkeys(
        ("Sam2HieraDetModel", "EdgeTamVisionModel", "Sam3VisionModel", "Sam3ViTModel"), _ENCODER
    ),
}
NAMES: dict[str, str] = {
    name: module for module, names in MODULES.items() for name in names.split()
}

# Upstream's modules below ``transformers.models``, and the names that programs import from there.
_FAMILIES = (
    *("sam", "sam_hq", "sam2", "sam2_video", "edgetam", "edgetam_video"),
    *("sam3", "sam3_tracker", "sam3_tracker_video", "sam3_video"),
)
_KINDS = ("modeling", "processing", "image_processing", "video_processing", "configuration")


def value(name: str) -> Any:
    """Return what a name of upstream's is here.

    Raises
    ------
    KeyError
        It is none of these.
    """
    name = _ALIASES.get(name, name)
    if name in REFUSED and name not in NAMES:
        return refused_class(name, REFUSED[name])
    return getattr(importlib.import_module(f"{_OURS}.{NAMES[name]}"), name)


def is_known(name: str) -> bool:
    """Tell whether a name of upstream's is here, or refused."""
    return name in NAMES or name in REFUSED or name in _ALIASES


class _LongPath(ModuleType):
    """A module of upstream's: its names are those here that it has there."""

    def __getattr__(self, name: str) -> Any:
        if is_known(name):
            return value(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _long_paths() -> list[str]:
    paths = ["models", "models.auto", "pipelines", "pipelines.mask_generation"]
    for folder in _FAMILIES:
        paths.append(f"models.{folder}")
        paths.extend(f"models.{folder}.{kind}_{folder}" for kind in _KINDS)
    kinds = ("modeling", "processing", "configuration", "image_processing")
    return [*paths, *(f"models.auto.{kind}_auto" for kind in kinds)]


def add_long_paths() -> None:
    """Make ``models.sam.modeling_sam`` and its siblings importable below this package."""
    for path in _long_paths():
        full = f"{_OURS}.{path}"
        if full in sys.modules:
            continue
        module = _LongPath(full, f"Names of ``transformers.{path}``.")
        module.__path__ = []
        sys.modules[full] = module
        parent, _, last = full.rpartition(".")
        setattr(sys.modules[parent], last, module)


def patch(package: ModuleType) -> None:
    """Give an installed transformers the names here; it keeps the others."""
    for name in (*NAMES, *_ALIASES, *REFUSED):
        setattr(package, name, value(name))
    for path in _long_paths():
        if path.count(".") == 2 and not path.startswith("models.auto"):
            sys.modules[f"{package.__name__}.{path}"] = sys.modules[f"{_OURS}.{path}"]


__dir__ = public_names(__name__)
