"""Masks of one clip, with a session on disk that a later attempt goes on from."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from sam_rlx._internal.media.frames import FrameSource, open_frames
from sam_rlx._internal.results import of_mask
from sam_rlx.apps.batch.fatal import results
from sam_rlx.apps.batch.finders import check_prompts, check_size, entry
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.job import Job
from sam_rlx.errors import CheckpointError, InvalidArgumentError
from sam_rlx.model import Model
from sam_rlx.video import VideoPredictor

_SESSION = re.compile(r"session-(\d{7,})-([0-9a-f]{64})\.safetensors")


class ClipCheckpoint:
    """Masks and session of a clip up to some frame.

    The masks are on the disk before the session that comes after them. The name of a session has
    a hash of the clip and of all masks up to it: masks that it does not fit, and sessions of
    another file, are dropped, and the clip begins anew.

    Parameters
    ----------
    folder : Path
        Of this clip alone.
    digest : str
        Hash of the clip's file.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        self._folder = folder
        self._masks = folder / "masks.jsonl"
        self._start = digest.encode()
        self._hash = hashlib.sha256(self._start)
        self._file: BinaryIO | None = None

    def close(self) -> None:
        """Close the file of masks."""
        if self._file is not None:
            self._file.close()

    def open(self, *, anew: bool = False) -> tuple[Path | None, int, list[dict[str, Any]]]:
        """Return the newest session, or None; its frame or -1; and the masks up to it.

        Parameters
        ----------
        anew : bool
            True: nothing is kept.
        """
        self.close()
        with results():
            self._folder.mkdir(parents=True, exist_ok=True)
            session, kept = (None, []) if anew else self._newest()
            self._file = self._masks.open("ab")
            self._file.truncate(sum(map(len, kept)))
            self._hash = hashlib.sha256(b"".join([self._start, *kept]))
            self._remove_sessions(session)
        masks = [mask for line in kept for mask in json.loads(line)["masks"]]
        return session, _frame(session), masks

    def _newest(self) -> tuple[Path | None, list[bytes]]:
        """Return the newest session that the masks fit, and the lines up to it."""
        sessions = {match[2]: match[0] for match in self._sessions()}
        if not sessions or not self._masks.is_file():
            return None, []
        lines = self._masks.read_bytes().splitlines(keepends=True)
        session, count = None, 0
        digest = hashlib.sha256(self._start)
        for number, line in enumerate(lines, 1):
            digest.update(line)
            if digest.hexdigest() in sessions:
                session, count = self._folder / sessions[digest.hexdigest()], number
        return session, lines[:count]

    def _sessions(self) -> list[re.Match[str]]:
        names = [path.name for path in self._folder.iterdir()]
        return [match for match in map(_SESSION.fullmatch, names) if match]

    def _remove_sessions(self, kept: Path | None) -> None:
        for match in self._sessions():
            if kept is None or match[0] != kept.name:
                (self._folder / match[0]).unlink()

    def add(self, frame: int, masks: list[dict[str, Any]]) -> None:
        """Keep the masks of a frame."""
        assert self._file is not None
        line = json.dumps({"frame": frame, "masks": masks}).encode() + b"\n"
        self._hash.update(line)
        with results():
            self._file.write(line)

    def save(self, frame: int, video: VideoPredictor) -> None:
        """Keep the session after a frame; it replaces earlier ones."""
        assert self._file is not None
        with results():
            self._file.flush()
            os.fsync(self._file.fileno())
            session = self._folder / f"session-{frame:07d}-{self._hash.hexdigest()}.safetensors"
            video.save(session)
            self._remove_sessions(session)


def _frame(session: Path | None) -> int:
    """Return the last frame of a session, -1 without one."""
    found = None if session is None else _SESSION.fullmatch(session.name)
    return int(found[1]) if found else -1


def track(
    item: Item, job: Job, model: Model, checkpoint: ClipCheckpoint, kept: Callable[[], None]
) -> dict[str, Any]:
    """Return the fields of a clip's row: its size, the number of its frames, and all masks.

    Parameters
    ----------
    item, job, model
        What to track.
    checkpoint : ClipCheckpoint
        Where the session is kept; a clip of texts begins anew.
    kept : callable
        Called when a session is on disk.
    """
    wanted = _texts(item, job) if job.task == "text" else item.prompts
    if not wanted and () not in (item.prompts, item.texts):
        raise InvalidArgumentError(
            f"{item.path}: expected prompts or texts for a video, found none"
        )
    source = open_frames(item.path)
    first = source.read(0)
    hw = (first.shape[0], first.shape[1])
    check_size(item, hw)
    if not wanted:
        return {"height": hw[0], "width": hw[1], "frames": source.count, "masks": []}
    video, last, masks = _opened(item, job, model, checkpoint, source, hw)
    if last < 0 or source.count is None or last + 1 < source.count:
        start = None if last < 0 else last + 1
        for number, frame in enumerate(video.propagate(start_frame=start), 1):
            found = [
                entry(
                    of_mask(mask), str(name), float(frame.scores.get(name, 0.0)), frame.frame_index
                )
                for name, mask in frame.masks.items()
                if mask.any()  # an object that is away has no entry
            ]
            masks += found
            checkpoint.add(frame.frame_index, found)
            if job.task != "text" and number % job.keep_every == 0:
                checkpoint.save(frame.frame_index, video)
                with results():
                    kept()
    return {"height": hw[0], "width": hw[1], "frames": source.count, "masks": masks}


def _opened(
    item: Item,
    job: Job,
    model: Model,
    checkpoint: ClipCheckpoint,
    source: FrameSource,
    hw: tuple[int, int],
) -> tuple[VideoPredictor, int, list[dict[str, Any]]]:
    """Return the session of a clip, its last frame or -1, and the masks up to it."""
    session, last, masks = checkpoint.open()
    if session is not None:
        try:
            with results():
                video = VideoPredictor.load(session, model, source, num_threads=job.threads)
            return video, last, masks
        except CheckpointError:  # damaged: the clip begins anew
            checkpoint.open(anew=True)
    check_prompts(item, hw)
    video = VideoPredictor(
        model,
        source,
        num_threads=job.threads,
        memory_rule=job.memory_rule,  # type: ignore[arg-type]
    )
    _prompt(video, item, job)
    return video, -1, []


def _prompt(video: VideoPredictor, item: Item, job: Job) -> None:
    for prompt in item.prompts or ():
        arguments: dict[str, Any] = {}
        if prompt.points:
            arguments["point_coords"] = prompt.points
            arguments["point_labels"] = prompt.labels
        if prompt.box is not None:
            arguments["box"] = prompt.box
        video.add_prompt(prompt.frame, prompt.name, **arguments)
    if job.task == "text":
        video.add_text(list(_texts(item, job)))


def _texts(item: Item, job: Job) -> tuple[str, ...]:
    return job.texts if item.texts is None else item.texts
