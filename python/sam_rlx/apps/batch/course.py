"""The course of a batch: which of its rows stay, and which blocks are done."""

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, TypeAlias

from sam_rlx._internal.progress import Progress
from sam_rlx.apps.batch import identity, parquet
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.journal import Blocks
from sam_rlx.errors import StateError

ENGINES = {"local": "local", "ray": "on_ray"}
# Columns of a row that tell what it is of, and whether it has masks.
_DESCRIBING = ("index", "item", "path", "sha256", "error")
_DAMAGED = "files of rows, which are damaged or have others"
_REPLACED = "images, whose files were replaced"
Failed: TypeAlias = tuple[str, str, str]  # item, path and error


class Run:
    """The items of a job in blocks, and what has become of them.

    Attributes
    ----------
    done_before : int
        How many items had rows already when `run` began.
    again : Counter
        How many images, and files of rows, are done again, by the reason.
    """

    def __init__(self, job: Job, items: Sequence[Item], size: int) -> None:
        self._job = job
        self._items = items
        self._size = size
        self._out = Path(job.out)
        self._blocks = Blocks(self._out, -(-len(items) // size))
        self.done_before = 0
        self.again: Counter[str] = Counter()
        self._compared = 0  # rows that know the contents they are of
        self._failures: dict[int, list[Failed]] = {}  # of blocks that were done before

    def items_of(self, block: int) -> Sequence[Item]:
        """Return the items of a block."""
        return self._items[block * self._size : (block + 1) * self._size]

    def check(self, before: str | None, *, retry_failed: bool) -> None:
        """Look through the rows that there are: what does not fit is done again.

        That is a file that is damaged or has other rows, an image that was replaced, and, with
        `retry_failed`, one that had an error. Other rows of their blocks are kept in a journal.

        Parameters
        ----------
        before : str, optional
            The folder that the inputs were below, if it is another one now: all rows must be of
            the same contents then.
        retry_failed : bool
            Whether errors of earlier runs are done again.
        """
        self._blocks.refuse_foreign()
        if before is not None:
            self._refuse_other_contents(before)
            retry_failed = True  # what was not there may be where the files are now
        moved = before is not None
        done = [block for block in range(self._blocks.count) if self._blocks.part(block).exists()]
        found = {block: self._again(block, moved, retry_failed) for block in done}
        self._refuse_all_replaced()
        for block, again in found.items():
            if again is None:
                self._blocks.part(block).unlink()
            elif again:
                self._open(block, again)
        for block in self._blocks.leftovers():
            self._blocks.remove_journals(block)

    def _rows(self, block: int) -> list[dict[str, Any]] | None:
        """Return the rows of a block, without masks; None if it has none, or others."""
        try:
            rows = parquet.read_rows(self._blocks.part(block), _DESCRIBING, verify=True)
        except (FileNotFoundError, StateError):
            return None
        items = self.items_of(block)
        fits = len(rows) == len(items) and all(map(identity.is_of, rows, items))
        return rows if fits else None

    def _refuse_other_contents(self, before: str) -> None:
        for block in range(self._blocks.count):
            for row, item in zip(self._rows(block) or (), self.items_of(block), strict=False):
                if not identity.is_same(item, row, 0):
                    raise StateError(
                        f"{self._out}: expected the files that were below {before}, found other "
                        f"contents in {item.path}; another folder begins anew"
                    )

    def _again(self, block: int, moved: bool, retry_failed: bool) -> set[int] | None:
        """Return which items of a block are done again; None for all, of a file that is damaged."""
        rows = self._rows(block)
        if rows is None:
            self.again[_DAMAGED] += 1
            return None
        since = self._blocks.part(block).stat().st_mtime_ns
        again = set()
        for row, item in zip(rows, self.items_of(block), strict=True):
            self._compared += row["sha256"] is not None
            if not (moved or identity.is_same(item, row, since)):
                self.again[_REPLACED] += 1
                again.add(item.index)
            elif retry_failed and row["error"] is not None:
                again.add(item.index)
        if not again:
            self._failures[block] = _failures(rows)
        return again

    def _refuse_all_replaced(self) -> None:
        """Raise `StateError` if no row is of the image that is there now.

        A folder that is filled anew each day with the same names would lose its earlier results.
        """
        if self.again[_REPLACED] == self._compared > 1:
            raise StateError(
                f"{self._out}: expected the images that its {self._compared} rows are of, found "
                "other contents in all of them; another folder begins anew"
            )

    def _open(self, block: int, again: Set[int]) -> None:
        """Move the rows of a block into a journal, but for those that are done again."""
        part = self._blocks.part(block)
        journal = self._blocks.journal(block)
        for row in parquet.read_rows(part):
            if row["index"] not in again:
                journal.done(row)
        journal.close()
        part.unlink()

    def notes(self) -> list[str]:
        """Return what is done again, in words."""
        return [f"done again, {reason}: {count}" for reason, count in self.again.items() if count]

    def run(self, engine: str, workers: int | None, progress: Progress | None) -> None:
        """Do the blocks that are not done."""
        pending = self._blocks.pending()
        left = sum(len(self.items_of(block)) for block in pending)
        self.done_before = len(self._items) - left
        if not pending:
            return
        done = self.done_before

        def report(index: int, error: str | None) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(min(done, len(self._items)), len(self._items))

        made = importlib.import_module(f"sam_rlx.apps.batch.{ENGINES[engine]}")
        try:
            made.run(self._job, workers, pending, self.items_of, report)
        finally:
            # Whoever gets here has ended the workers: nothing has failed that was begun.
            self._blocks.forgive()

    def failures(self) -> list[Failed]:
        """Return the items whose rows have an error."""
        found = []
        for block, part in enumerate(self._blocks.parts()):
            rows = self._failures.get(block)
            found += _failures(parquet.read_rows(part, _DESCRIBING)) if rows is None else rows
        return found

    def parts(self) -> list[Path]:
        """Return the files of rows."""
        return self._blocks.parts()


def _failures(rows: Sequence[Mapping[str, Any]]) -> list[Failed]:
    """Return which rows have an error."""
    failed = [row for row in rows if row["error"] is not None]
    return [(row["item"], row["path"], row["error"]) for row in failed]
