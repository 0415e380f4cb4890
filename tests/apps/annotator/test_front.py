"""The front end is one small module, and the package does without the extra."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

from sam_rlx.apps.annotator.front import FOLDER, ORDER, joined, module_text
from sam_rlx.apps.annotator.gestures import table_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.video_session import VideoSession


def test_the_module_is_small_and_asks_no_one() -> None:
    text = joined()
    assert len(gzip.compress(text.encode())) < 45_500
    text = text.replace("http://www.w3.org/2000/svg", "").replace("fetch(this.url(", "")
    assert not re.search(r"https?://|\bimport\b[ (]|\bfetch\(|XMLHttpRequest", text)


def test_modules_are_joined_in_an_order_that_works() -> None:
    assert {path.stem for path in FOLDER.glob("*.js")} == set(ORDER)
    names: list[str] = []
    for at, module in enumerate(ORDER):
        text = module_text(module)
        imported = re.findall(r'^import \{ ([^}]+) \} from "\./(\w+)\.js";$', text, re.MULTILINE)
        assert len(imported) == len(re.findall(r"^import\b", text, re.MULTILINE)), module
        assert {source for _, source in imported} <= set(ORDER[:at]), module
        for some, source in imported:
            exported = set(re.findall(r"^export (?:async )?\w+ (\w+)", module_text(source), re.M))
            assert set(some.split(", ")) <= exported, (module, source)
        names += re.findall(
            r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)", text, re.M
        )
    assert len(names) == len(set(names))
    assert not re.search(r"^(import|export (?!default))", joined(), re.MULTILINE)


def test_sentences_stand_in_one_table() -> None:
    """No module but `words` has a text that a person reads."""
    for module in set(ORDER) - {"words"}:
        found = re.findall(r'"([A-Z][a-z]+ [^"]*)"', module_text(module))
        assert not found, (module, found)


def test_the_module_sends_what_sessions_take() -> None:
    sent = set(re.findall(r'send\("(\w+)"', joined()))
    rows = {*table_of(ImageSession), *table_of(VideoSession)}
    assert sent - rows == {"ready", "bye", "leave", "hover", "stop"}
    assert rows - sent == {"start", "recolor", "import_from", "check", "order"}


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
