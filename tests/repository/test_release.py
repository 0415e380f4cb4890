"""The script of a release: one version everywhere, and sums of the files that are there."""

import hashlib
import importlib.util
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]


@pytest.fixture
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "packages" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path):
    for name in ("pyproject.toml", "packages/sam-rlx-nano/pyproject.toml", "recipe/recipe.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    return tmp_path


def test_this_checkout_has_one_version(release, capsys):
    assert release.problems(ROOT) == []
    assert release.main([]) == 0
    assert "sam_rlx " in capsys.readouterr().out


@pytest.mark.parametrize("folder", [".", "packages/sam-rlx-nano"])
def test_another_version_is_found(release, copy, folder):
    path = copy / folder / "pyproject.toml"
    path.write_text(path.read_text().replace('\nversion = "0.1.0"', '\nversion = "0.2.0"'))
    (line,) = release.problems(copy)
    assert "0.2.0" in line


def test_filling_writes_versions_and_sums(release, copy, tmp_path):
    import yaml

    for name in ("pyproject.toml", "packages/sam-rlx-nano/pyproject.toml"):
        path = copy / name
        path.write_text(path.read_text().replace('\nversion = "0.1.0"', '\nversion = "0.2.0"'))
    dist = tmp_path / "dist"
    dist.mkdir()
    with pytest.raises(SystemExit, match=r"expected sam_rlx-0\.2\.0\.tar\.gz"):
        release.fill(copy, dist)
    contents = {
        "sam_rlx-0.2.0.tar.gz": b"one",
        "sam_rlx_nano-0.2.0.tar.gz": b"two",
        "sam_rlx-0.2.0-cp311-cp311-linux_x86_64.whl": b"three",
    }
    for name, content in contents.items():
        (dist / name).write_bytes(content)
    release.fill(copy, dist)
    assert release.problems(copy) == []
    recipe = yaml.safe_load((copy / "recipe" / "recipe.yaml").read_text())
    assert recipe["context"] == {"version": "0.2.0", "nano_version": "0.2.0"}
    sums = {each["package"]["name"]: each["source"]["sha256"] for each in recipe["outputs"]}
    assert sums == {
        "sam-rlx-nano": hashlib.sha256(b"two").hexdigest(),
        "sam-rlx": hashlib.sha256(b"one").hexdigest(),
    }
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == sorted(contents)


def test_the_list_of_steps_names_what_there_is():
    text = (ROOT / "docs" / "develop" / "release.md").read_text()
    nox = (ROOT / "noxfile.py").read_text()
    for session in ("wheel", "readme", "container", "full"):
        assert f"def {session}(" in nox
        assert session in text
    for name in ("packages/release.py", "packages/make_sdist.py", "recipe/check.py"):
        assert name in text
        assert (ROOT / name).is_file()
