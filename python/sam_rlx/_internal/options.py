"""Options of predictors, as the core describes them: defaults, ranges and a line of help."""

import math
from collections.abc import Collection, Mapping
from typing import Any, Literal

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_flag, as_integer, as_number, as_text
from sam_rlx._internal.printable import shown
from sam_rlx._internal.weights.sources import PACKAGED
from sam_rlx.errors import InvalidArgumentError

Kind = Literal["image", "concept", "generator", "video", "text"]

# What a packaged model needs instead of its family's defaults: they predict lower scores than
# Meta's.
_OF_PACKAGED: dict[Kind, dict[str, Any]] = {
    "generator": {"pred_iou_thresh": 0.7, "stability_score_thresh": 0.8}
}
# The same of a version. Upstream: sam3/model_builder.py, build_sam3_multiplex_video_predictor.
_OF_VERSIONS: dict[str, dict[Kind, dict[str, Any]]] = {
    "3.1": {
        "video": {"use_memory_selection": False},
        "text": {
            "score_threshold_detection": 0.4,
            "det_nms_use_iom": True,
            "new_det_thresh": 0.65,
            "use_iom_recondition": True,
            "iom_thresh_recondition": 0.5,
            "suppress_det_close_to_boundary": True,
            "init_trk_keep_alive": 0,
            "max_trk_keep_alive": 8,
            "min_trk_keep_alive": -4,
            "fill_hole_area": 0,
        },
    }
}


def describe(kind: Kind, family: str) -> dict[str, dict[str, Any]]:
    """Return ``default``, ``min``, ``max`` and ``help`` of each option of a kind of predictor."""
    return _core.options(kind, family)


def outside(option: Mapping[str, Any], value: float) -> str | None:
    """Return the range of a number's option if the value is not in it."""
    low, high = option["min"], option["max"]
    if low <= value <= high:
        return None
    return f">= {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"


def defaults(kind: Kind, model: _core.Model) -> dict[str, Any]:
    """Return the defaults for a model, wherever it is asked: its own, or else its family's."""
    own = own_defaults(kind, model)
    options = describe(kind, model.family)
    return {name: own.get(name, option["default"]) for name, option in options.items()}


def own_defaults(kind: Kind, model: _core.Model) -> dict[str, Any]:
    """Return the defaults of a model that are not those of its family."""
    packaged = _OF_PACKAGED.get(kind, {}) if model.variant in PACKAGED else {}
    return {**packaged, **_OF_VERSIONS.get(model.version, {}).get(kind, {})}


def default_text(kind: Kind, name: str) -> str:
    """Return the default of an option for a help text: ``"(0.88); sam2, sam3: 0.8"``."""
    first, *others = _core.build_info()["families"]
    common = describe(kind, first)[name]["default"]
    parts = [f"({common})"]
    by_value: dict[Any, list[str]] = {}
    for family in others:
        value = describe(kind, family)[name]["default"]
        if value != common:
            by_value.setdefault(value, []).append(family)
    parts += [f"{', '.join(names)}: {value}" for value, names in by_value.items()]
    if name in _OF_PACKAGED.get(kind, {}):
        parts.append(f"packaged models: {_OF_PACKAGED[kind][name]}")
    return "; ".join(parts)


def checked(
    kind: Kind,
    family: str,
    values: Mapping[str, Any],
    optional: Collection[str] = (),
    model: _core.Model | None = None,
) -> dict[str, Any]:
    """Return the values with the types of the defaults, which stand in for None of an `optional`.

    Defaults are those of the model, without one those of the family.

    Raises
    ------
    InvalidArgumentError
        A value has the wrong type or is out of the option's range.
    """
    options = describe(kind, family)
    own = {} if model is None else defaults(kind, model)
    return {
        name: own.get(name, options[name]["default"])
        if value is None and name in optional
        else _as_option(name, options[name], value)
        for name, value in values.items()
    }


def as_memory_rule(value: Any) -> str | None:
    """Return the name of a rule of memory; None is upstream's own."""
    if value is None:
        return None
    name, known = as_text("memory_rule", value), _core.memory_rules()
    if name in known:
        return name
    raise InvalidArgumentError(
        f"memory_rule: expected None, {' or '.join(known)}, found {shown(value)}"
    )


def _as_option(name: str, option: Mapping[str, Any], value: Any) -> Any:
    default = option["default"]
    if isinstance(default, bool):
        return as_flag(name, value)
    if isinstance(default, str):
        return as_text(name, value)  # the core knows which there are
    if isinstance(default, int):
        return as_integer(name, value, int(option["min"]), option["max"])
    return as_number(name, value, option["min"], option["max"])
