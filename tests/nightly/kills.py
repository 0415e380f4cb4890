"""Kill commands at random moments: no half file appears, nothing that was there is lost.

``python tests/nightly/kills.py [COUNT [SEED]]``
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.trained import trained

OLD = b"what was there before"
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM}


def _inputs(folder: Path) -> None:
    """Write an image and a clip of it."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (48, 64, 3), np.uint8)
    pixels[10:30, 10:30] = 200
    Image.fromarray(pixels).save(folder / "image.png")
    (folder / "clip").mkdir()
    for frame in range(3):
        Image.fromarray(np.roll(pixels, 2 * frame, 1)).save(folder / "clip" / f"{frame}.png")


def _command(*arguments: str) -> None:
    from sam_rlx.apps import cli

    code = cli.main(list(arguments))
    if code:
        raise SystemExit(code)


def _convert(inputs: Path, out: Path) -> None:
    _command("convert", "sam-nano", f"{out}/model.gguf", "--type", "F16")


def _quantize(inputs: Path, out: Path) -> None:
    _command(
        "quantize",
        str(trained("sam-nano")),
        f"{out}/model.gguf",
        "--type",
        "Q8_0",
        "--threads",
        "1",
    )


def _everything(inputs: Path, out: Path) -> None:
    grid = ("--points-per-side", "2", "--pred-iou-thresh", "0", "--stability-score-thresh", "0")
    files = ("--output", f"{out}/overlay.png", "--json", f"{out}/masks.json", "--masks", f"{out}/m")
    _command("everything", f"{inputs}/image.png", *grid, *files, "--threads", "1")


def _track(inputs: Path, out: Path) -> None:
    files = ("--json", f"{out}/tracks.json", "--masks", f"{out}/masks")
    _command("track", f"{inputs}/clip", "--point", "20,20", *files, "--threads", "1")


def _save_embedding(inputs: Path, out: Path) -> None:
    import sam_rlx

    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"), num_threads=1)
    predictor.set_image(np.asarray(Image.open(inputs / "image.png")))
    predictor.save_embedding(out / "embedding.safetensors")


def _save_session(inputs: Path, out: Path) -> None:
    import sam_rlx

    video = sam_rlx.VideoPredictor(sam_rlx.load_model("sam2-nano"), inputs / "clip", num_threads=1)
    video.add_prompt(0, obj_id=1, point_coords=[[20, 20]], point_labels=[1])
    video.save(out / "session.safetensors")


COMMANDS: dict[str, Callable[[Path, Path], None]] = {
    "convert": _convert,
    "quantize": _quantize,
    "everything": _everything,
    "track": _track,
    "save embedding": _save_embedding,
    "save session": _save_session,
}


def _run(name: str, inputs: str, out: str) -> None:
    """Run a command without its output, in a process of its own."""
    with open(os.devnull, "w") as null:  # noqa: PTH123
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    COMMANDS[name](Path(inputs), Path(out))


def _is_beginning(content: bytes, whole: bytes) -> bool:
    """Whether a complete document has the first frames of another: a stopped `track` keeps them."""
    try:
        first, all_of_it = json.loads(content), json.loads(whole)
    except ValueError:
        return False
    return first.keys() == all_of_it.keys() and all(
        len(first[key]) > 0 and first[key] == all_of_it[key][: len(first[key])] for key in first
    )


@dataclass
class _Trial:
    """One command, the files that it writes and the time that it takes."""

    name: str
    inputs: Path
    out: Path
    files: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0

    def process(self) -> multiprocessing.process.BaseProcess:
        """Start the command."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["sam_rlx.apps.cli", "PIL.Image"])
        process = context.Process(target=_run, args=(self.name, str(self.inputs), str(self.out)))
        process.start()
        return process

    def complete(self) -> None:
        """Run the command to its end."""
        process = self.process()
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"{self.name}: expected exit status 0, found {process.exitcode}")

    def learn(self) -> None:
        """Run the command undisturbed: its files, its time."""
        self.complete()  # the first run also starts the server
        start = time.monotonic()
        self.complete()
        self.seconds = time.monotonic() - start
        self.files = self.found()

    def found(self) -> dict[str, bytes]:
        """Return the contents of all files by name."""
        paths = (path for path in self.out.rglob("*") if path.is_file())
        return {str(path.relative_to(self.out)): path.read_bytes() for path in paths}

    def clear(self, old: bool) -> None:
        """Begin anew, with or without former files. What killed writers left stays."""
        for name in self.found():
            if name in self.files:
                (self.out / name).unlink()
        for name in self.files if old else ():
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            (self.out / name).write_bytes(OLD)

    def problems(self, old: bool, signal_name: str) -> list[str]:
        """Compare the files with those of before and those of a whole run."""
        found = self.found()
        result = [f"{name}: lost" for name in self.files if old and name not in found]
        for name, content in found.items():
            if name in self.files:
                whole = self.files[name]
                keeps_frames = self.name == "track" and signal_name == "SIGTERM"
                if keeps_frames and _is_beginning(content, whole):
                    continue
                if content not in ((OLD, whole) if old else (whole,)):
                    result.append(f"{name}: half a file of {len(content)} bytes")
            elif not Path(name).name.startswith("."):
                result.append(f"{name}: no file of the command")
        return result

    def leftovers(self) -> list[str]:
        """Run to the end; what is there then beside the files, or is not as it should be."""
        self.complete()
        found = self.found()
        return [
            f"{name}: is there after a whole run" if name in found else f"{name}: is missing"
            for name in found.keys() | self.files.keys()
            if found.get(name) != self.files.get(name)
        ]


def _kill(trial: _Trial, rng: random.Random, counts: Counter[str]) -> list[str]:
    """Run and kill once."""
    old = rng.random() < 0.5
    name = rng.choice(list(SIGNALS))
    trial.clear(old)
    process = trial.process()
    process.join(rng.uniform(0.0, 1.1) * trial.seconds)
    if process.exitcode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid or 0, SIGNALS[name])
    process.join()
    counts[name if process.exitcode else "ran to the end"] += 1
    found = trial.found()
    counts["left a temporary file"] += any(Path(name).name.startswith(".") for name in found)
    return [f"{trial.name}, {name}: {problem}" for problem in trial.problems(old, name)]


def main(count: int, seed: int, names: tuple[str, ...] = tuple(COMMANDS)) -> int:
    """Kill `count` times; print what was seen, and return the number of problems."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="sam_rlx_kills_"))
    try:
        _inputs(folder)
        trials = [_Trial(name, folder, folder / f"out {name}") for name in names]
        for trial in trials:
            trial.out.mkdir()
            trial.learn()
        for index in range(count):
            problems += _kill(trials[index % len(trials)], rng, counts)
        for trial in trials:
            problems += [f"{trial.name}: {problem}" for problem in trial.leftovers()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems[:20]:
        print(problem)
    seen = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    print(f"kills: {count} of {len(names)} commands, seed {seed}: {len(problems)} problems; {seen}")
    return len(problems)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(*given, *(200, 0)[len(given) :]) > 0)
