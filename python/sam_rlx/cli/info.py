"""``sam-rlx info``: what a checkpoint holds, and what this build can do."""

import argparse
import json
from typing import Any

from sam_rlx import model as models
from sam_rlx.cli import common

_EXAMPLES = """examples:
  sam-rlx info
  sam-rlx info sam_vit_b_01ec64.pth
  sam-rlx info sam-nano --json
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "info",
        help="what a checkpoint holds, and what this build can do",
        description="Without MODEL: tell about this build and CPU. With MODEL: load it and list "
        "its tensors too.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="checkpoint, hub id or sam-nano")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    found: dict[str, Any] = {"build": models.build_info()}
    if args.model is not None:
        found["model"] = _facts(models.load_model(args.model))
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for key, value in found["build"].items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        common.tell(f"{key:<16} {text}")
    if args.model is not None:
        _print_model(found["model"])


def _facts(model: models.Model) -> dict[str, Any]:
    return {
        "source": model.source,
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
            for name, dtype, shape in models.list_tensors(model.source)
        ],
    }


def _print_model(facts: dict[str, Any]) -> None:
    for line in ("", facts["source"], facts["summary"]):
        common.tell(line)
    common.tell(f"network input {facts['img_size']}, mask input {facts['mask_side']}")
    for key, names in facts["report"].items():
        if names:
            common.tell(f"{key}: {len(names)} tensors, such as {names[0]}")
    common.tell(f"{len(facts['tensors'])} tensors in the file:")
    for tensor in facts["tensors"]:
        common.tell(f"  {tensor['dtype']:<5} {tuple(tensor['shape'])!s:<24} {tensor['name']}")
