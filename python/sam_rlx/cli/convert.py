"""``sam-rlx convert``: a checkpoint in another kind of file."""

import argparse
from pathlib import Path
from typing import Any

from sam_rlx._gguf import conversion as gguf_conversion
from sam_rlx._gguf.conversion import PackedGrowsError
from sam_rlx._progress import terminal_bar
from sam_rlx.cli import common, quantize
from sam_rlx.cli.common import UsageError, add_key_argument

_EXAMPLES = """examples:
  sam-rlx convert sam_vit_b_01ec64.pth sam_vit_b.safetensors
  sam-rlx convert sam2.1_hiera_tiny.pt hiera_t.gguf --type F16
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "convert",
        help="a checkpoint as safetensors or GGUF",
        description="Write a checkpoint in another kind of file. Safetensors: names, number "
        "formats and bits stay as they are. GGUF: what `sam-rlx quantize` writes, by default with "
        "all numbers as float32.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="checkpoint, hub id or packaged model")
    add_key_argument(parser)
    parser.add_argument(
        "output", metavar="OUT", type=Path, help="the file to write: .safetensors or .gguf"
    )
    parser.add_argument(
        "--type",
        choices=gguf_conversion.DTYPES,
        help="number format of the matrices of a GGUF file (default: F32)",
    )
    quantize.add_common_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.output.suffix == ".gguf":
        try:
            quantize.write_gguf(args, args.type or "F32", may_grow=args.type is not None)
        except PackedGrowsError as error:
            raise UsageError(f"{error}; --type F32 writes it, other types are smaller") from error
        return
    if args.output.suffix != ".safetensors":
        raise UsageError(f"expected an output file .safetensors or .gguf, found {args.output}")
    if args.type is not None:
        raise UsageError("--type: expected an output file that ends in .gguf")
    source = quantize.find_source(args)
    with terminal_bar("B", scale=True) as progress:
        written = gguf_conversion.to_safetensors(
            source, args.output, key=args.key, progress=progress
        )
    quantize.report(args, written)
