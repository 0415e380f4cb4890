"""The front end of interactive sessions: one ES module, for notebooks and for the page.

``front.js`` exports ``{ render({ model, el }) }``, as anywidget takes it. A page gives it a `model`
of its own with ``get(name)``, ``set(name, value)``, ``save_changes()``, ``on(event, callback)``,
``off(event, callback)`` and ``send(head, callbacks, buffers)``; it calls what was registered for
``"msg:custom"`` with ``(head, buffers)`` for each message, and for ``"comm:close"`` when the
connection ends. The messages are those of `sam_rlx.apps.annotator`.
"""

from pathlib import Path

FRONT = Path(__file__).with_name("front.js")
