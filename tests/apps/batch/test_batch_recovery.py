"""Batches that are interrupted: nothing is lost, nothing is done twice, and nothing loops."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sam_rlx
from sam_rlx import batch, errors
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx.apps.batch import clips, fatal
from sam_rlx.apps.batch.items import Item, Prompt
from sam_rlx.apps.batch.job import Job, opened
from sam_rlx.apps.batch.journal import MAX_ATTEMPTS, Blocks, Journal
from sam_rlx.apps.batch.work import BlockWorker
from support import batches
from support.systems import posix_only
from support.videos import frame_image

pytest.importorskip("pyarrow", reason="needs pyarrow")

BOX = {"boxes": [[5, 5, 40, 40]]}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return batches.write_images(tmp_path_factory.mktemp("photos"), 6)


@pytest.fixture
def poisoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers end at images that are called poison."""
    batches.write_hooks(tmp_path / "site", batches.POISON)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))


def _row(index: int) -> dict[str, Any]:
    fields = {"path": None, "sha256": None, "masks": [], "error": None}
    return {"index": index, "item": str(index), **fields}


def _interrupted(blocks: Blocks, block: int, *indices: int) -> None:
    """Begin items, the last of which does not end."""
    journal = blocks.journal(block)
    for index in indices[:-1]:
        journal.start(index)
        journal.done(_row(index))
    journal.start(indices[-1])
    journal.close()


def _journal(blocks: Blocks, block: int) -> Journal:
    """Return what is known of a block, in a new attempt that has ended already."""
    journal = blocks.journal(block)
    journal.close()
    return journal


def test_a_journal_keeps_rows_and_counts_attempts(tmp_path: Path) -> None:
    blocks = Blocks(tmp_path, 2)
    _interrupted(blocks, 0, 0, 1)
    _interrupted(blocks, 0, 1)
    _interrupted(blocks, 1, 5)
    path = blocks.journals(0)[-1]
    path.write_bytes(path.read_bytes() + b'{"row": {"ind')  # a line that was not finished
    journal = blocks.journal(0)
    assert journal.rows == {0: _row(0)}
    assert (journal.attempts[1], journal.attempts[5]) == (2, 0)
    journal.start(1)
    journal.stop()
    journal.close()
    assert _journal(blocks, 0).attempts[1] == 2
    journal = blocks.journal(0)
    journal.kept(1)
    journal.close()
    assert _journal(blocks, 0).attempts[1] == 1
    assert _journal(blocks, 1).attempts[5] == 1
    blocks.forgive()
    assert _journal(blocks, 1).attempts[5] == 0
    assert blocks.pending() == [0, 1]
    blocks.remove_journals(0)
    assert blocks.journals(0) == []
    assert len(blocks.journals(1)) == 3


def test_an_item_that_was_begun_three_times_is_an_error(
    images: list[Path], tmp_path: Path, tiny_checkpoint: Path
) -> None:
    job = Job(str(tmp_path), str(tiny_checkpoint), "prompts")
    prompts = (Prompt("0", box=(5.0, 5.0, 40.0, 40.0)),)
    items = [Item(n, str(n), str(path), prompts=prompts) for n, path in enumerate(images[:2])]
    blocks = Blocks(tmp_path, 1)
    for _ in range(MAX_ATTEMPTS - 1):
        _interrupted(blocks, 0, 0, 1)
    worker = BlockWorker(job)
    assert _journal(blocks, 0).rows == {0: _row(0)}
    told: dict[int, Any] = {}
    worker.run(0, items, told.__setitem__)
    assert told == {1: None}, "the third attempt is made, and what has a row is not done again"
    blocks.part(0).unlink()
    for _ in range(MAX_ATTEMPTS):
        _interrupted(blocks, 0, 1)
    worker.run(0, items, told.__setitem__)
    assert told[0] is None
    assert "found 3 attempts that ended the process" in told[1]
    assert not blocks.journals(0)


