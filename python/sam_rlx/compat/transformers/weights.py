"""Weights of models: found, loaded by rules, changed, and written again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.compat.common.state_dicts import LoadResult, StateDictError, write_arrays
from sam_rlx.compat.transformers import configs, sources
from sam_rlx.compat.transformers.options import LoadOptions
from sam_rlx.compat.transformers.refusals import refuse_images_in_video
from sam_rlx.conversion import convert
from sam_rlx.errors import CheckpointError
from sam_rlx.model import Model

_FLOATS = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}


@dataclass(frozen=True)
class Found:
    """Weights and settings.

    Attributes
    ----------
    path : Path
        A file or folder.
    config : PretrainedConfig
        The settings.
    text : str or None
        Of a ``config.json`` with them, where they are others than those of the folder.
    """

    path: Path
    config: Any
    text: str | None = None

    def load(self, rules: Mapping[str, Any], precision: str | None, normalize: bool) -> Model:
        """Load the weights by rules of `_core.load_model`, which normalizes images or does not."""
        arguments: dict[str, Any] = {"rules": dict(rules), "precision": precision}
        arguments |= {"config": self.text, "normalize": normalize}
        return load(str(self.path), arguments)


def load(path: str, arguments: Mapping[str, Any]) -> Model:
    """Load a model with arguments of `_core.load_model`, which its pickle keeps."""
    return Model(_core.load_model(path, **arguments), path, arguments)


def again(model: Model, path: str | None = None, **changed: Any) -> Model:
    """Load a model again with other arguments, or from another file."""
    arguments = {**model._arguments, **changed}
    return load(path or model.source, arguments)


def find(
    cls: Any,
    source: str | os.PathLike[str],
    config: Any,
    options: LoadOptions,
) -> Found:
    """Return the weights and settings that a class is to be loaded from.

    Raises
    ------
    OSError
        There are none.
    CheckpointError
        They are those of another class.
    RefusedError
        Of a class for clips, they are those of images; or they are an adapter's.
    TypeError
        An argument is none that a class takes and no setting.
    """
    where, rest = sources.source_of(source, options.rest)
    settings = sources.settings_of(where)
    kind = settings.get("model_type")
    if kind in cls.kinds_in_part:
        refuse_images_in_video(where.name)
    if kind not in cls.kinds:
        raise CheckpointError(
            f"{where.name}: expected a model_type of {list(cls.kinds)} in config.json for "
            f"{cls.__name__}, found {kind!r}"
        )
    given = config is not None
    if not given:
        config = configs.BY_TYPE[str(kind)](**{**settings, "_name_or_path": where.name})
    changed = {name: rest.pop(name) for name in list(rest) if _is_setting(config, name)}
    if changed:
        config.update(changed)
    options.rest = {name: rest.pop(name) for name in list(rest) if name in cls.own_options}
    if rest:
        raise ArgumentTypeError(
            f"{cls.__name__}.from_pretrained: expected arguments that docs/compat.md lists or "
            f"settings, found {sorted(rest)}"
        )
    text = json.dumps(configs.plain_settings(config)) if given or changed else None
    return Found(where.checkpoint(), config, text)


def _is_setting(config: Any, name: str) -> bool:
    return not name.startswith("_") and hasattr(config, name) and not hasattr(type(config), name)


def loading_info(model: Model) -> dict[str, Any]:
    """Return what upstream tells about the names of weights: all were found."""
    return {
        "missing_keys": set(),
        "unexpected_keys": set(model.report()["unexpected"]),
        "mismatched_keys": set(),
        "error_msgs": [],
    }


def save(model: Model, config: Any, folder: Path) -> None:
    """Write the folder of a model, with these settings."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(model.source)
    beside = source if source.is_dir() else source.parent
    if not (beside / sources.CONFIG).is_file():
        convert(source, folder)
    else:
        for path in sorted(beside.iterdir()):
            if path.is_file() and not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)
    if model._arguments.get("config") is not None:
        config.save_pretrained(folder)


# ---------------------------------------------------------------- other values


def checked_values(
    path: str, state_dict: Mapping[str, Any], values: dict[str, Any], strict: bool
) -> LoadResult:
    """Add values of a program's to those that replace a file's; errors are `load_state_dict`'s."""
    shapes = {name: tuple(shape) for name, _, shape in _core.list_tensors(path)}
    missing = [name for name in shapes if name not in state_dict]
    unexpected = [name for name in state_dict if name not in shapes]
    if strict and (missing or unexpected):
        raise StateDictError(
            f"load_state_dict: expected all names of the file and no others, found "
            f"{_some(missing)} missing and {_some(unexpected)} unexpected"
        )
    for name in state_dict:
        if name in shapes and tuple(state_dict[name].shape) != shapes[name]:
            raise StateDictError(
                f"load_state_dict: {name}: expected shape {shapes[name]}, found "
                f"{tuple(state_dict[name].shape)}"
            )
    values.update((name, state_dict[name]) for name in state_dict if name in shapes)
    return LoadResult(missing, unexpected)


def with_values(model: Model, values: Mapping[str, Any], precision: str | None) -> Model:
    """Load a model again with values instead of some of its file's, at a precision."""
    if not values:
        return again(model, precision=precision)
    checkpoint = _core.Checkpoint(model.source)
    arrays = {
        name: values[name] if name in values else array_at(checkpoint, name, dtype).reshape(shape)
        for name, dtype, shape in checkpoint.tensors
    }
    config = model._arguments.get("config") or checkpoint.metadata.get("config")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "model.safetensors"
        write_arrays(path, arrays, {})
        return again(model, str(path), config=config, precision=precision)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "none"


def array_at(checkpoint: _core.Checkpoint, name: str, dtype: str) -> NDArray[Any]:
    """Return the numbers of a tensor; integers and bfloat16 as float32."""
    found: NDArray[Any]
    if dtype in _FLOATS:
        found = checkpoint.raw(name).view(_FLOATS[dtype])
    elif dtype == "BF16":
        found = (checkpoint.raw(name).view("<u2").astype(np.uint32) << 16).view(np.float32)
    elif dtype == "I64":
        found = checkpoint.raw(name).view("<i8").astype(np.float32)
    else:
        found = checkpoint.encode(name, "F32").view("<f4")
    return found


__dir__ = public_names(__name__)
