"""Run the steps of the Dockerfile in bare Debian folders, and what it starts: a batch, the server.

Needs root and debootstrap, and no Docker. The folders stay: a second run is quicker.
Example: ``python tests/nightly/container_trial.py``
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bare_debian import BARE, debian, fresh, inside

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.containers import Instruction, instructions  # noqa: E402

TOKEN = "abcdefghijklmnop"
# In the folder of the second stage, as its user: the server answers who has the token.
SERVER = f"""
{{entry}} {{command}} --token {TOKEN} & server=$!
trap 'kill $server' EXIT
python3 - <<'END'
import time, urllib.error, urllib.request
for _ in range(120):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8765/health").read())
        break
    except urllib.error.URLError:
        time.sleep(0.5)
page = urllib.request.urlopen("http://127.0.0.1:8765/?token={TOKEN}").read()
assert b"<html" in page
try:
    urllib.request.urlopen("http://127.0.0.1:8765/")
    raise SystemExit("a page without its token")
except urllib.error.HTTPError as error:
    assert error.code == 403
END
"""


def apply(step: Instruction, folder: Path, stages: list[Path], state: dict[str, str]) -> None:
    """Do what one instruction of a stage says."""
    here = state.get("WORKDIR", "/")
    if step.word == "RUN":
        inside(folder, f"cd {here}\n{step.text}", DEBIAN_FRONTEND="noninteractive")
    elif step.word == "COPY":
        words = step.words
        source = stages[0] if words[0].startswith("--from=") else ROOT
        *names, target = [word for word in words if not word.startswith("--")]
        for name in names:
            goal = folder / here.lstrip("/") / target if not target.startswith("/") else None
            goal = goal or folder / target.lstrip("/")
            origin = source / name.lstrip("/")
            if origin.is_dir():
                shutil.rmtree(goal, ignore_errors=True)
                skip = shutil.ignore_patterns("__pycache__", "*.so")
                chosen = skip if source == ROOT else None
                shutil.copytree(origin, goal, symlinks=True, ignore=chosen)
            else:
                shutil.copy(origin, goal / origin.name if goal.is_dir() else goal)
    elif step.word in ("WORKDIR", "USER"):
        state[step.word] = step.text
        if step.word == "WORKDIR":
            (folder / step.text.lstrip("/")).mkdir(parents=True, exist_ok=True)


def as_user(state: dict[str, str], script: str) -> str:
    """Return the script that runs another one as the user of the image, in its folder."""
    quoted = script.replace("'", "'\\''")
    path = "/opt/sam-rlx/bin:/usr/bin:/bin"
    user = f'"$(id -nu {state["USER"]})"'  # a name or a number
    return (
        f"cd {state['WORKDIR']}\n"
        f"su -s /bin/bash {user} -c 'export PATH={path}\nset -euo pipefail\n{quoted}'"
    )


def main() -> None:
    """Build both stages, then run a batch and the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "trial" / "container")
    args = parser.parse_args()
    steps = instructions(ROOT / "Dockerfile")
    stages, states = [], []
    start = time.monotonic()
    for number in range(1 + max(step.stage for step in steps)):
        own = [step for step in steps if step.stage == number]
        suite = own[0].words[0].removeprefix("debian:").removesuffix("-slim")
        folder = args.folder / f"{suite}-{number}"
        debian(folder, suite, BARE.replace("python3-venv,", "") if number else BARE)
        fresh(folder)
        inside(folder, "userdel -r sam 2>/dev/null || true")
        stages.append(folder)
        states.append({})
        for step in own[1:]:
            apply(step, folder, stages, states[-1])
    folder, state = stages[-1], states[-1]
    data = folder / "data"
    shutil.rmtree(data / "photos", ignore_errors=True)
    shutil.rmtree(data / "results", ignore_errors=True)
    (data / "photos").mkdir()
    shutil.copy(ROOT / "python" / "sam_rlx" / "assets" / "coffee.jpg", data / "photos")
    data.chmod(0o777)
    entry, command = (
        " ".join(next(step.words for step in steps if step.word == word))
        for word in ("ENTRYPOINT", "CMD")
    )
    batch = f"{entry} info\n{entry} batch photos --output results --box 160,20,420,330"
    try:
        inside(folder, as_user(state, batch))
        inside(folder, as_user(state, SERVER.format(entry=entry, command=command)))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"failed with status {error.returncode}") from None
    assert (data / "results" / "parts" / "part-0000000.parquet").stat().st_size > 0
    print(f"the steps of the Dockerfile passed after {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
