"""The workflow of docs/parity.md, run as it stands there on each of the packaged models."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import junitparser
import pytest
import yaml
from support import HANG_SECONDS
from support.cases import quick

pytest.importorskip("torch", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = [pytest.mark.parity, pytest.mark.source_tree]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "parity.md"
INSTALL = "pip install "
CLICKS = {"point", "box", "mask"}
MASKS = {
    "sam-nano": CLICKS | {"everything"},
    "sam2-nano": CLICKS | {"everything", "video"},
    "sam3-nano": CLICKS | {"text", "example", "video", "video_text"},
}


def job():
    """Return the only job of the page's workflow."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return yaml.safe_load(text)["jobs"]["parity"]


def commands():
    return [step["run"] for step in job()["steps"] if "run" in step]


def test_the_workflow_names_the_packaged_models():
    assert job()["strategy"]["matrix"]["checkpoint"] == list(MASKS)


def test_the_workflow_installs_what_the_extras_name():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    text = " ".join(line for line in commands() if line.startswith(INSTALL))
    pins = re.findall(r"\S+==\S+", text)
    assert len(pins) == 2
    assert set(pins) <= set(extras["parity"])
    (names,) = re.findall(r"sam_rlx\[(.+?)\]", text)
    assert set(names.split(",")) == {"cli", "parity"} <= set(extras)


@pytest.mark.parametrize("name", quick(MASKS, 1))
def test_the_workflow_runs(tmp_path, name):
    lines = [line for line in commands() if not line.startswith(INSTALL)]
    assert lines
    # The environment of the tests need not be the active one.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in lines:
        command = shlex.split(re.sub(r"\$\{\{ *matrix.checkpoint *\}\}", name, line))
        done = subprocess.run(
            ["/usr/bin/env", f"PATH={programs}", *command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "parity.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, parity.SCHEMA)
    assert report["exact"]
    assert report["first_difference"] is None
    layers, masks = report["layers"], report["masks"]
    assert len(layers) > 20
    assert {entry["stage"] for entry in masks} == MASKS[name]
    assert all(entry["count"] > 0 for entry in masks)
    assert done.stdout.endswith(f"same: {len(layers)} layers, {len(masks)} calls\n")
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "parity.xml"))
    assert (suite.tests, suite.failures) == (len(layers) + len(masks), 0)
    page = (tmp_path / "parity.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 3 * len(masks)