@posix_only
def test_a_killed_run_goes_on(images: list[Path], tmp_path: Path, tiny_checkpoint: Path) -> None:
    """SIGKILL and then Ctrl-C, each when a row more is there: each image has one row."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    given: dict[str, Any] = {"model": tiny_checkpoint, "block": 3, "workers": 1, **BOX}
    batch.run(images, whole, **given)
    words = (*images, "--model", tiny_checkpoint, "--box", "5,5,40,40", "--out", out)
    for number, wanted in ((signal.SIGKILL, 1), (signal.SIGINT, 3)):
        process = batches.started(batches.command(*words, "--block", 3, "--workers", 1))
        batches.wait_for(lambda wanted=wanted: batches.rows_begun(out) >= wanted, process)
        assert batches.kill(process, number) in (-number, 130, 0)
    result = batch.run(images, out, **given)
    assert not result.failures
    assert batches.digests(out) == batches.digests(whole)
    assert not list((out / "journal").iterdir())


def test_an_image_that_ends_its_process_is_listed(
    images: list[Path], tmp_path: Path, tiny_checkpoint: Path, poisoned: None
) -> None:
    poison = tmp_path / "poison.png"
    poison.write_bytes(images[0].read_bytes())
    given = [images[0], poison, images[1]]
    result = batch.run(given, tmp_path / "out", model=tiny_checkpoint, block=3, workers=1, **BOX)
    assert [failure.item for failure in result.failures] == ["poison"]
    rows = batches.rows(tmp_path / "out")
    assert [len(row["masks"]) for row in rows] == [1, 0, 1]
    assert "found 3 attempts" in result.failures[0].error


def test_failures_can_be_done_again(
    images: list[Path], tmp_path: Path, tiny_checkpoint: Path
) -> None:
    late = tmp_path / "late.png"
    listed = tmp_path / "list.txt"
    listed.write_text(f"{images[0]}\n{late}\n")
    given: dict[str, Any] = {"model": tiny_checkpoint, "block": 2, "workers": 1, **BOX}
    out = tmp_path / "out"
    first = batch.run(f"@{listed}", out, **given)
    assert [failure.item for failure in first.failures] == ["late"]
    late.write_bytes(images[1].read_bytes())
    assert len(batch.run(f"@{listed}", out, **given).failures) == 1
    again = batch.run(f"@{listed}", out, retry_failed=True, **given)
    assert not again.failures
    batch.run(f"@{listed}", tmp_path / "whole", **given)
    assert batches.digests(out) == batches.digests(tmp_path / "whole")


def test_a_folder_serves_one_batch_at_a_time(
    images: list[Path], tmp_path: Path, tiny_checkpoint: Path
) -> None:
    out = tmp_path / "out"
    batch.run(images[:1], out, model=tiny_checkpoint, workers=1, **BOX)
    described = json.loads((out / "manifest.json").read_text())
    with opened(out, described), pytest.raises(errors.StateError, match="found one in use"):
        batch.run(images[:1], out, model=tiny_checkpoint, workers=1, **BOX)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    pytest.importorskip("av", reason="needs PyAV")
    path = tmp_path / "clip.mp4"
    with ClipWriter(path, 10.0) as writer:
        for index in range(7):
            writer.add(frame_image(index, (48, 64)))
    return path


class _Killed(BaseException):
    pass


def test_a_clip_goes_on_from_its_last_session(
    clip: Path, tmp_path: Path, sam2_checkpoint: Path
) -> None:
    """What is tracked in three pieces equals what is tracked at once, and `VideoPredictor`."""
    model = sam_rlx.load_model(sam2_checkpoint)
    prompts = (Prompt("a", ((20.0, 20.0),), (1,)), Prompt("b", box=(5.0, 5.0, 30.0, 30.0), frame=1))
    item = Item(0, "clip", str(clip), is_clip=True, prompts=prompts)
    job = Job(str(tmp_path), str(sam2_checkpoint), "prompts", keep_every=2)
    saved: Counter[str] = Counter()

    def killed() -> None:
        saved["sessions"] += 1
        raise _Killed

    with closing(clips.ClipCheckpoint(tmp_path / "kept", "contents")) as checkpoint:
        for _ in range(3):
            with pytest.raises(_Killed):
                clips.track(item, job, model, checkpoint, killed)
            # Masks that belong to no session: of a process that was ended between two sessions.
            with (tmp_path / "kept" / "masks.jsonl").open("ab") as file:
                file.write(b'{"frame": 99, "masks": [{}]}\n{"fra')
        pieces = clips.track(item, job, model, checkpoint, killed)
    with closing(clips.ClipCheckpoint(tmp_path / "other", "contents")) as checkpoint:
        whole = clips.track(item, job, model, checkpoint, lambda: None)
    assert saved["sessions"] == 3
    assert pieces == whole
    assert (whole["height"], whole["width"], whole["frames"]) == (48, 64, 7)
    video = sam_rlx.VideoPredictor(model, clip)
    video.add_prompt(0, "a", point_coords=[[20, 20]], point_labels=[1])
    video.add_prompt(1, "b", box=[5, 5, 30, 30])
    found = [
        (frame.frame_index, name, int(mask.sum()), frame.scores[name])
        for frame in video.propagate()
        for name, mask in frame.masks.items()
    ]
    fields = ("frame", "object", "area", "score")
    assert [tuple(mask[key] for key in fields) for mask in whole["masks"]] == found


def test_an_object_that_is_away_has_no_entry(
    clip: Path, tmp_path: Path, sam2_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    propagate = sam_rlx.VideoPredictor.propagate

    def away(self: Any, **options: Any) -> Any:
        for frame in propagate(self, **options):
            if frame.frame_index in (2, 3):
                frame.masks["a"][:] = False
            yield frame

    monkeypatch.setattr(sam_rlx.VideoPredictor, "propagate", away)
    prompts = (Prompt("a", ((20.0, 20.0),), (1,)),)
    item = Item(0, "clip", str(clip), is_clip=True, prompts=prompts)
    job = Job(str(tmp_path), str(sam2_checkpoint), "prompts")
    model = sam_rlx.load_model(sam2_checkpoint)
    with closing(clips.ClipCheckpoint(tmp_path / "kept", "contents")) as checkpoint:
        row = clips.track(item, job, model, checkpoint, lambda: None)
    assert row["frames"] == 7
    assert [mask["frame"] for mask in row["masks"]] == [0, 1, 4, 5, 6]


def _lines(path: Path, count: int) -> None:
    """Leave so many lines of a file, as a power cut does to what was not synced."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


