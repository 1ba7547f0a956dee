"""Delay a button click until edits that are still pending in the browser have arrived."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import ipywidgets

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds to wait for the page's echo; without a page none ever comes.
_TIMEOUT: Final = 10.0


class AfterPendingEdits:
    """Call a function after all pending edits of the page have arrived.

    The page sends the first change of a control at once, but holds further changes back until the kernel has
    processed it. A button click overtakes them, so that its handler would see the old value. Therefore the
    page is asked to echo a number: the echo arrives after the changes that were held back.

    Parameters
    ----------
    call : callable
        Takes no arguments.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._ping, self._echo = ipywidgets.IntText(), ipywidgets.IntText()
        self._link = ipywidgets.jslink((self._ping, "value"), (self._echo, "value"))
        self._echo.observe(lambda _: self._finish(), names="value")
        self._timeout: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Call the function after the page's echo; at once if no event loop runs, and thus no page exists."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._call()
            return
        if self._timeout is None:
            self._timeout = loop.call_later(_TIMEOUT, self._finish)
            self._ping.value += 1

    def _finish(self) -> None:
        if self._timeout is None:
            return
        self._timeout.cancel()
        self._timeout = None
        self._call()
