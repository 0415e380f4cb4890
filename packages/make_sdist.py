"""The source distribution of ``sam_rlx`` that is published: ``python packages/make_sdist.py dist``.

In a checkout the small models are part of the package, so that ``pip install .`` needs no other
package. What is published leaves them out and depends on ``sam-rlx-nano`` instead. Wheels are built
from this source distribution: both have the same files and the same requirements. Needs ``build``.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "python" / "sam_rlx" / "assets"
NANO = "sam-rlx-nano>=0.1,<0.2"
REQUIREMENTS = 'dependencies = ["numpy>=1.26"]\n'
PUBLISHED = f'dependencies = ["numpy>=1.26", "{NANO}"]\n'
# Whole folders that nobody needs to build or test the package.
LEFT_OUT = (".ci", ".github", "benchmarks/results", "packages", "training/checkpoints")


def published(pyproject: str) -> str:
    """Return the text of pyproject.toml with the requirement of the small models."""
    if pyproject.count(REQUIREMENTS) != 1:
        raise ValueError(f"pyproject.toml: expected one line {REQUIREMENTS!r}, found another form")
    return pyproject.replace(REQUIREMENTS, PUBLISHED)


def copy_tree(folder: Path) -> None:
    """Copy the files that git knows, but the weights."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run([*command, "--exclude-standard"], check=True, capture_output=True)
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        source = ROOT / name
        left_out = name.startswith(tuple(f"{part}/" for part in LEFT_OUT))
        weights = source.parent == WEIGHTS and source.suffix == ".gguf"
        if source.is_file() and not left_out and not weights:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)


def main() -> None:
    """Write the source distribution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        copy_tree(tree)
        pyproject = tree / "pyproject.toml"
        pyproject.write_text(published(pyproject.read_text(encoding="utf-8")), encoding="utf-8")
        command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(args.folder), name]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
