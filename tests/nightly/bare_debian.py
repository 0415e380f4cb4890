"""Bare Debian folders, in which commands run as on a fresh machine: root and debootstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

BARE = "python3,python3-venv,ca-certificates"
TRUST = Path("/etc/ssl/certs/ca-certificates.crt")


def run(*command: str | Path, **options: object) -> None:
    """Run a command and show it."""
    words = [str(word) for word in command]
    print("+", *words, flush=True)
    subprocess.run(words, check=True, **options)  # type: ignore[call-overload]


def debian(folder: Path, suite: str, packages: str) -> None:
    """Make a Debian folder with some packages, unless it is there."""
    if not (folder / "usr" / "bin" / "python3").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", f"--include={packages}", suite, folder)
    # Certificates and names of this machine's network.
    for path in (TRUST, Path("/etc/resolv.conf"), Path("/etc/hosts")):
        if path.is_file():
            shutil.copy(path, folder / path.relative_to("/"))


def inside(folder: Path, script: str, **variables: str) -> None:
    """Run a shell script in a Debian folder, in its folder ``/trial``, with some variables set."""
    proc = folder / "proc"
    mounted = os.path.ismount(proc)
    if not mounted:
        run("mount", "-t", "proc", "proc", proc)
    known = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", f"PIP_CERT={TRUST}"]
    known += [f"{name}={value}" for name, value in variables.items()]
    try:
        run("chroot", folder, "env", "-i", *known, "bash", "-euc", f"cd /trial\n{script}")
    finally:
        if not mounted:
            run("umount", proc)


def fresh(folder: Path) -> Path:
    """Empty the folder ``/trial`` of a Debian folder."""
    work = folder / "trial"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work
