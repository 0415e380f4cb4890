"""What folders, patterns, lists and words give, and how items and results are called."""

from __future__ import annotations

import glob
import io as streams
import os
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx._internal.files import hints, inputs, suffixes
from sam_rlx._internal.files.patterns import matches
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx.apps.annotator.saved import parsed
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.frames import open_frames


def _image(path: Path, form: str = "PNG") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), "red").save(path, form)
    return path


def _names(listing: suffixes.Listing, folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in listing.files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images and others, with links to folders and a loop."""
    top = tmp_path / "shots"
    for name, form in (
        ("b.PNG", "PNG"),
        ("a.jfif", "JPEG"),
        ("deep/c.mpo", "JPEG"),
        (".hidden.png", "PNG"),
        ("._b.png", "PNG"),
        (".cache/d.png", "PNG"),
    ):
        _image(top / name, form)
    _image(tmp_path / "elsewhere" / "e.jp2", "JPEG2000")
    (top / "more").symlink_to(tmp_path / "elsewhere")
    (top / "deep" / "round").symlink_to(top)
    (top / "deep" / "twice").symlink_to(tmp_path / "elsewhere")
    (top / "lost.png").symlink_to("nowhere.png")
    (top / "self").symlink_to("self")
    (top / "read.me").write_text("words")
    return top


def test_a_folder_gives_its_images_and_says_what_else_is_there(folder: Path) -> None:
    found = suffixes.images_of(folder)
    assert _names(found, folder) == ["a.jfif", "b.PNG", "lost.png"]
    assert found.passed_over.counts == {
        suffixes.HIDDEN: 3,
        suffixes.OTHER: 2,
        suffixes.FOLDER: 2,
    }
    text = str(found.passed_over)
    assert "3 hidden files or folders (._b.png, .cache, .hidden.png)" in text
    assert "2 folders (deep, more)" in text


def test_folders_below_are_walked_each_once(folder: Path) -> None:
    found = suffixes.images_of(folder, below=True)
    assert _names(found, folder) == [
        "a.jfif",
        "b.PNG",
        "lost.png",
        "deep/c.mpo",
        "deep/twice/e.jp2",
    ]
    assert found.passed_over.names[suffixes.AGAIN] == ["deep/round", "more"]


def test_an_error_of_the_walk_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def scandir(path: object) -> object:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="deep"):
        suffixes.images_of(folder, below=True)


def test_results_are_no_inputs(tmp_path: Path) -> None:
    top = tmp_path / "in"
    _image(top / "a.png")
    io.write_image(top / "made_here.png", np.zeros((4, 6, 3), np.uint8))  # an image like others
    io.write_masks(top / "masks", [np.ones((4, 6), bool)])
    io.write_image(top / "mask.png", np.ones((4, 6), bool))
    for name in ("old/overlay.png", "old/overlay.jpg", "old/overlay.webp"):
        (top / "old").mkdir(exist_ok=True)
        io.write_image(top / name, np.zeros((4, 6, 3), np.uint8))
    _image(top / "theirs" / "overlay.png")
    with ClipWriter(top / "old" / "a.mp4", 10) as clip:
        clip.add(np.zeros((16, 16, 3), np.uint8))
    (top / "theirs" / "b.mp4").write_bytes((top / "old" / "a.mp4").read_bytes()[:-40])
    (top / "batch").mkdir()
    (top / "batch" / "manifest.json").write_text('{"format": "sam_rlx.batch.1"}')
    _image(top / "batch" / "x.png")
    found = suffixes.images_of(top, below=True)
    assert _names(found, top) == ["a.png", "made_here.png", "theirs/overlay.png"]
    assert found.passed_over.counts == {
        suffixes.RESULT: 5,
        suffixes.OTHER: 2,
        suffixes.RESULTS: 1,
    }
    clips = suffixes.images_of(top, below=True, clips=True)
    assert [path.name for path in clips.files if path.suffix == ".mp4"] == ["b.mp4"]
    pattern = inputs.files_of(f"{top}/**/*.png")
    assert pattern.files == found.files
    assert pattern.passed_over.counts == {suffixes.RESULT: 4}
    with pytest.raises(FileNotFoundError, match=r"1 folder of results \("):
        suffixes.images_of(top / "batch")
    # A file that is named is taken.
    assert inputs.files_of(str(top / "mask.png")).files == [top / "mask.png"]


def test_only_streams_are_clips(tmp_path: Path) -> None:
    starts = {
        "a.ts": b"import x",
        "b.ts": b"G" + bytes(187) + b"G",
        "c.m2ts": bytes(4) + b"G" + bytes(191) + b"G",
        "d.mp4": b"",
    }
    for name, start in starts.items():
        (tmp_path / name).write_bytes(start)
    found = suffixes.images_of(tmp_path, clips=True)
    assert [path.name for path in found.files] == ["b.ts", "c.m2ts", "d.mp4"]
    assert found.passed_over.names[suffixes.OTHER] == ["a.ts"]


def test_a_tilde_names_a_home_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert inputs.home("~/x.png") == tmp_path / "me" / "x.png"
    assert inputs.home("~nobody-of-that-name/x.png") == Path("~nobody-of-that-name/x.png")
    _image(tmp_path / "~draft.png")
    assert inputs.files_of("~draft.png").files == [Path("~draft.png")]


def test_lists_may_name_files_that_begin_as_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _image(tmp_path / "#7.png")
    (tmp_path / "list.txt").write_text("#7.png\n# a comment\nb.png\n")
    assert inputs.read_list("list.txt") == ["#7.png", "b.png"]


def test_words_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a file, a folder or a pattern"):
        inputs.files_of(str(tmp_path / "absent.png"), must=True)
    with pytest.raises(FileNotFoundError, match="download it first"):
        inputs.files_of("https://example.org/a.png", must=True)
    with pytest.raises(InvalidArgumentError, match="expected the name of a file"):
        inputs.files_of("a\0b")


def test_names_are_found_in_any_form(tmp_path: Path) -> None:
    name = "r\u00e9sum\u00e9/\u00fcber.png"
    for stored in ("NFC", "NFD"):
        base = tmp_path / stored
        file = _image(base / unicodedata.normalize(stored, name))
        for asked in ("NFC", "NFD"):
            given = unicodedata.normalize(asked, name)
            assert inputs.existing(base / given) == file
            assert inputs.existing(Path(f"{base}/" + given.replace("/", "\\"))) == file
            assert inputs.compared_name(given) == name
            assert inputs.files_of(str(base / given), must=True).files == [file]
    assert inputs.existing(tmp_path / "absent.png") == tmp_path / "absent.png"


def test_given_names_stay(tmp_path: Path) -> None:
    given = ["1.2.3", "1.2", None, "7.5 mm", "a/b", "cup", "cup", "Cup", "cup-2"]
    paths = [tmp_path / f"{k}.png" for k in range(9)]
    paths[2] = tmp_path / "1.2.png"
    names = inputs.item_names(given, paths)
    assert names[2] == "1.2-2"
    assert [name for name in names if name not in given] == ["1.2-2", "cup-3"]
    assert [names[at] for at in (0, 1, 3, 4, 5, 7, 8)] == [
        given[at] for at in (0, 1, 3, 4, 5, 7, 8)
    ]


def test_naming_takes_time_with_the_number_of_names() -> None:
    """Equal names, and equal names in folders of equal names: by a count of steps, a second."""
    start = time.process_time()
    assert len({n.casefold() for n in inputs.unique(["cup"] * 20_000)}) == 20_000
    names = inputs.unique_names(Path(f"scene-{k}/images/0001.png") for k in range(20_000))
    assert len(set(names)) == 20_000
    assert time.process_time() - start < 5.0  # with squares it is a minute


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\n<!DOCTYPE html><p>", "a web page"),
        (b"<HTML>", "a web page"),
        (b'{"error": "Repository not found"}', "server (Repository not found)"),
        (b'{"message":"Not Found","documentation_url":"x"}', "server (Not Found)"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "(AccessDenied)"),
        (b"<?xml version='1.0'?><svg></svg>", "an SVG drawing"),
        (b"<?xml version='1.0'?><net name='x'>", "OpenVINO"),
        (b"<?xml version='1.0'?><a/>", "an XML file"),
        (b'{"weight_map": {}, "metadata": {}}', ""),
        (b'{"error": ', ""),
        (b"\x89PNG\r\n\x1a\n", ""),
    ],
)
def test_odd_files_are_told(start: bytes, words: str) -> None:
    found = hints.odd_file(start)
    assert words in found
    assert bool(words) == bool(found)


def test_odd_files_are_told_by_every_reader(tmp_path: Path) -> None:
    page = tmp_path / "file"
    page.write_bytes(b"<!DOCTYPE html><html><title>Sign in</title></html>")
    readers = {
        sam_rlx.CheckpointError: sam_rlx.load_model,
        InvalidArgumentError: io.read_image,
    }
    for error, read in readers.items():
        with pytest.raises(error, match="a web page, not the file itself"):
            read(page)
    for read in (open_frames, lambda path: parsed("file", path.read_bytes())):
        with pytest.raises(InvalidArgumentError, match="a web page, not the file itself"):
            read(page)
    for read in (sam_rlx.load_model, io.read_image, open_frames):
        with pytest.raises(FileNotFoundError, match="download it first"):
            read("https://example.org/a.bin")
        with pytest.raises(FileNotFoundError):
            read("~nobody-of-that-name.bin")


@pytest.mark.parametrize(
    ("stdin", "error"),
    [
        (None, FileNotFoundError),
        (streams.TextIOWrapper(streams.BytesIO(b"\xff\xfe"), "utf-8"), InvalidArgumentError),
    ],
)
def test_a_standard_input_that_is_no_list(
    stdin: object, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(error, match="--list"):
        inputs.read_list("-")


def test_patterns_give_what_glob_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a.png", "b.jpg", "x/a.png", "x/y/c.png", "x/y/.d.png", ".z/e.png", "[1].png", "x/1/f"]
    for name in names:
        _image(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    patterns = "*.png **/*.png x/**/*.png **/y/* ** x/*/*.png ?.* x/**/f [ab].* .z/*.png */.*"
    for pattern in (
        *patterns.split(),
        "./*.png",
        "none/*",
        "**/**/c.*",
        "**/y/**/*",
        "**/x/**/y/*",
    ):
        for base in ("", f"{tmp_path}/"):
            found = glob.glob(base + pattern, recursive=True)  # noqa: PTH207
            expected = sorted({Path(name) for name in found if os.path.isfile(name)})  # noqa: PTH113
            assert matches(Path(base + pattern)) == expected, pattern


def test_patterns_walk_each_folder_once_and_tell_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [path.relative_to(folder).as_posix() for path in matches(folder / "**" / "*.*")]
    assert found == ["a.jfif", "b.PNG", "deep/c.mpo", "deep/twice/e.jp2", "lost.png", "read.me"]

    def scandir(path: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="shots"):
        inputs.files_of(f"{folder}/*.png")
