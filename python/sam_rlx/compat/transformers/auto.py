"""Classes that look at a folder's settings and load what it is of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.transformers import configs, names, sources
from sam_rlx.compat.transformers.installed import of_installed
from sam_rlx.compat.transformers.refusals import refuse
from sam_rlx.errors import InvalidArgumentError

# Upstream's default of the pipeline.
_DEFAULT = "facebook/sam-vit-huge"
TASK = "mask-generation"
_CLICKS = {
    "sam": "SamModel",
    "sam_hq": "SamHQModel",
    "sam2": "Sam2Model",
    "sam2_video": "Sam2Model",
    "edgetam": "EdgeTamModel",
    "edgetam_video": "EdgeTamModel",
    "sam3_tracker": "Sam3TrackerModel",
    "sam3_video": "Sam3TrackerModel",
}
_PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json", "config.json")
_VIDEO_FILES = ("processor_config.json", "video_preprocessor_config.json", "config.json")


class _Auto:
    """Loads a class of the Segment Anything family, or what an installed transformers has."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise EnvironmentError(  # noqa: UP024
            f"{type(self).__name__} is designed to be instantiated with from_pretrained"
        )

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> Any:
        """Load what the settings of a folder, file or hub repository name.

        Parameters
        ----------
        pretrained_model_name_or_path : str or path
            As the classes' own ``from_pretrained``.
        *args, **kwargs
            Go to it.

        Returns
        -------
        object
            Of a class here, or of an installed transformers for another kind.

        Raises
        ------
        OSError
            There are no such settings.
        ImportError
            They are of another kind, and no transformers is installed.
        ValueError
            The kind has no such class.
        """
        name = cls._named(pretrained_model_name_or_path, kwargs)
        kind = of_installed(cls.__name__) if name is None else names.value(name)
        return kind.from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @classmethod
    def _named(cls, source: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> str | None:
        """Return the name of the class; None: not one of this package."""
        raise NotImplementedError

    @classmethod
    def register(cls, *args: Any, **kwargs: Any) -> Any:
        """Do as the class of the installed transformers."""
        return of_installed(cls.__name__).register(*args, **kwargs)


class AutoConfig(_Auto):
    """Settings of any kind."""

    @classmethod
    def _named(cls, source: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> str | None:
        kind = configs.BY_TYPE.get(_kind(source, kwargs) or "")
        return None if kind is None else kind.__name__

    @classmethod
    def for_model(cls, model_type: str, *args: Any, **kwargs: Any) -> Any:
        """Return the settings of a kind with values by name."""
        kind = configs.BY_TYPE.get(model_type)
        if kind is None:
            return of_installed("AutoConfig").for_model(model_type, *args, **kwargs)
        return kind(*args, **kwargs)


class _AutoModel(_Auto):
    @classmethod
    def _named(cls, source: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> str | None:
        given = getattr(kwargs.get("config"), "model_type", None)
        kind = given or _kind(source, kwargs)
        return cls._of_kind(kind) if kind in _core.transformers_classes() else None

    @classmethod
    def _of_kind(cls, kind: str) -> str:
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: Any, **kwargs: Any) -> Any:
        """Refuse a network of random weights; of another kind, do as the installed transformers."""
        if getattr(config, "model_type", None) in _core.transformers_classes():
            refuse("random", f"{cls.__name__}.from_config")
        return of_installed(cls.__name__).from_config(config, **kwargs)


class AutoModel(_AutoModel):
    """The model of any kind."""

    @classmethod
    def _of_kind(cls, kind: str) -> str:
        name: str = _core.transformers_classes()[kind][0]
        return name


class AutoModelForMaskGeneration(_AutoModel):
    """The model of any kind that makes masks from points and boxes."""

    @classmethod
    def _of_kind(cls, kind: str) -> str:
        if kind not in _CLICKS:
            raise InvalidArgumentError(
                f"AutoModelForMaskGeneration: expected a model_type of {sorted(_CLICKS)}, found "
                f"{kind!r}"
            )
        return _CLICKS[kind]


class _AutoProcessor(_Auto):
    _files: ClassVar[tuple[str, ...]] = _PROCESSOR_FILES
    # Settings that name the class, in this order.
    _keys: ClassVar[tuple[str, ...]] = ("processor_class",)

    @classmethod
    def _named(cls, source: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> str | None:
        where, _ = sources.source_of(source, kwargs)
        found = where.files(cls._files)
        settings = [sources.read_json(found[name]) for name in cls._files if name in found]
        if not settings and where.path is not None and where.path.is_file():
            settings = [sources.settings_of(where)]
        if not settings:
            raise sources.NoFileError(
                f"{where.name}: expected one of the files {list(cls._files)}, found none"
            )
        for name in (cls._told(each) for each in settings):
            if name is not None:
                return name if names.is_known(name) else None
        kind = next((each["model_type"] for each in settings if "model_type" in each), None)
        return cls._of_kind(kind) if kind in _core.transformers_classes() else None

    @classmethod
    def _told(cls, settings: Mapping[str, Any]) -> str | None:
        for key in cls._keys:
            if settings.get(key):
                return str(settings[key]).removesuffix("Fast")
        return None

    @classmethod
    def _of_kind(cls, kind: str) -> str:
        name: str = _core.transformers_classes()[kind][1]
        return name


class AutoProcessor(_AutoProcessor):
    """The processor of any kind."""


class AutoImageProcessor(_AutoProcessor):
    """The image processor of any kind."""

    _keys = ("image_processor_type", "feature_extractor_type")

    @classmethod
    def _told(cls, settings: Mapping[str, Any]) -> str | None:
        inner = settings.get("image_processor")
        return super()._told(inner if isinstance(inner, dict) else settings)

    @classmethod
    def _of_kind(cls, kind: str) -> str:
        name: str = _core.transformers_classes()[kind][2]
        return name


class AutoVideoProcessor(_AutoProcessor):
    """The processor of frames of any kind."""

    _files = _VIDEO_FILES
    _keys = ("video_processor_type",)

    @classmethod
    def _told(cls, settings: Mapping[str, Any]) -> str | None:
        inner = settings.get("video_processor")
        return super()._told(inner if isinstance(inner, dict) else settings)

    @classmethod
    def _of_kind(cls, kind: str) -> str:
        return "Sam2VideoVideoProcessor"


def _kind(source: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> str | None:
    settings, _ = sources.read_settings(source, _where(kwargs))
    kind: str | None = settings.get("model_type")
    return kind


def _where(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("cache_dir", "revision", "token", "use_auth_token", "local_files_only", "subfolder")
    return {name: kwargs[name] for name in keys if name in kwargs}


def pipeline(task: str | None = None, model: Any = None, config: Any = None, **kwargs: Any) -> Any:
    """Return a pipeline: everything mode, or another one of the installed transformers.

    Parameters
    ----------
    task : str, optional
        "mask-generation". Default: what the model is for.
    model : str, path or model, optional
        A source of `AutoModelForMaskGeneration`, or a model.
    config : PretrainedConfig, optional
        Of the model.
    **kwargs
        ``image_processor`` or ``processor``: an object, or a source of one. ``device``: "cpu", -1.
        ``dtype``, ``model_kwargs`` and arguments of ``from_pretrained``. Others go to
        `MaskGenerationPipeline`.

    Returns
    -------
    MaskGenerationPipeline
        Or a pipeline of the installed transformers.

    Raises
    ------
    ImportError
        Another task, and no transformers is installed.
    """
    if not _is_ours(task, model, kwargs):
        return of_installed("pipeline")(task, model, config, **kwargs)
    model = _DEFAULT if model is None else model
    where = _where(kwargs)
    for name in where:
        kwargs.pop(name)
    if not isinstance(model, (str, os.PathLike)):
        loaded, source = model, getattr(model, "name_or_path", "")
    else:
        named: dict[str, Any] = {
            name: kwargs.pop(name) for name in ("dtype", "torch_dtype") if name in kwargs
        }
        named |= {"config": config} if config is not None else {}
        named |= kwargs.pop("model_kwargs", None) or {}
        loaded = AutoModelForMaskGeneration.from_pretrained(model, **named, **where)
        source = os.fspath(model)
    kwargs |= _processors(kwargs, source, where)
    for name in ("trust_remote_code", "framework", "use_fast", "device_map"):
        kwargs.pop(name, None)
    return names.value("MaskGenerationPipeline")(loaded, task=task or TASK, **kwargs)


def _is_ours(task: str | None, model: Any, kwargs: Mapping[str, Any]) -> bool:
    if isinstance(model, names.value("PreTrainedModel")):
        return True
    if task != TASK:
        return False
    if model is None:
        return True
    if not isinstance(model, (str, os.PathLike)):
        return False
    return _kind(model, kwargs) in _core.transformers_classes()


def _processors(kwargs: Mapping[str, Any], source: str, where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the processors that are given by their sources, or that of the model."""
    given = {
        "image_processor": AutoImageProcessor,
        "feature_extractor": AutoImageProcessor,
        "processor": AutoProcessor,
    }
    found: dict[str, Any] = {}
    for name, kind in given.items():
        each = kwargs.get(name)
        if isinstance(each, (str, os.PathLike)):
            found[name] = kind.from_pretrained(each, **where)
    if not any(kwargs.get(name) is not None for name in given):
        found["image_processor"] = AutoImageProcessor.from_pretrained(source, **where)
    return found


__dir__ = public_names(__name__)
