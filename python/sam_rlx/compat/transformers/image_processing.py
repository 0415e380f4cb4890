"""What image processors share: settings, their files, and the way from images to pixels."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentAttributeError, ArgumentTypeError
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.batch import BatchFeature, tensor_kind
from sam_rlx.compat.transformers.files import as_json, write_settings
from sam_rlx.compat.transformers.pixels import (
    TORCHVISION,
    Backend,
    Pixels,
    image_pixels,
    label_maps,
)
from sam_rlx.compat.transformers.sizes import Hw, SizeDict, as_size, named_hw
from sam_rlx.compat.transformers.sources import read_json, source_files, take_source_options
from sam_rlx.errors import HubError, InvalidArgumentError

IMAGE_PROCESSOR_FILE = "preprocessor_config.json"
PROCESSOR_FILE = "processor_config.json"

_FLAGS = (
    *("do_convert_rgb", "do_resize", "default_to_square", "do_rescale", "do_normalize"),
    *("do_pad", "do_center_crop", "disable_grouping"),
)
_SIZES = ("size", "crop_size", "pad_size", "mask_size", "mask_pad_size")
_NUMBERS = ("image_mean", "image_std")
_OTHERS = (
    *("resample", "rescale_factor", "data_format", "input_data_format", "device"),
    *("return_tensors", "image_seq_length"),
)


class ImageProcessor:
    """What all image processors share: settings, their files, and the way to pixels.

    Settings are attributes by transformers' names, and keywords of each call. Sizes can be a
    number, a pair (height, width) or a dictionary; as attributes they are `SizeDict`.

    Parameters
    ----------
    **kwargs
        Settings. Those that are not given have the defaults of the class.

    Attributes
    ----------
    size, mask_size, pad_size, mask_pad_size, image_mean, image_std, resample, rescale_factor, ...
        The settings.
    """

    model_input_names: ClassVar[list[str]] = ["pixel_values"]
    file_name: ClassVar[str] = IMAGE_PROCESSOR_FILE
    part_name: ClassVar[str] = "image_processor"  # of a processor's file
    _backend: ClassVar[Backend] = TORCHVISION
    names: ClassVar[tuple[str, ...]] = (*_FLAGS, *_SIZES, *_NUMBERS, *_OTHERS)
    defaults: ClassVar[dict[str, Any]] = {
        "do_convert_rgb": True,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "default_to_square": True,
        "resample": 2,
        "rescale_factor": 1 / 255,
    }

    def __init__(self, **kwargs: Any) -> None:
        for name in ("feature_extractor_type", "processor_class"):
            kwargs.pop(name, None)
        for name, value in kwargs.items():
            if name not in self.names:
                setattr(self, name, value)
        given = {name: kwargs[name] for name in self.names if kwargs.get(name) is not None}
        defaults = {name: copy.copy(self.defaults.get(name)) for name in self.names}
        vars(self).update(_standard({**defaults, **given}))

    # ---------------------------------------------------------------- files

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str], **kwargs: Any) -> Any:
        """Read the settings of a folder, a hub repository or a file.

        Parameters
        ----------
        source : str or path
            A folder or hub id with ``processor_config.json`` or ``preprocessor_config.json``, or
            a file of settings.
        **kwargs
            Settings instead of those of the file; `subfolder`, `revision`, `token`, `cache_dir`
            and `local_files_only` of the source; `return_unused_kwargs`.

        Returns
        -------
        ImageProcessor or (ImageProcessor, dict)
            With `return_unused_kwargs` also the keywords that are no settings.

        Raises
        ------
        OSError
            The source or its settings are not there.
        """
        options = take_source_options(kwargs)
        return cls.from_dict(cls.get_settings(source, options), **kwargs)

    @classmethod
    def get_settings(
        cls, source: str | os.PathLike[str], options: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the settings that `from_pretrained` reads; `options` as of `source_files`."""
        path = Path(os.fspath(source))
        if path.is_file():
            found = read_json(path)
            return found.get(cls.part_name, found) if path.name == PROCESSOR_FILE else found
        files = source_files(source, [PROCESSOR_FILE, *cls._files()], options)
        if PROCESSOR_FILE in files:
            nested = read_json(files[PROCESSOR_FILE]).get(cls.part_name)
            if nested is not None:
                return dict(nested)
        for name in cls._files():
            if name in files:
                return read_json(files[name])
        raise HubError(
            f"{os.fspath(source)}: expected {PROCESSOR_FILE} or {cls.file_name}, found neither"
        )

    @classmethod
    def _files(cls) -> tuple[str, ...]:
        return (cls.file_name,)

    @classmethod
    def from_dict(cls, image_processor_dict: Mapping[str, Any], **kwargs: Any) -> Any:
        """Make a processor of settings; keywords and result as of `from_pretrained`."""
        return_unused = kwargs.pop("return_unused_kwargs", False)
        given = {name: value for name, value in kwargs.items() if name in cls.names}
        made = cls(**{**image_processor_dict, **given})
        return (made, kwargs) if return_unused else made

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike[str]) -> Self:
        """Make a processor of the settings of a file."""
        return cls(**read_json(Path(json_file)))

    def save_pretrained(self, save_directory: str | os.PathLike[str], **_: Any) -> list[str]:
        """Write the settings to a folder, which is made, and return the names of the files."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder / self.file_name, self.to_dict())
        return [str(folder / self.file_name)]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, as they are written: without values of None that are defaults."""
        kept = {
            name: dict(value) if isinstance(value, SizeDict) else copy.copy(value)
            for name, value in vars(self).items()
            if value is not None or self.defaults.get(name) is not None
        }
        for name in ("default_to_square", "image_processor_type", "video_processor_type"):
            kept.pop(name, None)
        return kept | {f"{self.part_name}_type": type(self).__name__}

    def to_json_string(self) -> str:
        """Return the settings as JSON."""
        return as_json(self.to_dict())

    def to_json_file(self, json_file_path: str | os.PathLike[str]) -> None:
        """Write the settings to a file."""
        write_settings(Path(json_file_path), self.to_dict())

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"

    # ---------------------------------------------------------------- images

    def __call__(self, images: Any, *args: Any, **kwargs: Any) -> BatchFeature:
        """Do as `preprocess`."""
        return self.preprocess(images, *args, **kwargs)

    def preprocess(self, images: Any, segmentation_maps: Any = None, **kwargs: Any) -> BatchFeature:
        """Return what the network takes for images.

        Parameters
        ----------
        images : PIL image, array, tensor, str or list
            One or several, of any size: (H, W, C) or (C, H, W) with 1, 3 or 4 channels, a stack
            (N, H, W, 3), names of files, URLs, base64 text.
        segmentation_maps : the same, optional
            Label maps (H, W).
        **kwargs
            Settings of this call, and `return_tensors`: "pt" gives tensors where the program has
            imported PyTorch, else arrays with their methods; "np" arrays, None lists.

        Returns
        -------
        BatchFeature
            `pixel_values` float32 (B, 3, S, S), `original_sizes` int64 (B, 2), and `labels` int64
            (B, h, w) with maps.

        Raises
        ------
        TypeError
            No images, or an unknown keyword. Ours, as all errors here.
        ValueError
            Arrays that are no images, or images that do not get one size.
        IndexError
            An empty list.
        """
        settings = self._settings(kwargs)
        pixels = self._pixels(images, settings)
        data = self._image_data(pixels)
        kind = tensor_kind(settings["return_tensors"])
        if segmentation_maps is not None:
            data["labels"] = self._labels(segmentation_maps, settings, kind)
        return _batch(data, kind)

    def _settings(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of a call: its keywords before attributes."""
        for name, value in kwargs.items():
            if name not in self.names:
                raise ArgumentTypeError(
                    f"{type(self).__name__}: expected settings of images, found the keyword "
                    f"{name!r}"
                )
            if name in _FLAGS and not isinstance(value, (bool, type(None))):
                raise InvalidArgumentError(f"{name}: expected True or False, found {value!r}")
        own = {name: getattr(self, name, None) for name in self.names}
        settings = _standard({**own, **kwargs})
        _check(settings)
        return settings

    def _pixels(self, images: Any, settings: dict[str, Any]) -> Pixels:
        return image_pixels(images, settings, self._hw, self._backend)

    def _hw(self, hw: Hw, size: SizeDict) -> Hw:
        """Return the size of an image after the resize."""
        return named_hw(hw, size)

    def _image_data(self, pixels: Pixels) -> dict[str, Any]:
        return {"pixel_values": pixels.planes, "original_sizes": pixels.original_sizes}

    def _labels(self, maps: Any, settings: dict[str, Any], kind: str | None) -> Any:
        if kind != "pt":
            raise ArgumentAttributeError(
                "segmentation_maps: expected return_tensors='pt', which alone upstream can do "
                f"here, found {kind!r}"
            )
        return label_maps(maps, settings, self._hw, self._backend)


def _standard(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with sizes as `SizeDict`, and numbers of channels as tuples."""
    made = dict(settings)
    for name in _SIZES:
        if name in made:
            square = made["default_to_square"] if name == "size" else True
            made[name] = as_size(made[name], name, square=bool(square))
    for name in _NUMBERS:
        if isinstance(made[name], list):
            made[name] = tuple(made[name])
    return made


def _check(settings: Mapping[str, Any]) -> None:
    """Raise `InvalidArgumentError` where a step lacks what it needs."""
    needs = {
        "do_resize": ("size", "resample"),
        "do_rescale": ("rescale_factor",),
        "do_normalize": ("image_mean", "image_std"),
        "do_center_crop": ("crop_size",),
    }
    for step, names in needs.items():
        missing = [name for name in names if settings[name] is None]
        if settings[step] and missing:
            raise InvalidArgumentError(f"{step}: expected {missing} too, found None")


def _batch(data: dict[str, Any], kind: str | None) -> BatchFeature:
    """Return results of a kind; without one, pixels are a list."""
    if kind is None:
        data["pixel_values"] = [as_result(planes) for planes in data["pixel_values"]]
    return BatchFeature(data, kind)


__dir__ = public_names(__name__)
