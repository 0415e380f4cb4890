"""What processors share: parts such as an image processor, and their files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.compat.transformers.batch import BatchFeature
from sam_rlx.compat.transformers.files import as_json, write_settings
from sam_rlx.compat.transformers.image_processing import PROCESSOR_FILE, ImageProcessor
from sam_rlx.compat.transformers.image_processors import image_processor_class
from sam_rlx.compat.transformers.masks import listed
from sam_rlx.compat.transformers.sources import read_json, source_files, take_source_options
from sam_rlx.errors import InvalidArgumentError


class Processor:
    """What all processors share: parts, and their files.

    A subclass lists the classes of its parts, in the order of its constructor.
    """

    parts: ClassVar[Mapping[str, Any]] = {}

    def _set_parts(self, **parts: Any) -> None:
        for name, part in parts.items():
            kind = ImageProcessor if name == "image_processor" else self.parts[name]
            if not isinstance(part, kind):
                raise ArgumentTypeError(
                    f"{type(self).__name__}: expected a {kind.__name__} as {name}, found "
                    f"{type(part).__name__}"
                )
            setattr(self, name, part)

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str], **kwargs: Any) -> Any:
        """Read a processor from a folder or a hub repository.

        Parameters
        ----------
        source : str or path
            A folder or hub id with ``processor_config.json``, or with
            ``preprocessor_config.json`` and the files of other parts; or a file of settings.
        **kwargs
            Settings instead of those of the files: of the image processor, and `target_size`
            and `point_pad_value`. `size` leaves `target_size` as it is, as upstream does. Also
            `subfolder`, `revision`, `token`, `cache_dir`, `local_files_only` of the source, and
            `return_unused_kwargs`. Others have no effect.

        Returns
        -------
        Processor or (Processor, dict)
            With `return_unused_kwargs` also the keywords without effect.

        Raises
        ------
        OSError
            The source or its settings are not there.
        """
        options = take_source_options(kwargs)
        return_unused = kwargs.pop("return_unused_kwargs", False)
        own = {**cls._own_settings(source, options), **kwargs}
        loaded = {
            name: cls._load_part(name, kind, source, options, kwargs)
            for name, kind in cls.parts.items()
        }
        taken = inspect.signature(cls).parameters
        given = {name: value for name, value in own.items() if name in taken}
        made = cls(**{**given, **loaded})
        return (made, {k: v for k, v in own.items() if k not in taken}) if return_unused else made

    @classmethod
    def _own_settings(
        cls, source: str | os.PathLike[str], options: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the settings of the processor itself, without those of its parts."""
        path = Path(os.fspath(source))
        if path.is_file():
            settings = read_json(path) if path.name == PROCESSOR_FILE else {}
        else:
            files = source_files(source, [PROCESSOR_FILE], options)
            settings = read_json(files[PROCESSOR_FILE]) if files else {}
        left_out = {*cls.parts, "auto_map", "processor_class"}
        return {name: value for name, value in settings.items() if name not in left_out}

    @classmethod
    def _load_part(
        cls,
        name: str,
        kind: Any,
        source: str | os.PathLike[str],
        options: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Return a part from the files of a source; `kwargs` are settings instead of theirs."""
        if name != "image_processor":
            return kind.from_pretrained(source, **options, **kwargs)
        settings = kind.get_settings(source, options)
        return image_processor_class(settings, kind).from_dict(settings, **kwargs)

    def save_pretrained(self, save_directory: str | os.PathLike[str], **_: Any) -> list[str]:
        """Write the settings to a folder, which is made, and return the names of the files."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / PROCESSOR_FILE
        written: list[str] = []
        for name in self.parts:
            part = getattr(self, name)
            if not isinstance(part, ImageProcessor):
                written += part.save_pretrained(folder) or []
        write_settings(path, self.to_dict())
        return [*written, str(path)]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, those of the parts nested, as they are written."""
        taken = inspect.signature(type(self)).parameters
        parts = {name: getattr(self, name) for name in self.parts}
        nested = {
            name: part.to_dict() for name, part in parts.items() if isinstance(part, ImageProcessor)
        }
        own = {
            name: value
            for name, value in vars(self).items()
            if name in taken and name not in parts and value is not None
        }
        return {**nested, **own, "processor_class": type(self).__name__}

    def to_json_string(self) -> str:
        """Return the settings as JSON."""
        return as_json(self.to_dict())

    def __repr__(self) -> str:
        parts = "".join(f"- {name}: {getattr(self, name)!r}\n" for name in self.parts)
        return f"{type(self).__name__}:\n{parts}\n{self.to_json_string()}"


class SquareProcessor(Processor):
    """What processors of images share that become squares."""

    image_processor: Any
    target_size: int

    def _set_target_size(self, target_size: int | None) -> None:
        """Set the side of the network's input: by default that of the image processor."""
        own = self.image_processor.size["height"]
        self.target_size = own if target_size is None else target_size

    def _images_or_sizes(
        self, images: Any, maps: Any, sizes: Any, return_tensors: Any, kwargs: dict[str, Any]
    ) -> BatchFeature:
        """Return images as the network takes them, or their sizes alone."""
        if images is None:
            if sizes is None:
                raise InvalidArgumentError(
                    f"{type(self).__name__}: expected images or original_sizes, found neither"
                )
            return BatchFeature({"original_sizes": listed(sizes)}, return_tensors)
        batch: BatchFeature = self.image_processor(
            images, segmentation_maps=maps, return_tensors=return_tensors, **kwargs
        )
        count = len(batch["original_sizes"])
        if count not in (1, len(images) if hasattr(images, "__len__") else 1):
            raise InvalidArgumentError(
                f"images: expected one image or a list of images, found {count} images in "
                f"{len(images)} parts"
            )
        return batch

    @property
    def model_input_names(self) -> list[str]:
        """Names of what a call gives for images."""
        return [*self.image_processor.model_input_names, "original_sizes"]


__dir__ = public_names(__name__)
