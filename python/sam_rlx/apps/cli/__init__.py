"""The command ``sam-rlx``."""

import argparse
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from pathlib import Path

from sam_rlx._internal.nearest import did_you_mean
from sam_rlx._internal.packages import needed_by_command
from sam_rlx.apps.cli import (
    annotate,
    batch,
    completion,
    convert,
    demo,
    everything,
    export,
    info,
    models,
    parity,
    quantize,
    segment,
    serve,
    track,
)
from sam_rlx.apps.cli.common import Unfulfilled, UsageError, complain
from sam_rlx.apps.cli.signals import Terminated, termination_unwinds
from sam_rlx.errors import SamRlxError

_DONE, _FAILED, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_SIGNAL = 128  # plus the number of the signal
_PIPE = _SIGNAL + 13  # of SIGPIPE


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    return _parsers()[0]


def _parsers() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of all, and those of the commands."""
    parser = argparse.ArgumentParser(
        prog="sam-rlx",
        description="Segment images with Meta's Segment Anything models on this CPU.",
        epilog="example: sam-rlx demo --output demo.png",
    )
    parser.add_argument("--version", action="version", version=f"sam-rlx {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    modules = (
        *(segment, everything, track, batch, annotate, serve, export),
        *(info, models, convert, quantize, parity, demo),
    )
    for module in modules:
        module.add_parser(commands)
    completion.add_parser(commands, parser)
    return parser, commands.choices


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name. Default: those of this process. None at all print
        the help, as ``--help`` does.

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
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        build_parser().print_help()
        return _DONE
    args = _parsed(words)
    try:
        with termination_unwinds(), needed_by_command(args.command):
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


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments. Images, and an output, may stand before and behind options."""
    parser, commands = _parsers()
    _refuse_unknown(parser, commands, words)
    args, rest = parser.parse_known_args(words)
    taken = not any(word.startswith("-") for word in rest)
    if rest and taken and hasattr(args, "images"):
        args.images = [*args.images, *rest]
    elif len(rest) == 1 and taken and getattr(args, "output", rest) is None:
        args.output = Path(rest[0])
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def _refuse_unknown(
    parser: argparse.ArgumentParser,
    commands: Mapping[str, argparse.ArgumentParser],
    words: Sequence[str],
) -> None:
    """End with an error that names the nearest command or option, if one is unknown.

    It comes before those of argparse: what is missing may stand there with another spelling.
    """
    name = words[0]
    if name.startswith("-"):
        return
    if name not in commands:
        parser.error(f"expected a command, found {name!r}{did_you_mean(name, commands)}")
    command = commands[name]
    options = command._option_string_actions
    for word in itertools.takewhile(lambda word: word != "--", words[1:]):
        option = word.partition("=")[0]
        is_value = not option.startswith("--") or " " in option
        if not is_value and not any(known.startswith(option) for known in options):
            command.error(f"expected a known option, found {option}{did_you_mean(option, options)}")


def _close_stdout() -> None:
    """Send what a buffer still holds nowhere: its reader has gone."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _fail(command: str, reason: object, code: int) -> int:
    complain(command, reason if str(reason) else type(reason).__name__)
    return code
