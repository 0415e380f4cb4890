"""What a batch is asked for becomes a job with items in blocks, and is carried out."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.text_prompts import VISUAL
from sam_rlx._internal.tiling import Tiling
from sam_rlx._internal.weights.sources import find_checkpoint
from sam_rlx.apps.batch import job as jobs
from sam_rlx.apps.batch import sources
from sam_rlx.apps.batch.course import Failed, Run
from sam_rlx.apps.batch.items import Item, Prompt
from sam_rlx.apps.batch.job import Job, Task
from sam_rlx.apps.batch.summary import first_line
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.generator import MaskGenerator
from sam_rlx.model import build_info

_MAX_BLOCK = 64
_UNUSED = "points and boxes for all images are not used: each image has its own prompts"
# What `options` may have: all that the results of everything mode depend on.
_GENERATOR_OPTIONS = {
    *inspect.signature(MaskGenerator).parameters,
} - {"model", "num_threads", "output_mode", "point_grids"}
# Those that prompts have too.
_PROMPT_OPTIONS = {"hq_token_only"}


@dataclass(frozen=True)
class Asked:
    """Arguments of `batch.run` that were checked, under their names.

    Attributes
    ----------
    inputs, lists : sequence of str
        Files, folders and patterns; text files with more of them.
    out : str
        Absolute path of the folder of results.
    images : Path, optional
        An existing folder.
    shared : sequence of Prompt
        For items without prompts of their own.
    """

    inputs: Sequence[str]
    lists: Sequence[str]
    out: str
    images: Path | None
    shared: Sequence[Prompt]
    texts: tuple[str, ...]
    options: Mapping[str, Any]
    model: str | os.PathLike[str] | None
    load: dict[str, Any]
    threshold: float
    examples: tuple[Path, ...]
    example_positions: bool
    memory_rule: str | None
    masks: bool | None
    keep_every: int
    workers: int | None
    num_threads: int | None
    block: int | None
    tiling: Tiling | None


@dataclass(frozen=True)
class Plan:
    """A job and its items.

    Attributes
    ----------
    job : Job
        What is done with each item.
    items : list of Item
        In the order of the inputs.
    size : int
        Items of a block. It does not depend on the number of workers.
    notes : list of str
        What is passed over in the inputs.
    """

    job: Job
    items: list[Item]
    size: int
    notes: list[str]


def make(asked: Asked) -> Plan:
    """Look through the inputs, and decide what is done with them.

    Errors are those of `sam_rlx.batch.run`.
    """
    found = sources.expand(asked.inputs, asked.lists, asked.images)
    items, unused = _with_shared(found.items, asked.shared)
    texts = asked.texts or ((VISUAL,) if asked.examples else ())
    task = _task(replace(found, items=items), texts, asked.options)
    model = asked.model
    if model is None:
        model = "sam3-nano" if task == "text" else "sam2-nano"
    job = Job(
        out=asked.out,
        model=str(find_checkpoint(model).absolute()),
        task=task,
        load=asked.load,
        options=dict(asked.options),
        texts=texts,
        threshold=asked.threshold,
        examples=tuple(str(path.absolute()) for path in asked.examples),
        example_positions=asked.example_positions,
        masks=found.has_views if asked.masks is None else asked.masks,
        keep_every=asked.keep_every,
        threads=_threads(asked.workers, asked.num_threads),
        tile=None if asked.tiling is None else asked.tiling.side,
        overlap=None if asked.tiling is None else asked.tiling.overlap,
        memory_rule=asked.memory_rule,
    )
    clip = next((item.path for item in items if item.is_clip), None)
    if clip is not None and job.tile is not None:
        raise InvalidArgumentError(f"tile: expected images alone, found the clip {clip}")
    if clip is not None and job.examples:
        raise InvalidArgumentError(f"examples: expected images alone, found the clip {clip}")
    if job.memory_rule is not None and (clip is None or task == "text"):
        kind = "texts" if task == "text" else "no clip"
        raise InvalidArgumentError(f"memory_rule: expected clips with prompts, found {kind}")
    _refuse_nothing(items, Path(job.out))
    size = asked.block or min(_MAX_BLOCK, max(1, len(items) // _MAX_BLOCK))
    return Plan(job, items, size, [*found.notes, *([_UNUSED] if unused else [])])


def carry_out(
    plan: Plan,
    engine: str,
    workers: int | None,
    *,
    retry_failed: bool,
    progress: bool | Progress,
    tell: Callable[[str], None],
) -> tuple[Run, list[Failed]]:
    """Do the blocks of a plan that are not done; return their course, and what has no result."""
    job, out = plan.job, Path(plan.job.out)
    for line in (first_line(job, plan.items), *plan.notes):
        tell(line)
    described = jobs.manifest(job, plan.items, plan.size, build_info()["version"])
    with jobs.opened(out, described) as before:
        course = Run(job, plan.items, plan.size)
        course.check(before, retry_failed=retry_failed)
        for line in course.notes():
            tell(line)
        if before is not None:
            jobs.keep_folder(out, described)
        with reporter(progress, "image") as report:
            course.run(engine, workers, report)
        return course, course.failures()


def _refuse_nothing(items: Sequence[Item], out: Path) -> None:
    """Raise `FileNotFoundError` for a new batch none of whose files is there."""
    there = any(os.path.lexists(item.path) for item in items)
    if items and not there and not jobs.is_begun(out):
        raise FileNotFoundError(
            f"inputs: expected images, found none of {len(items)}, such as {items[0].path}"
        )


def _with_shared(items: Sequence[Item], shared: Sequence[Prompt]) -> tuple[list[Item], bool]:
    """Return the items, with shared prompts where their source says nothing about prompts.

    The second value tells whether there are shared prompts that no item has.
    """
    if not shared:
        return list(items), False
    prompts = tuple(shared)
    found = [item if item.prompts is not None else replace(item, prompts=prompts) for item in items]
    return found, all(item.prompts is not None for item in items)


def _task(plan: sources.Plan, texts: Sequence[str], options: Mapping[str, Any]) -> Task:
    has_texts = bool(texts) or any(item.texts for item in plan.items)
    has_prompts = any(item.prompts for item in plan.items)
    if not has_texts and not has_prompts:
        has_prompts = plan.has_prompts
        has_texts = plan.has_texts and not has_prompts
    if has_texts and has_prompts:
        raise InvalidArgumentError("batch: expected texts or other prompts, found both")
    unknown = sorted(set(options) - _GENERATOR_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"options: expected arguments of MaskGenerator, {sorted(_GENERATOR_OPTIONS)}, found "
            f"{unknown}"
        )
    alone = [*options] if has_texts else [*(set(options) - _PROMPT_OPTIONS)] if has_prompts else []
    if alone:
        raise InvalidArgumentError(
            f"options: expected them in everything mode only, found {sorted(alone)} with prompts"
        )
    return "text" if has_texts else "prompts" if has_prompts else "everything"


def _threads(workers: int | None, num_threads: int | None) -> int:
    """Return the threads of each worker."""
    if num_threads is not None:
        return num_threads
    cores: int = build_info()["cores"]
    return max(1, cores // workers if workers else min(4, cores // 2))
