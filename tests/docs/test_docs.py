"""README, docs and docstrings: their commands and examples run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import pkgutil
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
import sam_rlx
from sam_rlx import io
from sam_rlx.apps import cli
from sam_rlx.apps.cli import demo
from support import adapters, sam3cpp_files, tiny
from support.pages import BLOCK, COOKBOOK, PAGES, ROOT, commands, program

pytestmark = pytest.mark.source_tree

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _ran(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command of a page; a model that stands in for Meta's may find nothing, and says so."""
    code = cli.main(shlex.split(command)[1:])
    out, err = capsys.readouterr()
    assert code == 0 or (code == 1 and ": found nothing" in err), (command, err)
    return out


def _command(name: str) -> str:
    text = (ROOT / "README.md").read_text().partition(f"<!-- command: {name} -->")[2]
    block = BLOCK.search(text)
    assert block is not None
    return block[2].strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_links_of_the_readme_lead_to_files_from_anywhere() -> None:
    """The package index shows the README too: its links name the repository, and files in it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    repository = project["urls"]["Repository"]
    count = 0
    for mark, target in re.findall(r"(!?)\[[^\]]*\]\(([^)#\s]+)", (ROOT / "README.md").read_text()):
        assert target.startswith("https://"), target
        if target.startswith(repository):
            start = f"{repository}/{'raw' if mark else 'blob'}/main/"
            assert target.startswith(start), target
            assert (ROOT / target.removeprefix(start)).is_file(), target
            count += 1
    assert count > 20
    assert all(url.startswith("https://") for url in project["urls"].values())


@pytest.fixture(scope="session")
def stand_ins(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_checkpoint: Path,
    sam2_checkpoint: Path,
    clip: Path,
) -> Path:
    """A folder with all files that a page may tell its reader to have: small ones, large names."""
    folder = tmp_path_factory.mktemp("stand_ins")
    assets = demo.IMAGE.parent
    files = {
        "sam_vit_b_01ec64.pth": tiny_checkpoint,
        "medsam_vit_b.pth": tiny_checkpoint,
        "sam2.1_hiera_tiny.pt": sam2_checkpoint,
        "sam3.pt": assets / "sam3-nano.gguf",
        "clip.mp4": clip,
        "cup.jpg": assets / "coffee.jpg",
        "photo.jpg": assets / "coffee.jpg",
        "street.jpg": demo.IMAGE,
        "photos/cup.jpg": assets / "coffee.jpg",
        "photos/street.jpg": demo.IMAGE,
    }
    (folder / "photos").mkdir()
    for name, source in files.items():
        (folder / name).write_bytes(source.read_bytes())
    for name, packaged in {"sam-vit-base": "sam-nano", "sam2.1-hiera-tiny": "sam2-nano"}.items():
        assert cli.main(["convert", packaged, str(folder / name)]) == 0
    shown = {"image_id": 1, "category_id": 1, "bbox": [20, 30, 100, 60]}
    examples = {"images": [{"id": 1, "file_name": "street.jpg"}], "annotations": [shown]}
    (folder / "taxis.json").write_text(json.dumps(examples))
    layers = ["image_encoder.blocks.0.attn.qkv"]
    adapters.save(folder / "my-lora", adapters.for_modules(tiny.sam_weights(), layers, 4, 2.0)[0])
    (folder / "sam2.1_hiera_tiny_q8_0.ggml").write_bytes(sam3cpp_files.tiny_sam2_bytes())
    image = io.read_image(demo.IMAGE)
    for name in ("sam_vit_b_01ec64.pth", "sam2.1_hiera_tiny.pt", "sam3.pt"):
        model = sam_rlx.load_model(folder / name)
        predictors = {"clicks": sam_rlx.ImagePredictor(model)}
        if model.supports_text:
            predictors["texts"] = sam_rlx.ConceptPredictor(model)
        for kind, predictor in predictors.items():
            predictor.set_image(image)
            arrays = predictor.image_embeddings
            safetensors.numpy.save_file(
                {str(index): array for index, array in enumerate(arrays)},
                folder / f"{model.family}_{kind}.safetensors",
                {"hw": json.dumps(image.shape[:2])},
            )
    return folder


def _lay_out(page: Path, stand_ins: Path, folder: Path) -> None:
    """Give the reader's folder what the blocks of a page name, and nothing else."""
    named = " ".join(text for _, text in BLOCK.findall(page.read_text()))
    for source in stand_ins.iterdir():
        if re.search(rf"(?<![\w/]){re.escape(source.name)}(?!\w)", named):
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / source.name)


def _written(page: Path) -> set[str]:
    """Return the names of the files that a page's program writes."""
    return set(re.findall(r'(?:write_image|save|save_embedding)\("([\w.]+)"', program(page)))


# What a page's program needs beyond the extra `cli`.
EXTRAS = {"jupyter.md": "anywidget", "batch.md": "pyarrow", "parity.md": "torch"}
EXTRAS["gpu_encoder.md"] = "safetensors"
# Of large images the commands of the page and the program of the cookbook's run by default.
SLOW = ("parity.md", "large_images.md")
RUN = [
    pytest.param(
        page,
        id=page.name,
        marks=[
            *([pytest.mark.parity] if page.name == "parity.md" else []),
            *([pytest.mark.slow] if page.name in SLOW else []),
        ],
    )
    for page in PAGES
    if program(page).strip() and page not in COOKBOOK
]


