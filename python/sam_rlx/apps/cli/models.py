"""``sam-rlx models``: which models there are, where, how large, and what each is for."""

import argparse
from itertools import groupby
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.weights.sources import PACKAGED
from sam_rlx.apps.cli import common

_EXAMPLES = """examples:
  sam-rlx models
  sam-rlx models sam2
  sam-rlx models --json
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "models",
        help="which models there are, where, how large, and what each is for",
        description="List the released models that load, by family, the fastest first: file, size, "
        "licence, what it is for, and the page that has it. Nothing is downloaded.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    families = list(dict.fromkeys(row["family"] for row in _core.releases()))
    parser.add_argument("family", nargs="?", choices=families, help="these alone")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    rows = [row for row in _core.releases() if args.family in (None, row["family"])]
    if args.json:
        common.print_json({"models": rows, "packaged": list(PACKAGED)}, indent=1)
        return
    for source, files in groupby(rows, key=lambda row: row["source"]):
        common.tell(source)
        for variant, versions in groupby(files, key=lambda row: row["variant"]):
            found = list(versions)
            common.tell(f"  {variant:<11} {found[0]['purpose']}")
            for row in found:
                size = f"{row['bytes'] / 1e6:,.0f} MB"
                common.tell(f"    {row['file']:<25} {size:>9}  {row['license']}")
    common.tell(f"small models in the package: {', '.join(PACKAGED)}")
