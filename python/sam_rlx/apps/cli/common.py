"""What the sub-commands share: argument types, models and messages."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal import options
from sam_rlx._internal.arrays.checks import MAX_THREADS, as_text
from sam_rlx._internal.files.marks import is_own_file, is_own_image
from sam_rlx._internal.files.suffixes import PassedOver
from sam_rlx._internal.files.targets import check_folder, check_suffix
from sam_rlx._internal.files.targets import is_same_file as is_same_file
from sam_rlx._internal.media import image_writer
from sam_rlx._internal.printable import printable
from sam_rlx._internal.progress import bars_aside, terminal_clock
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.image import MaskPrediction, RunLengthMasks
from sam_rlx.model import Model, load_model

# The option of results, and its short form.
OUTPUT = ("--output", "--out")
IMAGE_SUFFIXES = image_writer.SUFFIXES
# What the files of options are; those of others tell it by their suffix.
_KINDS = {"--json": "JSON", "--npz": "NPZ", "--junit": "XML", "--html": "HTML"}


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps descriptions, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


def tell(line: str, file: TextIO | None = None) -> None:
    """Print one line, on stdout by default. Names in it may come from files: they are escaped."""
    _print(printable(line), file or sys.stdout)


def complain(command: str, reason: object) -> None:
    """Print on stderr why something did not work."""
    if isinstance(reason, OSError) and reason.strerror and reason.filename is not None:
        reason = f"{reason.strerror}: {str(reason.filename)!r}"  # without a number
    text = printable(str(reason), keep="\n")
    _print(f"sam-rlx {command}: {text}", sys.stderr)


def _print(text: str, stream: TextIO | None) -> None:
    """Print text; what the stream's encoding lacks becomes escapes. Without a stream: nothing."""
    if stream is None:  # a program without a console
        return
    encoding = stream.encoding or "utf-8"
    with bars_aside(stream):
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


class UsageError(Exception):
    """The command line asks for something that makes no sense."""


class Unfulfilled(Exception):
    """A command has done its work, but found nothing, or failed for some of its images."""


def positive(text: str) -> int:
    """Argument type: an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, found {text}")
    return value


def threads(text: str) -> int:
    """Argument type: a number of threads."""
    value = positive(text)
    if value > MAX_THREADS:
        raise argparse.ArgumentTypeError(f"expected an integer <= {MAX_THREADS}, found {text}")
    return value


def utf8(text: str) -> str:
    """Argument type: text, whose bytes are UTF-8."""
    try:
        return as_text("argument", text)
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(f"expected UTF-8, found {text!r}") from error


def number_of(option: Mapping[str, Any]) -> Callable[[str], int | float]:
    """Argument type: a number in the range of an option, as `options.describe` has it."""
    kind = int if isinstance(option["default"], int) else float

    def convert(text: str) -> int | float:
        value = kind(text)
        if expected := options.outside(option, value):
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text}")
        return value

    convert.__name__ = kind.__name__  # argparse names it where the text is not a number
    return convert


def add_key_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--key``."""
    parser.add_argument(
        "--key",
        type=utf8,
        metavar="KEY",
        help="which of several models in the checkpoint: the keys to it, such as ema.module "
        "(sam-rlx info lists them)",
    )


def add_lora_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--lora``."""
    parser.add_argument(
        "--lora",
        type=utf8,
        metavar="ADAPTER",
        help="adapter to merge into the weights: folder of PEFT, its hub id, or a file",
    )


def add_model_arguments(
    parser: argparse.ArgumentParser, default: str = "sam-nano", texts: str | None = None
) -> None:
    """Add ``--model`` and what `add_load_arguments` adds.

    The model defaults to a packaged one. With `texts`, another model for texts, the attribute is
    None where none was named.
    """
    packaged = f"{default}, or {texts} for texts" if texts else default
    parser.add_argument(
        "--model",
        default=None if texts else default,
        metavar="MODEL",
        help=f"checkpoint file, hub id, or a packaged model (default: {packaged})",
    )
    add_load_arguments(parser)


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--threads`` and the arguments of `load_options`."""
    add_key_argument(parser)
    add_lora_argument(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "int8"),
        help="of the large linear layers (default: float32 for float files)",
    )
    parser.add_argument(
        "--image-size",
        "--side",
        type=positive,
        metavar="N",
        help="side of the network's input in pixels, such as 336 or 672 with SAM 3, which is "
        "quicker and less exact (default: the checkpoint's)",
    )
    parser.add_argument(
        "--threads", type=threads, metavar="N", help="threads (default: all cores available)"
    )