@pytest.mark.parametrize("page", RUN)
def test_python_of_a_page_runs_as_its_reader_has_it(
    page: Path, stand_ins: Path, tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    """All blocks in order, in a process of their own and a folder with the files they name."""
    extra = EXTRAS.get(page.name)
    if extra is not None and importlib.util.find_spec(extra) is None:
        pytest.skip(f"needs {extra}")
    _lay_out(page, stand_ins, tmp_path)
    ran = run_python("-c", program(page), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert _written(page) <= {path.name for path in tmp_path.iterdir()}


def test_what_a_block_needs_is_not_installed_with_the_package() -> None:
    """A block is left out for another package, a server or a gated repository, and for no other."""
    needs = {
        first.removeprefix("# needs ")
        for page in PAGES
        for kind, text in BLOCK.findall(page.read_text())
        if kind == "python" and (first := text.splitlines()[0]).startswith("# needs ")
    }
    other = ("segment_anything", "sam2", "sam3", "transformers", "ultralytics", "PyTorch", "Spark")
    other += (
        "supervision",
        "napari",
        "rasterio and geopandas",
        "a running `sam-rlx serve`",
        "facebook/sam3",
    )
    assert [need for need in needs if not need.startswith(other)] == []


def test_readme_commands_are_complete() -> None:
    demo, test = _command("demo"), _command("test")
    for command in (demo, test):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert demo.endswith("&& .venv/bin/sam-rlx demo")
    assert test.endswith("&& .venv/bin/python -m pytest")


def test_the_readme_demo_runs(tmp_path: Path, run_python: Callable[..., object]) -> None:
    arguments = shlex.split(_command("demo").rpartition("&& .venv/bin/sam-rlx ")[2])
    found = run_python("-m", "sam_rlx", *arguments, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "sam_rlx_demo.png").stat().st_size > 10_000


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_ins: Path) -> Path:
    """The current folder, with all files that the pages name."""
    shutil.copytree(stand_ins, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run_commands(page: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the commands of a page print."""
    lines = commands(page)
    assert lines
    return "".join(_ran(command, capsys) for command in lines)


def test_commands_of_the_readme_run(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = _run_commands(ROOT / "README.md", capsys)
    assert "vit" in printed  # of `info`
    cup = io.read_image(workplace / "cup.jpg")
    overlay = io.read_image(workplace / "cup_overlay.png")
    assert overlay.shape == cup.shape
    assert (overlay != cup).any()
    written = json.loads((workplace / "cup.json").read_text())
    assert written
    assert io.read_image(workplace / "found.png").shape == io.read_image("street.jpg").shape
    assert (workplace / "street" / "masks.json").exists()
    for name in ("cup", "street"):
        assert (workplace / "results" / name / "mask_000.png").exists()
    assert (workplace / "tracked" / "overlay.mp4").stat().st_size > 0


def test_commands_of_the_quickstart_run(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = _run_commands(ROOT / "docs" / "quickstart.md", capsys)
    assert "2 of 2 images done" in printed
    assert (workplace / "results" / "cup" / "masks.json").exists()


def test_commands_for_batches_run(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    assert _run_commands(ROOT / "docs" / "batch.md", capsys).count("2 of 2 images done") == 3
    assert (workplace / "boxes" / "masks" / "cup" / "0.png").exists()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("coming_from.md", ["cup/masks.json"]),
        ("index.md", ["overlay.png"]),
        ("large_images.md", ["everything.json", "box.json", "texts.json"]),
        (
            "text_prompts.md",
            ["found/overlay.png", "found.json", "tracked.mp4", "like/cup/overlay.png"],
        ),
        ("video.md", ["tracked/overlay.mp4", "masks.json"]),
    ],
)
def test_commands_of_a_page_run(
    name: str, written: list[str], workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run_commands(ROOT / "docs" / name, capsys)
    for path in written:
        assert (workplace / path).stat().st_size > 0, path


def test_commands_for_checkpoints_run(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A converted model gives the bits of its source; a packed one is smaller."""
    _run_commands(ROOT / "docs" / "checkpoints.md", capsys)
    source = sam_rlx.load_model("sam_vit_b_01ec64.pth")
    packed = sam_rlx.load_model("sam_vit_b-q8_0.gguf")
    assert packed.num_parameters == source.num_parameters
    assert (workplace / "sam_vit_b-q8_0.gguf").stat().st_size < (
        0.6 * (workplace / "sam_vit_b_01ec64.pth").stat().st_size
    )
    half = sam_rlx.load_model("hiera_t.gguf")
    assert half.num_parameters == sam_rlx.load_model("sam2.1_hiera_tiny.pt").num_parameters
    masks = []
    for name in ("sam_vit_b_01ec64.pth", "sam_vit_b.safetensors"):
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(name), num_threads=1)
        predictor.set_image(io.read_image("cup.jpg"))
        masks.append(predictor.predict(point_coords=[[300, 60]], point_labels=[1]).low_res_masks)
    assert masks[0].tobytes() == masks[1].tobytes()


def test_the_ci_script_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "<!-- command: test -->" in script
    assert "pip install" not in script


def _modules() -> list[str]:
    found = pkgutil.walk_packages(sam_rlx.__path__, "sam_rlx.")
    return [entry.name for entry in found if not entry.name.endswith(("__main__", "_testing"))]


@pytest.mark.parametrize("name", _modules())
def test_docstring_examples_run(name: str) -> None:
    if name == "sam_rlx.parity":
        pytest.importorskip("torch", reason="needs PyTorch")
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0
