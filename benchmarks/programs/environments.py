"""Environments of programs: a folder of packages each, in front of those that they share."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")


class InstallError(RuntimeError):
    """A package cannot be installed here; the text is pip's."""


def install(requirements: list[str], folder: Path) -> Path:
    """Install pinned requirements, without what they require, in a folder: once.

    Wheels alone, but for projects that publish none.
    """
    mark = folder / "installed.txt"
    wanted = "\n".join(requirements)
    if mark.exists() and mark.read_text() == wanted:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if requirements:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        command += ["--ignore-requires-python", "--target", str(folder), *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise InstallError("; ".join(errors) or done.stderr[-400:])
    mark.write_text(wanted)
    return folder


def make(name: str, program: dict[str, Any], table: dict[str, Any], cache: Path) -> Path:
    """Return the Python of a program's environment, made where it is not there.

    The environment has the packages of the program, those of its layers, and behind them all of
    the environment that runs this: PyTorch, Meta's packages and `sam_rlx`.
    """
    folder = cache / "environments" / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(venv, check=True, capture_output=True)
    pinned = [f"{program['package']}=={program['version']}", *program.get("requires", [])]
    install(pinned, folder / SITE)
    parts = [
        install(table["layers"][layer], cache / "layers" / _named(layer, table["layers"][layer]))
        for layer in program.get("layers", [])
    ]
    # `addsitedir` reads .pth files too: an editable install of sam_rlx is one.
    lines = [str(part) for part in parts]
    lines.append(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})")
    (folder / SITE / "shared.pth").write_text("\n".join(lines) + "\n")
    return python


def with_wheel(wheel: Path, cache: Path) -> Path:
    """Return a folder with the package of a wheel, to be put in front of all others."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]
    return install([str(wheel)], cache / "wheels" / digest)


def _named(layer: str, requirements: list[str]) -> str:
    return f"{layer}-{hashlib.sha256(repr(requirements).encode()).hexdigest()[:8]}"
