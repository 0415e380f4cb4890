"""Many images and clips: masks in Parquet files, by all cores of this machine or on Ray."""

import importlib
import inspect
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from sam_rlx import _options
from sam_rlx._arrays import as_integer, as_marks, as_num_threads
from sam_rlx._batch import job as jobs
from sam_rlx._batch import parquet, sources
from sam_rlx._batch.items import Item, Prompt
from sam_rlx._batch.job import Job, Task
from sam_rlx._batch.journal import Blocks
from sam_rlx._internal.checks import (
    as_choice,
    as_flag,
    as_items,
    as_mapping,
    as_optional_text,
    as_path_text,
    as_progress,
    as_texts,
)
from sam_rlx._internal.files.atomic import as_path
from sam_rlx._progress import Progress, terminal_bar
from sam_rlx._sources import find_checkpoint
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.generator import MaskGenerator
from sam_rlx.model import build_info

__all__ = ["BatchResult", "Failure", "read", "run"]

_ENGINES = {"local": "local", "ray": "on_ray"}
_MAX_BLOCK = 64
_MAX_INPUTS = 1 << 22
# What `options` may have: all that the results of everything mode depend on.
_GENERATOR_OPTIONS = {
    *inspect.signature(MaskGenerator).parameters,
} - {"model", "num_threads", "output_mode", "point_grids"}


@dataclass(frozen=True)
class Failure:
    """An image or clip without a result.

    Attributes
    ----------
    item : str
        Its name.
    path : str
        Its file.
    error : str
        What was expected and found.
    """

    item: str
    path: str
    error: str


@dataclass(frozen=True)
class BatchResult:
    """What a batch has come to.

    Attributes
    ----------
    out : Path
        The folder.
    parts : list of Path
        Parquet files with a row for each item, in the order of the inputs.
    items : int
        Number of images and clips.
    done_before : int
        How many of them had rows already when this run began.
    failures : list of Failure
        Those without a result, of this and of earlier runs.
    seconds : float
        Of this run.
    """

    out: Path
    parts: list[Path]
    items: int
    done_before: int = 0
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0


