"""The documentation site: no warning, and a page for every public name and command."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from nightly import site_pages
from support import HANG_SECONDS
from support.jupyter import chromium

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
pytest.importorskip("sphinx", reason="needs the extra docs")
pytest.importorskip("furo", reason="needs the extra docs")


@pytest.fixture(scope="module")
def public() -> ModuleType:
    """What the site thinks is public."""
    spec = importlib.util.spec_from_file_location("site_public", DOCS / "_site" / "public.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", DOCS, folder],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The kernels of the notebooks say how they are reached.
    assert [line for line in done.stderr.splitlines() if "[IPKernelApp]" not in line] == []
    return folder


@pytest.mark.slow
def test_every_public_name_and_command_has_a_page(site: Path, public: ModuleType) -> None:
    count = 0
    for module, found in public.entries().items():
        listed = (site / "reference" / module / "index.html").read_text()
        for entry in found:
            page = site / "reference" / entry.module / f"{entry.path.rpartition('.')[2]}.html"
            assert f'id="{entry.path}"' in page.read_text(), entry.path
            assert f">{entry.name}<" in listed, entry.path
            count += 1
    assert count > 100
    for name in public.command_names():
        assert "--help" in (site / "commands" / f"{name}.html").read_text()


@pytest.mark.slow
def test_notebooks_are_on_the_site_with_their_results(site: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert names
    for name in names:
        page = (site / "notebooks" / f"{name}.html").read_text()
        assert 'class="output' in page, name
        assert "_images/" in page, name
        assert "Traceback" not in page, name


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    files = {path.relative_to(site).as_posix() for path in site.rglob("*")}
    pages = {name: site_pages.read(site, name) for name in files if name.endswith(".html")}
    assert len(pages) > 150
    assert site_pages.broken_links(pages, files) == []


# Words by which people look for a task.
TASKS = """cut out, background removal, count, cells, csv, yolo, coco, geojson, geotiff, tiles,
large image, lora, video, track, text prompt, int8, quantize, gguf, batch, ray, duckdb, jupyter,
napari, features, embedding, similarity, matte, polygon, resume, docker"""


def test_words_of_tasks_have_a_page() -> None:
    known = {word for words in site_pages.search_words().values() for word in words}
    tasks = {" ".join(task.split()) for task in TASKS.split(",")}
    assert len(tasks) == 30
    assert tasks <= known
    assert all((DOCS / f"{page}.md").is_file() for page in site_pages.search_words())


@pytest.mark.slow
def test_search_finds_a_task_by_its_words(site: Path) -> None:
    chromium()
    assert site_pages.search_problems(site) == []


def test_every_module_has_a_group(public: ModuleType) -> None:
    """The groups of the reference are of modules that there are, and leave no name out."""
    names = {entry.path for module in site_pages.groups() for entry in public.entries()[module]}
    assert {entry.path for entry in public.entries()["sam_rlx"]} <= names
    rest = set(public.entries()) - site_pages.groups() - {"sam_rlx"}
    assert [module for module in rest if not module.startswith("sam_rlx.compat")] == []


def test_broken_links_are_found() -> None:
    pages = {"a.html": (["b.html", "b.html#x", "b.html#y", "#z"], {"q"}), "b.html": ([], {"x"})}
    found = site_pages.broken_links(pages, {"a.html", "b.html"})
    assert [text.split("which")[1] for text in found] == [" has no such anchor"] * 2
    assert site_pages.broken_links({"a.html": (["c.html"], set())}, {"a.html"})


def test_what_is_public(public: ModuleType) -> None:
    names = public.module_names()
    assert {"sam_rlx", "sam_rlx.viz", "sam_rlx.compat.sam2.build_sam"} <= set(names)
    assert not [name for name in names if "._" in name or ".cli." in name + "."]
    of_package = {entry.path for entry in public.entries()["sam_rlx"]}
    assert "sam_rlx.ImagePredictor" in of_package
    # The module where it is defined leads to the same page.
    assert "sam_rlx.ImagePredictor" in {e.path for e in public.entries()["sam_rlx.image"]}
