"""A small app for each host, and what starts it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

# Beside each app: it makes the widget, and writes down the areas of its masks after each change.
ANNOTATED = """
import json
import os
from pathlib import Path

import sam_rlx
from sam_rlx.widget import SegmentWidget

COINS = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
HERE = Path(__file__).parent


def widget():
    w = SegmentWidget(sam_rlx.load_model("sam-nano"), COINS, num_threads=1)

    def tell(change):
        (HERE / "new.json").write_text(json.dumps([int(one.mask.sum()) for one in w.objects]))
        os.replace(HERE / "new.json", HERE / "state.json")

    w.observe(tell, "revision")
    return w
"""


@dataclass(frozen=True)
class Host:
    """A program that shows widgets.

    Attributes
    ----------
    requirements : tuple of str
        What pip installs for it.
    files : dict of str to str
        Its app, beside `ANNOTATED`.
    command : tuple of str
        Arguments of Python; ``{port}`` is put in.
    carries_messages : bool
        False: it carries values alone, and the widget has to say so.
    """

    requirements: tuple[str, ...]
    files: dict[str, str]
    command: tuple[str, ...]
    carries_messages: bool = True
    environment: dict[str, str] = field(default_factory=dict)


def _notebook(code: str) -> str:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": code}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [{**cell, "execution_count": None, "outputs": []}]
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


HOSTS = {
    "shiny": Host(
        ("shiny>=1.4", "shinywidgets>=0.8"),
        {
            "app.py": """
from annotated import widget
from shiny import App, ui
from shinywidgets import output_widget, render_widget


def server(input, output, session):
    @render_widget
    def shown():
        return widget()


app = App(ui.page_fluid(output_widget("shown")), server)
"""
        },
        ("-m", "shiny", "run", "--port", "{port}", "app.py"),
    ),
    "panel": Host(
        ("panel>=1.9", "ipywidgets_bokeh>=1.8"),
        {
            "app.py": """
import panel as pn
from annotated import widget

pn.extension("ipywidgets")
pn.pane.IPyWidget(widget(), width=900, height=700).servable()
"""
        },
        ("-m", "panel", "serve", "app.py", "--address", "127.0.0.1", "--port", "{port}"),
    ),
    "solara": Host(
        ("solara[assets]>=1.50",),
        {
            "app.py": """
import solara
from annotated import widget


@solara.component
def Page():
    solara.display(solara.use_memo(widget, []))
"""
        },
        (
            *("-m", "solara", "run", "app.py", "--host", "127.0.0.1", "--port", "{port}"),
            *("--production", "--no-open"),
        ),
    ),
    "voila": Host(
        ("voila>=0.5.8", "ipykernel", "ipywidgets>=8"),
        {"app.ipynb": _notebook("from annotated import widget\n\nwidget()")},
        (
            *("-m", "voila", "app.ipynb", "--port={port}", "--no-browser"),
            *("--Voila.ip=127.0.0.1", "--show_tracebacks=True"),
        ),
    ),
    "nicegui": Host(
        ("nicegui>=3",),
        {
            "app.py": """
import sys

from annotated import widget
from nicegui import ui


@ui.page("/")
def page():
    ui.anywidget(widget())


ui.run(host="127.0.0.1", port=int(sys.argv[1]), show=False, reload=False)
"""
        },
        ("app.py", "{port}"),
        carries_messages=False,
    ),
}
