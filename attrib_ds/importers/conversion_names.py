"""The names of events that are conversions, and the references of event types made of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import literal

if TYPE_CHECKING:
    from collections.abc import Sequence


def references(names: Sequence[str] | str) -> dict[str, str]:
    """Return the reference of the event type of each name.

    Raises
    ------
    InvalidRequest
        If there is none, one has no letter or digit, or two have the same reference.

    Examples
    --------
    >>> references(["purchase", "Generate Lead"])
    {'purchase': 'purchase', 'Generate Lead': 'generate_lead'}
    """
    listed = [names] if isinstance(names, str) else list(names)
    found: dict[str, str] = {}
    for name in listed:
        if not isinstance(name, str) or not re.search("[A-Za-z0-9]", name):
            raise InvalidRequest(
                f"conversions: {name!r} is not allowed; allowed: names of events", field="conversions"
            )
        reference = re.sub("[^a-z0-9]+", "_", name.casefold()).strip("_")[:64].strip("_")
        if reference in found.values() and found.get(name) != reference:
            raise InvalidRequest(
                f"conversions: {name!r} and another name are both {reference!r}", field="conversions"
            )
        found[name] = reference
    if not found:
        raise InvalidRequest("conversions: there is none; allowed: at least one event", field="conversions")
    return found


def renamed(column: str, found: dict[str, str]) -> str:
    """Return SQL for the reference of the event named in a column, NULL where it is no conversion."""
    cases = " ".join(f"WHEN {literal(name)} THEN {literal(to)}" for name, to in found.items())
    return f"CASE {column} {cases} END"
