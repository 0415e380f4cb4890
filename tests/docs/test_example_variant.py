"""The variant of docs/develop/example_variant.md: few files, whose code loads and encodes an image.

The page is applied to a copy of the sources. What it touches is compiled without optimization and
linked with the objects of the build tree that it does not touch.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from support import HANG_SECONDS, tiny

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "example_variant.md"
MAX_FILES = 12
ENTRY = re.compile(r"^`([\w./]+)`(, new)?: .*?\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
TREES = sorted(
    (path.parent for path in ROOT.glob("build/cp*/compile_commands.json")),
    key=lambda tree: tree.stat().st_mtime,
)
# What takes an image from a checkpoint and pixels to its embedding.
USED = ("cpp/models/", "cpp/loading/", "cpp/predictors/image/image_front_end.cpp")
USED += ("cpp/predictors/image/image_transform.cpp",)


class Edit(NamedTuple):
    path: str
    new: bool
    text: str


def edits() -> list[Edit]:
    return [Edit(path, bool(new), text) for path, new, text in ENTRY.findall(PAGE.read_text())]


def apply(edit: Edit, root: Path) -> None:
    """Write a new file, or replace the lines of each hunk, which are in the file once."""
    path = root / edit.path
    if edit.new:
        assert not path.exists()
        path.write_text(edit.text)
        return
    text = f"\n{path.read_text()}"
    for hunk in edit.text.split("@@\n")[1:]:
        lines = [line or " " for line in hunk.split("\n")[:-1]]
        before, after = (
            "".join(f"{line[1:]}\n" for line in lines if line[0] in kinds) for kinds in (" -", " +")
        )
        found = re.findall(f"(?=\n{re.escape(before)})", text)  # that overlap, too
        assert len(found) == 1, f"{edit.path}: {before}"
        text = text.replace(f"\n{before}", f"\n{after}")
    path.write_text(text[1:])


def files_of_a_variant() -> set[str]:
    """Paths of the table in docs/develop/add_a_model.md, for this variant."""
    page = (PAGE.parent / "add_a_model.md").read_text().partition("## A variant of a family")[2]
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    paths = {name.replace("<family>", "sam").replace("<trunk>", "conv_encoder") for name in named}
    return {
        path.replace("{h,cpp}", suffix)
        for path in paths
        for suffix in (("h", "cpp") if "{h,cpp}" in path else ("",))
    }


def test_a_variant_touches_few_files() -> None:
    touched = [edit.path for edit in edits()]
    assert len(touched) == len(set(touched)) <= MAX_FILES
    assert set(touched) <= files_of_a_variant()
    assert len(files_of_a_variant()) <= MAX_FILES


def test_an_edit_whose_lines_are_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("one\ntwo\ntwo\n")
    apply(Edit("a.h", False, "@@\n one\n+more\n two\n"), tmp_path)
    assert (tmp_path / "a.h").read_text() == "one\nmore\ntwo\ntwo\n"
    for lines in ("@@\n three\n", "@@\n two\n"):
        with pytest.raises(AssertionError):
            apply(Edit("a.h", False, lines), tmp_path)


JOINED = re.compile(r'#include "(.+\.cpp)"')
MODULE = "a source of an extension"  # which sees pybind11


class Command(NamedTuple):
    """How the build tree compiles a source: its arguments without input and output."""

    arguments: list[str]
    output: Path


def commands(tree: Path) -> dict[str, Command]:
    """Commands of the library by source, and of one of an extension's sources.

    Sources that the build joins have one command, and one output.
    """
    found = {}
    for entry in json.loads((tree / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        left_out = {"-o", output, "-c", entry["file"], "-Winvalid-pch"}
        if "-include" in words:  # precompiled headers
            left_out |= {"-include", words[words.index("-include") + 1]}
        arguments = [word for word in words if word not in left_out]
        source = Path(entry["file"])
        if "sam_rlx_" in output:
            parts = JOINED.findall(source.read_text()) if "Unity" in source.parts else [source]
            names = [Path(part).relative_to(ROOT).as_posix() for part in parts]
        elif "_core.dir" in output:
            names = [MODULE]
        else:
            continue
        command = Command(arguments, Path(entry["directory"], output))
        found |= dict.fromkeys(names, command)
    return found


def includes(path: Path, cpp: Path, seen: set[Path]) -> set[Path]:
    """The file and all that it includes of `cpp`."""
    if path not in seen:
        seen.add(path)
        for name in INCLUDE.findall(path.read_text()):
            includes(cpp / name, cpp, seen)
    return seen


class Builder:
    """Compiles sources of a copy with the flags of a build tree, but without optimization."""

    def __init__(self, copy: Path, tree: Path) -> None:
        self.copy, self.commands = copy, commands(tree)
        self.any = self.commands["cpp/models/sam/image_encoder.cpp"]

    def run(self, source: str, *arguments: str, like: Command | None = None) -> None:
        words = [
            word.replace(f"{ROOT}/cpp", f"{self.copy}/cpp") for word in (like or self.any).arguments
        ]
        words = [word for word in words if not re.fullmatch("-O[s0-3]", word)]
        # The headers that an isolated build saw are gone with its environment.
        eigen = Path(sysconfig.get_path("purelib"), "cmeel.prefix", "include", "eigen3")
        folders = [pytest.importorskip("pybind11").get_include(), *([eigen] * eigen.is_dir())]
        headers = [word for folder in folders for word in ("-isystem", str(folder))]
        command = [*words, *headers, "-O0", "-Werror", *arguments, str(self.copy / source)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]

    def compile(self, source: str) -> Path:
        output = self.copy / "objects" / f"{source.replace('/', '.')}.o"
        self.run(source, "-c", "-o", str(output))
        return output

    def program(self, source: str, touched: set[str]) -> Path:
        """Compile and link a program, with all of the library that it needs."""
        cpp = self.copy / "cpp"
        changed = {self.copy / path for path in touched}
        library = {name for name in self.commands if name.startswith("cpp/")} | {
            path for path in touched if path.startswith("cpp/models/") and path.endswith(".cpp")
        }
        stale = {name for name in library if changed & includes(self.copy / name, cpp, set())}
        mixed = {self.commands[name].output for name in stale if name in self.commands}
        kept = library - stale
        used = {name for name in stale if name.startswith(USED)}
        used |= {name for name in kept if self.commands[name].output in mixed}
        (self.copy / "objects").mkdir()
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(self.compile, [*sorted(used), source]))
        fresh = sorted({self.commands[name].output for name in kept} - mixed)
        program = self.copy / "objects" / "program"
        compiler = [word for word in self.any.arguments if not word.startswith(("-D", "-I", "-W"))]
        link = [*compiler, *map(str, objects), *map(str, fresh), "-o", str(program)]
        done = subprocess.run(
            link, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return program


# ---------------------------------------------------------------- the checkpoint, and NumPy's way

SIDE, PATCH, DIM, DEPTH, KERNEL, HIDDEN, OUT = 1024, 64, 24, 2, 3, 40, 32
GRID = SIDE // PATCH


def weights() -> tiny.Weights:
    """Random weights: SAM's own but for the trunk."""
    base = tiny.sam_shapes(tiny.SamConfig(out_chans=OUT, mlp_dim=64, iou_head_hidden_dim=16))
    shapes = {name: shape for name, shape in base.items() if not name.startswith("image_encoder.")}
    trunk: tiny.Shapes = {"patch_embed.proj.weight": (DIM, 3, PATCH, PATCH)}
    trunk["patch_embed.proj.bias"] = (DIM,)
    for i in range(DEPTH):
        block = f"blocks.{i}"
        trunk[f"{block}.dwconv.weight"] = (DIM, 1, KERNEL, KERNEL)
        trunk[f"{block}.mlp.lin1.weight"] = (HIDDEN, DIM)
        trunk[f"{block}.mlp.lin2.weight"] = (DIM, HIDDEN)
        trunk |= {f"{block}.{name}": (DIM,) for name in ("dwconv.bias", "mlp.lin2.bias")}
        trunk |= {f"{block}.{name}": (DIM,) for name in ("norm.weight", "norm.bias")}
        trunk[f"{block}.mlp.lin1.bias"] = (HIDDEN,)
    trunk |= {"neck.0.weight": (OUT, DIM, 1, 1), "neck.2.weight": (OUT, OUT, 3, 3)}
    trunk |= {f"neck.{i}.{name}": (OUT,) for i in (1, 3) for name in ("weight", "bias")}
    shapes |= {f"image_encoder.{name}": shape for name, shape in trunk.items()}
    return tiny.random_state_dict(shapes, seed=3)


