"""Waiting for another thread, process or browser until something is so; the bound is for what never happens."""

import time
from collections.abc import Callable
from typing import Any

_SECONDS = 120.0
_PAUSE = 0.01


def eventually(look: Callable[[], Any]) -> Any:
    """Repeat a question until the answer is true, and return the answer."""
    until = time.monotonic() + _SECONDS
    while not (answer := look()):
        assert time.monotonic() < until, f"it did not happen within {_SECONDS:g} seconds"
        time.sleep(_PAUSE)
    return answer