def _changed(folder: Path, pattern: str) -> None:
    (path,) = folder.glob(pattern)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", ["lost masks", "changed masks", "session", "other clip"])
def test_a_clip_whose_files_do_not_fit_begins_anew(
    clip: Path, tmp_path: Path, sam2_checkpoint: Path, damage: str
) -> None:
    model = sam_rlx.load_model(sam2_checkpoint)
    item = Item(0, "c", str(clip), is_clip=True, prompts=(Prompt("a", box=(5.0, 5.0, 30.0, 30.0)),))
    job = Job(str(tmp_path), str(sam2_checkpoint), "prompts", keep_every=3)
    kept = tmp_path / "kept"

    def killed() -> None:
        raise _Killed

    with pytest.raises(_Killed), closing(clips.ClipCheckpoint(kept, "one")) as checkpoint:
        clips.track(item, job, model, checkpoint, killed)
    if damage == "lost masks":
        _lines(kept / "masks.jsonl", 2)
    elif damage == "changed masks":
        _changed(kept, "masks.jsonl")
    elif damage == "session":
        _changed(kept, "session-*")
    with closing(clips.ClipCheckpoint(kept, "two" if damage == "other clip" else "one")) as again:
        found = clips.track(item, job, model, again, lambda: None)
    with closing(clips.ClipCheckpoint(tmp_path / "other", "one")) as other:
        assert found == clips.track(item, job, model, other, lambda: None)
    assert [mask["frame"] for mask in found["masks"]] == list(range(7))


def test_masks_are_on_the_disk_before_their_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    synced = lambda number: order.append(f"masks, {os.fstat(number).st_size > 0}")  # noqa: E731
    monkeypatch.setattr(clips.os, "fsync", synced)
    video = SimpleNamespace(save=lambda path: order.append(path.name))
    with closing(clips.ClipCheckpoint(tmp_path, "contents")) as checkpoint:
        checkpoint.open()
        checkpoint.add(0, [])
        checkpoint.save(0, video)
    assert order[0] == "masks, True"
    assert order[1].startswith("session-0000000-")


