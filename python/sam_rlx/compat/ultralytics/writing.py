"""What ``save=True`` and its like write: drawn images and clips, label files, crops."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.image_writer import SUFFIXES
from sam_rlx._internal.public import public_names
from sam_rlx.compat.ultralytics.arguments import Settings
from sam_rlx.compat.ultralytics.engine.results import Results
from sam_rlx.compat.ultralytics.sources import Item

LOGGER = logging.getLogger("sam_rlx.compat.ultralytics")
_PROJECT = "runs/segment"
_NAME = "predict"


class Writer:
    """Writes, shows and tells the results of one call, as its settings say; a context manager.

    Parameters
    ----------
    settings : Settings
        ``save``, ``save_txt``, ``save_conf``, ``save_crop``, ``show`` and what they look like.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clips: dict[str, ClipWriter] = {}
        self._open = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self._open.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._open.__exit__(kind, error, trace)

    @property
    def folder(self) -> Path:
        """The folder of this call, which is new unless ``exist_ok`` is set."""
        if self._folder is None:
            settings = self._settings
            folder = Path(settings.project or _PROJECT) / (settings.name or _NAME)
            number, first = 1, folder
            while folder.exists() and not settings.exist_ok:
                number += 1
                folder = first.with_name(f"{first.name}{number}")
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = folder
        return self._folder

    def add(self, item: Item, result: Results) -> None:
        """Take the results of one image."""
        settings = self._settings
        if settings.verbose:
            LOGGER.info("%s: %s%s", item.path, result.verbose(), result.speed)
        if settings.show:
            result.show(**self._look())
        stem = Path(item.path).stem
        numbered = stem if item.frame is None else f"{stem}_{item.frame}"
        if settings.save:
            result.save_dir = str(self.folder)
            self._draw(item, result)
        if settings.save_txt:
            result.save_dir = str(self.folder)
            labels = self.folder / "labels" / f"{numbered}.txt"
            result.save_txt(labels, save_conf=settings.save_conf)
        if settings.save_crop:
            result.save_dir = str(self.folder)
            result.save_crop(self.folder / "crops", f"{numbered}.jpg")

    def _look(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "conf": settings.show_conf,
            "labels": settings.show_labels,
            "boxes": settings.show_boxes,
            "line_width": settings.line_width,
        }

    def _draw(self, item: Item, result: Results) -> None:
        path = Path(item.path)
        if item.frame is None:
            suffix = path.suffix if path.suffix.lower() in SUFFIXES else ".jpg"
            result.save(self.folder / f"{path.stem}{suffix}", **self._look())
            return
        if item.path not in self._clips:
            writer = ClipWriter(self.folder / f"{path.stem}.mp4", item.rate or 30.0)
            self._clips[item.path] = self._open.enter_context(writer)
        drawn = result.plot(**self._look())
        self._clips[item.path].add(np.ascontiguousarray(drawn[:, :, ::-1]))


__dir__ = public_names(__name__)
