"""The front end of interactive sessions: one ES module, for notebooks and for the page.

It lies here as modules of one concept each, which need no build: `joined` puts them behind each
other in the order of `ORDER`, without their imports, and before them the style and the icons. What
a notebook loads is what the page loads.

The module exports ``{ render({ model, el }) }``, as anywidget takes it, and ``page({ base, el })``
for the page, which makes a `model` of its own with ``get(name)``, ``set(name, value)``,
``save_changes()``, ``on(event, callback)``, ``off(event, callback)`` and ``send(head, callbacks,
buffers)``; it calls what was registered for ``"msg:custom"`` with ``(head, buffers)`` for each
message, and for ``"comm:close"`` when the connection ends. The messages are those of
`sam_rlx.apps.annotator`.
"""

import json
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
# Each module imports from those before it alone, but for what runs later.
ORDER = (
    "words",
    "dom",
    "masks",
    "state",
    "tiles",
    "wire",
    "keys",
    "stage",
    "tools",
    "bars",
    "panel",
    "timeline",
    "dialogs",
    "front",
    "page",
)
_IMPORT = re.compile(r"^import [^;]+;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)
# Comments that stand alone or behind code, and what lines begin with: no text goes over lines.
_ASIDE = re.compile(r"^[ \t]*(?://.*)?\n|^[ \t]+|[ \t]+// .*$", re.MULTILINE)


def module_text(name: str) -> str:
    """Return one module as it lies in its file."""
    return (FOLDER / f"{name}.js").read_text(encoding="utf-8")


@cache
def joined() -> str:
    """Return the front end as one module, without comments."""
    parts = [
        f"const {name} = {json.dumps((FOLDER / file).read_text(encoding='utf-8'))};\n"
        for name, file in (("STYLE", "style.css"), ("ICONS", "icons.svg"))
    ]
    for name in ORDER:
        code = _EXPORT.sub("", _IMPORT.sub("", module_text(name)))
        parts.append(_ASIDE.sub("", code))
    return "".join(parts)
