"""Messages of forms as HTML, which screen readers announce."""

from __future__ import annotations

import traceback
from html import escape

from attrib_ds.errors import AttribError


def status(message: str) -> str:
    """Return a message as HTML that screen readers announce without interrupting."""
    return f'<div role="status" class="attrib-status">{escape(message)}</div>' if message else ""


def alert(message: str) -> str:
    """Return an error message as HTML that screen readers announce at once."""
    lines = "<br>".join(escape(line) for line in message.splitlines())
    return f'<div role="alert" class="attrib-alert">{lines}</div>' if message else ""


def error_message(error: Exception) -> str:
    """Return an exception's message; with its type and function if it is not a user error."""
    if isinstance(error, AttribError | OSError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({frames[0].name})" if frames else ""
    return f"{type(error).__name__}{place}: {error}"
