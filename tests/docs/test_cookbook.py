"""The cookbook: its programs are short, use public names alone, and do what their pages say."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx import io
from sam_rlx.apps import cli
from sam_rlx.frames import open_frames
from support import cookbook
from support.pages import COOKBOOK, PAGES, ROOT, commands, jobs, program

pytestmark = pytest.mark.source_tree

MAX_LINES = 10
# Everyday jobs; each is a block of the page of its task.
JOBS = {
    *("cut-outs", "count", "clip", "COCO", "YOLO", "CI", "20 megapixels", "GeoTIFF", "text"),
    *("pack", "embed", "batch", "port"),
}
# What a page needs beyond the extra `test`.
NEEDS = {"many_images": "duckdb", "label_folder": "anywidget", "coco_boxes": "pyarrow"}


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cookbook")
    cookbook.lay_out(made)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, laid_out: Path) -> Path:
    """The current folder, with all files that the pages name."""
    shutil.copytree(laid_out, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(name: str, replace: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """Run a page's program, with one text of it replaced by another one; return its names."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the page needs {NEEDS[name]}")
    page = ROOT / "docs" / "cookbook" / f"{name}.md"
    names: dict[str, Any] = {"__name__": "__main__"}
    text = program(page)
    assert replace[0] in text
    exec(compile(text.replace(*replace) if replace[0] else text, page, "exec"), names)
    return names


# ---------------------------------------------------------------- what the programs are


def test_every_job_is_a_short_program_of_public_names() -> None:
    found = {name: text for page in PAGES for name, text in jobs(page).items()}
    assert set(found) == JOBS
    for name, text in found.items():
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) <= MAX_LINES, name
        assert list(_private(ast.parse(text))) == [], name


