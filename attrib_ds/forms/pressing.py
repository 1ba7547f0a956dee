"""What a press of a button waits for: answers that the page has not told yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import ipywidgets

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds until a press acts although no page has answered, as where no page shows the form.
_PATIENCE: Final = 10.0


class AfterThePage:
    """Calls a function once the page has told everything that was changed in it.

    A page tells a change at once, but holds the next change of the same control back until the kernel is
    through with the one before. A press of a button goes past it, and what it starts would see the answer of
    before. So the page is asked to echo a number: its echo comes after what it held back.

    Parameters
    ----------
    call : callable
        Called without arguments.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._asked, self._echoed = ipywidgets.IntText(), ipywidgets.IntText()
        self._link = ipywidgets.jslink((self._asked, "value"), (self._echoed, "value"))
        self._echoed.observe(lambda _: self._act(), names="value")
        self._waiting: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Call the function when the page has echoed; at once where there is no kernel, and thus no page."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._call()
            return
        if self._waiting is None:
            self._waiting = loop.call_later(_PATIENCE, self._act)
            self._asked.value += 1

    def _act(self) -> None:
        if self._waiting is None:
            return
        self._waiting.cancel()
        self._waiting = None
        self._call()
