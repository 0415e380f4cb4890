"""What the sub-commands share: argument types, result files and messages."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._printable import printable
from sam_rlx.image import MaskPrediction
from sam_rlx.model import Model, load_model

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def tell(line: str, file: TextIO | None = None) -> None:
    """Print one line, on stdout by default. Names in it may come from files: they are escaped."""
    print(printable(line), file=file, flush=True)


class UsageError(Exception):
    """The command line asks for something that makes no sense."""


def positive(text: str) -> int:
    """Argument type: an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, found {text}")
    return value


def add_key_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--key``."""
    parser.add_argument(
        "--key",
        metavar="KEY",
        help="which of several models in the checkpoint: the keys to it, such as ema.module "
        "(sam-rlx info lists them)",
    )


def add_model_arguments(
    parser: argparse.ArgumentParser, default: str = "sam-nano", phrases: str | None = None
) -> None:
    """Add ``--model``, ``--key``, ``--precision`` and ``--threads``.

    The model defaults to a packaged one. With `phrases` as another for phrases the attribute is
    None where none was named.
    """
    packaged = f"{default}, or {phrases} for phrases" if phrases else default
    parser.add_argument(
        "--model",
        default=None if phrases else default,
        metavar="MODEL",
        help=f"checkpoint file, hub id, or a packaged model (default: {packaged})",
    )
    add_key_argument(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "int8"),
        help="of the large linear layers (default: float32 for float files)",
    )
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads (default: all cores available)"
    )


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name result files, and ``--dry``."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR|FILE",
        help="image file (.png, .jpg, .webp) for the overlay; or a directory, which gets "
        "overlay.png, masks.json and mask_000.png ...",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write COCO JSON with RLE masks; - prints it on stdout"
    )
    parser.add_argument("--npz", type=Path, metavar="FILE", help="write masks and scores as NPZ")
    parser.add_argument("--masks", type=Path, metavar="DIR", help="write one PNG for each mask")
    parser.add_argument(
        "--dry", action="store_true", help="check the input, say what would be done, and stop"
    )


class Outputs:
    """Result files of one command, and where its messages go."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.overlay: Path | None = args.output
        self.masks: Path | None = args.masks
        self.json: str | None = args.json
        self.npz: Path | None = args.npz
        if self.overlay is not None and self.overlay.suffix.lower() not in PICTURE_SUFFIXES:
            directory = self.overlay
            if directory.suffix and not directory.is_dir():
                raise UsageError(
                    f"--output: expected a directory or a suffix of {list(PICTURE_SUFFIXES)}, "
                    f"found {directory}"
                )
            self.overlay = directory / "overlay.png"
            self.masks = self.masks or directory
            self.json = self.json or str(directory / "masks.json")
        if not (args.dry or self.overlay or self.masks or self.json or self.npz):
            raise UsageError(
                "expected one of --output, --json, --npz, --masks or --dry, found none"
            )

    def say(self, text: str) -> None:
        """Print a message: on stdout, or on stderr when stdout carries JSON."""
        tell(text, sys.stderr if self.json == "-" else None)

    def files(self) -> list[str]:
        """Return what `write` would write."""
        masks = None if self.masks is None else self.masks / "mask_*.png"
        return [str(x) for x in (self.overlay, self.json, self.npz, masks) if x is not None]

    def write(
        self,
        overlay: NDArray[np.uint8] | None,
        masks: Sequence[NDArray[np.bool_]],
        document: dict[str, Any],
        arrays: dict[str, Any],
    ) -> None:
        """Write every file that was asked for, and name each."""
        if self.overlay is not None and overlay is not None:
            io.write_image(self.overlay, overlay)
            self.say(f"wrote {self.overlay}")
        if self.masks is not None:
            for path in io.write_masks(self.masks, masks):
                self.say(f"wrote {path}")
        if self.npz is not None:
            io.write_npz(self.npz, **arrays)
            self.say(f"wrote {self.npz}")
        if self.json == "-":
            print(json.dumps(document))
        elif self.json is not None:
            io.write_json(self.json, document)
            self.say(f"wrote {self.json}")


class Speaker(Protocol):
    """Where messages of a command go."""

    def say(self, text: str) -> None:
        """Print a message."""


def load(args: argparse.Namespace, outputs: Speaker) -> Model:
    """Load the model of ``--model`` and say which one it is."""
    model = load_model(args.model, precision=args.precision, key=args.key)
    outputs.say(describe(model))
    return model


def describe(model: Model) -> str:
    """Return one line about a model."""
    return (
        f"model {model.family} {model.variant}: {model.num_parameters:,} parameters, "
        f"{model.precision}, {model.isa}"
    )


def annotations(
    masks: Sequence[NDArray[np.bool_]], scores: Sequence[float]
) -> list[dict[str, Any]]:
    """Return COCO annotations of masks with their predicted IoU."""
    return [
        io.coco_annotation(mask, predicted_iou=float(score))
        for mask, score in zip(masks, scores, strict=True)
    ]


def flatten(result: MaskPrediction) -> tuple[list[NDArray[np.bool_]], list[float]]:
    """Return all masks of a prediction in order, and their predicted IoU."""
    masks = result.masks.reshape(-1, *result.masks.shape[-2:])
    return list(masks), result.iou_predictions.ravel().tolist()
