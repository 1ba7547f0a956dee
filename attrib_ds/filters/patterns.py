"""The size of a regular expression: its length written out, and the states of its automaton."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute

#: Alternatives of sequences of parts; a part is an atom or a group, with the times it repeats.
_Tree: TypeAlias = "list[list[_Repeated]]"

#: Parts that match a position, not a character.
_POSITIONS: Final = frozenset({"^", "$", r"\A", r"\z", r"\b", r"\B"})
#: Characters of every script, besides those of the pattern.
_CHARACTERS: Final = "".join(map(chr, [*range(1, 384), *range(384, 0x3100, 32), *range(0x3100, 0xD800, 256),
                                       *range(0xE000, 0x30000, 512)]))  # fmt: skip


@dataclass
class _Repeated:
    inside: str | _Tree
    least: int = 1
    most: int | None = 1


@dataclass
class _Automaton:
    """Positions of a pattern: the atom of each, and the positions that may follow it, by preference."""

    atoms: list[str] = field(default_factory=list)
    following: list[list[int]] = field(default_factory=list)

    def alternatives(self, tree: _Tree) -> tuple[bool, list[int], list[int]]:
        """Add alternatives; return whether they match nothing, and their first and last positions."""
        first: list[int] = []
        last: list[int] = []
        is_empty = False
        for sequence in tree:
            parts = self.sequence(sequence)
            is_empty, first, last = is_empty or parts[0], first + parts[1], last + parts[2]
        return is_empty, first, last

    def sequence(self, parts: list[_Repeated]) -> tuple[bool, list[int], list[int]]:
        first: list[int] = []
        last: list[int] = []
        is_empty = True
        for part in parts:
            # x{2,} is xx+, x{1,3} is xx?x?.
            times = max(part.least, 1) if part.most is None else part.most
            for time in range(times):
                may_skip, start, end = self.atom_or_group(part.inside)
                if part.most is None and time == times - 1:
                    self.connect(end, start)
                may_skip = may_skip or time >= part.least
                self.connect(last, start)
                first = first + start if is_empty else first
                last = last + end if may_skip else end
                is_empty = is_empty and may_skip
        return is_empty, first, last

    def atom_or_group(self, inside: str | _Tree) -> tuple[bool, list[int], list[int]]:
        if not isinstance(inside, str):
            return self.alternatives(inside)
        if inside in _POSITIONS:
            return True, [], []
        position = [len(self.atoms)]
        self.atoms.append(inside)
        self.following.append([])
        return False, position, position

    def connect(self, before: list[int], after: list[int]) -> None:
        for position in before:
            self.following[position] = list(dict.fromkeys(self.following[position] + after))


@lru_cache(maxsize=512)
def states(pattern: str, most: int) -> int:
    """Count the states of the automaton of a pattern, up to a limit.

    Parameters
    ----------
    pattern : str
        A valid one in RE2 syntax, whose repetitions stand for some hundred characters at most.
    most : int
        Where to stop.

    Returns
    -------
    int
        More than ``most`` if there are more. The characters are a sample, and zero-width assertions are taken
        to hold.

    Examples
    --------
    >>> states("shoes", 500), states("[0-9]{4}-[0-9]{2}", 500), states("a.{3}b", 500), states("a.{40}b", 500)
    (5, 7, 16, 501)
    """
    tree = _parsed(pattern)
    automaton = _Automaton()
    _, first, _ = automaton.alternatives(tree)
    symbols = _symbols(pattern, automaton.atoms)
    # An anchored search begins at the first character only.
    again: list[int] = [] if all(part and part[0].inside in ("^", r"\A") for part in tree) else first
    # RE2 tells states apart by the order of preference of their positions too.
    start = tuple(dict.fromkeys(first))
    found, pending = {start}, [start]
    while pending and len(found) <= most:
        state = pending.pop()
        # A state holds the positions that may come next.
        for accepted in symbols:
            after: dict[int, None] = {}
            for position in state:
                if accepted >> position & 1:
                    after.update(dict.fromkeys(automaton.following[position]))
            following = tuple(after | dict.fromkeys(again))
            if following not in found:
                found.add(following)
                pending.append(following)
    return min(len(found), most + 1)


def _parsed(pattern: str) -> _Tree:
    groups: list[_Tree] = [[[]]]
    for part in PART.finditer(pattern):
        kind, text, sequence = part.lastgroup, part.group(), groups[-1][-1]
        if part["repetition"] is not None:
            if sequence:
                _repeat(sequence, part)
        elif kind == "open":
            groups.append([[]])
        elif kind == "close" and len(groups) > 1:
            group = groups.pop()
            groups[-1][-1].append(_Repeated(group))
        elif text == "|":
            groups[-1].append([])
        elif kind == "quoted":
            letters = text.removeprefix(r"\Q").removesuffix(r"\E")
            sequence.extend(_Repeated(re.escape(letter)) for letter in letters)
        elif kind != "flags":
            sequence.append(_Repeated(text))
    return groups[0]


def _repeat(sequence: list[_Repeated], part: re.Match[str]) -> None:
    text = part["repetition"]
    last = sequence[-1]
    if text in {"*", "+", "?"}:
        if text == "?" and (last.least, last.most) != (1, 1):
            # A lazy repetition, which has the same states.
            return
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text]
    else:
        least = int(part["least"])
        most = least if part["comma"] is None else int(part["most"]) if part["most"] else None
    inside: str | _Tree = last.inside if (last.least, last.most) == (1, 1) else [[last]]
    sequence[-1] = _Repeated(inside, least, most)


def _symbols(pattern: str, atoms: list[str]) -> set[int]:
    """Return the sets of positions that one character matches."""
    flags = "(?is)" if re.search(r"\(\?[msU]*i", pattern) else "(?s)"
    own = {*pattern, *map(chr, _written_codes(pattern))}
    near = {
        chr(ord(letter) + step) for letter in own for step in (-1, 0, 1) if 0 < ord(letter) + step < 0x110000
    }
    characters = sorted({
        letter for letter in (*_CHARACTERS, *near, *pattern.swapcase()) if not "\ud800" <= letter <= "\udfff"
    })  # fmt: skip
    accepted = [0] * len(characters)
    array = pa.array(characters)
    positions: dict[str, int] = {}
    for position, atom in enumerate(atoms):
        positions[atom] = positions.get(atom, 0) | 1 << position
    for atom, bits in positions.items():
        try:
            matched = pyarrow.compute.match_substring_regex(array, pattern=f"{flags}\\A(?:{atom})\\z")
        except pa.ArrowInvalid:
            # Not an atom by itself, so taken to match everything.
            accepted = [held | bits for held in accepted]
            continue
        for number in pyarrow.compute.indices_nonzero(matched).to_pylist():
            accepted[number] |= bits
    return set(accepted)


def _written_codes(pattern: str) -> list[int]:
    codes = re.findall(r"\\x\{?([0-9A-Fa-f]+)", pattern)
    return [code for code in (int(digits[:6], 16) for digits in codes) if code < 0x110000]


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