Map = NDArray[np.float64]


def convolved(x: Map, weight: Map, depthwise: bool = False) -> Map:
    """Stride 1, the map (H, W, C) padded with zeros."""
    size = weight.shape[2]
    padded = np.pad(x, [(size // 2,) * 2, (size // 2,) * 2, (0, 0)])
    out = 0
    for row in range(size):
        for column in range(size):
            part = padded[row : row + len(x), column : column + x.shape[1]]
            one = weight[:, :, row, column]
            out = out + (part * one[:, 0] if depthwise else part @ one.T)
    return np.asarray(out)


def normalized(x: Map, weight: Map, bias: Map) -> Map:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * weight + bias


def gelu(x: Map) -> Map:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def encoded(image: NDArray[np.uint8], state_dict: tiny.Weights) -> Map:
    """Image embedding (g, g, C) of an image as large as the input."""
    w = {
        name.removeprefix("image_encoder."): value.astype(np.float64)
        for name, value in state_dict.items()
    }
    pixels = (image - np.array(tiny.PIXEL_MEAN)) / np.array(tiny.PIXEL_STD)
    patches = pixels.reshape(GRID, PATCH, GRID, PATCH, 3)
    x = np.einsum("hpwqc,dcpq->hwd", patches, w["patch_embed.proj.weight"])
    x += w["patch_embed.proj.bias"]
    for i in range(DEPTH):
        block = {
            name.removeprefix(f"blocks.{i}."): value
            for name, value in w.items()
            if name.startswith(f"blocks.{i}.")
        }
        y = convolved(x, block["dwconv.weight"], depthwise=True) + block["dwconv.bias"]
        y = normalized(y, block["norm.weight"], block["norm.bias"])
        y = gelu(y @ block["mlp.lin1.weight"].T + block["mlp.lin1.bias"])
        x = x + y @ block["mlp.lin2.weight"].T + block["mlp.lin2.bias"]
    x = normalized(convolved(x, w["neck.0.weight"]), w["neck.1.weight"], w["neck.1.bias"])
    return normalized(convolved(x, w["neck.2.weight"]), w["neck.3.weight"], w["neck.3.bias"])


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.skipif(not TREES, reason="no build tree beside the sources")
def test_the_variant_loads_and_encodes_an_image(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    copy = tmp_path / "tree"
    for folder in ("cpp", "docs", "tests/cpp", "tests/models/sam"):
        shutil.copytree(ROOT / folder, copy / folder)
    for name in ("CMakeLists.txt", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    changes = edits()
    for edit in changes:
        apply(edit, copy)
        if edit.path.endswith(".py"):
            compile(edit.text, edit.path, "exec")

    builder = Builder(copy, TREES[-1])
    builder.run("cpp/testing/layers.cpp", "-fsyntax-only", like=builder.commands[MODULE])
    program = builder.program("tests/cpp/encode_image.cpp", {edit.path for edit in changes})

    state_dict = weights()
    save_file(state_dict, tmp_path / "conv.safetensors")
    image = np.random.default_rng(4).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    done = subprocess.run(
        [program, tmp_path / "conv.safetensors", str(SIDE), str(SIDE)],
        input=image.tobytes(),
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = np.frombuffer(done.stdout, np.float32).reshape(GRID, GRID, OUT)
    np.testing.assert_allclose(found, encoded(image, state_dict), rtol=0, atol=2e-5)
