"""The command line on several images: folders, patterns, lists; what fails and what stays."""

from __future__ import annotations

import io as standard_io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps import cli
from sam_rlx.apps.cli import inputs
from sam_rlx.apps.cli.common import UsageError

BOX = ["--box", "5,5,30,30"]
LOOSE = ["--pred-iou-thresh", 0, "--stability-score-thresh", 0, "--points-per-side", 2]


def _image(path: Path, seed: int = 0, hw: tuple[int, int] = (40, 60)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*hw, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with photos and others."""
    for index, name in enumerate(("photos/a.png", "photos/b.JPG", "more/a.png", "c.png")):
        _image(tmp_path / name, index)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    (tmp_path / "photos" / "._a.png").write_text("of another system")
    (tmp_path / "photos" / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(
    tiny_checkpoint: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[int, str, str]]:
    def run(command: str, *words: object) -> tuple[int, str, str]:
        return run_cli(command, *words, "--model", tiny_checkpoint, "--threads", 1)

    return run


def _expanded(*words: str, lists: tuple[str, ...] = ()) -> tuple[list[str], list[str], bool]:
    found = inputs.expand(words, lists)
    files = found.files
    return [str(each.path) for each in files], [each.name for each in files], found.several


def test_one_file_is_not_several(folder: Path) -> None:
    assert _expanded("c.png") == (["c.png"], ["c"], False)
    assert _expanded("absent.png")[2] is False


def test_folders_patterns_and_lists(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = ["photos/a.png", "photos/b.JPG"]
    assert _expanded("photos") == (photos, ["a", "b"], True)
    assert _expanded("photos/*.png") == (photos[:1], ["a"], True)
    assert _expanded("**/a.png")[0] == ["more/a.png", "photos/a.png"]
    (folder / "list.txt").write_text("\ufeff# mine\n\n  c.png \nphotos\nabsent.png\n")
    listed = ["c.png", *photos, "absent.png"]
    assert _expanded("@list.txt")[0] == listed
    assert _expanded(lists=("list.txt",))[0] == listed
    monkeypatch.setattr("sys.stdin", standard_io.StringIO("c.png\n"))
    assert _expanded(lists=("-",)) == (["c.png"], ["c"], True)
    # A file that is called like a list or a pattern is that file.
    for name in ("@x.png", "[1].png"):
        _image(folder / name)
        assert _expanded(name) == ([name], [name[:-4]], False)
    # Each file once, however it is named.
    (folder / "link.png").symlink_to("c.png")
    assert _expanded("c.png", "./c.png", "link.png", "*c.png")[0] == ["c.png"]


def test_nothing_to_work_on(folder: Path) -> None:
    with pytest.raises(UsageError, match="expected IMAGE or --list"):
        _expanded()
    (folder / "empty.txt").write_text("# nothing\n")
    for words in (["photos/sub"], ["photos/*.gif"], ["@empty.txt"], ["@absent.txt"]):
        with pytest.raises(FileNotFoundError):
            _expanded(*words)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.png", "b.png"], ["a", "b"]),
        (["a.png", "a.jpg", "b.png"], ["a_png", "a_jpg", "b"]),
        (["x/a.png", "y/A.png"], ["x_a", "y_A"]),
        (["x/a.png", "y/a.png", "x/a.jpg"], ["x_a_png", "y_a_png", "x_a_jpg"]),
        (["1/x/a.png", "2/x/a.png"], ["x_a_png", "x_a_png-2"]),
        (["x/a.png", "y/a.png", "x_a.png"], ["x_a", "y_a", "x_a-2"]),
        ([".png", "..png"], ["png", "image"]),
    ],
)
def test_names_of_results_differ(paths: list[str], names: list[str]) -> None:
    assert inputs.unique_names(map(Path, paths)) == names


def test_segment_sorts_results_by_input(
    run: Callable[..., tuple], folder: Path, tiny_checkpoint: Path
) -> None:
    words = [*BOX, "--output", "out", "--json", "all.json", "--npz", "arrays"]
    code, out, err = run("segment", "photos", "more/a.png", *words)
    assert code == 0
    assert err == (
        f"sam-rlx segment: 3 images, box 5,5,30,30, {tiny_checkpoint}; passed over: "
        "1 hidden file or folder (._a.png), 1 file of another kind (notes.txt), 1 folder (sub)\n"
    )
    assert "3 of 3 images done" in out
    for name in ("photos_a", "more_a", "b"):
        written = sorted(path.name for path in (folder / "out" / name).iterdir())
        assert written == ["mask_000.png", "masks.json", "overlay.png"]
        assert (folder / "arrays" / f"{name}.npz").exists()
    document = json.loads((folder / "all.json").read_text())
    files = [image["file_name"] for image in document["images"]]
    assert files == ["photos/a.png", "photos/b.JPG", "more/a.png"]
    assert [image["id"] for image in document["images"]] == [1, 2, 3]
    assert [entry["id"] for entry in document["annotations"]] == [1, 2, 3]
    assert [entry["image_id"] for entry in document["annotations"]] == [1, 2, 3]
    # Results are those of the images alone.
    assert run("segment", "more/a.png", *BOX, "--output", "alone")[0] == 0
    for name in ("mask_000.png", "overlay.png"):
        alone, sorted_in = (folder / out / name for out in ("alone", "out/more_a"))
        assert np.array_equal(Image.open(alone), Image.open(sorted_in))


def test_everything_takes_several_with_one_model(
    run: Callable[..., tuple], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []
    load = cli.common.load_model
    monkeypatch.setattr(cli.common, "load_model", lambda *a, **k: loads.append(a) or load(*a, **k))
    code, out, _ = run("everything", "c.png", "photos", *LOOSE, "--json", "-")
    assert code == 0
    assert len(loads) == 1
    assert len(json.loads(out)["images"]) == 3


def test_words_may_stand_behind_options(run: Callable[..., tuple], folder: Path) -> None:
    code, out, _ = run("segment", "c.png", *BOX, "more/a.png", "--dry")
    assert code == 0
    assert "c.png: would use 1 box" in out
    assert "more/a.png: would use 1 box" in out
    assert run("segment", "c.png", *BOX, "--dry", "--fly")[0] == 2
    assert run("info", "c.png", "more/a.png")[0] == 2


def test_an_image_that_fails_does_not_end_the_run(run: Callable[..., tuple], folder: Path) -> None:
    (folder / "photos" / "aa.png").write_text("damaged")
    _image(folder / "photos" / "small.png", hw=(4, 4))
    code, out, err = run("segment", "photos", "gone.png", *BOX, "--output", "out", "--json", "-")
    assert code == 1
    assert [image["file_name"] for image in json.loads(out)["images"]] == [
        "photos/a.png",
        "photos/b.JPG",
    ]
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a", "b"]
    assert "photos/aa.png: expected an image" in err
    assert "photos/small.png: --box: expected a part of an image of 4 x 4" in err
    assert "gone.png: No such file" in err
    assert "2 of 5 images done, 3 failed" in err


def test_a_pipe_in_a_folder_is_no_wait(run: Callable[..., tuple], folder: Path) -> None:
    os.mkfifo(folder / "photos" / "pipe.png")
    code, _, err = run("segment", "photos", *BOX, "--json", "all.json")
    assert code == 1
    assert "photos/pipe.png: expected a file, found something else" in err
    assert "2 of 3 images done, 1 failed" in err


def test_results_stay_without_overwrite(run: Callable[..., tuple], folder: Path) -> None:
    words = ["photos", *BOX, "--output", "out"]
    assert run("segment", *words)[0] == 0
    kept = folder / "out" / "a" / "overlay.png"
    before = kept.stat().st_mtime_ns
    for name in ("overlay.png", "masks.json", "mask_000.png"):
        (folder / "out" / "b" / name).unlink()
    code, out, err = run("segment", *words)
    assert code == 1
    assert kept.stat().st_mtime_ns == before
    assert (folder / "out" / "b" / "masks.json").exists()  # what was missing is made
    assert "photos/a.png: left" in out
    assert "1 of 2 images done, 1 left" in err
    kept.write_bytes(b"precious")
    code, _, err = run("segment", *words)
    assert code == 2
    assert "found no mark of what it was made from: choose another folder, or --overwrite" in err
    assert kept.read_bytes() == b"precious"
    assert run("segment", *words, "--overwrite")[0] == 0
    assert kept.read_bytes() != b"precious"


@pytest.mark.parametrize("results", [["--output", "out"], ["--npz", "out"], ["--masks", "out"]])
def test_results_belong_to_an_image_and_to_arguments(
    run: Callable[..., tuple], folder: Path, results: list[str]
) -> None:
    """Of another image, or other prompts, under the same name: none is taken for a result."""
    words = ["segment", "photos", *results]
    assert run(*words, *BOX)[0] == 0
    (folder / "photos").rename(folder / "moved")
    assert run("segment", "moved", *results, *BOX)[0] == 1  # the same images: left
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    for index, name in enumerate(("photos/a.png", "photos/b.JPG")):
        _image(folder / name, 7 + index)
    for given, found in (
        ([*words, *BOX], "found another image"),
        (["segment", "moved", *results, "--box", "9,9,20,20"], "found other prompts, options or"),
        (["segment", "moved", *results, *BOX, "--multimask"], "found other prompts, options or"),
    ):
        code, _, err = run(*given, "--json", "new.json")
        assert (code, found in err) == (2, True)
        assert not (folder / "new.json").exists()
    assert {path: path.read_bytes() for path in before} == before
    assert run(*words, *BOX, "--overwrite", "--json", "new.json")[0] == 0


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"info": {"software": "sam_rlx"}, "images": []}', "truncated"]
)
def test_damaged_results_are_named_or_made_again(
    run: Callable[..., tuple], folder: Path, damage: str
) -> None:
    words = ["segment", "photos", *BOX, "--output", "out", "--json", "all.json"]
    assert run(*words)[0] == 0
    path = folder / "out" / "a" / "masks.json"
    path.write_text(path.read_text()[:-30] if damage == "truncated" else damage)
    code, _, err = run(*words)
    if damage == "truncated":
        assert code == 1  # the other one is left
        assert len(json.loads(path.read_text())["annotations"]) == 1
    else:
        assert code == 2
        assert "out/a/masks.json: expected results of photos/a.png" in err
    assert len(json.loads((folder / "all.json").read_text())["images"]) == 2


def test_an_interrupted_run_loses_nothing_finished(
    run: Callable[..., tuple], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of the second image: between its overlay and its JSON."""
    write, calls = cli.outputs.io.write_json, []

    def interrupted(path: Path, document: object) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(path, document)

    monkeypatch.setattr(cli.outputs.io, "write_json", interrupted)
    code, _, err = run("segment", "photos", *BOX, "--output", "out", "--json", "all.json")
    assert code == 130
    assert "interrupted" in err
    assert sorted(path.name for path in (folder / "out" / "a").iterdir()) == [
        "mask_000.png",
        "masks.json",
        "overlay.png",
    ]
    assert [path.name for path in (folder / "out").rglob("*") if path.parent.name == "b"] == []
    document = json.loads((folder / "all.json").read_text())
    assert [image["file_name"] for image in document["images"]] == ["photos/a.png"]
    monkeypatch.undo()
    os.chdir(folder)
    code, _, _ = run("segment", "photos", *BOX, "--output", "out", "--json", "all.json")
    assert code == 1  # one is left as it is
    assert (folder / "out" / "b" / "masks.json").exists()
    images = json.loads((folder / "all.json").read_text())["images"]
    assert [image["file_name"] for image in images] == ["photos/a.png", "photos/b.JPG"]


def test_links_stay_where_a_write_fails(
    run: Callable[..., tuple], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "loop").symlink_to("loop")
    (folder / "later").symlink_to("later.npz")
    code, _, err = run("segment", "c.png", *BOX, "--npz", "loop")
    assert code == 1
    assert "Too many levels of symbolic links" in err

    def full(path: Path, _: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(cli.outputs.io, "write_json", full)
    assert run("segment", "c.png", *BOX, "--npz", "later", "--output", "o")[0] == 1
    names = sorted(path.name for path in folder.iterdir() if path.name != "o")
    assert names == ["c.png", "later", "loop", "more", "photos"]


def test_the_json_of_an_earlier_run_stays(run: Callable[..., tuple], folder: Path) -> None:
    (folder / "all.json").write_text("precious")
    words = ["photos", *BOX, "--json", "all.json"]
    code, _, err = run("segment", *words)
    assert code == 2
    assert "which sam-rlx has not written" in err
    assert (folder / "all.json").read_text() == "precious"
    assert run("segment", *words, "--overwrite")[0] == 0
    code, _, err = run("segment", *words)  # nor is one of ours, where no image has its own
    assert code == 2
    assert "expected no file yet" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--output", "x.png"], "--output: expected a directory for several images"),
        (["--npz", "x.npz"], "--npz: expected a directory for several images"),
        (["--json", "photos/a.png"], "--json: expected another file than the input"),
        (["--json", "all.png"], "--json: all.png: expected a name that ends in .json"),
        (["--masks", "m.png"], "--masks: expected a directory for several images"),
        (["--npz", "m.json"], "--npz: expected a directory for several images"),
    ],
)
def test_wrong_outputs_of_several(
    run: Callable[..., tuple], folder: Path, words: list[str], text: str
) -> None:
    code, _, err = run("segment", "photos", *BOX, *words)
    assert code == 2
    assert text in err
    assert not (folder / "x.png").exists()


def test_json_on_stdout_is_alone_there_without_a_stderr(
    run: Callable[..., tuple], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under services and pythonw."""
    tell_aside = cli.common.tell_aside
    told: list[str] = []

    def without(line: str) -> None:
        with monkeypatch.context() as inside:
            inside.setattr("sys.stderr", None)
            tell_aside(line)
        told.append(line)

    for module in (cli.common, cli.outputs):
        monkeypatch.setattr(module, "tell_aside", without)
    code, out, _ = run("segment", "photos", *BOX, "--json", "-")
    assert (code, len(json.loads(out)["images"])) == (0, 2)
    assert len(told) == 5  # the first line, the model, two images, and the last one
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(UsageError, match="expected an open stdout"):
        cli.common.print_json({})