def run(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] | None = None,
    precision: str | None = None,
    key: str | None = None,
    isa: str | None = None,
    images: str | os.PathLike[str] | None = None,
    lists: Sequence[str] = (),
    point_coords: ArrayLike | None = None,
    point_labels: ArrayLike | None = None,
    boxes: ArrayLike | None = None,
    text: str | Sequence[str] | None = None,
    threshold: float = 0.5,
    options: Mapping[str, Any] | None = None,
    masks: bool | None = None,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    num_threads: int | None = None,
    block: int | None = None,
    keep_every: int = 100,
    retry_failed: bool = False,
    progress: bool | Progress = False,
) -> BatchResult:
    """Segment many images and clips, and go on where an earlier run was interrupted.

    Texts find what they name (SAM 3); prompts give one mask for each object; without either
    everything is segmented. Rows do not depend on engine, workers and threads: one run with eight
    workers and one that was killed three times write equal files.

    Parameters
    ----------
    inputs : str, path or sequence
        Files, folders with all below them, patterns, ``"@list.txt"``, Parquet tables (a column
        ``path``, or ``image`` or ``bytes`` with the contents of files; ``points``, ``labels``,
        ``boxes`` and ``text`` if there are any), COCO documents (boxes are prompts) and JSON lists
        of views with named points. Clips are files with the suffix of a video.
    out : str or path
        Folder of results: a new one, or one of the same batch, which goes on. It gets
        ``parts/part-0000000.parquet`` and so on, and ``masks/ITEM/NAME.png``.
    model : str or path, optional
        As for `sam_rlx.load_model`. Default: ``"sam3-nano"`` for texts, else ``"sam2-nano"``.
    precision, key, isa
        As for `sam_rlx.load_model`. Machines of one batch should have one instruction set.
    images : str or path, optional
        Folder of the images that documents and tables name. Default: that of the document.
    lists : sequence of str
        Text files with an input on each line.
    point_coords, point_labels, boxes : array (N, 2), (N,) and (B, 4), optional
        Prompts for items without any of their own, in pixels. Points and one box are one object;
        several boxes are several.
    text : str or sequence of str, optional
        Texts for items without any of their own.
    threshold : float
        Score, 0 to 1, above which instances of texts are kept.
    options : mapping, optional
        Arguments of `MaskGenerator` for everything mode, by name.
    masks : bool, optional
        Whether to write a PNG for each mask. Default: for lists of views only.
    engine : {"local", "ray"}
        ``"local"``: worker processes on this machine. ``"ray"``: actors of Ray Data, on the cluster
        that Ray is connected to, or else on this machine.
    workers : int, optional
        Number of processes or actors. Default: as many as fill the cores.
    num_threads : int, optional
        Threads of each worker. Default: those that `workers` leaves, or half the cores, at most 4.
    block : int, optional
        Items in one Parquet file, which is what a worker gets at a time. Default: by the number of
        items, at most 64.
    keep_every : int
        After so many frames the session of a clip is saved, for a later run to go on from.
    retry_failed : bool
        True: items that had an error in an earlier run are done again.
    progress : bool or callable
        True: a bar on a terminal; or called as ``progress(done, total)``.

    Returns
    -------
    BatchResult
        Items that failed are in `BatchResult.failures` and have rows with an ``error``.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or an input is not what its suffix says.
    FileNotFoundError
        An input or the checkpoint does not exist.
    StateError
        The folder belongs to another batch, or is in use.
    MissingExtraError
        pyarrow, Ray or a decoder is not installed.
    CheckpointError, UnsupportedError
        The model cannot be loaded, or does not do what is asked for.
    """
    as_choice("engine", engine, _ENGINES)
    load = {"precision": precision, "key": key, "isa": isa}
    load = {name: as_optional_text(name, value) for name, value in load.items()}
    retry_failed, progress = as_flag("retry_failed", retry_failed), as_progress(progress)
    masks = None if masks is None else as_flag("masks", masks)
    options = as_mapping("options", options)
    parquet.pyarrow()
    start = time.monotonic()
    alone = isinstance(inputs, (str, os.PathLike))
    given = [inputs] if alone else as_items("inputs", inputs, _MAX_INPUTS)
    words = [as_path_text("inputs", word) for word in given]
    folder = None if images is None else as_path(images)
    plan = sources.expand(words, as_texts("lists", lists), folder)
    texts = () if text is None else tuple(as_texts("text", text))
    shared = _shared_prompts(point_coords, point_labels, boxes)
    items = [item if item.prompts else replace(item, prompts=shared) for item in plan.items]
    task = _task(replace(plan, items=items), texts, options)
    count = None if workers is None else as_integer("workers", workers, 1)
    job = Job(
        out=os.path.abspath(as_path(out)),  # noqa: PTH100
        model=str(find_checkpoint(_default_model(task) if model is None else model).absolute()),
        task=task,
        load=load,
        options=options,
        texts=texts,
        threshold=_options.checked("concept", "sam3", {"threshold": threshold})["threshold"],
        masks=plan.has_views if masks is None else masks,
        keep_every=as_integer("keep_every", keep_every, 1),
        threads=_threads(count, num_threads),
    )
    size = _block_size(block, len(items))
    described = jobs.manifest(job, items, size, build_info()["version"])
    with jobs.opened(Path(job.out), described):
        batch = _Batch(job, items, size)
        if retry_failed:
            batch.forget_failures()
        with _reporter(progress) as report:
            batch.run(engine, count, report)
        return batch.result(time.monotonic() - start)


