"""Points and boxes on the command line: their options, and what they may be."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from sam_rlx import _core
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.errors import InvalidArgumentError


def add_arguments(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add ``--point`` and ``--box``, each of them as often as one likes.

    `where` ends the help of points: on which images.
    """
    parser.add_argument(
        "--point",
        action="append",
        default=[],
        type=parse_point,
        metavar="X,Y[,LABEL]",
        help=f"a pixel of the object (label 1, default) or of its surroundings (label 0){where}",
    )
    parser.add_argument(
        "--box", action="append", default=[], type=parse_box, metavar="X0,Y0,X1,Y1", help="a box"
    )


def _numbers(text: str, counts: tuple[int, ...], form: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in counts or not np.isfinite(values).all():
        raise argparse.ArgumentTypeError(f"expected {form}, found {text!r}")
    return values


def parse_point(text: str) -> tuple[float, float, int]:
    """Argument type: X,Y or X,Y,LABEL."""
    x, y, label = [*_numbers(text, (2, 3), "X,Y or X,Y,LABEL"), 1.0][:3]
    if label not in (0.0, 1.0):
        raise argparse.ArgumentTypeError(f"expected label 1 or 0, found {text!r}")
    return x, y, int(label)


def parse_box(text: str) -> list[float]:
    """Argument type: X0,Y0,X1,Y1."""
    x0, y0, x1, y1 = _numbers(text, (4,), "X0,Y0,X1,Y1")
    if x1 < x0 or y1 < y0:
        raise argparse.ArgumentTypeError(f"expected X0 <= X1 and Y0 <= Y1, found {text!r}")
    return [x0, y0, x1, y1]


def parse_range(text: str) -> tuple[float, float]:
    """Argument type: LOW,HIGH."""
    low, high = _numbers(text, (2,), "LOW,HIGH")
    if low >= high:
        raise argparse.ArgumentTypeError(f"expected LOW < HIGH, found {text!r}")
    return low, high


def check_points(points: Sequence[tuple[float, float, int]], hw: tuple[int, int]) -> None:
    """Raise `UsageError` for a point of ``--point`` that is outside of the image."""
    coords = np.array([point[:2] for point in points]).reshape(-1, 2)
    labels = np.array([point[2] for point in points], np.int32)
    with _usage():
        _core.check_points("--point", coords, labels, hw, "an image")


def check_boxes(boxes: Sequence[Sequence[float]], hw: tuple[int, int]) -> None:
    """Raise `UsageError` for a box of ``--box`` that has no pixel of the image."""
    with _usage():
        _core.check_boxes("--box", np.array(boxes, np.float64).reshape(-1, 4), hw, "an image")


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except InvalidArgumentError as error:
        raise UsageError(str(error)) from error


def described(args: argparse.Namespace) -> str:
    """Return the first of the points and boxes in words, with their number; "" without any."""
    words = [
        *(f"point {x:g},{y:g}" + ("" if label else " (label 0)") for x, y, label in args.point),
        *(f"box {','.join(f'{value:g}' for value in box)}" for box in args.box),
    ]
    more = f" (the first of {len(words)} prompts)" if len(words) > 1 else ""
    return words[0] + more if words else ""
