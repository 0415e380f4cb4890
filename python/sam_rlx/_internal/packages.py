"""Packages that sam_rlx can do without: imported where they are needed, or how to install them."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from sam_rlx.errors import MissingExtraError

# Packages by their names on the index, and the extras that bring them; the first is the smallest.
EXTRAS: dict[str, tuple[str, ...]] = {
    "pillow": ("image", "cli", "batch", "ray", "serve", "jupyter", "parity"),
    "av": ("video", "cli"),
    "tifffile": ("tiff",),
    "rasterio": ("geo",),
    "huggingface-hub": ("hub",),
    "pyarrow": ("batch", "ray"),
    "ray[data]": ("ray",),
    "starlette": ("serve",),
    "uvicorn": ("serve",),
    "websockets": ("serve",),
    "anywidget": ("jupyter",),
    "torch": ("parity",),
    "torchvision": ("parity",),
    "segment-anything": ("parity",),
    "mobilesam-mirror": ("parity",),
    "segment-anything-hq": ("parity",),
    "rf-sam-2": ("parity",),
    "sam3": ("parity",),
    "open_clip_torch": ("parity",),
    "transformers": ("parity",),
}

# Names of upstream's packages, whose drop-ins `sam_rlx.compat` has.
DROP_INS = ("segment_anything", "segment_anything_hq", "sam2", "sam3")
# Names of packages that have other networks too, whose drop-ins have a part of them: they are taken
# by default where no such package is installed.
SHARED = ("ultralytics", "transformers")

# The extras of the command that runs, the one of all that it needs first.
_of_command: ContextVar[tuple[str, ...]] = ContextVar("extras of the command", default=())


def optional(where: str, module: str, package: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    where : str
        What the text of the error begins with.
    module : str
        What is imported.
    package : str
        Its name on the index.

    Raises
    ------
    MissingExtraError
        It is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(where, package, error) from error


def installed_originals() -> dict[str, str | None]:
    """Return the names of drop-ins, each with the folder of the package that is installed."""
    folders: dict[str, str | None] = {}
    for name in (*DROP_INS, *SHARED):
        spec = PathFinder.find_spec(name)
        folders[name] = (
            None if spec is None or spec.origin is None else str(Path(spec.origin).parent)
        )
    return folders


def missing(where: str, package: str, found: object) -> MissingExtraError:
    """Return the error for a package that is not there: it tells what installs the extra."""
    return MissingExtraError(
        f"{where}: expected the package {package} ({install_command(package)}), found {found}"
    )


@contextmanager
def needed_by_command(name: str) -> Iterator[None]:
    """Let errors in the block name the extra of a command, which brings all that it needs."""
    own = (name,) if any(name in extras for extras in EXTRAS.values()) else ()
    token = _of_command.set((*own, "cli"))
    try:
        yield
    finally:
        _of_command.reset(token)


def install_command(package: str) -> str:
    """Return the command that installs a package, by the extra that brings it.

    It is that of the tool which made the environment: pip, uv, pipx, or uvx and ``pipx run``, which
    make one for each call.
    """
    extras = EXTRAS.get(package, ())
    if not extras:
        return f"pip install {package}"
    wanted = next((extra for extra in _of_command.get() if extra in extras), extras[0])
    return _form().format(f'"sam_rlx[{wanted}]"')


def _form() -> str:
    """Return how an extra comes into this environment, by what its maker leaves there."""
    prefix, settings = Path(sys.prefix), Path(sys.prefix, "pyvenv.cfg")
    paths = " ".join(Path(path).as_posix() for path in (sys.prefix, *sys.argv[:1]))
    if "/pipx/venvs/" in paths or (prefix / "pipx_metadata.json").is_file():
        return "pipx install --force {}" if "/venvs/" in paths else "pipx run --spec {} sam-rlx"
    if "/uv/tools/" in paths or (prefix / "uv-receipt.toml").is_file():
        return "uv tool install {}"
    if "/archive-v" in paths or "/environments-v" in paths:  # folders of uv's cache
        return "uvx --from {} sam-rlx"
    if settings.is_file() and "\nuv = " in settings.read_text(encoding="utf-8"):
        return "uv pip install {}"
    return "pip install {}"
