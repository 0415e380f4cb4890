"""The front end is one small module, and the package does without the extra."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

from sam_rlx.apps.annotator.front import FRONT


def test_the_module_is_small_and_asks_no_one() -> None:
    text = FRONT.read_text()
    assert len(gzip.compress(text.encode())) < 35_000
    assert not re.search(r"https?://|\bimport\b[ (]|\bfetch\(|XMLHttpRequest", text)


def test_without_anywidget_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import sam_rlx\n"
        "try:\n    import sam_rlx.widget\n"
        "except sam_rlx.MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "sam_rlx[jupyter]"' in done.stdout


def test_the_package_alone_loads_no_widget() -> None:
    code = "import sys, sam_rlx; print([n for n in sys.modules if 'widget' in n or 'PIL' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
