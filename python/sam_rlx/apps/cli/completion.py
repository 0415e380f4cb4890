"""``sam-rlx completion``: what a shell completes the command line with.

All of it is read from the parser: commands, options, their choices and help. Where no choices are
known the shell offers the names of files.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sam_rlx.apps.cli import common

_PROGRAM = "sam-rlx"
_EXAMPLES = """examples:
  sam-rlx completion bash > ~/.local/share/bash-completion/completions/sam-rlx
  sam-rlx completion zsh >> ~/.zshrc
  sam-rlx completion fish > ~/.config/fish/completions/sam-rlx.fish
"""


@dataclass(frozen=True)
class Option:
    """One option of a command: its spellings, whether a value follows, its choices and help."""

    names: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class Command:
    """One command: its help, options, and the choices of its words, if those are known."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def add_parser(commands: Any, program: argparse.ArgumentParser) -> None:
    """Add the sub-command, which tells what the parser of the program knows."""
    parser = commands.add_parser(
        "completion",
        help="a script that completes commands, options and files in a shell",
        description="Print a script for a shell, which completes commands, options, their choices "
        "and names of files.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(_WRITERS), help="which shell reads it")

    def run(args: argparse.Namespace) -> None:
        print(script(args.shell, program), end="", flush=True)

    parser.set_defaults(run=run)


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for one of the shells, made from the parser of all commands."""
    return _WRITERS[shell](table(parser))


def table(parser: argparse.ArgumentParser) -> list[Command]:
    """Return what a parser knows; the first entry, without a name, is the program itself."""
    (commands,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    found = [_command(name, helps[name], each) for name, each in commands.choices.items()]
    program = _command("", "", parser)
    return [Command("", "", program.options, tuple(each.name for each in found)), *found]


def _command(name: str, text: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    words: list[str] = []
    for action in parser._actions:
        choices = () if action.choices is None else tuple(str(choice) for choice in action.choices)
        if action.option_strings:
            line = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
            options.append(
                Option(tuple(action.option_strings), action.nargs != 0, choices, _plain(line))
            )
        else:
            words += choices
    return Command(name, _plain(text), tuple(options), tuple(words))


def _plain(text: str) -> str:
    """Return one line of printable ASCII."""
    return re.sub(r"[^ -~]+|\s+", " ", text.replace("%%", "%")).strip()


def _bash(commands: Iterable[Command]) -> str:
    """Return a script for bash. A word without choices is completed by its own rules for files."""
    return f"""# {_PROGRAM} completion bash
_sam_rlx() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  local command=${{COMP_WORDS[1]}}
  (( COMP_CWORD == 1 )) && command=
  # Words end at "=", which is a word itself.
  if [[ $word == "=" ]]; then word=
  elif [[ $before == "=" ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  case "$command $before" in
{_cases(_values(commands))}
    *) case "$command $word" in
{_cases(_starts(commands))}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _sam_rlx {_PROGRAM}
"""


def _cases(rows: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    return "\n".join(f'    {pattern}) words="{" ".join(words)}" ;;' for pattern, words in rows)


def _values(commands: Iterable[Command]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield patterns of a command and an option before the word, and what the word may be."""
    for command in commands:
        for option in command.options:
            if option.takes_value:
                yield "|".join(f'"{command.name} {name}"' for name in option.names), option.choices


def _starts(commands: Iterable[Command]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield patterns of a command and how the word begins, and what the word may be."""
    for command in commands:
        names = tuple(name for option in command.options for name in option.names)
        yield f'"{command.name} -"*', names
        if command.words:
            yield f'"{command.name} "*', command.words


def _zsh(commands: Iterable[Command]) -> str:
    """Return a script for zsh, which runs those of bash."""
    names = ("compinit", "bashcompinit")
    return "".join(f"autoload -U +X {name} && {name}\n" for name in names) + _bash(commands)


def _fish(commands: Iterable[Command]) -> str:
    """Return a script for fish."""
    lines = [f"# {_PROGRAM} completion fish"]
    helps = {command.name: command.help for command in commands}
    for command in commands:
        here = f"__fish_seen_subcommand_from {command.name}" if command.name else ""
        here = here or "__fish_use_subcommand"
        start = f"complete -c {_PROGRAM} -n {_quoted(here)}"
        lines += [
            f"{start} -f -a {word} -d {_quoted(helps.get(word, ''))}" for word in command.words
        ]
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = " -r -F" if option.takes_value else ""
            if option.choices:
                value = f" -x -a {_quoted(' '.join(option.choices))}"
            lines.append(f"{start} {names}{value} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS: Mapping[str, Callable[[list[Command]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
