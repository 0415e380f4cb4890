"""The command ``sam-rlx``."""

import argparse
import sys
from collections.abc import Sequence

from sam_rlx._printable import printable
from sam_rlx.cli import convert, demo, everything, info, parity, quantize, segment, track
from sam_rlx.cli.common import UsageError
from sam_rlx.cli.signals import Terminated, termination_unwinds
from sam_rlx.errors import SamRlxError

_DONE, _FAILED, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_SIGNAL = 128  # plus the number of the signal


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    parser = argparse.ArgumentParser(
        prog="sam-rlx",
        description="Segment images with Meta's Segment Anything models on this CPU.",
        epilog="example: sam-rlx demo --output demo.png",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (segment, everything, track, info, convert, quantize, parity, demo):
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name. Default: those of this process.

    Returns
    -------
    int
        Exit code: 0 done, 1 failed (or what `parity` compared differs), 2 wrong usage, 130
        interrupted by Ctrl-C, 128 + N ended by signal N (SIGTERM, SIGHUP). The parser itself
        raises ``SystemExit`` with 2, or with 0 after ``--help``.
    """
    args = build_parser().parse_args(argv)
    try:
        with termination_unwinds():
            return args.run(args) or _DONE
    except UsageError as error:
        return _fail(args.command, error, _USAGE)
    except (SamRlxError, OSError, MemoryError) as error:
        return _fail(args.command, error, _FAILED)
    except Terminated as stop:
        return _fail(args.command, "terminated", _SIGNAL + stop.number)
    except KeyboardInterrupt:
        return _fail(args.command, "interrupted", _INTERRUPTED)


def _fail(command: str, reason: object, code: int) -> int:
    text = printable(str(reason), keep="\n")
    print(f"sam-rlx {command}: {text}", file=sys.stderr)
    return code
