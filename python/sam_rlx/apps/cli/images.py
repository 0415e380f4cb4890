"""The way of a command through its images: one, or several with one model."""

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from sam_rlx._internal.files import marks
from sam_rlx._internal.files.inputs import check_regular
from sam_rlx._internal.progress import terminal_bar
from sam_rlx.apps.cli import common, inputs, tiles
from sam_rlx.apps.cli.common import Unfulfilled, UsageError
from sam_rlx.apps.cli.inputs import Input
from sam_rlx.apps.cli.outputs import Found, Outputs
from sam_rlx.errors import SamRlxError
from sam_rlx.model import Model

Say = Callable[[str], None]


class Finder(Protocol):
    """What a command does with an image."""

    def check(self, hw: tuple[int, int]) -> None:
        """Raise `UsageError` for options that do not fit an image of this size."""

    def task(self) -> str:
        """Return what is asked for, in words: the first prompt, and how many there are."""

    def arguments(self) -> dict[str, Any]:
        """Return all but model and image that results depend on, after `prepare`."""

    def prepare(self, model: Model) -> None:
        """Take the model; raise `UsageError` if it cannot do what is asked."""

    def plan(self) -> str:
        """Return what would be done, such as ``"use box"``."""

    def find(self, image: tiles.Image, say: Say) -> Found:
        """Find masks on an image; `say` takes details."""


def run(args: argparse.Namespace, finder: Finder, sources: Iterable[Path] = ()) -> None:
    """Run a command with the options of `inputs` and of `outputs.add_output_arguments`.

    Parameters
    ----------
    args : Namespace
        The options.
    finder : Finder
        The command.
    sources : iterable of paths
        Further files that results must not replace.
    """
    tiles.given(args)
    found = inputs.expand(args.images, args.list)
    outputs = Outputs(args, found.several)
    lists = [Path(name) for name in args.list]
    files = [each.path for each in found.files]
    outputs.check([*files, *lists, *sources, Path(args.model)], [each.name for each in found.files])
    if found.several:
        number = common.counted(len(found.files), "image")
        work = f"{number}, {finder.task()}, {args.model}"
        common.announce(args.command, work, found.passed_over)
        _Several(args, finder, outputs).run(found.files)
    else:
        _run_one(args, finder, outputs, found.files[0])


def _run_one(args: argparse.Namespace, finder: Finder, outputs: Outputs, given: Input) -> None:
    with tiles.opened(args, given.path) as image:
        height, width = image.shape[:2]
        finder.check((height, width))
        finder.prepare(common.load(args, outputs))
        outputs.say(f"image {given.path}: {width} x {height} pixels")
        if args.dry:
            outputs.say(f"would {finder.plan()} and write {outputs.shown(given.name)}")
            return
        found = finder.find(image, outputs.say)
        described = {"file_name": given.path.name, "height": height, "width": width}
        for line in outputs.write(given.name, found, described, image):
            outputs.say(line)
    outputs.finish()
    if found.hint:
        raise Unfulfilled(found.hint)


class _Several:
    """Several images: what fails for one does not end the work on others."""

    def __init__(self, args: argparse.Namespace, finder: Finder, outputs: Outputs) -> None:
        self._args = args
        self._finder = finder
        self._outputs = outputs
        self._done = self._failed = self._kept = 0
        self._hints: list[str] = []

    def run(self, files: list[Input]) -> None:
        """Do all images; raise `Unfulfilled` if any is not done, or nothing is found on all."""
        model = common.load(self._args, self._outputs)
        self._finder.prepare(model)
        self._arguments = {
            "command": self._args.command,
            "model": [model.family, model.core.weights_hash, model.precision, model.img_size],
            **tiles.given(self._args),
            **self._finder.arguments(),
            **({"json_polygons": True} if self._args.json_polygons else {}),
            **({"formats": self._args.formats} if self._args.formats else {}),
        }
        kept = {given for given in files if self._is_kept(given)}
        try:
            with terminal_bar("image") as progress:
                for number, given in enumerate(files):
                    if progress is not None:
                        progress(number, len(files))
                    if given in kept:
                        self._kept += 1
                        self._outputs.say(f"{given.path}: left, since it has its results")
                    else:
                        self._guarded(given)
        finally:
            if not self._args.dry:
                self._outputs.finish()
        if self._args.dry:
            return
        parts = [f"{self._done} of {common.counted(len(files), 'image')} done"]
        if self._kept:
            parts.append(f"{self._kept} left with the results they have (see --overwrite)")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._kept or self._failed:
            raise Unfulfilled(", ".join(parts))
        self._outputs.say(parts[0])
        if len(self._hints) == len(files):
            raise Unfulfilled(self._hints[0])

    def _is_kept(self, given: Input) -> bool:
        """Tell whether an image has its results; `UsageError` if it has those of another one."""
        if self._args.overwrite or not self._outputs.of(given.name).existing():
            return False
        try:
            return self._outputs.has(given, marks.origin(given.path, self._arguments))
        except OSError:  # of the image: told when its turn comes
            return False

    def _guarded(self, given: Input) -> None:
        try:
            self._one(given)
        except BrokenPipeError:  # of the messages: it ends the command
            raise
        except (SamRlxError, UsageError, OSError, MemoryError) as error:
            self._failed += 1
            common.complain(self._args.command, f"{given.path}: {_without(given.path, error)}")

    def _one(self, given: Input) -> None:
        if self._args.dry:
            shown = self._outputs.shown(given.name)
            self._outputs.say(f"{given.path}: would {self._finder.plan()} and write {shown}")
            return
        start = time.perf_counter()
        check_regular(given.path)
        with tiles.opened(self._args, given.path) as image:
            height, width = image.shape[:2]
            self._finder.check((height, width))
            found = self._finder.find(image, _say_nothing)
            described = {"file_name": str(given.path), "height": height, "width": width}
            origin = marks.origin(given.path, self._arguments)
            self._outputs.write(given.name, found, described, image, origin)
        self._done += 1
        if found.hint:
            self._hints.append(found.hint)
        seconds = time.perf_counter() - start
        self._outputs.say(f"{given.path}: {found.summary} in {seconds:.2f} s")


def _without(path: Path, error: BaseException) -> str:
    """Return the text of an error, without the name of the file if it begins with it."""
    if isinstance(error, OSError) and error.strerror and str(error.filename) == str(path):
        return error.strerror
    return str(error).removeprefix(f"{path}: ") or type(error).__name__


def _say_nothing(text: str) -> None:
    """Take a detail that several images have no room for."""
