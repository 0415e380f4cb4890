"""The front end is one small module, and the package does without the extra."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

from sam_rlx.apps.annotator.front import FRONT
from sam_rlx.apps.annotator.gestures import table_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.video_session import VideoSession


def test_the_module_is_small_and_asks_no_one() -> None:
    text = FRONT.read_text()
    assert len(gzip.compress(text.encode())) < 35_000
    assert not re.search(r"https?://|\bimport\b[ (]|\bfetch\(|XMLHttpRequest", text)


def test_the_module_sends_what_sessions_take() -> None:
    sent = set(re.findall(r'send\("(\w+)"', FRONT.read_text()))
    rows = {*table_of(ImageSession), *table_of(VideoSession)}
    assert sent - rows == {"ready", "bye", "leave", "hover", "stop"}


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
