"""Settings of models: attributes in parts, as ``config.json`` has them."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from sam_rlx._internal.public import public_names
from sam_rlx.compat.transformers.sources import read_settings

# Settings of all models, which nothing here reads.
_COMMON: dict[str, Any] = {
    "transformers_version": "5.24.0",
    "architectures": None,
    "dtype": None,
    "output_hidden_states": False,
    "output_attentions": False,
    "return_dict": True,
    "chunk_size_feed_forward": 0,
    "is_encoder_decoder": False,
    "problem_type": None,
    "id2label": {0: "LABEL_0", 1: "LABEL_1"},
    "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "_name_or_path": "",
}
# Kinds of settings with upstream's defaults; parts come before those that have them.
_VALUES = Path(__file__).with_name("config_values.json")


class PretrainedConfig:
    """Settings of one part or of a whole model.

    Parameters
    ----------
    **settings
        By upstream's names; the others have upstream's defaults. A part is a config or a dict.

    Attributes
    ----------
    model_type : str
        Upstream's name of the kind of model.
    """

    model_type: ClassVar[str] = ""
    # Settings and their defaults; and the classes of those that are parts.
    defaults: ClassVar[Mapping[str, Any]] = {}
    parts: ClassVar[Mapping[str, type[PretrainedConfig]]] = {}
    # Parts whose sides of images are that of the whole, which has no such setting itself.
    sides: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **settings: Any) -> None:
        for name, value in {**_COMMON, **self.defaults}.items():
            vars(self)[name] = copy.deepcopy(value)
        for name, kind in self.parts.items():
            vars(self)[name] = _part(kind, settings.pop(name, None))
        for name, value in settings.items():
            if name not in ("model_type", "image_size") or not (self.sides or name != "image_size"):
                setattr(self, name, value)
        self._derive(settings)
        if self.sides and "image_size" in settings:
            self.image_size = settings["image_size"]

    def _derive(self, settings: Mapping[str, Any]) -> None:
        """Set what follows from other settings."""
        if "image_embedding_size" in self.defaults:
            self.image_embedding_size = self.image_size // self.patch_size
        if "mlp_ratio" in self.defaults and "mlp_dim" in self.defaults:
            if settings.get("mlp_dim") is None:
                self.mlp_dim = int(self.hidden_size * self.mlp_ratio)
            self.scale = self.hidden_size // 2

    def __getattr__(self, name: str) -> Any:
        if name == "image_size" and self.sides:
            return getattr(vars(self)[self.sides[0]], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "image_size" and self.sides:
            for part in self.sides:
                setattr(vars(self)[part], name, value)
            return
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        yield from vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"

    @property
    def name_or_path(self) -> str:
        """Where the settings were loaded from."""
        name: str = self._name_or_path
        return name

    def get_text_config(self, *_args: Any, **_kwargs: Any) -> PretrainedConfig:
        """Return the settings of the text encoder, or these ones."""
        found = vars(self).get("text_config", self)
        return found if isinstance(found, PretrainedConfig) else self

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as dicts, numbers, texts and lists."""
        found = {
            name: _told(value) if isinstance(value, PretrainedConfig) else copy.deepcopy(value)
            for name, value in vars(self).items()
        }
        if "prompt_encoder_config" in self.sides:
            found["image_size"] = self.image_size
        return {**found, "model_type": self.model_type}

    def to_diff_dict(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults, and the kind of model."""
        plain = type(self)().to_dict()
        return {
            name: value
            for name, value in self.to_dict().items()
            if name in ("model_type", "transformers_version", *self.parts)
            or value != plain.get(name, ...)
        }

    def to_json_string(self, use_diff: bool = True) -> str:
        """Return the text of a ``config.json``."""
        found = self.to_diff_dict() if use_diff else self.to_dict()
        return json.dumps(found, indent=2, sort_keys=True, default=str) + "\n"

    def update(self, config_dict: Mapping[str, Any]) -> None:
        """Set settings by name."""
        for name, value in config_dict.items():
            setattr(self, name, value)

    def save_pretrained(self, save_directory: str | os.PathLike[str], **_kwargs: Any) -> None:
        """Write ``config.json`` into a folder, which is made."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(self.to_json_string(), encoding="utf-8")

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any], **kwargs: Any) -> Any:
        """Return settings from a dict; more by name.

        Returns
        -------
        PretrainedConfig
            With ``return_unused_kwargs=True`` a tuple of it and of what are no settings.
        """
        unused = bool(kwargs.pop("return_unused_kwargs", False))
        config = cls(**config_dict)
        known = {name: kwargs.pop(name) for name in list(kwargs) if hasattr(config, name)}
        config.update(known)
        return (config, kwargs) if unused else config

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **kwargs: Any
    ) -> Any:
        """Load the settings of a folder, a file or a repository of the hub.

        Parameters
        ----------
        pretrained_model_name_or_path : str or path
            As for models.
        **kwargs
            ``cache_dir``, ``revision``, ``token``, ``local_files_only`` and ``subfolder`` as for
            models; settings by name.

        Returns
        -------
        PretrainedConfig
            Of this class.

        Raises
        ------
        OSError
            There is none.
        """
        settings, kwargs = read_settings(pretrained_model_name_or_path, kwargs)
        part = cls._own(settings)
        part["_name_or_path"] = str(pretrained_model_name_or_path)
        return cls.from_dict(part, **kwargs)

    @classmethod
    def _own(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Return those of this class in the settings of a whole model."""
        if settings.get("model_type") == cls.model_type:
            return settings
        name = cls.__name__.removesuffix("Config")
        for key in ("detector_config", "tracker_config", "vision_config", "backbone_config"):
            inner = settings.get(key)
            if not isinstance(inner, dict):
                continue
            fits = inner.get("model_type") == cls.model_type or (name, key) in _TAKEN
            found = inner if fits else cls._own(inner)
            if found is not inner or fits:
                return dict(found)
        return settings


# A class that takes the settings of another one, in a part of a whole model.
_TAKEN = {("Sam3", "detector_config"), ("Sam3Tracker", "tracker_config")}


def _told(part: PretrainedConfig) -> dict[str, Any]:
    """Return the settings of a part; the whole tells the version."""
    return {k: v for k, v in part.to_dict().items() if k != "transformers_version"}


def _part(kind: type[PretrainedConfig], given: Any) -> PretrainedConfig:
    if isinstance(given, PretrainedConfig):
        return given
    to_dict = getattr(given, "to_dict", None)  # settings of an installed transformers
    return kind(**(to_dict() if to_dict is not None else given or {}))


def plain_settings(config: Any) -> dict[str, Any]:
    """Return the settings of a config of ours or of an installed transformers, as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return {name: value for name, value in found.items() if value is not None}


def _classes() -> Iterator[type[PretrainedConfig]]:
    made: dict[str, type[PretrainedConfig]] = {}
    for name, kind in json.loads(_VALUES.read_text(encoding="utf-8")).items():
        members = {
            "__module__": __name__,
            "__doc__": f"Settings of the kind ``{kind['model_type']}``, by upstream's names.",
            "model_type": kind["model_type"],
            "defaults": kind["settings"],
            "parts": {part: made[each] for part, each in kind["parts"].items()},
            "sides": tuple(kind["sides"]),
        }
        made[name] = type(name, (PretrainedConfig,), members)
        yield made[name]


PreTrainedConfig = PretrainedConfig
CLASSES: dict[str, type[PretrainedConfig]] = {kind.__name__: kind for kind in _classes()}
globals().update(CLASSES)
# By the kind of model; the first of several.
BY_TYPE: dict[str, type[PretrainedConfig]] = {}
for _kind in CLASSES.values():
    BY_TYPE.setdefault(_kind.model_type, _kind)

__all__ = ["BY_TYPE", "CLASSES", "PreTrainedConfig", "PretrainedConfig", "plain_settings", *CLASSES]
__dir__ = public_names(__name__)
