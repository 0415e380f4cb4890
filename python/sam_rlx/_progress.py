"""Progress of long work, for a callable or a bar on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Called with how much is done, and how much there is.
Progress = Callable[[int, int], None]


@contextmanager
def terminal_bar(unit: str, *, scale: bool = False) -> Iterator[Progress | None]:
    """Give a bar on stderr if that is a terminal and ``tqdm`` is installed, else None.

    Parameters
    ----------
    unit : str
        What is counted.
    scale : bool
        Write large numbers with k, M and G.
    """
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit=unit, unit_scale=scale, leave=False) as bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report
