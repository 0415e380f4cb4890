"""Pages that are made: one for each public name, command, notebook and file of the root."""

import argparse
import importlib
import os
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from _site.public import Entry, commands, entries

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
MADE = ("reference", "commands", "project", "notebooks")  # folders that are not in the repository
# Files of the root that are pages of the site too.
ROOT_PAGES = {
    "README.md": "readme",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "THIRD_PARTY_NOTICES.md": "third_party_notices",
}
# Groups of the reference; modules of `sam_rlx.compat` are the last one.
GROUPS = {
    "Models": ("sam_rlx.model", "sam_rlx.conversion"),
    "Images by clicks, boxes and masks": ("sam_rlx.image",),
    "Everything on an image": ("sam_rlx.generator",),
    "What a text names": ("sam_rlx.concept", "sam_rlx.tokenizer"),
    "Videos": ("sam_rlx.video", "sam_rlx.frames"),
    "Files and overlays": ("sam_rlx.io", "sam_rlx.viz"),
    "Many images and clips": ("sam_rlx.batch",),
    "In a notebook": ("sam_rlx.widget",),
    "Parity with PyTorch": ("sam_rlx.parity", "sam_rlx.pytest_plugin"),
    "Errors and warnings": ("sam_rlx.errors",),
}
_BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
# Members that come from Python's own classes have no text of ours.
_FOREIGN = (
    "object, BaseException, Exception, str, dict, OrderedDict, UserDict, tuple, list, Mapping, "
    "MutableMapping, Sequence, ndarray, Enum"
)


def write_pages() -> None:
    """Write every made page that differs from what is there, and remove those of lost names."""
    pages = dict(_all_pages())
    for name, text in pages.items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in [path for folder in MADE for path in (DOCS / folder).rglob("*.*")]:
        if path.is_file() and path.relative_to(DOCS).as_posix() not in pages:
            path.unlink()


def _all_pages() -> Iterator[tuple[str, str]]:
    yield from _reference_pages()
    yield from _command_pages()
    yield from _notebook_pages()
    for name, page in ROOT_PAGES.items():
        text = _of_checkout((ROOT / name).read_text(encoding="utf-8"))
        yield f"project/{page}.md", on_site(text, ROOT, DOCS / "project")


def _of_checkout(text: str) -> str:
    """Return Markdown whose links into the repository on the web lead to this checkout's files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = re.escape(project["urls"]["Repository"])
    return re.sub(rf"\]\({repository}/(?:blob|raw)/main/", "](", text)


def on_site(text: str, source: Path, target: Path) -> str:
    """Return Markdown of the folder `source` as it stands on the site in the folder `target`.

    Links to files that are pages of the site lead there; of others the name is left.
    """

    def link(match: re.Match[str]) -> str:
        words, address, anchor = match[1], match[2], match[3] or ""
        if "://" in address or address.startswith("mailto:"):
            return match[0]
        path = (source / address).resolve()
        if path.parent == ROOT and path.name in ROOT_PAGES:
            path = DOCS / "project" / f"{ROOT_PAGES[path.name]}.md"
        elif not (path.suffix == ".md" and path.is_relative_to(DOCS) and path.is_file()):
            return words
        return f"[{words}]({_relative(path, target)}{anchor})"

    def image(match: re.Match[str]) -> str:
        if "://" in match[2]:
            return match[0]
        return f"![{match[1]}]({_relative((source / match[2]).resolve(), target)})"

    # In code, `registry["vit_b"](checkpoint)` is no link.
    return _outside_blocks(lambda part: _IMAGE.sub(image, _LINK.sub(link, part)), text)


def _outside_blocks(change: Callable[[str], str], text: str) -> str:
    """Return Markdown of which all but the code blocks is changed."""
    parts = _BLOCK.split(text)
    parts[::2] = [change(part) for part in parts[::2]]
    return "".join(parts)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _toctree(names: list[str], depth: int = 1) -> str:
    listed = "\n".join(f"   {name}" for name in names)
    return f".. toctree::\n   :maxdepth: {depth}\n\n{listed}\n\n"


def _reference_pages() -> Iterator[tuple[str, str]]:
    public = entries()
    functions = {entry.path for found in public.values() for entry in found}
    for module, found in public.items():
        shadowed = module in functions
        yield f"reference/{module}/index.rst", _module_page(module, found, shadowed)
        for entry in found:
            if entry.module == module:
                yield f"reference/{module}/{entry.name}.rst", _entry_page(entry)
    yield "reference/index.rst", _reference_index(public)


def _reference_index(public: dict[str, list[Entry]]) -> str:
    """Return the page of all groups, with a line for each name."""
    text = _title("Reference") + (
        "Every public name has a page. What begins with an underscore, and what is not listed "
        "here, may change at any time.\n\n"
    )
    for title, modules in GROUPS.items():
        text += _title(title, "-") + _table(
            (f":py:obj:`{entry.name} <{entry.path}>`", _first_line(entry))
            for module in modules
            for entry in public[module]
        )
    dropped_in = [name for name in public if name.startswith("sam_rlx.compat")]
    text += _title("Drop-in modules", "-") + _table(
        (f":doc:`{name} <{name}/index>`", _first_sentence(importlib.import_module(name)))
        for name in dropped_in
    )
    listed = "".join(f"   {name} <{name}/index>\n" for name in public)
    return f"{text}.. toctree::\n   :hidden:\n\n{listed}"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and what they are."""
    listed = "".join(f"   * - {name}\n     - {line}\n" for name, line in rows)
    return f".. list-table::\n   :widths: auto\n\n{listed}\n"