def read(out: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Read the rows of a batch, in the order of its inputs.

    Parameters
    ----------
    out : str or path
        The folder of `run`.

    Yields
    ------
    dict
        ``index, item, path, height, width, frames, masks, error``. Each of ``masks`` has ``frame,
        object, counts`` (COCO's run-length code of a mask of ``height`` x ``width``), ``area, bbox,
        score``; in everything mode also ``stability_score, point_coords, crop_box``.

    Raises
    ------
    FileNotFoundError
        There are no rows in the folder.
    MissingExtraError
        pyarrow is not installed.
    """
    folder = as_path(out) / "parts"
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts:
        raise FileNotFoundError(f"batch: expected rows in {folder}, found none")
    for part in parts:
        yield from parquet.read_rows(part)


def _default_model(task: Task) -> str:
    return "sam3-nano" if task == "text" else "sam2-nano"


def _shared_prompts(
    point_coords: ArrayLike | None, point_labels: ArrayLike | None, boxes: ArrayLike | None
) -> tuple[Prompt, ...]:
    """Return the prompts for items without any."""
    points = as_marks(("point_coords", "point_labels"), point_coords, point_labels, 2)
    frames = as_marks(("boxes", "box_labels"), boxes, None, 4)
    found = [] if frames is None else [tuple(row) for row in frames.values.tolist()]
    if points is None:
        return tuple(Prompt(str(number), box=box) for number, box in enumerate(found))
    if len(found) > 1:
        raise InvalidArgumentError(
            f"boxes: expected several alone, or one beside points, found {len(found)} with points"
        )
    pairs = tuple((x, y) for x, y in points.values.tolist())
    return (Prompt("0", pairs, tuple(points.labels.tolist()), found[0] if found else None),)


def _task(plan: sources.Plan, texts: Sequence[str], options: Any) -> Task:
    has_texts = bool(texts) or any(item.texts for item in plan.items)
    has_prompts = any(item.prompts for item in plan.items)
    if not has_texts and not has_prompts:
        has_prompts = plan.has_prompts
        has_texts = plan.has_texts and not has_prompts
    if has_texts and has_prompts:
        raise InvalidArgumentError("batch: expected texts or other prompts, found both")
    unknown = sorted(set(options or ()) - _GENERATOR_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"options: expected arguments of MaskGenerator, {sorted(_GENERATOR_OPTIONS)}, found "
            f"{unknown}"
        )
    if options and (has_texts or has_prompts):
        raise InvalidArgumentError(
            f"options: expected them in everything mode only, found {list(options)} with prompts"
        )
    return "text" if has_texts else "prompts" if has_prompts else "everything"


def _threads(workers: int | None, num_threads: int | None) -> int:
    """Return the threads of each worker."""
    cores = build_info()["cores"]
    if num_threads is not None:
        return as_num_threads(num_threads)
    share: int = cores // workers if workers else min(4, cores // 2)
    return max(1, share)


def _block_size(block: int | None, items: int) -> int:
    """Return the items of a block. It does not depend on the number of workers."""
    if block is not None:
        return as_integer("block", block, 1)
    return min(_MAX_BLOCK, max(1, items // _MAX_BLOCK))


def _reporter(progress: bool | Progress) -> Any:
    if callable(progress):
        return nullcontext(progress)
    return terminal_bar("image") if progress else nullcontext(None)


class _Batch:
    """The items of a job in blocks, and what has become of them."""

    def __init__(self, job: Job, items: Sequence[Item], size: int) -> None:
        self._job = job
        self._items = items
        self._size = size
        self._out = Path(job.out)
        self._blocks = Blocks(self._out, -(-len(items) // size))
        for block in self._blocks.leftovers():
            self._blocks.remove_journals(block)
        self._done_before = 0

    def items_of(self, block: int) -> Sequence[Item]:
        """Return the items of a block."""
        return self._items[block * self._size : (block + 1) * self._size]

    def forget_failures(self) -> None:
        """Remove blocks with failures; the rows of others in them are kept in a journal."""
        for part in self._blocks.parts():
            rows = parquet.read_rows(part)
            if any(row["error"] is not None for row in rows):
                journal = self._blocks.journal(rows[0]["index"] // self._size)
                for row in rows:
                    if row["error"] is None:
                        journal.done(row)
                journal.close()
                part.unlink()

    def run(self, engine: str, workers: int | None, progress: Progress | None) -> None:
        """Do the blocks that are not done."""
        pending = self._blocks.pending()
        left = sum(len(self.items_of(block)) for block in pending)
        self._done_before = len(self._items) - left
        if not pending:
            return
        done = self._done_before

        def report(index: int, error: str | None) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(min(done, len(self._items)), len(self._items))

        made = importlib.import_module(f"sam_rlx._batch.{_ENGINES[engine]}")
        try:
            made.run(self._job, workers, pending, self.items_of, report)
        finally:
            # Whoever gets here has ended the workers: nothing has failed that was begun.
            self._blocks.forgive()

    def result(self, seconds: float) -> BatchResult:
        """Return what there is."""
        parts = self._blocks.parts()
        failures = [
            Failure(row["item"], row["path"], row["error"])
            for part in parts
            for row in parquet.read_rows(part, ("item", "path", "error"))
            if row["error"] is not None
        ]
        return BatchResult(self._out, parts, len(self._items), self._done_before, failures, seconds)
