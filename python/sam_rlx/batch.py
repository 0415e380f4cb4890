"""Many images and clips: masks in Parquet files, by all cores of this machine or on Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from sam_rlx import _core
from sam_rlx._internal import options as _options
from sam_rlx._internal.arrays.checks import (
    as_choice,
    as_flag,
    as_integer,
    as_items,
    as_mapping,
    as_num_threads,
    as_optional_text,
    as_path,
    as_path_text,
    as_progress,
    as_texts,
)
from sam_rlx._internal.files.hints import is_url
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.printable import shown
from sam_rlx._internal.progress import Progress
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import as_tolerance
from sam_rlx._internal.synonyms import also
from sam_rlx._internal.tiling import as_tiling
from sam_rlx._internal.weights.sources import find_adapter
from sam_rlx.apps.batch import coco_output, parquet, plan
from sam_rlx.apps.batch import job as jobs
from sam_rlx.apps.batch.course import ENGINES
from sam_rlx.apps.batch.journal import parts_in
from sam_rlx.apps.batch.prompts import objects
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.image import Objects
from sam_rlx.model import Isa

__all__ = ["BatchResult", "Failure", "read", "result", "run", "to_coco"]

_MAX_INPUTS = 1 << 22


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


@also(out="output")
@dataclass(frozen=True)
class BatchResult:
    """What a batch has come to.

    Attributes
    ----------
    output : Path
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
    notes : list of str
        What was passed over in the inputs: empty boxes, columns that are not read, files of folders
        that are no images. And what of an earlier run was done again: files of rows that are
        damaged, images that were replaced.
    """

    output: Path
    parts: list[Path]
    items: int
    done_before: int = 0
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """The same as `output`."""
        return self.output

    def __repr__(self) -> str:
        return f"<BatchResult {self.output}, {self.items} items, {len(self.failures)} failed>"


@also(out="output", box="boxes")
def run(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] | None = None,
    precision: Literal["float32", "bfloat16", "int8"] | None = None,
    key: str | None = None,
    lora: str | os.PathLike[str] | None = None,
    isa: Isa | None = None,
    image_size: int | None = None,
    images: str | os.PathLike[str] | None = None,
    lists: Sequence[str] = (),
    point_coords: ArrayLike | None = None,
    point_labels: ArrayLike | None = None,
    boxes: ArrayLike | None = None,
    text: str | Sequence[str] | None = None,
    threshold: float = 0.5,
    examples: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    example_positions: bool = True,
    options: Mapping[str, Any] | None = None,
    tile: int | None = None,
    overlap: int | None = None,
    memory_rule: Literal["samurai", "dam4sam"] | None = None,
    masks: bool | None = None,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    num_threads: int | None = None,
    block: int | None = None,
    keep_every: int = 100,
    retry_failed: bool = False,
    progress: bool | Progress = False,
    tell: Callable[[str], None] | None = None,
) -> BatchResult:
    """Segment many images and clips, and go on where an earlier run was interrupted.

    Texts find what they name (SAM 3); prompts give one mask for each object; without either
    everything is segmented. Rows do not depend on engine, workers and threads: one run with eight
    workers and one that was killed three times write equal files.

    Parameters
    ----------
    inputs : str, path or sequence
        Files, folders with all below them, patterns, ``"@list.txt"``, Parquet tables (a column
        ``path``, or ``image`` or ``bytes`` with the contents of files; prompts in ``points`` and
        ``labels``, ``boxes`` or ``x0, y0, x1, y1``, ``text``), COCO documents (boxes are prompts)
        and JSON lists of views with named points. Clips are files with the suffix of a video.
        In a row an empty list asks for no masks, and null for those of `point_coords` and so on.
    output : str or path
        Folder of results: a new one, or one of the same batch, which goes on: images that were
        replaced since, and files of rows that are damaged, are done again. It gets
        ``parts/part-0000000.parquet`` and so on, and ``masks/ITEM/NAME.png``.
    model : str or path, optional
        As for `sam_rlx.load_model`. Default: ``"sam3-nano"`` for texts, else ``"sam2-nano"``.
    precision, key, lora, isa, image_size
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
    examples : str, path or sequence, optional
        Files of examples, for all texts, or for the text "visual" where there is none: COCO
        documents, whose boxes of one category show what is meant, on the images that they name;
        or files of `ConceptExamples.save`. Not with clips. See
        `ConceptPredictor.encode_examples` for what to expect.
    example_positions : bool
        As `positions` of `ConceptPredictor.encode_examples`, for documents.
    options : mapping, optional
        Arguments of `MaskGenerator` for everything mode, by name; of prompts `hq_token_only` alone.
    tile, overlap : int, optional
        Images in tiles, as for `MaskGenerator.generate`: memory holds a tile. Not with clips.
    memory_rule : {"samurai", "dam4sam"}, optional
        Of clips, as for `VideoPredictor`. Not with texts.
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
    tell : callable, optional
        Called with a line about what will be done, such as ``"501 images, boxes, sam2-nano"``, and
        then with each of `BatchResult.notes`.

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
    as_choice("engine", engine, ENGINES)
    texts = {"precision": precision, "key": key, "isa": isa}
    load: dict[str, Any] = {name: as_optional_text(name, value) for name, value in texts.items()}
    if lora is not None:
        load["lora"] = find_adapter(lora)
    if image_size is not None:
        load["image_size"] = as_integer("image_size", image_size, 1)
    retry_failed, progress = as_flag("retry_failed", retry_failed), as_progress(progress)
    masks = None if masks is None else as_flag("masks", masks)
    options = as_mapping("options", options)
    parquet.pyarrow()
    start = time.monotonic()
    names = ("point_coords", "point_labels", "boxes")
    workers = None if workers is None else as_integer("workers", workers, 1)
    planned = plan.make(
        plan.Asked(
            inputs=[as_path_text("inputs", word) for word in _as_paths("inputs", inputs)],
            lists=as_texts("lists", lists),
            out=_output_folder(output),
            images=None if images is None else _images_folder(images),
            shared=objects(point_coords, point_labels, boxes, names),
            texts=() if text is None else tuple(as_texts("text", text)),
            options=options,
            model=model,
            load=load,
            threshold=_options.checked("concept", "sam3", {"threshold": threshold})["threshold"],
            examples=tuple(as_path(path) for path in _as_paths("examples", examples)),
            example_positions=as_flag("example_positions", example_positions),
            memory_rule=_options.as_memory_rule(memory_rule),
            masks=masks,
            keep_every=as_integer("keep_every", keep_every, 1),
            workers=workers,
            num_threads=None if num_threads is None else as_num_threads(num_threads),
            block=None if block is None else as_integer("block", block, 1),
            tiling=as_tiling(tile, overlap),
        )
    )
    course, failed = plan.carry_out(
        planned,
        engine,
        workers,
        retry_failed=bool(retry_failed),
        progress=progress,
        tell=_untold if tell is None else tell,
    )
    return BatchResult(
        Path(planned.job.out),
        course.parts(),
        len(planned.items),
        course.done_before,
        [Failure(*each) for each in failed],
        time.monotonic() - start,
        planned.notes + course.notes(),
    )


