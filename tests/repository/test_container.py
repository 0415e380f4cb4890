"""The Dockerfile: what it copies is there, and it keeps the rules that linters have."""

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from support.containers import instructions

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
LINES = instructions(ROOT / "Dockerfile")
WORDS = {"FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}


def test_instructions_are_known():
    assert {each.word for each in LINES} <= WORDS
    assert LINES[0].word == "FROM"


def test_bases_have_a_release():
    bases = [each.words[0] for each in LINES if each.word == "FROM"]
    assert len(bases) == 2
    assert len(set(bases)) == 1  # libraries of the build are those of the run
    assert all(re.fullmatch(r"debian:\w+-slim", base) for base in bases)


def test_what_is_copied_is_there_and_reaches_docker():
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = [
        word
        for each in LINES
        if each.word == "COPY" and not each.text.startswith("--from")
        for word in each.words[:-1]
    ]
    assert set(copied) == allowed
    for name in copied:
        assert (ROOT / name).exists(), name


def test_the_build_has_all_that_it_names():
    """CMake's sources of the package, and what pyproject.toml reads."""
    copied = {word for each in LINES if each.word == "COPY" for word in each.words[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [project["project"]["readme"], *project["project"]["license-files"]]
    needed += project["tool"]["scikit-build"]["wheel"]["packages"]
    for name in needed:
        assert any(name == word or name.startswith(f"{word}/") for word in copied), name


def test_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (text,) = (each.text for each in LINES if each.word == "RUN" and "pip install" in each.text)
    named = re.search(r"\.\[([\w,]+)\]", text)
    assert named is not None
    assert set(named[1].split(",")) <= set(extras)
    assert {"serve", "batch"} <= set(named[1].split(","))
    assert "--no-cache-dir" in text


def test_layers_stay_small():
    for each in LINES:
        if "apt-get install" in each.text:
            start = "apt-get update && apt-get install -y --no-install-recommends "
            assert each.text.startswith(start)
            assert "rm -rf /var/lib/apt/lists/*" in each.text


def test_it_runs_as_a_user_without_rights():
    last = max(each.stage for each in LINES)
    run = [each for each in LINES if each.stage == last]
    words = [each.word for each in run]
    (user,) = (each.text for each in run if each.word == "USER")
    assert user != "root"
    assert any(f"useradd --create-home --uid {user} " in each.text for each in run)
    assert words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")


def test_it_starts_the_server(monkeypatch):
    from sam_rlx.apps.cli import build_parser

    (entry,) = (each.words for each in LINES if each.word == "ENTRYPOINT")
    (command,) = (each.words for each in LINES if each.word == "CMD")
    assert entry == ["sam-rlx"]
    args = build_parser().parse_args(command)
    assert (args.command, args.host) == ("serve", "0.0.0.0")
    (port,) = (each.text for each in LINES if each.word == "EXPOSE")
    assert args.port == int(port)


def test_the_workflow_builds_and_runs_it():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "container.yml").read_text())
    watched = workflow[True]["pull_request"]["paths"]
    assert any(fnmatch.fnmatch("Dockerfile", pattern) for pattern in watched)
    (job,) = workflow["jobs"].values()
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    for wanted in ("docker build", "batch", "/health", "docker run"):
        assert wanted in commands
