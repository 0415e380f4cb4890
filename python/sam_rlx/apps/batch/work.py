"""The work on one block, the same for every engine."""

import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from sam_rlx import _core, io
from sam_rlx._internal.files.inputs import file_name
from sam_rlx._internal.files.marks import is_own_image
from sam_rlx.apps.batch import clips, fatal, finders
from sam_rlx.apps.batch.identity import digest, is_of, is_same
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.journal import MAX_ATTEMPTS, Blocks, Journal
from sam_rlx.apps.batch.names import apart
from sam_rlx.apps.batch.parquet import write_rows
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import load_model

# Called with the index of each item that has a row, and its error or None.
Report = Callable[[int, str | None], None]


class BlockWorker:
    """Does blocks of a job, one after the other, with one model.

    Parameters
    ----------
    job : Job
        What to do.

    Raises
    ------
    SamRlxError
        The model cannot be loaded, or does not do what the job asks for.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._out = Path(job.out)
        self._blocks = Blocks(self._out, 0)
        self._model = load_model(job.model, **job.load)
        self._finder = finders.make(job, self._model)
        self._journal: Journal | None = None

    def run(self, block: int, items: Sequence[Item], report: Report) -> None:
        """Do what is left of a block, and write its rows."""
        if self._blocks.part(block).exists():
            self._blocks.remove_journals(block)
            return
        journal = self._journal = self._blocks.journal(block)
        try:
            rows = []
            for item in items:
                row = journal.rows.get(item.index)
                if row is None or not (is_of(row, item) and is_same(item, row, 0)):
                    row = self._row(journal, item)
                    journal.done(row)
                    if item.is_clip:
                        shutil.rmtree(self._clip(item), ignore_errors=True)
                    report(item.index, row["error"])
                rows.append(row)
            write_rows(self._blocks.part(block), rows)
        finally:
            journal.close()
            self._journal = None
        self._blocks.remove_journals(block)

    def stop(self) -> None:
        """Take back the item that is begun, from another thread before the process ends."""
        journal = self._journal
        if journal is not None:
            journal.stop()

    def _row(self, journal: Journal, item: Item) -> dict[str, Any]:
        if journal.attempts[item.index] >= MAX_ATTEMPTS:
            return _error_row(
                item, f"expected a result, found {MAX_ATTEMPTS} attempts that ended the process"
            )
        if item.error is not None:
            return _error_row(item, _described(item, item.error))
        journal.start(item.index)
        found: dict[str, Any] = {}
        try:
            found["sha256"] = self._digest(item)
            found |= self._found(journal, item, found["sha256"])
        except Exception as error:
            if fatal.ends_the_batch(error):
                raise
            text = _described(item, str(error) or type(error).__name__)
            row = {**_error_row(item, text), **found}
        else:
            row = {**_named(item), **found, "error": None}
        if self._job.masks:
            self._write_masks(item, row)
        return row

    def _digest(self, item: Item) -> str:
        if not stat.S_ISREG(Path(item.path).stat().st_mode):  # a pipe would never end
            raise InvalidArgumentError(f"{item.path}: expected a file, found something else")
        return digest(item)

    def _found(self, journal: Journal, item: Item, contents: str) -> dict[str, Any]:
        """Return what was found in an item with these contents."""
        if item.is_clip:
            kept = partial(journal.kept, item.index)
            with closing(clips.ClipCheckpoint(self._clip(item), contents)) as checkpoint:
                return clips.track(item, self._job, self._model, checkpoint, kept)
        with finders.opened(item, in_tiles=self._job.tile is not None) as image:
            height, width = image.shape[0], image.shape[1]
            masks = self._finder.find(item, image)
        return {"height": height, "width": width, "frames": 1, "masks": masks}

    def _clip(self, item: Item) -> Path:
        return self._out / "clips" / f"{item.index:09d}"

    def _write_masks(self, item: Item, row: dict[str, Any]) -> None:
        """Write a PNG for each mask. An error here is one of the disk, and ends the job.

        Those of an earlier image, which was replaced, are removed.
        """
        folder = self._out / "masks" / file_name(item.folder or item.name)
        names = self._mask_names(item, row["masks"])
        for name, each in zip(names, row["masks"], strict=True):
            counts = _core.rle_from_string(each["counts"].encode("ascii"))
            mask = _core.rle_decode(counts, (row["height"], row["width"]))
            io.write_image(folder / f"{name}.png", mask)
        for path in folder.glob("*.png"):
            if path.stem not in names and is_own_image(path):
                path.unlink()

    def _mask_names(self, item: Item, masks: Sequence[dict[str, Any]]) -> list[str]:
        """Return how the file of each mask is called."""
        names = []
        for number, each in enumerate(masks):
            name = file_name(each["object"])
            if item.is_clip:
                name = f"{name}_{each['frame']:05d}"
            elif self._job.task == "text":
                name = f"{name}_{number:03d}"
            names.append(name)
        return apart(names)  # annotations may share an id


def _named(item: Item) -> dict[str, Any]:
    return {"index": item.index, "item": item.name, "path": item.path}


def _described(item: Item, text: str) -> str:
    """Return the words of an error, with the file or the row of a table that it is about."""
    where = item.path if item.row is None else f"{item.path}: {item.name}"
    return text if where in text else f"{where}: {text.removeprefix(f'{item.path}: ')}"


def _error_row(item: Item, text: str) -> dict[str, Any]:
    sizes = dict.fromkeys(("sha256", "height", "width", "frames"))
    empty: dict[str, Any] = {**sizes, "masks": []}
    return {**_named(item), **empty, "error": text}