@also(out="output")
def read(output: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Read the rows of a batch, in the order of its inputs.

    Parameters
    ----------
    output : str or path
        The folder of `run`.

    Yields
    ------
    dict
        ``index, item, path, sha256`` (of the contents) ``, height, width, frames, masks, error``.
        Each of ``masks`` has ``frame, object, counts`` (COCO's run-length code of a mask of
        ``height`` x ``width``), ``area, bbox, score``; in everything mode also
        ``stability_score, point_coords, crop_box``.

    Raises
    ------
    FileNotFoundError
        There are no rows in the folder.
    MissingExtraError
        pyarrow is not installed.
    """
    folder = as_path(output) / "parts"
    parts = parts_in(folder) if folder.is_dir() else []
    if not parts:
        raise FileNotFoundError(f"batch: expected rows in {folder}, found none")
    for part in parts:
        yield from parquet.read_rows(part)


def result(row: Mapping[str, Any], frame: int = 0) -> Objects:
    """Return what a row of `read` has, with the methods of results, such as `to_yolo`.

    Parameters
    ----------
    row : mapping
        Of `read`, without an error.
    frame : int
        Of a clip, from 0.

    Returns
    -------
    Objects
        The masks of the frame; what they are called is ``object`` of the row: the text, the name of
        the prompt, or a number.

    Raises
    ------
    InvalidArgumentError
        It is something else, or the row of an item that failed.
    """
    number = as_integer("frame", frame, 0)
    if not isinstance(row, Mapping) or row.get("height") is None:
        raise InvalidArgumentError(f"row: expected one of read, with masks, found {shown(row)}")
    size = (row["height"], row["width"])
    entries = [entry for entry in row["masks"] if entry["frame"] == number]
    return Objects(
        [
            Instance(
                _core.rle_from_string(entry["counts"].encode("ascii")),
                size,
                name=entry["object"],
                score=entry["score"],
            )
            for entry in entries
        ],
        size=size,
    )


@also(out="output")
def to_coco(
    output: str | os.PathLike[str],
    document: str | os.PathLike[str] | None = None,
    *,
    images: str | os.PathLike[str] | None = None,
    polygons: bool = False,
    tolerance: float = 0.0,
) -> dict[str, Any]:
    """Return the rows of a batch as a COCO document.

    Parameters
    ----------
    output : str or path
        The folder of `run`.
    document : str or path, optional
        A COCO document that was an input: its images, categories and annotations stay with all
        that they have, numbers and file names too, and get the masks that were found. Default: an
        image for each item and each frame of a clip, called by its path, and categories by texts.
    images : str or path, optional
        Folder of the images that the document names, as for `run`.
    polygons : bool
        True: ``segmentation`` is a list of outlines. False: compressed run lengths.
    tolerance : float
        Of the outlines, as for `polygons` of results.

    Returns
    -------
    dict
        For `io.write_json`. Items that failed and empty masks have no annotation.

    Raises
    ------
    FileNotFoundError
        There are no rows in the folder.
    InvalidArgumentError
        `document` is no COCO document.
    StateError
        The rows are not those of the document.
    MissingExtraError
        pyarrow is not installed.
    """
    drawn: dict[str, Any] = {
        "polygons": as_flag("polygons", polygons),
        "tolerance": as_tolerance(tolerance),
    }
    rows, task = read(output), jobs.task_of(as_path(output))
    if document is None:
        return coco_output.document_of(rows, task, **drawn)
    folder = None if images is None else _images_folder(images)
    return coco_output.document_like(rows, task, as_path(document), folder, **drawn)


def _untold(line: str) -> None:
    """Take a line that nobody wants to read."""


def _as_paths(name: str, paths: Any) -> list[Any]:
    """Return paths of which one may stand alone."""
    return [paths] if isinstance(paths, (str, os.PathLike)) else as_items(name, paths, _MAX_INPUTS)


def _output_folder(output: str | os.PathLike[str]) -> str:
    path = as_path(output)
    if is_url(os.fspath(output)):
        raise InvalidArgumentError(
            f"output: expected a folder of this machine, found the address {os.fspath(output)!r}: "
            "copy the results there afterwards"
        )
    return os.path.abspath(path)  # noqa: PTH100


def _images_folder(images: str | os.PathLike[str]) -> Path:
    folder = as_path(images)
    if not folder.is_dir():
        raise FileNotFoundError(f"images: expected a folder, found none at {folder}")
    return folder


__dir__ = public_names(__name__)
