"""Shows how far a long run is, where somebody looks on."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What ends sooner is over before anybody has read of it.
_SECONDS_UNSEEN: Final = 1.0


def is_watched() -> bool:
    """Say whether somebody sees what is written: on a terminal, or in a notebook."""
    stream = sys.stderr
    if stream is None:
        return False
    return stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"


@contextmanager
def progress(
    what: str, total: int | Callable[[], int | None], *, done: int = 0, name: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error on a terminal and in a notebook, after a second.

    Parameters
    ----------
    what : str
        What is counted, such as ``"rows"``.
    total : int or callable
        How many there are; a callable where that is not known from the beginning, or changes.
    done : int, default 0
        How many need nothing any more.
    name : str, optional
        What is done to them.

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
    from tqdm.std import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs alone
        monitor_interval = 0  # no thread that outlives the bar

    lock = threading.Lock()
    count = total if callable(total) else lambda: total
    with Bar(
        desc=name,
        total=count(),
        initial=done,
        unit=f" {what}",
        file=sys.stderr,
        delay=_SECONDS_UNSEEN,
    ) as bar:

        def advance(more: int) -> None:
            with lock:
                bar.total = count()
                bar.update(more)

        yield advance
