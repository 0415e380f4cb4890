"""The reference of a checkpoint: Meta's package of its family, or transformers."""

import importlib.util
import os
from typing import Any, Literal, get_args

from sam_rlx import _core
from sam_rlx._internal.weights.sources import find_checkpoint
from sam_rlx.apps.parity import references, transformers_references
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model

Choice = Literal["auto", "meta", "transformers"]
_META = {"sam": "segment_anything", "sam2": "sam2", "sam3": "sam3"}


def kind_of(family: str, choice: str) -> Any:
    """Return the class; of "auto" Meta's, or transformers' where that alone is installed."""
    if choice not in get_args(Choice):
        raise InvalidArgumentError(
            f"reference: expected one of {list(get_args(Choice))}, found {choice!r}"
        )
    if choice == "auto":
        there = importlib.util.find_spec
        alone = there(_META[family]) is None and there("transformers") is not None
        choice = "transformers" if alone else "meta"
    kinds = references if choice == "meta" else transformers_references
    return kinds.REFERENCES[family]


def reference_of(model: Model, choice: str) -> Any:
    """Return the class for a model: that of its family, or of its trunk."""
    kind = kind_of(model.family, choice)
    if "multiplex" in model.config:
        if issubclass(kind, transformers_references.TransformersReference):
            raise UnsupportedError("reference: expected 'meta' for SAM 3.1, found 'transformers'")
        return references.Sam31Reference
    encoder = model.config.get("image_encoder", {})
    if encoder.get("rep_vit"):
        if issubclass(kind, transformers_references.TransformersReference):
            return transformers_references.EdgeTamReference
        return references.EdgeTamReference
    has_hq = bool(model.config.get("mask_decoder", {}).get("hq"))
    if encoder.get("tiny_vit"):
        if choice == "transformers":
            raise UnsupportedError("reference: expected 'meta' for MobileSAM, found 'transformers'")
        return references.SamHqTinyReference if has_hq else references.MobileSamReference
    if not has_hq:
        return kind
    if model.supports_video:  # HQ-SAM 2
        if choice == "transformers":
            raise UnsupportedError("reference: expected 'meta' for HQ-SAM 2, found 'transformers'")
        return references.HqSam2Reference
    if issubclass(kind, transformers_references.TransformersReference):
        return transformers_references.SamHqReference
    return references.SamHqReference


def stages_of(checkpoint: str | os.PathLike[str], choice: str = "auto") -> tuple[str, ...]:
    """Return the stages of a checkpoint's family. Reads the names of its tensors only."""
    family = _core.Checkpoint(str(find_checkpoint(checkpoint))).to_meta_names()
    stages: tuple[str, ...] = kind_of(family, choice).stages
    return stages