def _module_page(name: str, found: list[Entry], shadowed: bool) -> str:
    """Return the page of a module: its text and a table of its names.

    A name that is a function of the package too is that of the function.
    """
    options = "   :no-index:\n" if shadowed else ""
    own = [entry for entry in found if entry.module == name]
    table = _table(
        (f":py:obj:`{entry.name} <{entry.path}>`", _first_line(entry)) for entry in found
    )
    listed = "".join(f"   {entry.name}\n" for entry in own)
    hidden = f".. toctree::\n   :hidden:\n\n{listed}" if own else ""
    return f"{_title(name)}.. automodule:: {name}\n   :no-members:\n{options}\n{table}{hidden}"


def _first_line(entry: Entry) -> str:
    """Return the first sentence of a docstring, without the types of values."""
    if entry.kind == "autodata":
        return f"A value of type ``{type(entry.value).__name__}``."
    return _first_sentence(entry.value)


def _first_sentence(value: Any) -> str:
    paragraph = (value.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())


def _entry_page(entry: Entry) -> str:
    """Return the page of a public name with all that it has."""
    options = ""
    if entry.kind == "autoclass":
        options = f"   :members:\n   :inherited-members: {_FOREIGN}\n"
    if entry.kind == "autodata":
        options = "   :no-value:\n" if isinstance(entry.value, dict) else ""
    imported = f".. code-block:: python\n\n   from {entry.module} import {entry.name}\n\n"
    return _title(entry.path) + f"{imported}.. {entry.kind}:: {entry.path}\n{options}"


def _command_pages() -> Iterator[tuple[str, str]]:
    parser, listed = commands()
    help_of = {action.dest: action.help or "" for action in listed._choices_actions}
    for name, command in listed.choices.items():
        yield f"commands/{name}.rst", _command_page(f"sam-rlx {name}", command)
    rows = "".join(
        f"   * - :doc:`sam-rlx {name} <{name}>`\n     - {_escaped(help_of.get(name, ''))}\n"
        for name in listed.choices
    )
    codes = importlib.import_module("sam_rlx.apps.cli").main.__doc__ or ""
    codes = re.search(r"Exit code: (.*?)\n\s*The parser", codes, re.DOTALL)[1]  # type: ignore[index]
    text = (
        f"{_title('Command line')}{_escaped(parser.description or '')}\n\n"
        f".. list-table::\n   :widths: auto\n\n{rows}\n"
        f"Each command has ``--help``. Exit codes: {_escaped(' '.join(codes.split()))}\n\n"
    )
    names = "".join(f"   sam-rlx {name} <{name}>\n" for name in listed.choices)
    yield "commands/index.rst", f"{text}.. toctree::\n   :hidden:\n\n{names}"


def _notebook_pages() -> Iterator[tuple[str, str]]:
    found = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in found:
        yield f"notebooks/{path.name}", path.read_text(encoding="utf-8")
    text = (
        "Run when this site was made, on a CPU, with the models of the package. The files are in "
        "the folder ``notebooks`` of the repository.\n\n"
    )
    yield "notebooks/index.rst", _title("Notebooks") + text + _toctree([p.stem for p in found])


def _escaped(text: str) -> str:
    """Return plain text as reStructuredText that shows it unchanged."""
    return re.sub(r"([*`|\\]|_(?!\w)|<(?=\w))", r"\\\1", text)


def _command_page(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the page of a command: description, usage, arguments, examples."""
    if hasattr(parser, "color"):
        parser.color = False
    usage = parser.format_usage().removeprefix("usage: ").strip()
    parts = [_title(name), f".. program:: {name}\n\n", f"{_escaped(parser.description or '')}\n\n"]
    if parser.epilog:
        example = textwrap.dedent(re.sub(r"^examples?:[ \n]", "", parser.epilog))
        parts.append(f".. code-block:: sh\n\n{_indented(example)}\n\n")
    parts.append(f"{_title('Usage', '-')}.. code-block:: text\n\n{_indented(usage)}\n\n")
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if actions:
            parts.append(_title((group.title or "Arguments").capitalize(), "-"))
            parts += [_option(action, parser) for action in actions]
    return "".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"   {line}".rstrip() for line in text.splitlines())


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return an argument with its help, as argparse shows it."""
    formatter = parser._get_formatter()
    values = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    if action.option_strings:
        shown = ", ".join(f"{text} {values}".strip() for text in action.option_strings)
    else:
        positional = formatter._get_default_metavar_for_positional(action)
        shown = formatter._format_args(action, positional)
    help_text = formatter._expand_help(action) if action.help else ""
    return f".. option:: {shown}\n\n   {_escaped(' '.join(help_text.split()))}\n\n"


def _rewrite(app: Sphinx, docname: str, content: list[str]) -> None:
    """Lead links out of the folder docs to pages of the site; complete the list of pages."""
    if docname.startswith(MADE):
        return
    text = content[0]
    if docname == "index":
        listed = set(re.findall(r"^(\w+)$", text, re.MULTILINE)) | {"index"}
        rest = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in listed)
        text = text.replace("(other pages)", "\n".join(rest))
    page = DOCS / docname
    content[0] = on_site(text, page.parent, page.parent)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the pages before Sphinx looks for files."""
    app.connect("config-inited", lambda app, config: write_pages())
    app.connect("source-read", _rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
