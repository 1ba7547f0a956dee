"""Labels of nodes: names that are short, distinct and safe to show."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import pandas as pd

from attrib_ds import display

WIDTH: Final = 36
#: Name of the row of conversions without a touchpoint.
NO_VISIT: Final = "unattributed"
#: Its name if a model also estimates what would have happened anyway.
BASELINE: Final = "No channel"
#: Beginning of the names of models that estimate effects.
ESTIMATES: Final = "discrete_hazard"


def shorten(name: str, *, width: int = WIDTH) -> str:
    """Cut the middle out of a name that is longer than ``width`` characters.

    Examples
    --------
    >>> shorten("Brand campaign, spring, all regions", width=20)
    'Brand camp…l regions'
    """
    name = _on_one_line(name)
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def names_of_nodes(rows: pd.DataFrame) -> dict[str, str]:
    """Return the name of each node id in ``rows``: the last name in the frame, or the id itself."""
    named = rows[["node_id", "node_name"]].dropna().drop_duplicates()
    names = dict(zip(named["node_id"], named["node_name"], strict=True))
    return {node: str(names.get(node, node)) for node in rows["node_id"].dropna().unique()}


def name_of_rest(models: Iterable[str]) -> str:
    """Return what the row without a node is called under some models."""
    return BASELINE if any(str(model).startswith(ESTIMATES) for model in models) else NO_VISIT


def distinct(names: Mapping[str, str], *, width: int = WIDTH) -> dict[str, str]:
    """Return a short, distinct label per identifier.

    Equal names get their identifier as a suffix. Names that would be equal after shortening keep the part in
    which they differ; labels that are still equal are numbered.

    Examples
    --------
    >>> distinct({"a1": "brand", "b2": "brand", "c3": "direct"})
    {'a1': 'brand (a1)', 'b2': 'brand (b2)', 'c3': 'direct'}
    >>> distinct({"a": "Display, spring 01, returning", "b": "Display, spring 02, returning"}, width=20)
    {'a': 'Displa…01, returning', 'b': 'Displa…02, returning'}
    """
    uses = Counter(names.values())
    full = {key: _on_one_line(name if uses[name] == 1 else f"{name} ({key})") for key, name in names.items()}
    alike: dict[str, list[str]] = {}
    for name in full.values():
        alike.setdefault(shorten(name, width=width), []).append(name)
    short = {name: label for label, names_of_label in alike.items() for name in names_of_label}
    for names_of_label in alike.values():
        if len(names_of_label) > 1:
            short |= _keep_differences(sorted(set(names_of_label)), width)
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for key, name in full.items():
        label = short[name]
        numbered = (f"{label} #{number}" for number in itertools.count(2))
        labels[key] = next(text for text in itertools.chain([label], numbered) if text not in taken)
        taken.add(labels[key])
    return labels


def _on_one_line(name: str) -> str:
    """Return a name without line breaks; matplotlib repeats control characters in its warnings."""
    return display.printable(" ".join(name.split()))


def _keep_differences(names: list[str], width: int) -> dict[str, str]:
    """Shorten sorted names to their beginning and the part from the first word that differs.

    In sorted order, the name with the longest common beginning is a neighbour.
    """
    shared = [0, *(_shared_start(*pair) for pair in itertools.pairwise(names)), 0]
    head = width // 3
    room = width - head - 2
    labels = {}
    for position, name in enumerate(names):
        difference = max(shared[position], shared[position + 1])
        word = name.rfind(" ", 0, difference) + 1
        begin = max(word if difference - word < room // 2 else difference - 3, head)
        if begin + room + 1 >= len(name):
            labels[name] = f"{name[:head]}…{name[len(name) - room - 1 :]}"
        else:
            labels[name] = f"{name[:head]}…{name[begin : begin + room]}…"
    return labels


def _shared_start(one: str, two: str) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))
