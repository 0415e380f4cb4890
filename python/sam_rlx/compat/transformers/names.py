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
# Modules here, and the names of upstream's that they have.
MODULES: dict[str, str] = {
    "sam_models": "SamModel SamHQModel SamPreTrainedModel SamHQPreTrainedModel",
    "sam2_models": "Sam2Model EdgeTamModel Sam3TrackerModel Sam2PreTrainedModel "
    "EdgeTamPreTrainedModel Sam3TrackerPreTrainedModel",
    "vision_models": "SamVisionModel SamHQVisionModel Sam2VisionModel",
    "video": "Sam2VideoModel Sam3TrackerVideoModel EdgeTamVideoModel Sam2VideoSegmentationOutput "
    "Sam3TrackerVideoSegmentationOutput EdgeTamVideoSegmentationOutput",
    "video_sessions": "Sam2VideoInferenceSession Sam3TrackerVideoInferenceSession "
    "EdgeTamVideoInferenceSession",
    "video_processing": "Sam2VideoProcessor Sam3TrackerVideoProcessor",
    "auto": "AutoConfig AutoModel AutoModelForMaskGeneration AutoProcessor AutoImageProcessor "
    "AutoVideoProcessor pipeline",
    "base": "PreTrainedModel",
    "batch": "BatchFeature",
    "configs": "PretrainedConfig PreTrainedConfig " + " ".join(CLASSES),
}
_LITE = "there is no such network here. SAM 3 is there: Sam3Model."
REFUSED = {"Sam3LiteTextModel": _LITE, "Sam3LiteTextTextModel": _LITE}
NAMES: dict[str, str] = {
    name: module for module, names in MODULES.items() for name in names.split()
}

# Upstream's modules below ``transformers.models``, and the names that programs import from there.
_FAMILIES = {
    "sam": "Sam",
    "sam_hq": "SamHQ",
    "sam2": "Sam2",
    "sam2_video": "Sam2Video",
    "edgetam": "EdgeTam",
    "edgetam_video": "EdgeTamVideo",
    "sam3": "Sam3",
    "sam3_tracker": "Sam3Tracker",
    "sam3_tracker_video": "Sam3TrackerVideo",
    "sam3_video": "Sam3Video",
}
_KINDS = {
    "modeling": ("Model", "PreTrainedModel", "Output", "InferenceSession"),
    "processing": ("Processor",),
    "image_processing": ("ImageProcessor", "ImageProcessorFast", "ImageProcessorPil"),
    "video_processing": ("VideoProcessor",),
    "configuration": ("Config",),
}


def value(name: str) -> Any:
    """Return what a name of upstream's is here.

    Raises
    ------
    KeyError
        It is none of these.
    """
    if name in REFUSED:
        return refused_class(name, REFUSED[name])
    return getattr(importlib.import_module(f"{_OURS}.{NAMES[name]}"), name)


class _LongPath(ModuleType):
    """A module of upstream's: its names are those here that it has there."""

    def __getattr__(self, name: str) -> Any:
        if name in NAMES or name in REFUSED:
            return value(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def add_long_paths() -> None:
    """Make ``models.sam.modeling_sam`` and its siblings importable below this package."""
    paths = ["models", "models.auto", "pipelines", "pipelines.mask_generation"]
    for folder in _FAMILIES:
        paths.append(f"models.{folder}")
        paths.extend(f"models.{folder}.{kind}_{folder}" for kind in _KINDS)
    paths.extend(f"models.auto.{kind}_auto" for kind in ("modeling", "processing", "configuration"))
    paths.append("models.auto.image_processing_auto")
    for path in paths:
        full = f"{_OURS}.{path}"
        if full in sys.modules:
            continue
        module = _LongPath(full, f"Names of ``transformers.{path}``.")
        module.__path__ = []
        sys.modules[full] = module
        parent, _, last = full.rpartition(".")
        setattr(sys.modules[parent], last, module)


__dir__ = public_names(__name__)
