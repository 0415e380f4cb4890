"""Large images in tiles: ``--tile`` and ``--overlap``, and images of which windows are read."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.tiling import as_tiling
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.errors import InvalidArgumentError

# An image that is read whole, or by windows with --tile.
Image = NDArray[np.uint8] | io.Windows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--tile`` and ``--overlap``."""
    parser.add_argument(
        "--tile",
        type=int,
        metavar="N",
        help="work on tiles of N x N pixels, for images that are large or larger than memory",
    )
    parser.add_argument(
        "--overlap",
        type=int,
        metavar="N",
        help="pixels that neighbouring tiles share (default: an eighth of --tile)",
    )


def given(args: argparse.Namespace) -> dict[str, Any]:
    """Return those that were given, as arguments of predictors; `UsageError` if they are wrong."""
    try:
        tiling = as_tiling(args.tile, args.overlap)
    except InvalidArgumentError as error:
        raise UsageError(f"--{error}") from error
    return {} if tiling is None else {"tile": tiling.side, "overlap": tiling.overlap}


@contextmanager
def opened(args: argparse.Namespace, path: Path) -> Iterator[Image]:
    """Give the image of a file."""
    if args.tile is None:
        yield io.read_image(path)
        return
    with io.open_windows(path) as image:
        yield image


def whole(image: Image) -> NDArray[np.uint8]:
    """Return all pixels, for an overlay."""
    if isinstance(image, np.ndarray):
        return image
    return image.read(0, image.shape[0], 0, image.shape[1])
