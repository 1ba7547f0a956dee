"""Shows how far a long run is, where somebody looks on."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from attrib_ds.transports.http.pace import is_watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What ends sooner is over before anybody has read of it.
_SECONDS_UNSEEN: Final = 1.0


@contextmanager
def progress(what: str, total: int, *, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error on a terminal and in a notebook, after a second.

    Parameters
    ----------
    what : str
        What is counted, such as ``"rows"``.
    total : int
        How many there are.
    done : int, default 0
        How many need nothing any more.

    Yields
    ------
    callable
        Takes how many more are done; any thread may call it.

    Examples
    --------
    >>> with progress("rows", 2) as advance:
    ...     advance(2)
    """
    if not is_watched():
        yield lambda _: None
        return
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs alone
        monitor_interval = 0  # no thread that outlives the bar

    lock = threading.Lock()
    with Bar(total=total, initial=done, unit=f" {what}", file=sys.stderr, delay=_SECONDS_UNSEEN) as bar:

        def advance(count: int) -> None:
            with lock:
                bar.update(count)

        yield advance
