"""Masks of one clip, with a session on disk that a later attempt goes on from."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sam_rlx._batch.finders import check_prompts, check_size, entry
from sam_rlx._batch.items import Item
from sam_rlx._batch.job import Job
from sam_rlx._video.frames import open_frames
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model
from sam_rlx.video import VideoPredictor

_SESSION = re.compile(r"session-(\d+)\.npz")


class ClipCheckpoint:
    """Masks and session of a clip up to some frame.

    The masks are on disk before the session that comes after them. Masks of later frames, which
    belong to no session, are dropped when it is opened again.

    Parameters
    ----------
    folder : Path
        Of this clip alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._masks = folder / "masks.jsonl"

    def close(self) -> None:
        """Close the file of masks."""
        self._file.close()

    def open(self) -> tuple[int | None, list[dict[str, Any]]]:
        """Return the last frame of the newest session, or None, and the masks up to it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        frames = [int(found[1]) for found in map(_SESSION.fullmatch, self._names()) if found]
        last = max(frames, default=None)
        kept: list[bytes] = []
        if last is not None:
            for line in self._masks.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n") or json.loads(line)["frame"] > last:
                    break
                kept.append(line)
        self._file = self._masks.open("wb")
        self._file.writelines(kept)
        self._file.flush()
        return last, [mask for line in kept for mask in json.loads(line)["masks"]]

    def _names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir()]

    def session(self, frame: int) -> Path:
        """Return the path of the session after a frame."""
        return self._folder / f"session-{frame:07d}.npz"

    def add(self, frame: int, masks: list[dict[str, Any]]) -> None:
        """Keep the masks of a frame."""
        self._file.write(json.dumps({"frame": frame, "masks": masks}).encode() + b"\n")

    def save(self, frame: int, video: VideoPredictor) -> None:
        """Keep the session after a frame; it replaces earlier ones."""
        self._file.flush()
        video.save(self.session(frame))
        for name in self._names():
            if _SESSION.fullmatch(name) and name != self.session(frame).name:
                (self._folder / name).unlink()

    def remove(self) -> None:
        """Forget the clip."""
        shutil.rmtree(self._folder, ignore_errors=True)


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
    texts = item.texts or job.texts
    if not (item.prompts or (job.task == "text" and texts)):
        raise InvalidArgumentError(
            f"{item.path}: expected prompts or texts for a video, found none"
        )
    source = open_frames(item.path)
    first = source.read(0)
    hw = (first.shape[0], first.shape[1])
    check_size(item, hw)
    last, masks = checkpoint.open()
    if last is None:
        check_prompts(item, hw)
        video = VideoPredictor(model, source, num_threads=job.threads)
        _prompt(video, item, texts if job.task == "text" else ())
    else:
        video = VideoPredictor.load(
            checkpoint.session(last), model, source, num_threads=job.threads
        )
    try:
        if last is None or source.count is None or last + 1 < source.count:
            start = None if last is None else last + 1
            for number, frame in enumerate(video.propagate(start_frame=start), 1):
                found = [
                    entry(mask, str(name), float(frame.scores.get(name, 0.0)), frame.frame_index)
                    for name, mask in frame.masks.items()
                ]
                masks += found
                checkpoint.add(frame.frame_index, found)
                if job.task != "text" and number % job.keep_every == 0:
                    checkpoint.save(frame.frame_index, video)
                    kept()
    finally:
        checkpoint.close()
    return {"height": hw[0], "width": hw[1], "frames": source.count, "masks": masks}


def _prompt(video: VideoPredictor, item: Item, texts: tuple[str, ...]) -> None:
    for prompt in item.prompts:
        arguments: dict[str, Any] = {}
        if prompt.points:
            arguments["point_coords"] = prompt.points
            arguments["point_labels"] = prompt.labels
        if prompt.box is not None:
            arguments["box"] = prompt.box
        video.add_prompt(prompt.frame, prompt.name, **arguments)
    if texts:
        video.add_text(list(texts))
