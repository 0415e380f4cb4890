"""Print what is longer than it should be: ``python tests/support/long_files.py``.

A file is split where a second concept begins, a function where a second step does: neither for a
count alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILE, MAX_FUNCTION = 400, 60
FOLDERS = ("cpp", "python", "tests", "training", "benchmarks")
SUFFIXES = {".py", ".h", ".cpp", ".inl"}


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield name and lines of the body of each function, its docstring not counted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            start = first.lineno
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                start = (first.end_lineno or start) + 1
            yield node.name, (node.end_lineno or start) - start + 1


HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|#[^\n]*|\'(?:\\.|[^\'\\])\'', re.DOTALL
)
CONTAINER = re.compile(r"\b(namespace|struct|class|enum|union)\b[^()]*$")


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield heading and lines of the body of each outermost block with a parameter list."""
    code = HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    depth, start, heading, begin = 0, 0, "", 0
    for position, character in enumerate(code):
        if character == "{":
            found = code[begin:position].strip()
            if depth:
                depth += 1
            elif "(" in found and not CONTAINER.search(found):
                depth, start, heading = 1, position, found
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                yield heading, code[start:position].count("\n") - 1
        if character in "{};" and not depth:
            begin = position + 1


def main() -> None:
    """Print the files, and the functions of all files."""
    for folder in FOLDERS:
        for path in sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES):
            text = path.read_text(encoding="utf-8")
            name = path.relative_to(ROOT).as_posix()
            if (lines := text.count("\n")) > MAX_FILE:
                print(f"{name}: {lines} lines")
            functions = python_functions(text) if path.suffix == ".py" else cpp_functions(text)
            for function, length in functions:
                if length > MAX_FUNCTION:
                    print(f"{name}: {function.split('(')[0].split()[-1]}: {length} lines")


if __name__ == "__main__":
    main()
