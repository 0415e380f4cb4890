"""``sam-rlx info``: what a checkpoint holds, and what this build can do."""

import argparse
import os
from collections import Counter
from typing import Any

from sam_rlx import _core
from sam_rlx import model as models
from sam_rlx._internal.packages import installed_originals
from sam_rlx._internal.progress import terminal_clock
from sam_rlx._internal.weights.fine_tunes import fine_tune
from sam_rlx._internal.weights.sources import find_checkpoint
from sam_rlx.apps.cli import common
from sam_rlx.errors import SamRlxError

_EXAMPLES = """examples:
  sam-rlx info
  sam-rlx info sam_vit_b_01ec64.pth
  sam-rlx info training_checkpoint.pth --key ema.module
  sam-rlx info sam_vit_b_01ec64.pth --lora my-lora
  sam-rlx info sam-nano --json
"""
_MAX_LISTED = 20  # tensors of a file that does not load


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "info",
        help="what a checkpoint holds, and what this build can do",
        description="Without MODEL: tell about this build and CPU, and list the packages that the "
        "drop-ins replace; `sam-rlx models` lists the released models. With MODEL: load it, with "
        "--lora see whether an adapter fits, and list its tensors too. Of a file that does not "
        "load: what it holds, how it is wrapped, and why it does not.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="checkpoint, hub id or sam-nano")
    common.add_key_argument(parser)
    common.add_lora_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.lora is not None and args.model is None:
        raise common.UsageError(f"--lora: expected it beside MODEL, found {args.lora} alone")
    found: dict[str, Any] = {"build": models.build_info()}
    if args.model is None:
        found["drop_ins"] = installed_originals()
    if args.model is not None:
        with terminal_clock("reading"):
            found |= _read(args.model, args.key, args.lora)
    if args.json:
        common.print_json(found, indent=1)
        return
    for key, value in found["build"].items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        common.tell(f"{key:<16} {text}")
    if "drop_ins" in found:
        _print_drop_ins(found["drop_ins"])
        common.tell("")
        common.tell("sam-rlx models: the released models that load, and what each is for")
    if "model" in found:
        _print_model(found["model"], found["file"])
    elif "file" in found:
        _print_file(args.model, found["file"], found["reason"])


def _print_drop_ins(folders: dict[str, str | None]) -> None:
    common.tell("")
    common.tell("names that python -m sam_rlx.compat PROGRAM takes, and what is installed there:")
    for name, folder in folders.items():
        common.tell(f"  {name:<20} {folder or 'nothing'}")


def _read(source: str, key: str | None, lora: str | None) -> dict[str, Any]:
    """Return what is known of a checkpoint: its file, and its model or why it does not load."""
    found = find_checkpoint(source)
    path = os.fspath(found)
    try:
        model = _facts(models.load_model(source, key=key, lora=lora), key)
        model["fine_tune"] = fine_tune(found)
    except SamRlxError as error:
        try:
            return {"file": _core.inspect_checkpoint(path, key), "reason": str(error)}
        except SamRlxError:
            raise error from None  # nothing can be read: the first reason says why
    return {"model": model, "file": _core.inspect_checkpoint(path, key)}


def _facts(model: models.Model, key: str | None) -> dict[str, Any]:
    return {
        "source": model.source,
        "lora": model.lora,
        "family": model.family,
        "variant": model.variant,
        "precision": model.precision,
        "isa": model.isa,
        "device": model.device,
        "num_parameters": model.num_parameters,
        "img_size": model.img_size,
        "mask_side": model.mask_side,
        "summary": common.describe(model),
        "report": model.report(),
        "tensors": [
            {"name": name, "dtype": dtype, "shape": list(shape)}
            for name, dtype, shape in models.list_tensors(model.source, key=key)
        ],
    }


def _print_model(facts: dict[str, Any], file: dict[str, Any]) -> None:
    for line in ("", facts["source"], facts["summary"]):
        common.tell(line)
    common.tell(f"network input {facts['img_size']}, mask input {facts['mask_side']}")
    if facts["fine_tune"] is not None:
        common.tell(f"by its name {facts['fine_tune']} (docs: which file)")
    if facts["lora"] is not None:
        common.tell(f"merged with the adapter {facts['lora']}")
    _print_wrappers(file)
    for key, names in facts["report"].items():
        if names:
            common.tell(f"{key}: {common.counted(len(names), 'tensor')}, such as {names[0]}")
    common.tell(f"{len(facts['tensors'])} tensors in the file:")
    for tensor in facts["tensors"]:
        _print_tensor(tensor["name"], tensor["dtype"], tensor["shape"])


def _print_wrappers(file: dict[str, Any]) -> None:
    """Say what was around the tensors."""
    common.tell(f"container: {file['container']}")
    if file["key"]:
        common.tell(f"tensors are under the key {file['key']!r}")
    if len(file["keys"]) > 1:
        names = ", ".join(repr(key) for key in file["keys"])
        common.tell(f"dicts with tensors (for --key): {names}")
    if file["prefix"]:
        common.tell(f"before every name: {file['prefix']!r}")


def _print_file(name: str, file: dict[str, Any], reason: str) -> None:
    """Print what a file holds that is no model that loads."""
    common.tell("")
    common.tell(name)
    _print_wrappers(file)
    tensors = file["tensors"]
    dtypes = Counter(dtype for _, dtype, _ in tensors)
    counts = ", ".join(f"{count} {dtype}" for dtype, count in sorted(dtypes.items()))
    number = common.counted(len(tensors), "tensor")
    common.tell(f"{number}{': ' + counts if counts else ''}")
    beginnings = Counter(tensor[0].split(".")[0] for tensor in tensors)
    for beginning, count in beginnings.most_common(_MAX_LISTED):
        names = "name begins" if count == 1 else "names begin"
        common.tell(f"  {count:>6} {names} with {beginning}")
    for tensor, dtype, shape in tensors[:_MAX_LISTED]:
        _print_tensor(tensor, dtype, shape)
    if len(tensors) > _MAX_LISTED:
        common.tell(f"  ... and {len(tensors) - _MAX_LISTED} more")
    for line in file["skipped"][:_MAX_LISTED]:
        common.tell(f"left out: {line}")
    common.tell("it does not load:")
    for line in reason.splitlines():
        common.tell(f"  {line}")


def _print_tensor(name: str, dtype: str, shape: Any) -> None:
    common.tell(f"  {dtype:<5} {tuple(shape)!s:<24} {name}")