def _private(tree: ast.AST) -> Iterator[str]:
    """Yield what a program uses that is not public."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            yield node.attr
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sam_rlx"):
            public = dir(importlib.import_module(str(node.module)))
            names = [alias.name for alias in node.names]
            yield from (name for name in names if name.startswith("_") or name not in public)
            yield from (part for part in str(node.module).split(".") if part.startswith("_"))


def test_private_names_are_found() -> None:
    tree = ast.parse("from sam_rlx._core import x\nfrom sam_rlx import nothing\nmodel._core")
    assert list(_private(ast.parse("from sam_rlx import io\nio.read_image(1)"))) == []
    assert {"nothing", "_core"} <= set(_private(tree))


@pytest.mark.parametrize("page", COOKBOOK, ids=lambda page: page.stem)
def test_a_page_has_an_image_a_command_and_a_choice(page: Path) -> None:
    text = page.read_text()
    if page.stem == "index":
        for other in COOKBOOK:
            assert other == page or f"({other.name})" in text, other.name
        return
    assert "![" in text
    assert text.index("| choose |") < text.index("```")  # what must be chosen comes first
    assert commands(page)
    assert program(page).strip()
    assert len(text.splitlines()) < 70


# ---------------------------------------------------------------- what they do


def test_cut_outs(folder: Path) -> None:
    _run("cut_outs")
    for name in cookbook.PRODUCTS:
        opacity = np.asarray(Image.open(folder / "cut" / f"{name}.jpg.png"))[..., 3]
        assert (opacity == 255).mean() > 0.2
        assert (opacity == 0).mean() > 0.1


@pytest.mark.slow
def test_cut_outs_of_thirty_images(folder: Path) -> None:
    rows = (folder / "boxes.csv").read_text().splitlines()
    lines = []
    for number in range(30):
        name, corners = rows[number % len(rows)].split(",", 1)
        (folder / "products" / f"{number}.jpg").write_bytes(
            (folder / "products" / name).read_bytes()
        )
        lines.append(f"{number}.jpg,{corners}")
    (folder / "boxes.csv").write_text("\n".join(lines))
    _run("cut_outs")
    assert len(list((folder / "cut").iterdir())) == 30


def test_cells(folder: Path) -> None:
    _run("cells")
    with (folder / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == cookbook.CELLS
    assert all(900 < int(row["area"]) < 2500 and row["name"] == "cell" for row in rows)


def test_coco_boxes(folder: Path) -> None:
    """Numbers, names and categories stay; each mask fills its box."""
    _run("coco_boxes")
    before = json.loads((folder / "boxes.json").read_text())
    after = json.loads((folder / "masks2.json").read_text())
    assert after["categories"] == before["categories"]
    for old, new in zip(before["annotations"], after["annotations"], strict=True):
        assert [new[key] for key in ("id", "image_id", "category_id")] == [
            old[key] for key in ("id", "image_id", "category_id")
        ]
        assert 0.5 < new["area"] / (old["bbox"][2] * old["bbox"][3]) < 0.9  # of a disc: 0.785


def test_text_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("text_folder")
    printed = capsys.readouterr().out
    assert printed.count("red circle") == cookbook.PHOTOS
    for number in range(cookbook.PHOTOS):
        document = json.loads((folder / f"named/table_{number}.jpg/masks.json").read_text())
        assert len(document["annotations"]) == len(cookbook.SHAPES)


def test_label_folder(folder: Path) -> None:
    _run("label_folder")
    for number in range(cookbook.PHOTOS):
        lines = (folder / f"dataset/labels/table_{number}.txt").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["0", "1"]
    assert "red circle" in (folder / "dataset" / "data.yaml").read_text()
    count = len(json.loads((folder / "corrected.json").read_text())["annotations"])
    assert count == 2 * cookbook.PHOTOS


def test_clip(folder: Path) -> None:
    names = _run("clip")
    assert open_frames("overlay.mp4").count == cookbook.FRAMES
    assert len(list((folder / "left").iterdir())) == cookbook.FRAMES
    for frame in names["found"]:
        for mask in frame.masks.values():
            assert 2000 < mask.sum() < 3500  # a coin has about 2,900


def test_aerial(folder: Path) -> None:
    _run("aerial")
    found = json.loads((folder / "map" / "masks.geojson").read_text())
    assert found["crs"]["properties"]["name"].endswith("32633")
    assert cookbook.ROOFS - 2 <= len(found["features"]) <= cookbook.ROOFS + 2
    left, top = cookbook.ORIGIN
    for feature in found["features"]:
        x, y = np.array(feature["geometry"]["coordinates"][0][0][:2], float).ravel()[:2]
        assert left <= x <= left + 320
        assert top - 240 <= y <= top


def test_large_photo(folder: Path) -> None:
    _run("large_photo")
    document = json.loads((folder / "tiled.json").read_text())
    height, width = io.read_image("photo.jpg").shape[:2]
    assert (document["images"][0]["height"], document["images"][0]["width"]) == (height, width)
    assert document["annotations"]


@pytest.mark.slow
def test_twenty_megapixels(folder: Path) -> None:
    photo = Image.open(folder / "photo.jpg").resize((5472, 3648))
    photo.save(folder / "photo.jpg", quality=90)
    _run("large_photo", ("tile=512, overlap=64", "tile=2048, overlap=256"))
    assert json.loads((folder / "tiled.json").read_text())["annotations"]


@pytest.mark.parity
@pytest.mark.slow
def test_checkpoint_ci(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        _run("checkpoint_ci")
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("same:")


def test_encode_once(folder: Path) -> None:
    names = _run("encode_once")
    assert len(list((folder / "embeddings").iterdir())) == cookbook.PHOTOS
    assert names["masks"].any()


def test_similar(folder: Path) -> None:
    """The nearest of nine parts are those of the same kind: equal in colour."""
    names = _run("similar")
    image, masks = names["image"].astype(float), names["found"].masks
    colors = [image[masks[index]].mean(axis=0) for index in names["order"]]
    apart = [float(np.abs(color - colors[0]).max()) for color in colors]
    assert len(masks) >= 9
    assert max(apart[:3]) < 10 < 50 < min(apart[3:])


def test_many_images(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second run finds all done; DuckDB reads the rows."""
    for before in (0, cookbook.PHOTOS):
        names = _run("many_images")
        printed = capsys.readouterr().out
        assert f"{cookbook.PHOTOS} images, {before} of them before, 0 failed" in printed
    rows = names["duckdb"].sql(names["query"]).fetchall()
    assert [row[0] for row in rows] == [f"table_{n}" for n in range(cookbook.PHOTOS)]


def test_small_machine(folder: Path) -> None:
    _run("small_machine")
    sizes = [(folder / name).stat().st_size for name in ("mine.safetensors", "mine-q4_k.gguf")]
    assert sizes[1] < 0.4 * sizes[0]


def test_port(folder: Path) -> None:
    names = _run("port")
    assert names["masks"].shape == (3, 303, 384)
    assert io.read_mask("mask.png")[185, 346]


# Two of each page take seconds with grids and clips.
LONG = ("aerial", "cells", "clip", "many_images")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in LONG else [])
        for page in COOKBOOK
        if page.stem not in ("index", "checkpoint_ci")  # which needs PyTorch
    ],
)
def test_commands_of_a_page_run(
    page: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in commands(page):
        if not command.startswith("sam-rlx serve"):  # it runs until it is ended
            code = cli.main(shlex.split(command)[1:])
            assert code == 0, (command, capsys.readouterr().err)
