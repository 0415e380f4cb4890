"""Files of the core that a wheel's build compiles at once have no name in common by chance.

Each has its own unnamed namespace, and in one unit these are one.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from nightly.other_systems import sources

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?:[\w:<>,&*]+ )+[&*]?(\w+)\(", re.MULTILINE)
WHOLE = re.compile(r"\A.*\Z", re.DOTALL)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
# Types and constants, and functions with their arguments: functions may share a name without these.
DEFINED = re.compile(
    r"^(?:template <[^>]*>\n)?"
    r"(?:(?:struct|class|union|enum(?: class)?|using) (\w+)\b(?!.*;$)"
    r"|(?:static |inline )?const\w* [^=({;]*?\b(\w+)(?:\[\w*\])?(?: = |\{)"
    r"|(?:\[\[\w+\]\] )?[\w:<>,&* ]+?\b(\w+\([^{;=]*\))(?: noexcept)? \{)",
    re.MULTILINE,
)


def units():
    """Files of each unit, as CMakeLists.txt distributes them."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    count = int(re.search(r"set\(units (\d+)\)", text).group(1))
    listed = [path for path in sources() if "kernels/generic" not in path.as_posix()]
    generic = [path.as_posix().endswith("generic/kernels.cpp") for path in sources()].index(True)
    # The kernels stay alone, and have a turn of their own.
    listed.insert(generic, None)
    return [[path for path in listed[unit::count] if path] for unit in range(count)]


def names(text, bodies=UNNAMED):
    """What the unnamed namespaces of a file define, with the namespace that they are in."""
    outer = NAMESPACE.search(text)
    for body in bodies.findall(text):
        for groups in DEFINED.findall(body):
            name = next(filter(None, groups))
            types = re.sub(r"\s+", " ", re.sub(r"\b\w+(?=[,)])", "", name))
            yield outer.group(1) if outer else "", types


def clashes(files):
    """Names that two files define."""
    found = Counter()
    for path in files:
        found.update(set(names(path.read_text(encoding="utf-8"))))
    return sorted(name for name, count in found.items() if count > 1)


def test_units_have_all_files_and_no_common_names():
    found = units()
    assert sum(map(len, found)) == len(sources()) - 1
    assert sum(len(list(names(path.read_text()))) for unit in found for path in unit) > 300
    assert [clashes(unit) for unit in found] == [[]] * len(found)


def hidden(files, headers):
    """Names of files that headers define too, which a neighbour may include. Of functions all: a
    neighbour's may fit a call better than the header's."""
    shared, found = set(), set()
    for paths, bodies, into in ((headers, WHOLE, shared), (files, UNNAMED, found)):
        for path in paths:
            text = path.read_text(encoding="utf-8")
            into.update(pair for pair in names(text, bodies) if "(" not in pair[1])
            into.update(n for body in bodies.findall(text) for n in FUNCTION.findall(body))
    return sorted(shared & found, key=str)


def test_headers_have_no_name_of_a_unit():
    files = [path for unit in units() for path in unit]
    headers = sorted({header for path in files for header in path.parent.glob("*.h")})
    assert len(headers) > 100
    assert hidden(files, headers) == []


def test_common_names_are_found(tmp_path):
    texts = (
        "constexpr long kGrain = 16;\nint twice(int x) {\n  return 2 * x;\n}\nstruct A {\n};\n",
        "constexpr float kGrain = 2;\nint twice(int y) {\n  return y;\n}\nstruct A {\n};\n",
        "int twice(float x) {\n  return 0;\n}\nconstexpr int kOther = 1;\n",
    )
    paths = [tmp_path / f"{i}.cpp" for i in range(3)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(f"namespace sam_rlx {{\nnamespace {{\n{text}}}  // namespace\n")
    assert clashes(paths[:2]) == [("sam_rlx", n) for n in ("A", "kGrain", "twice(int )")]
    assert clashes(paths[1:]) == []
    header = tmp_path / "a.h"
    header.write_text(
        "namespace sam_rlx {\nstruct A {\n};\nvoid once(int x);\nvoid twice(long x);\n}\n"
    )
    assert hidden(paths, [header]) == [("sam_rlx", "A"), "twice"]
