"""The engine on Ray: actors of Ray Data, each with one model, on the blocks of the job.

Ray shares blocks out and starts actors again. What is done, and how often an item was begun, stands
in the journals of the job's folder, which all machines must see.
"""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sam_rlx._internal.packages import optional
from sam_rlx.apps.batch.fatal import raised, told
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.local import ItemsOf, Report, search_path
from sam_rlx.apps.batch.work import BlockWorker
from sam_rlx.errors import StateError
from sam_rlx.model import build_info

# CPUs beside those of the actors: tasks that read, and that gather results, wait for ever for
# actors that have taken all.
_SPARE_CPUS = 3
_STARTS = 5  # attempts
# Bytes for objects on this machine alone: plans and counts, no images.
_OBJECT_STORE = 200_000_000


def ray(module: str = "ray") -> Any:
    """Return a module of Ray; `MissingExtraError` without it."""
    # Ray asks its maker's server for updates and tells it that it is used, unless it is told so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return optional("batch", module, "ray[data]")


class BlockActor:
    """A worker in an actor. Rows of Ray Data are blocks; what comes back tells of their items."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._work: BlockWorker | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Do one block. An error that ends the job is an answer: Ray would try again."""
        errors: dict[int, str | None] = {}
        items = [Item.from_json(fields) for fields in json.loads(row["items"])]
        answer: dict[str, Any] = {"block": row["block"]}
        try:
            if self._work is None:
                self._work = BlockWorker(Job.from_json(self._job))
            self._work.run(int(row["block"]), items, errors.__setitem__)
        except Exception as error:
            answer.update(told(error))
        return {"answer": json.dumps({**answer, "items": list(errors.items())})}


def run(
    job: Job, workers: int | None, blocks: Sequence[int], items_of: ItemsOf, report: Report
) -> None:
    """Do blocks on the cluster that Ray is connected to, or else on this machine.

    Parameters
    ----------
    job, blocks, items_of, report
        As for the local engine.
    workers : int, optional
        Most actors. Default: as many as fill the CPUs.

    Raises
    ------
    SamRlxError, OSError
        What a worker cannot go on after.
    """
    ray("ray.data")  # also tells whether it is installed
    with _connected(job, workers) as most:
        rows = (
            {"block": block, "items": json.dumps([item.to_json() for item in items_of(block)])}
            for block in blocks
        )
        for answer in _answers(job, min(most, len(blocks)), list(rows)):
            for index, error in answer["items"]:
                report(index, error)
            if "fatal" in answer:
                raise raised(answer)


def _answers(job: Job, most: int, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Run the plan of Ray Data: one row, which is a block of ours, in each of its blocks."""
    data = ray("ray.data")
    context = data.DataContext.get_current()
    before = context.enable_progress_bars
    context.enable_progress_bars = False  # ours counts images
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        pool = data.ActorPoolStrategy(min_size=1, max_size=most)
        planned = data.from_items(rows).repartition(target_num_rows_per_block=1)
        done = planned.map(
            BlockActor,
            fn_constructor_kwargs={"job": job.to_json()},
            compute=pool,
            num_cpus=job.threads,
        )
        for row in done.iter_rows():
            yield json.loads(row["answer"])
    finally:
        context.enable_progress_bars = before
        logger.setLevel(level)


def _job_config() -> Any:
    """Return a job whose processes import from where this one does.

    Ray puts the current folder first for them, unless the job has a folder of its own.
    """
    config = ray("ray.job_config").JobConfig()
    config._py_driver_sys_path = search_path()[::-1]  # each is put before those so far
    config._runtime_env_has_working_dir = lambda: True
    return config


def _start(found: Any, arguments: dict[str, Any]) -> None:
    """Start Ray or connect to it. On a busy machine its parts wait too shortly for each other."""
    for left in reversed(range(_STARTS)):
        try:
            found.init(**arguments)
            return
        except Exception as error:
            found.shutdown()
            if not left:
                words = (str(error) or type(error).__name__).partition("\n")[0]
                raise StateError(f"batch: expected Ray to start, found {words}") from error


@contextmanager
def _own_signal() -> Iterator[None]:
    """Keep what SIGTERM does. Ray's start makes it abort or exit, and nothing is cleaned up."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def _connected(job: Job, workers: int | None) -> Iterator[int]:
    """Connect to Ray; yield the number of actors. Ends what it has started."""
    found = ray()
    started = not found.is_initialized()
    if started:
        arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        arguments["job_config"] = _job_config()
        if not os.environ.get("RAY_ADDRESS"):
            count = workers or max(1, build_info()["cores"] // job.threads)
            arguments.update(
                num_cpus=count * job.threads + _SPARE_CPUS,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE,
            )
        with _own_signal():
            _start(found, arguments)
    try:
        cpus = int(found.cluster_resources().get("CPU", 1)) - _SPARE_CPUS
        yield workers or max(1, cpus // job.threads)
    finally:
        if started:
            found.shutdown()
