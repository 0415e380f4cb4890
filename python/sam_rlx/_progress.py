"""Progress of long work, for a callable or a bar on a terminal."""

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

# Called with how much is done, and how much there is.
Progress = Callable[[int, int], None]

# Seconds between two drawings of a bar whose count stands still: its clock goes on.
_INTERVAL = 0.5


@contextmanager
def terminal_bar(unit: str, *, scale: bool = False, text: str = "") -> Iterator[Progress | None]:
    """Give a bar on stderr if that is a terminal and ``tqdm`` is installed, else None.

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
            bar.total = total
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
    form = "{desc} {elapsed}"
    with tqdm.tqdm(desc=text, bar_format=form, leave=False) as bar, _drawn_again(bar):
        yield


def bars_aside(file: TextIO) -> AbstractContextManager[None]:
    """Take the bars off the terminal while the block prints on `file`."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or not getattr(tqdm.tqdm, "_instances", None):
        return nullcontext()
    aside: AbstractContextManager[None] = tqdm.tqdm.external_write_mode(file=file)
    return aside


def _tqdm() -> Any:
    """Return the module that draws bars, or None where there is no terminal or no module."""
    if not sys.stderr.isatty():
        return None
    try:
        return importlib.import_module("tqdm")
    except ImportError:
        return None


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
