"""The folder of a batch: whose rows it has, what became of its files and inputs since."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sam_rlx import batch, errors, load_model
from sam_rlx._internal.files import locks
from sam_rlx.apps.batch import fatal, finders, local, parquet
from sam_rlx.apps.batch.items import Item, Prompt
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.journal import Blocks, Journal
from sam_rlx.apps.batch.work import BlockWorker
from support import batches

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

FIRST = "parts/part-0000000.parquet"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do all blocks in this process, which is faster than to start others."""

    def run(
        job: Job, workers: int | None, blocks: Sequence[int], items_of: Any, report: Any
    ) -> None:
        worker = BlockWorker(job)
        for block in blocks:
            worker.run(block, items_of(block), report)

    monkeypatch.setattr(local, "run", run)


@pytest.fixture
def run(tiny_checkpoint: Path) -> Callable[..., batch.BatchResult]:
    def run(inputs: Any, out: Path, **changes: Any) -> batch.BatchResult:
        given: dict[str, Any] = {"boxes": [[5, 5, 40, 40]], "num_threads": 1, "block": 2}
        return batch.run(inputs, out, model=tiny_checkpoint, **{**given, **changes})

    return run


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """Four images and their rows, in two blocks."""
    folder = tmp_path_factory.mktemp("done")
    batches.write_images(folder / "in", 4)
    given: dict[str, Any] = {"boxes": [[5, 5, 40, 40]], "num_threads": 1, "block": 2}
    batch.run(folder / "in", folder / "out", model=tiny_checkpoint, workers=1, **given)
    return folder


@pytest.fixture
def copy(done: Path, tmp_path: Path) -> Path:
    """A copy of the folder, at another path."""
    return Path(shutil.copytree(done, tmp_path / "copy"))


def test_a_job_that_was_moved_goes_on(copy: Path, run: Any) -> None:
    before = batches.digests(copy / "out")
    assert run(copy / "in", copy / "out").done_before == 4
    assert batches.digests(copy / "out") == before
    # The manifest has the new folder: what is replaced there now is an image of this job.
    (copy / "in" / "image-0001.png").write_bytes((copy / "in" / "image-0000.png").read_bytes())
    assert run(copy / "in", copy / "out").done_before == 2


def test_other_images_of_the_same_names_are_another_job(copy: Path, run: Any) -> None:
    before = batches.digests(copy / "out")
    batches.write_images(copy / "next day", 4, (50, 60))
    with pytest.raises(errors.StateError, match="expected the files that were below"):
        run(copy / "next day", copy / "out")
    assert batches.digests(copy / "out") == before
    (copy / "next day" / "image-0000.png").rename(copy / "next day" / "new.png")
    with pytest.raises(errors.StateError, match=r"now they are below .*next day"):
        run(copy / "next day", copy / "out")


def test_a_folder_that_was_filled_anew_is_another_job(copy: Path, run: Any) -> None:
    run(copy / "in", copy / "out")  # where the copy is now
    before = batches.digests(copy / "out")
    batches.write_images(copy / "in", 4, (50, 60))
    with pytest.raises(errors.StateError, match="found other contents in all of them"):
        run(copy / "in", copy / "out")
    assert batches.digests(copy / "out") == before