def load_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `load_model` beside the checkpoint that a command was given."""
    return {name: getattr(args, name) for name in ("precision", "key", "lora", "image_size")}


def remove_stale(
    directory: Path, before: Iterable[Path], written: Iterable[Path], noun: str = "mask"
) -> list[str]:
    """Remove masks, or what `noun` says, of an earlier run; say how many.

    Those that this run has written again stay, and so does what sam-rlx has not made.
    """
    names = {path.name for path in written}
    stale = [path for path in before if path.name not in names and is_own_image(path)]
    for path in stale:
        path.unlink(missing_ok=True)
    return (
        [f"removed {counted(len(stale), noun)} of an earlier run from {directory}"] if stale else []
    )


def refuse_foreign(option: str, *paths: Path | None, overwrite: bool) -> None:
    """Raise `UsageError` if a result would replace a file that sam-rlx has not written.

    Also if its suffix is that of another kind of file. Every command asks this about its results
    before it begins, with the value of ``--overwrite``.
    """
    for path in paths:
        _refuse_suffix(option, path)
        if not overwrite and path is not None and path.is_file() and not is_own_file(path):
            raise UsageError(
                f"{option}: expected a new file, found {path}, which sam-rlx has not written: "
                "choose another name, or --overwrite"
            )


def _refuse_suffix(option: str, path: Path | None) -> None:
    try:
        if path is not None and option in _KINDS:
            check_suffix(path, (_KINDS[option],))
    except InvalidArgumentError as error:
        raise UsageError(f"{option}: {error}") from error


def check_directory(option: str, path: Path | None, several: str = "") -> None:
    """Raise `UsageError` if a folder of results would have the name of a file."""
    try:
        if path is not None:
            check_folder(path)
    except InvalidArgumentError as error:
        raise UsageError(f"{option}: expected a directory{several}, found {path}") from error


def refuse_twice(results: Iterable[Path | None]) -> None:
    """Raise `UsageError` if two results of a command are one file."""
    named = [path for path in results if path is not None]
    for index, path in enumerate(named):
        if any(is_same_file(path, other) for other in named[:index]):
            raise UsageError(f"expected different files for the results, found {path} twice")


class Sources:
    """Files that a command reads, as many as there are: what is compared with each is quick."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths: dict[tuple[int, int] | str, Path] = {}
        for path in paths:
            self._paths.setdefault(_identity(path), path)

    def same_as(self, result: Path) -> Path | None:
        """Return the input that a result would replace, also through links, or None."""
        return self._paths.get(_identity(result))


def _identity(path: Path) -> tuple[int, int] | str:
    try:
        status = path.stat()
    except OSError:  # there is none, or it is a link to itself
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def print_json(document: Any, indent: int | None = None) -> None:
    """Print JSON on stdout; an error if nobody can get it."""
    if sys.stdout is None:
        raise UsageError("JSON: expected an open stdout, found none")
    print(json.dumps(document, indent=indent), flush=True)


def tell_aside(line: str) -> None:
    """Print one line on stderr, if there is one: stdout may carry JSON."""
    if sys.stderr is not None:
        tell(line, sys.stderr)


def announce(command: str, work: str, passed_over: PassedOver) -> None:
    """Say on stderr what a command on several inputs will do, and what it has passed over."""
    left = f"; passed over: {passed_over}" if passed_over else ""
    tell_aside(f"sam-rlx {command}: {work}{left}")


def add_memory_rule_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--memory-rule`` of commands that follow objects through clips."""
    parser.add_argument(
        "--memory-rule",
        choices=_core.memory_rules(),
        help=f"SAM 2, clips: {options.describe('video', 'sam2')['memory_rule']['help']} "
        "(default: as upstream)",
    )


def add_overwrite_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--overwrite`` of commands whose results of an earlier run are written anew."""
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="also write over files that sam-rlx has not written",
    )


class Speaker(Protocol):
    """Where messages of a command go."""

    def say(self, text: str) -> None:
        """Print a message."""


def load(args: argparse.Namespace, outputs: Speaker) -> Model:
    """Load the model of ``--model`` and say which one it is."""
    with terminal_clock("loading"):
        model = load_model(args.model, **load_options(args))
    outputs.say(describe(model))
    return model


def describe(model: Model) -> str:
    """Return one line about a model."""
    return (
        f"model {model.family} {model.variant}: {model.num_parameters:,} parameters, "
        f"{model.precision}, {model.isa}"
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    ending = "es" if noun.endswith("x") else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"


def flatten(result: MaskPrediction) -> tuple[Sequence[NDArray[np.bool_]], list[float]]:
    """Return all masks of a prediction in order, and their predicted IoU."""
    scores = result.iou_predictions.ravel().tolist()
    shape = (len(scores), *result.masks.shape[-2:])
    if isinstance(result.masks, RunLengthMasks):
        return RunLengthMasks(result.masks.counts, shape), scores
    return list(result.masks.reshape(shape)), scores
