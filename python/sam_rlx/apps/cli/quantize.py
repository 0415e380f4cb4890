"""``sam-rlx quantize``: a model as a smaller GGUF file."""

import argparse
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.marks import is_own_file
from sam_rlx._internal.progress import terminal_bar
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx._internal.weights.gguf.conversion import PackedGrowsError
from sam_rlx._internal.weights.safetensors import FOLDER_FILES
from sam_rlx._internal.weights.sources import find_adapter, find_checkpoint
from sam_rlx.apps.cli import common
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.conversion import Written

_EXAMPLES = """examples:
  sam-rlx quantize sam_vit_b_01ec64.pth sam_vit_b.gguf --type Q8_0
  sam-rlx quantize sam3.pt sam3-q4_k.gguf --type Q4_K
"""
# Names of what is left out that are printed.
_MAX_SKIPPED = 5


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "quantize",
        help="a model as a smaller GGUF file",
        description="Write a model as a GGUF file with packed matrices. Matrices and 1x1 "
        "convolutions are packed; what is small or delicate stays as it is. Rows that the format "
        "does not fit get a finer one that does, and are counted.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="checkpoint, hub id or packaged model")
    common.add_key_argument(parser)
    common.add_lora_argument(parser)
    add_output_arguments(parser, "OUT.gguf", "the file to write")
    parser.add_argument(
        "--type",
        required=True,
        choices=gguf_conversion.DTYPES,
        help="number format of the matrices",
    )
    add_common_arguments(parser)
    parser.set_defaults(run=run)


def add_output_arguments(parser: argparse.ArgumentParser, metavar: str, text: str) -> None:
    """Add the output as a word, and as the option that other commands have."""
    kind: dict[str, Any] = {"type": Path, "metavar": metavar}
    parser.add_argument("output", nargs="?", help=text, **kind)
    parser.add_argument(*common.OUTPUT, dest="output_option", help="the same", **kind)


def take_output(args: argparse.Namespace) -> None:
    """Make one output of the two that `add_output_arguments` adds."""
    if (args.output is None) == (args.output_option is None):
        found = "none" if args.output is None else "both"
        raise UsageError(f"expected OUT or --output, found {found}")
    args.output = args.output or args.output_option


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``convert`` has too."""
    parser.add_argument(
        "--threads",
        type=common.threads,
        default=0,
        metavar="N",
        help="threads (default: all cores available)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    common.add_overwrite_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    take_output(args)
    if args.output.suffix != ".gguf":
        raise UsageError(f"expected an output file that ends in .gguf, found {args.output}")
    try:
        write_gguf(args, args.type, may_grow=False)
    except PackedGrowsError as error:
        raise UsageError(f"{error}; `sam-rlx convert --type {args.type}` writes it") from error


def write_gguf(args: argparse.Namespace, dtype: str, *, may_grow: bool) -> None:
    """Write the GGUF file of the arguments and say what is in it."""
    source = find_source(args)
    with terminal_bar("B", scale=True, text="quantizing") as progress:
        written = gguf_conversion.to_gguf(
            source,
            args.output,
            dtype,
            may_grow=may_grow,
            key=args.key,
            lora=None if args.lora is None else find_adapter(args.lora),
            num_threads=args.threads,
            progress=progress,
        )
    report(args, Written(*written))


def find_source(args: argparse.Namespace) -> Path:
    """Return the checkpoint, which the output must not replace."""
    source = find_checkpoint(args.model)
    if common.is_same_file(source, args.output):
        raise UsageError(f"expected another output file than the source, found {args.output}")
    common.refuse_foreign("OUT", *_replaced(args.output), overwrite=args.overwrite)
    return source


def _replaced(output: Path) -> list[Path]:
    """Return files that an output replaces. A folder is judged by its model."""
    if not output.is_dir():
        return [output]
    return [] if is_own_file(output) else [output / name for name in FOLDER_FILES]


def report(args: argparse.Namespace, written: Written) -> None:
    """Print what was written: as JSON, or in words."""
    if args.json:
        document = {
            "file": str(written.path),
            "bytes": written.nbytes,
            "tensors": written.dtypes,
            "fell_back": [
                {"name": name, "asked": asked, "got": got} for name, asked, got in written.fell_back
            ],
            "changes": [
                {
                    "from": found,
                    "to": kept,
                    "tensors": count,
                    "rounded": (found, kept) in written.rounded,
                }
                for (found, kept), count in sorted(written.changes.items())
            ],
            "skipped": written.skipped,
        }
        common.print_json(document, indent=1)
        return
    counts = ", ".join(f"{count} {dtype}" for dtype, count in sorted(written.dtypes.items()))
    common.tell(f"wrote {written.path}: {written.nbytes / 1e6:,.1f} MB, tensors: {counts}")
    for (found, kept), count in sorted(written.changes.items()):
        if found != kept:
            how = "rounded" if (found, kept) in written.rounded else "exactly"
            common.tell(f"{found} -> {kept}: {common.counted(count, 'tensor')}, {how}")
    if written.nbytes > written.source_nbytes > 0:
        times = written.nbytes / written.source_nbytes
        common.tell(f"that is {times:.1f} times the source; values are not more exact than in it")
    pairs = sorted({(asked, got) for _, asked, got in written.fell_back})
    for asked, got in pairs:
        names = [name for name, *pair in written.fell_back if pair == [asked, got]]
        tensors = common.counted(len(names), "tensor")
        common.tell(f"{tensors} got {got}: rows do not fit {asked}, such as {names[0]}")
    if written.skipped:
        more = len(written.skipped) - _MAX_SKIPPED
        left_out = ", ".join(written.skipped[:_MAX_SKIPPED])
        common.tell(f"left out: {left_out}{f', and {more} more' if more > 0 else ''}")