def test_an_image_that_was_replaced_is_done_again(tmp_path: Path, run: Any) -> None:
    """Whatever its time and size say. The rows of others stay, and no mask of the old one."""
    images = batches.write_images(tmp_path / "in", 3)
    options = {"boxes": None, "options": {"points_per_side": 2, "pred_iou_thresh": 0.0}}
    options["options"]["stability_score_thresh"] = 0.0  # type: ignore[index]
    run(images, tmp_path / "out", masks=True, **options)
    rows = batches.rows(tmp_path / "out")
    masks = tmp_path / "out" / "masks" / "image-0001"
    io_mask = next(masks.glob("*.png"))
    shutil.copy(io_mask, masks / "99.png")
    status, data = images[1].stat(), bytearray(images[0].read_bytes())
    images[1].write_bytes(data + bytes(max(0, status.st_size - len(data))))
    os.utime(images[1], ns=(status.st_atime_ns, status.st_mtime_ns))
    result = run(images, tmp_path / "out", masks=True, **options)
    assert (result.done_before, result.failures) == (1, [])
    assert result.notes == ["done again, images, whose files were replaced: 1"]
    again = batches.rows(tmp_path / "out")
    assert (again[0], again[2]) == (rows[0], rows[2])
    assert again[1]["masks"] == rows[0]["masks"] != rows[1]["masks"]
    assert not (masks / "99.png").exists()
    assert run(images, tmp_path / "out", masks=True, **options).done_before == 3


def _zeros(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = data.find(b"image-0001") + 60
    data[middle : middle + 40] = bytes(40)
    path.write_bytes(data)


def _rewritten(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], None]:
    """Return a change of the first rows that leaves a whole file."""

    def rewrite(out: Path) -> None:
        rows = parquet.read_rows(out / FIRST)
        changed = change(rows) or rows
        pq.write_table(pa.Table.from_pylist(changed, parquet.schema()), out / FIRST)

    return rewrite


def _with_journal(*lines: bytes) -> Callable[[Path], None]:
    def write(out: Path) -> None:
        (out / FIRST).unlink()
        (out / "journal" / "0000000-0000000.jsonl").write_bytes(b"\n".join([*lines, b""]))

    return write


def _row_of_another(out: Path) -> None:
    """A journal whose first row is the second one's, as if a line was copied and edited."""
    row = parquet.read_rows(out / FIRST)[1]
    (out / FIRST).unlink()
    journal = Blocks(out, 2).journal(0)
    journal.done({**row, "index": 0})
    journal.close()


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "empty": lambda out: (out / FIRST).write_bytes(b""),
    "cut off": lambda out: os.truncate(out / FIRST, 700),
    "zeros": lambda out: _zeros(out / FIRST),
    "text": lambda out: (out / FIRST).write_text("rows"),
    "no rows": _rewritten(lambda rows: rows[:0] or None or rows.clear()),
    "a row less": _rewritten(lambda rows: rows[:1]),
    "two rows swapped": _rewritten(lambda rows: rows[::-1]),
    "a row of another": _rewritten(lambda rows: [{**rows[1], "index": 0}, rows[1]]),
    "contents of another": _rewritten(
        lambda rows: [{**rows[0], "sha256": rows[1]["sha256"], "path": "x"}, rows[1]]
    ),
    "no masks": _rewritten(lambda rows: [{**rows[0], "masks": None}, rows[1]]),
    "the next block": lambda out: shutil.copy(out / "parts/part-0000001.parquet", out / FIRST),
    "other columns": lambda out: pq.write_table(pa.table({"index": [0, 1]}), out / FIRST),
    "gone": lambda out: shutil.rmtree(out / "parts"),
    "journal of junk": _with_journal(b'{"row": {"index": 0}}', b"[" * 9999, b"00000000", b"\xff 0"),
    "journal of one number": _with_journal(b"7 aa6c1cb5"),
    "journal of another image": _row_of_another,
    "journals with odd names": lambda out: (
        (out / "journal" / "0000000-x.jsonl").mkdir(),
        (out / "journal" / "0000000-0000000 (1).jsonl").touch(),
        (out / "journal" / "0000000-0000003.jsonl").mkdir(),
        (out / FIRST).unlink(),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_done_again(done: Path, tmp_path: Path, run: Any, name: str) -> None:
    out = Path(shutil.copytree(done / "out", tmp_path / "out"))
    DAMAGES[name](out)
    result = run(done / "in", out)
    assert batches.digests(out) == batches.digests(done / "out")
    assert (result.items, result.failures) == (4, [])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda out: (out / "parts" / "part-0000002.parquet").touch(), "part-0000002.parquet"),
        (lambda out: (out / "parts" / "part-0000000 (1).parquet").touch(), "part-0000000 (1)"),
        (lambda out: (out / "parts" / "notes.txt").touch(), "notes.txt"),
        (lambda out: (out / FIRST).unlink() or (out / FIRST).mkdir(), "part-0000000.parquet"),
        (lambda out: (out / "manifest.json").write_text("[" * 99999), "manifest.json"),
        (lambda out: (out / "manifest.json").write_text("[1]"), "manifest.json"),
        (lambda out: (out / "journal").rmdir() or (out / "journal").touch(), "journal"),
        (lambda out: (out / "lock").unlink() or (out / "lock").mkdir(), "lock"),
    ],
)
def test_what_is_no_block_is_refused_by_name(
    done: Path, tmp_path: Path, run: Any, change: Any, named: str
) -> None:
    out = Path(shutil.copytree(done / "out", tmp_path / "out"))
    change(out)
    with pytest.raises(errors.StateError) as found:
        run(done / "in", out)
    assert str(out) in str(found.value)
    assert named in str(found.value)


