"""``sam-rlx convert``: a checkpoint in another kind of file."""

import argparse
from typing import Any

from sam_rlx._internal.weights import safetensors
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx._internal.weights.gguf.conversion import PackedGrowsError
from sam_rlx.apps.cli import common, quantize
from sam_rlx.apps.cli.common import UsageError, add_key_argument, add_lora_argument
from sam_rlx.conversion import convert, is_folder_name

_EXAMPLES = """examples:
  sam-rlx convert sam_vit_b_01ec64.pth sam_vit_b.safetensors
  sam-rlx convert sam2.1_hiera_tiny.pt hiera_t.gguf --type F16
  sam-rlx convert sam2.1_hiera_tiny.pt sam2.1-hiera-tiny --type BF16
  sam-rlx convert sam2.1-hiera-tiny hiera_t.safetensors --names meta
  sam-rlx convert sam_vit_b_01ec64.pth merged.safetensors --lora my-lora
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "convert",
        help="a checkpoint as safetensors, GGUF or a folder for transformers",
        description="Write a checkpoint in another kind of file. Safetensors: names, number "
        "formats and bits stay as they are unless --names or --type says otherwise; packed numbers "
        "become float32. A name without a suffix: a folder that `from_pretrained` of transformers "
        "loads. GGUF: what `sam-rlx quantize` writes, by default with all numbers as float32. What "
        "is printed tells which numbers were rounded.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="checkpoint, hub id or packaged model")
    add_key_argument(parser)
    add_lora_argument(parser)
    quantize.add_output_arguments(
        parser, "OUT", "the file to write, .safetensors or .gguf, or a folder"
    )
    parser.add_argument(
        "--names",
        choices=safetensors.NAMES,
        help="whose names the tensors of a .safetensors file get (default: those of the source)",
    )
    parser.add_argument(
        "--type",
        choices=gguf_conversion.DTYPES,
        help="number format: of the matrices of a GGUF file (default: F32); F32, F16 or BF16 of "
        "all floats elsewhere (default: as in the source)",
    )
    quantize.add_common_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    quantize.take_output(args)
    _check(args)
    source = quantize.find_source(args)
    try:
        written = convert(
            source,
            args.output,
            names=args.names,
            dtype=args.type,
            key=args.key,
            lora=args.lora,
            num_threads=args.threads or None,
            progress=True,
        )
    except PackedGrowsError as error:
        raise UsageError(f"{error}; --type F32 writes it, other types are smaller") from error
    quantize.report(args, written)


def _check(args: argparse.Namespace) -> None:
    """Refuse what does not fit the kind of the output."""
    suffix = args.output.suffix
    if suffix == ".gguf":
        if args.names == "transformers":
            raise UsageError("--names transformers: expected an output other than .gguf")
        return
    if suffix != ".safetensors" and not is_folder_name(args.output):
        raise UsageError(
            f"expected an output .safetensors or .gguf, or a folder, found {args.output}"
        )
    if args.type not in (None, *safetensors.DTYPES):
        raise UsageError(f"--type {args.type}: expected an output file that ends in .gguf")
    if suffix != ".safetensors" and args.names == "meta":
        raise UsageError("--names meta: expected an output file, found the name of a folder")
