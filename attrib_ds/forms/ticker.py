"""A widget that calls a function every few seconds while its page is visible."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anywidget
import traitlets

if TYPE_CHECKING:
    from collections.abc import Callable


class Ticker(anywidget.AnyWidget):  # type: ignore[misc]
    """Text that says when the page was updated, and the page's timer.

    The browser keeps the time, so the calls end with the page.

    Parameters
    ----------
    seconds : float
        Time between two calls.
    on_tick : callable
        Takes no arguments.

    Attributes
    ----------
    updated : str
        Time of the last update, to show; empty before the first.
    """

    _esm = (Path(__file__).parent / "ticker.js").read_text(encoding="utf-8")
    seconds = traitlets.Float().tag(sync=True)
    updated = traitlets.Unicode().tag(sync=True)

    def __init__(self, seconds: float, on_tick: Callable[[], None]) -> None:
        super().__init__(seconds=seconds)
        self.on_msg(lambda *_: on_tick())
