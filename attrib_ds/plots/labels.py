"""Name nodes and groups so that each label is short and no two are the same."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

WIDTH: Final = 36


def shorten(name: str, *, width: int = WIDTH) -> str:
    """Cut the middle out of a name that is longer than ``width`` characters.

    Examples
    --------
    >>> shorten("Brand campaign, spring, all regions", width=20)
    'Brand camp…l regions'
    """
    name = " ".join(name.split())
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def names_of_nodes(rows: pd.DataFrame) -> dict[str, str]:
    """Return the name of each node id in ``rows``: its last known name, or the id itself."""
    named = rows[["node_id", "node_name"]].dropna().drop_duplicates()
    names = dict(zip(named["node_id"], named["node_name"], strict=True))
    return {node: str(names.get(node, node)) for node in rows["node_id"].dropna().unique()}


def distinct(names: Mapping[str, str], *, width: int = WIDTH) -> dict[str, str]:
    """Return one short label per identifier, no two the same.

    Equal names get their identifier. Names that a cut in the middle makes equal are cut around the
    place where they part; what is still equal then is numbered.

    Examples
    --------
    >>> distinct({"a1": "brand", "b2": "brand", "c3": "direct"})
    {'a1': 'brand (a1)', 'b2': 'brand (b2)', 'c3': 'direct'}
    >>> distinct({"a": "Display, spring 01, returning", "b": "Display, spring 02, returning"}, width=20)
    {'a': 'Displa…01, returning', 'b': 'Displa…02, returning'}
    """
    uses = Counter(names.values())
    full = {
        key: " ".join((name if uses[name] == 1 else f"{name} ({key})").split()) for key, name in names.items()
    }
    alike: dict[str, list[str]] = {}
    for name in full.values():
        alike.setdefault(shorten(name, width=width), []).append(name)
    short = {name: label for label, names_of_label in alike.items() for name in names_of_label}
    for names_of_label in alike.values():
        if len(names_of_label) > 1:
            short |= _around_partings(sorted(set(names_of_label)), width)
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for key, name in full.items():
        label = short[name]
        numbered = (f"{label} #{number}" for number in itertools.count(2))
        labels[key] = next(text for text in itertools.chain([label], numbered) if text not in taken)
        taken.add(labels[key])
    return labels


def _around_partings(names: list[str], width: int) -> dict[str, str]:
    """Return each name's beginning and the part from the word that sets it apart from its neighbours.

    Of sorted names, the one that shares the longest beginning with a name stands next to it.
    """
    shared = [0, *(len(_common_start(one, two)) for one, two in itertools.pairwise(names)), 0]
    head = width // 3
    room = width - head - 2
    labels = {}
    for place, name in enumerate(names):
        parting = max(shared[place], shared[place + 1])
        word = name.rfind(" ", 0, parting) + 1
        begin = max(word if parting - word < room // 2 else parting - 3, head)
        if begin + room + 1 >= len(name):
            labels[name] = f"{name[:head]}…{name[len(name) - room - 1 :]}"
        else:
            labels[name] = f"{name[:head]}…{name[begin : begin + room]}…"
    return labels


def _common_start(one: str, two: str) -> str:
    same = itertools.takewhile(lambda letters: letters[0] == letters[1], zip(one, two, strict=False))
    return "".join(letter for letter, _ in same)