def test_a_full_disk_in_a_clip_ends_the_batch(
    clip: Path, tmp_path: Path, sam2_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clip has no row: with room on the disk it goes on."""
    full = OSError(errno.EFBIG, "File too large", "session")

    def save(self: object, path: Path) -> None:
        raise full

    prompts = (Prompt("a", box=(5.0, 5.0, 30.0, 30.0)),)
    items = [Item(n, str(n), str(clip), is_clip=True, prompts=prompts) for n in range(2)]
    worker = BlockWorker(Job(str(tmp_path), str(sam2_checkpoint), "prompts", keep_every=3))
    Blocks(tmp_path, 1)
    told: dict[int, Any] = {}
    with monkeypatch.context() as patched:
        patched.setattr(sam_rlx.VideoPredictor, "save", save)
        with pytest.raises(fatal.ResultsError) as found:
            worker.run(0, items, told.__setitem__)
    assert (told, found.value.__cause__) == ({}, full)
    worker.run(0, items, told.__setitem__)
    assert told == {0: None, 1: None}


def test_clips_and_images_in_one_batch(
    clip: Path, images: list[Path], tmp_path: Path, sam2_checkpoint: Path
) -> None:
    out = tmp_path / "out"
    given: dict[str, Any] = {"model": sam2_checkpoint, "workers": 1, "masks": True, **BOX}
    result = batch.run([clip, images[0]], out, **given)
    assert not result.failures
    row, image = batches.rows(out)
    assert (row["frames"], image["frames"]) == (7, 1)
    assert [mask["frame"] for mask in row["masks"]] == list(range(7))
    written = sorted(path.name for path in (out / "masks" / "clip").iterdir())
    assert written == [f"0_{frame:05d}.png" for frame in range(7)]
    assert not list((out / "clips").iterdir())
    nothing = batch.run(clip, tmp_path / "none", model=sam2_checkpoint, workers=1)
    assert "expected prompts or texts for a video" in nothing.failures[0].error


def test_a_rule_of_memory_is_that_of_clips(
    clip: Path, images: list[Path], tmp_path: Path, sam2_checkpoint: Path
) -> None:
    given: dict[str, Any] = {"model": sam2_checkpoint, "workers": 1, **BOX}
    batch.run(clip, tmp_path / "out", memory_rule="samurai", **given)
    (row,) = batches.rows(tmp_path / "out")
    video = sam_rlx.VideoPredictor(sam_rlx.load_model(sam2_checkpoint), clip, memory_rule="samurai")
    video.add_prompt(0, "0", box=BOX["boxes"][0])
    areas = [int(frame.masks["0"].sum()) for frame in video.propagate()]
    assert [mask["area"] for mask in row["masks"]] == [area for area in areas if area > 0]
    with pytest.raises(errors.StateError, match="expected the same memory_rule"):
        batch.run(clip, tmp_path / "out", **given)
    with pytest.raises(
        errors.InvalidArgumentError, match="expected clips with prompts, found no clip"
    ):
        batch.run(images[0], tmp_path / "other", memory_rule="samurai", **given)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_ray_gives_the_same_files(
    images: list[Path], tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """In processes of their own: Ray leaves threads and settings behind."""
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    for name in ("local", "ray"):
        out = tmp_path / name
        words = [*images, broken, "--model", tiny_checkpoint, "--box", "5,5,40,40", "--out", out]
        words += ["--block", 2, "--workers", 1, "--threads", 1, "--engine", name]
        with (tmp_path / f"{name}.txt").open("wb") as output:
            status = batches.started(batches.command(*words), output).wait()
        said = (tmp_path / f"{name}.txt").read_text(errors="replace")
        if "expected Ray to start" in said:
            pytest.skip("Ray's own processes wait 15 s for each other, too short on this machine")
        assert status == 1, said
    assert batches.digests(tmp_path / "local") == batches.digests(tmp_path / "ray")
    rows = batches.rows(tmp_path / "ray")
    assert [row["error"] is None for row in rows] == [True] * len(images) + [False]
