"""The command ``sam-rlx``."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from pathlib import Path

from sam_rlx.cli import (
    batch,
    convert,
    demo,
    everything,
    info,
    parity,
    quantize,
    segment,
    serve,
    track,
)
from sam_rlx.cli.common import Unfulfilled, UsageError, complain
from sam_rlx.cli.signals import Terminated, termination_unwinds
from sam_rlx.errors import SamRlxError

_DONE, _FAILED, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_SIGNAL = 128  # plus the number of the signal
_PIPE = _SIGNAL + 13  # of SIGPIPE


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    parser = argparse.ArgumentParser(
        prog="sam-rlx",
        description="Segment images with Meta's Segment Anything models on this CPU.",
        epilog="example: sam-rlx demo --output demo.png",
    )
    parser.add_argument("--version", action="version", version=f"sam-rlx {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    modules = (segment, everything, track, batch, serve, info, convert, quantize, parity, demo)
    for module in modules:
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
        Exit code: 0 done, 1 failed, nothing found or different from the reference, 2 wrong usage,
        130 interrupted by Ctrl-C, 128 + N ended by signal N (SIGTERM, SIGHUP; SIGPIPE: whoever
        reads the output has enough).
        The parser itself raises ``SystemExit`` with 2, or with 0 after ``--help`` and
        ``--version``.
    """
    if argv is None:
        _prepare_streams()
    args = _parsed(argv)
    try:
        with termination_unwinds():
            args.run(args)
    except UsageError as error:
        return _fail(args.command, error, _USAGE)
    except BrokenPipeError:
        _close_stdout()
        return _PIPE
    except (SamRlxError, Unfulfilled, OSError, MemoryError) as error:
        return _fail(args.command, error, _FAILED)
    except Terminated as stop:
        return _fail(args.command, "terminated", _SIGNAL + stop.number)
    except KeyboardInterrupt:
        return _fail(args.command, "interrupted", _INTERRUPTED)
    return _DONE


def _prepare_streams() -> None:
    """Read and write UTF-8, whatever the code page of Windows' console; begin without a stderr.

    Services and programs without a console have none. The environment variable
    ``PYTHONIOENCODING`` chooses another encoding.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if os.environ.get("PYTHONIOENCODING"):
        return
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        # What has been read from already keeps its encoding.
        with suppress(UnsupportedOperation):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors=errors)


def _version() -> str:
    from sam_rlx import __version__  # is set behind the imports of the package

    return __version__


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments. Images may stand before and behind options."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if rest and (not hasattr(args, "images") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.images = [*args.images, *rest]
    return args


def _close_stdout() -> None:
    """Send what a buffer still holds nowhere: its reader has gone."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _fail(command: str, reason: object, code: int) -> int:
    complain(command, reason if str(reason) else type(reason).__name__)
    return code
