"""The size of a regular expression after its repetitions are written out."""

from __future__ import annotations

import re
from typing import Final

#: One part of a pattern in RE2 syntax: literal text, escape, class, group, repetition or any other letter.
PART: Final = re.compile(
    r"""(?P<quoted>\\Q.*?(?:\\E|$))
    | (?P<property>\\[pP](?:\{[^}]*\}|.))
    | (?P<escape>\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|.))
    | (?P<class>\[\^?\]?(?:\[:[^\]]*:\]|\\[pP]\{[^}]*\}|\\.|[^\]\\])*\])
    | (?P<flags>\(\?[imsU-]+\))
    | (?P<open>\((?:\?(?:P?<\w+>|[imsU-]*:))?)
    | (?P<close>\))
    | (?P<repetition>[*+?]|\{(?P<least>\d+)(?P<comma>,(?P<most>\d*))?\})
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
#: Sizes of a choice between characters, which may take several bytes, and of a Unicode property.
_CHOICE: Final = 4
_PROPERTY: Final = 50


def expanded_size(pattern: str) -> int:
    """Estimate the size of a pattern, on which the time to match it depends.

    Parameters
    ----------
    pattern : str
        In RE2 syntax.

    Returns
    -------
    int
        About the number of characters and classes once all counted repetitions are written out.

    Examples
    --------
    >>> expanded_size("ab+c"), expanded_size("(ab){3}"), expanded_size("(x{0,10}){20}")
    (3, 6, 200)
    """
    # Sizes of the open groups, and of the last part, which a repetition multiplies.
    sizes, last = [0], 0
    for part in PART.finditer(pattern):
        kind = part.lastgroup
        text = part.group()
        if part["repetition"] is not None:
            times = max(int(part["least"] or 1), int(part["most"] or 0), 1)
            sizes[-1] += last * (times - 1)
            last *= times
        elif kind == "open":
            sizes.append(0)
            last = 0
        elif kind == "close" and len(sizes) > 1:
            # An empty group costs a step each time.
            last = max(sizes.pop(), 1)
            sizes[-1] += last
        elif kind != "flags":
            last = _size(str(kind), text)
            sizes[-1] += last
    return sum(sizes)


def _size(kind: str, text: str) -> int:
    if kind == "quoted":
        return max(len(text) - 4, 1)
    properties = len(re.findall(r"\\[pP]", text)) if kind in {"property", "class"} else 0
    if properties:
        return properties * _PROPERTY
    is_choice = kind == "class" or text == "." or (kind == "escape" and text[1] in "CDSWdsw")
    return _CHOICE if is_choice else 1
