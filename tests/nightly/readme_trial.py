"""Run the README's two commands in bare Debian folders, from an archive without git.

Needs root and debootstrap. The folders stay: a second run is quicker.
Example: ``python tests/nightly/readme_trial.py --suite bookworm trixie --command test``
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import time
from pathlib import Path

from bare_debian import BARE, debian, fresh, inside, run

ROOT = Path(__file__).parents[2]
COMPILER = "g++,python3-dev"


def command(name: str) -> str:
    """Return a command of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pattern = rf"<!-- command: {name} -->\n```sh\n(.*?)```"
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise SystemExit(f"README.md has no command {name}")
    return found[1].strip()


def attempt(folder: Path, name: str, wheels: Path | None) -> None:
    """Run one command of the README on the committed files."""
    work = fresh(folder)
    archive = work / "sam_rlx.tar"
    run("git", "-C", ROOT, "archive", "--prefix=sam_rlx/", "-o", archive, "HEAD")
    variables = {}
    if wheels is not None:
        shutil.copytree(wheels, work / "wheels")
        variables["PIP_FIND_LINKS"] = "/trial/wheels"
    script = f"""
! command -v git
tar -xf sam_rlx.tar
cd sam_rlx
grep PRETTY_NAME /etc/os-release; python3 --version; g++ --version | head -n 1
{command(name)}
"""
    start = time.monotonic()
    try:
        inside(folder, script, **variables)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{folder.name}, {name}: failed with status {error.returncode}") from None
    print(f"{folder.name}, {name}: passed after {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    """Try each command in each suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "trial" / "readme")
    parser.add_argument("--suite", nargs="+", default=["bookworm", "trixie"], help="of Debian")
    parser.add_argument("--command", nargs="+", default=["demo", "test"], help="of the README")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that pip may take")
    args = parser.parse_args()
    for suite in args.suite:
        folder = args.folder / suite
        debian(folder, suite, f"{BARE},{COMPILER}")
        for name in args.command:
            attempt(folder, name, args.wheels)


if __name__ == "__main__":
    main()
