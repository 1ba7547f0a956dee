"""Make text from outside safe to show on a terminal or in a log."""

from __future__ import annotations

import re
from typing import Final

#: Control characters (C0 without tab and line feed, DEL, C1), line separators, unpaired surrogates, and the
#: characters that reorder text (UAX #9), which can disguise what a line says.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Escape the characters of a text that could steer a terminal or disguise what it says.

    Parameters
    ----------
    text : str
        From a service or a file.

    Returns
    -------
    str
        The same text; control characters other than tab and line feed, bidirectional overrides and unpaired
        surrogates are written as in Python literals.

    Examples
    --------
    >>> printable("no \x1b[2Jtoken")
    'no \\x1b[2Jtoken'
    """
    return _UNPRINTABLE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")