def test_damaged_rows_are_named_when_they_are_read(done: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(done / "out", tmp_path / "out"))
    _zeros(out / FIRST)
    (out / "parts" / "part-copy.parquet").touch()
    with pytest.raises(errors.StateError, match="part-0000000"):
        list(batch.read(out))


def test_a_drive_without_locks(done: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "no locks")

    monkeypatch.setattr(locks, "flock", none)
    with pytest.warns(UserWarning, match="expected a file system with locks, found none"):
        assert run(done / "in", done / "out").done_before == 4


def test_results_are_no_inputs(copy: Path, run: Any) -> None:
    result = run(copy / "in", copy / "in" / "results", masks=True)
    assert (result.items, result.notes) == (4, [])
    again = run(copy / "in", copy / "in" / "results", masks=True)
    assert (again.items, again.done_before) == (4, 4)
    assert again.notes == ["passed over: 1 folder of results (results)"]


def test_slips_of_the_pen_write_nothing(tmp_path: Path, run: Any) -> None:
    batches.write_images(tmp_path / "photos", 1)
    for given in (
        {"inputs": tmp_path / "fotos"},
        {"inputs": [tmp_path / "photos", tmp_path / "photos" / "image-1.png"]},
        {"inputs": tmp_path / "photos", "images": tmp_path / "fotos"},
    ):
        with pytest.raises(FileNotFoundError, match="found none at"):
            run(given.pop("inputs"), tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_a_wrong_folder_of_images_makes_no_results(tmp_path: Path, run: Any) -> None:
    """None of a document's images is there. With one, the others are errors."""
    names = ["image-0000.png", "image-0001.png"]
    batches.write_images(tmp_path / "photos", 2)
    (tmp_path / "some").mkdir()
    pq.write_table(pa.table({"path": [*names, None]}), tmp_path / "t.parquet")
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'a.png'}\n{tmp_path / 'b.png'}\n")
    with pytest.raises(FileNotFoundError, match=r"found none of 2, such as .*a\.png"):
        run(f"@{tmp_path / 'list.txt'}", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    shutil.copy(tmp_path / "photos" / names[0], tmp_path / "some")
    result = run(tmp_path / "t.parquet", tmp_path / "out", images=tmp_path / "some")
    assert [failure.item for failure in result.failures] == ["image-0001", "t-0-2"]
    assert "row 2 of group 0: expected a path, found None" in result.failures[1].error


def test_what_a_batch_says_first(tmp_path: Path, run: Any) -> None:
    batches.write_images(tmp_path / "photos", 2)
    (tmp_path / "photos" / "notes.txt").touch()
    lines: list[str] = []
    run(tmp_path / "photos", tmp_path / "out", tell=lines.append)
    assert lines == [
        "2 images, boxes, sam_tiny.safetensors; first prompt: image-0000: 0: box 5,5,40,40",
        "passed over: 1 file of another kind (notes.txt)",
    ]


def test_a_fault_of_the_machine_ends_the_batch(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is none of the image that it was met with, and the image has no row."""
    images = batches.write_images(tmp_path / "in", 2)
    opened = finders.opened
    full = OSError(errno.EMFILE, "too many", "x")
    monkeypatch.setattr(finders, "opened", lambda item, in_tiles: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match="too many"):
        run(images, tmp_path / "out")
    assert batches.rows_begun(tmp_path / "out") == 0
    monkeypatch.setattr(finders, "opened", opened)
    assert not run(images, tmp_path / "out").failures


def test_errors_of_the_disk_keep_their_number_and_file() -> None:
    cause = OSError(errno.ENOSPC, "full", "session")
    failed = fatal.ResultsError("x")
    failed.__cause__ = cause
    found = fatal.raised(json.loads(json.dumps(fatal.told(failed))))
    assert (type(found), found.errno, found.filename) == (OSError, errno.ENOSPC, "session")
    assert isinstance(fatal.raised(fatal.told(PermissionError(13, "no", "a"))), PermissionError)
    assert isinstance(fatal.raised(fatal.told(errors.StateError("x"))), errors.StateError)


def test_masks_in_memory_are_bounded_by_their_bytes(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are those of one call."""
    path = batches.write_images(tmp_path, 1)[0]
    prompts = tuple(Prompt(str(n), ((20.0 + n, 20.0),), (1,)) for n in range(5))
    item = Item(0, "a", str(path), prompts=prompts)
    with finders.opened(item, in_tiles=False) as image:
        assert isinstance(image, np.ndarray)
    finder = finders._Prompts(Job(str(tmp_path), "", "prompts"), load_model(tiny_checkpoint))
    whole = finder.find(item, image)
    sizes = []
    predict = finder._predict
    monkeypatch.setattr(
        finder, "_predict", lambda some, given: sizes.append(len(some)) or predict(some, given)
    )
    monkeypatch.setattr(finders, "_MAX_BYTES", 2 * 3 * image[..., 0].size)
    assert finder.find(item, image) == whole
    assert sizes == [2, 2, 1]


def test_images_in_a_row_group_are_read_one_at_a_time(tmp_path: Path) -> None:
    """In any order; the group is not in memory, nor is a table that was replaced."""
    values = [bytes([n]) * 200_000 for n in range(50)]
    path = str(tmp_path / "t.parquet")
    table = pa.table({"bytes": values, "image": [{"bytes": b"x", "path": "y"}] * 50})
    pq.write_table(table, path, use_dictionary=False, data_page_size=1, write_batch_size=1)
    before = pa.total_allocated_bytes()
    for row in (0, 7, 7, 8, 3, 49):
        assert parquet.read_bytes(path, 0, row, "bytes") == values[row]
        assert pa.total_allocated_bytes() - before < 2_000_000
    assert parquet.read_bytes(path, 0, 1, "image") == b"x"
    with pytest.raises(errors.InvalidArgumentError, match="expected bytes in row 50"):
        parquet.read_bytes(path, 0, 50, "bytes")
    pq.write_table(pa.table({"bytes": [b"new"]}), path)
    assert parquet.read_bytes(path, 0, 0, "bytes") == b"new"


def test_a_journal_passes_over_what_it_has_not_written(tmp_path: Path) -> None:
    blocks = Blocks(tmp_path, 1)
    journal = blocks.journal(0)
    journal.start(0)
    journal.start(1)
    journal.close()
    (path,) = blocks.journals(0)
    path.write_bytes(path.read_bytes().replace(b'"start": 1', b'"start": 2'))
    found: Journal = blocks.journal(0)
    assert dict(found.attempts) == {0: 1}
    found.close()
