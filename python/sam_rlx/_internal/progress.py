"""Progress of long work, for a callable or a bar on a terminal or in a notebook."""

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from sam_rlx._internal.arrays.checks import as_progress

# Called with how much is done, and how much there is.
Progress = Callable[[int, int], None]

# Seconds between two drawings of a bar whose count stands still: its clock goes on.
_INTERVAL = 0.5


@contextmanager
def reporter(
    progress: bool | Progress | None, unit: str, *, scale: bool = False, text: str = ""
) -> Iterator[Any]:
    """Give what the argument `progress` of a public method asks for: a callable, or None.

    Parameters
    ----------
    progress : bool or callable
        A callable is given as it is. True: that of `terminal_bar`.
    unit, scale, text
        As for `terminal_bar`.
    """
    progress = as_progress(progress)
    if callable(progress):
        yield progress
    elif not progress:
        yield None
    else:
        with terminal_bar(unit, scale=scale, text=text) as report:
            yield report


@contextmanager
def terminal_bar(unit: str, *, scale: bool = False, text: str = "") -> Iterator[Progress | None]:
    """Give a bar if there is a terminal or a notebook and ``tqdm`` is installed, else None.

    On a terminal it is drawn on stderr; in Jupyter it is a widget, or text without ipywidgets.

    The bar shows the time that has passed, and is drawn again while nothing is reported.

    Parameters
    ----------
    unit : str
        What is counted.
    scale : bool
        Write large numbers with k, M and G.
    text : str
        What is done before the first report, such as ``"encoding"``.
    """
    tqdm = _tqdm()
    if tqdm is None:
        yield None
        return
    spaced = unit if scale else f" {unit}"
    with tqdm.tqdm(unit=spaced, unit_scale=scale, leave=False, desc=text or None) as bar:

        def report(done: int, total: int) -> None:
            if bar.total != total:
                _set_total(bar, total)
            if bar.n == 0 and text:
                bar.set_description_str("", refresh=False)
            bar.update(done - bar.n)

        with _drawn_again(bar):
            yield report


@contextmanager
def terminal_clock(text: str) -> Iterator[None]:
    """Show `text` and the seconds that have passed, where `terminal_bar` shows a bar."""
    tqdm = _tqdm()
    if tqdm is None:
        yield
        return
    if in_notebook():
        with tqdm.tqdm(desc=text, total=1, leave=False) as bar, _drawn_again(bar):
            yield
        return
    form = "{desc} {elapsed}"
    with tqdm.tqdm(desc=text, bar_format=form, leave=False) as bar, _drawn_again(bar):
        yield


def bars_aside(file: TextIO | None) -> AbstractContextManager[None]:
    """Take the bars off the terminal while the block prints on `file`."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or not getattr(tqdm.tqdm, "_instances", None):
        return nullcontext()
    aside: AbstractContextManager[None] = tqdm.tqdm.external_write_mode(file=file)
    return aside


def _tqdm() -> Any:
    """Return the module that draws bars, or None where nobody sees them or there is no module."""
    notebook = in_notebook()
    terminal = sys.stderr is not None and sys.stderr.isatty()  # a program without a console: None
    if not notebook and not terminal:
        return None
    widgets = notebook and importlib.util.find_spec("ipywidgets") is not None
    try:
        return importlib.import_module("tqdm.notebook" if widgets else "tqdm")
    except ImportError:
        return None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows what is printed as HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _set_total(bar: Any, total: int) -> None:
    """Tell a bar how much there is; its clock goes on."""
    if not hasattr(bar, "container"):
        bar.total = total
        return
    # A bar of a notebook takes it by `reset` alone.
    started, done = bar.start_t, bar.n
    bar.reset(total or None)
    bar.start_t, bar.n = started, done


@contextmanager
def _drawn_again(bar: Any) -> Iterator[None]:
    """Draw a bar in regular intervals from another thread."""
    ended = threading.Event()

    def draw() -> None:
        while not ended.wait(_INTERVAL):
            bar.refresh()

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
