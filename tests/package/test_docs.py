"""README, docs and docstrings: their commands and examples run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import sam_rlx
from sam_rlx import cli, io
from sam_rlx.cli import demo
from support import sam3cpp_files

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


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


def test_readme_and_quickstart_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(ROOT / "python")
    monkeypatch.chdir(tmp_path)
    for page in (ROOT / "README.md", ROOT / "docs" / "quickstart.md"):
        names: dict[str, object] = {}
        for block in _blocks(page, "python"):
            exec(compile(block, page.name, "exec"), names)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"coin.png", "coins.npz", "everything.png"} <= written


def test_examples_of_the_widget_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget", reason="the extra jupyter is not installed")
    (tmp_path / "python").symlink_to(ROOT / "python")
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "jupyter.md"
    names: dict[str, object] = {}
    for block in _blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert (tmp_path / "coins.json").exists()


def test_video_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sam2_checkpoint: Path, clip: Path
) -> None:
    (tmp_path / "sam2.1_hiera_tiny.pt").write_bytes(sam2_checkpoint.read_bytes())
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "video.md"
    names: dict[str, object] = {}
    for block in _blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    for block in _blocks(page, "sh"):
        for line in block.splitlines():
            assert cli.main(shlex.split(line)[1:]) == 0
    assert (tmp_path / "tracked" / "overlay.mp4").exists()
    assert {path.name for path in tmp_path.glob("*.*")} >= {"masks.json", "session.npz"}


@pytest.mark.parity
def test_text_prompt_examples_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clip: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
    concepts.save(tmp_path / "sam3.pt", concepts.image_model(clicks=True))
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    (tmp_path / "street.jpg").write_bytes(demo.IMAGE.read_bytes())
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "text_prompts.md"
    names: dict[str, object] = {}
    for block in _blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    for block in _blocks(page, "sh"):
        for line in block.splitlines():
            _ran(line, capsys)
    assert (tmp_path / "found" / "overlay.png").exists()
    assert {path.name for path in tmp_path.glob("*.*")} >= {
        "found.png",
        "found.json",
        "tracked.mp4",
    }


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
def workplace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_checkpoint: Path,
    sam2_checkpoint: Path,
    clip: Path,
) -> Path:
    """The current folder, with the files that the pages name: small models under large names."""
    assets = demo.IMAGE.parent
    files = {
        "sam_vit_b_01ec64.pth": tiny_checkpoint,
        "sam2.1_hiera_tiny.pt": sam2_checkpoint,
        "sam3.pt": assets / "sam3-nano.gguf",
        "clip.mp4": clip,
        "cup.jpg": assets / "coffee.jpg",
        "street.jpg": demo.IMAGE,
    }
    for name, source in files.items():
        (tmp_path / name).write_bytes(source.read_bytes())
    (tmp_path / "sam2.1_hiera_tiny_q8_0.ggml").write_bytes(sam3cpp_files.tiny_sam2_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run_commands(page: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the commands of a page print."""
    lines = [line for block in _blocks(page, "sh") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("sam-rlx ")]
    assert commands
    return "".join(_ran(command, capsys) for command in commands)


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
    for name in ("cup.jpg", "street.jpg"):
        (workplace / "photos").mkdir(exist_ok=True)
        (workplace / "photos" / name).write_bytes((workplace / name).read_bytes())
    printed = _run_commands(ROOT / "docs" / "quickstart.md", capsys)
    assert "2 of 2 images done" in printed
    assert (workplace / "results" / "cup" / "masks.json").exists()


def test_commands_for_batches_run(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    (workplace / "photos").mkdir()
    for name in ("cup.jpg", "street.jpg"):
        (workplace / "photos" / name).write_bytes((workplace / name).read_bytes())
    page = ROOT / "docs" / "batch.md"
    assert _run_commands(page, capsys).count("2 of 2 images done") == 3
    for block in _blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {})
    assert "street" in capsys.readouterr().out
    assert (workplace / "boxes" / "masks" / "cup" / "0.png").exists()


def test_what_other_packages_users_write_here_runs(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of upstream's code are marked ``py``, ours ``python``."""
    page = ROOT / "docs" / "coming_from.md"
    names: dict[str, object] = {}
    for block in _blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert len(_blocks(page, "py")) == 5
    _run_commands(page, capsys)
    assert (workplace / "cup" / "masks.json").exists()


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
