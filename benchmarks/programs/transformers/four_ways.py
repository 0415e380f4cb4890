"""Runs programs of this folder and writes what they give.

    python four_ways.py JOBS.json OUT.npz [--changed | --without-torch]
    python -m sam_rlx.compat --with transformers four_ways.py JOBS.json OUT.npz

JOBS.json is a list of objects: "file", a program; "arguments", the first of each step; "images",
paths of the images that follow them; "steps", names of its steps if not all; "values", constants
of the file by name; "clock", a function of `time`, by default "perf_counter". With ``--changed``
the import names the drop-in. With ``--without-torch`` neither PyTorch nor transformers can be
imported too, and lines of PyTorch's are written as docs/compat.md says.

OUT.npz has arrays ``file.argument.step.N``, the seconds of all steps that ran, and the errors of
others.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
CHANGED = {"import transformers\n": "import sam_rlx.compat.transformers as transformers\n"}
WITHOUT_TORCH = {
    "import torch\n": "",
    "with torch.no_grad():": "if True:",
    'torch.device("cpu")': '"cpu"',
    "torch.from_numpy(": "(",
}


def load(file: str, *changes: dict[str, str]) -> ModuleType:
    """Return a program as a module, with texts that are exchanged."""
    text = (HERE / f"{file}.py").read_text(encoding="utf-8")
    for change in changes:
        for old, new in change.items():
            text = text.replace(old, new)
    spec = importlib.util.spec_from_loader(f"program_{file}", None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, f"{file}.py", "exec"), vars(module))
    return module


def steps_of(module: ModuleType, job: dict[str, Any]) -> list[Callable[..., Any]]:
    """Return the steps of a program that a job asks for."""
    wanted = job.get("steps", [step.__name__ for step in module.STEPS])
    return [getattr(module, name) for name in wanted]


def results(job: dict[str, Any], *changes: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Run the steps of a job: arrays by name with the seconds, and errors of what did not run."""
    module = load(job["file"], *changes)
    vars(module).update(job.get("values", {}))
    images = [Image.open(path).convert("RGB") for path in job["images"]]
    clock = getattr(time, job.get("clock", "perf_counter"))
    found: dict[str, Any] = {"seconds": 0.0}
    failed: dict[str, str] = {}
    for step in steps_of(module, job):
        name = ".".join([job["file"], *map(str, job["arguments"][:-1]), step.__name__])
        begin = clock()
        try:
            made = [_plain(each) for each in step(*job["arguments"], images)]
        except Exception as error:  # what stops a program is what is asked for
            failed[name] = f"{type(error).__name__}: {error}"
            continue
        found["seconds"] += clock() - begin
        found.update({f"{name}.{index}": each for index, each in enumerate(made)})
    return found, failed


def _plain(value: Any) -> Any:
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def main() -> None:
    """Run the jobs of a file."""
    jobs, out, *way = sys.argv[1:]
    changes: list[dict[str, str]] = []
    if way:
        changes.append(CHANGED)
    if way == ["--without-torch"]:
        changes.append(WITHOUT_TORCH)
        for name in ("torch", "torchvision", "transformers"):
            sys.modules[name] = None  # type: ignore[assignment]
    else:
        from sam_rlx.apps.parity import packages

        packages.import_torch("torch")  # with torchvision, also beside another PyTorch
    found: dict[str, Any] = {}
    failed: dict[str, str] = {}
    seconds = 0.0
    for job in json.loads(Path(jobs).read_text(encoding="utf-8")):
        arrays, errors = results(job, *changes)
        seconds += arrays.pop("seconds")
        found |= arrays
        failed |= errors
    np.savez(out, **found, seconds=seconds, failed=json.dumps(failed))


if __name__ == "__main__":
    main()
