"""Derive the references of event types from the names of conversion events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import literal

if TYPE_CHECKING:
    from collections.abc import Sequence


def references(names: Sequence[str] | str) -> dict[str, str]:
    """Return the reference of an event type for each name.

    Raises
    ------
    InvalidRequest
        If there are no names, one has no letter or digit, or two have the same reference.

    Examples
    --------
    >>> references(["purchase", "Generate Lead"])
    {'purchase': 'purchase', 'Generate Lead': 'generate_lead'}
    """
    listed = [names] if isinstance(names, str) else list(names)
    by_name: dict[str, str] = {}
    for name in listed:
        if not isinstance(name, str) or not re.search("[A-Za-z0-9]", name):
            raise InvalidRequest(
                f"conversions: {name!r} is not allowed; allowed: names of events", field="conversions"
            )
        reference = re.sub("[^a-z0-9]+", "_", name.casefold()).strip("_")[:64].strip("_")
        if reference in by_name.values() and by_name.get(name) != reference:
            raise InvalidRequest(
                f"conversions: {name!r} and another name both have the reference {reference!r}",
                field="conversions",
            )
        by_name[name] = reference
    if not by_name:
        raise InvalidRequest("conversions: at least one event name is required", field="conversions")
    return by_name


def reference_sql(column: str, by_name: dict[str, str]) -> str:
    """Return SQL for the reference of the event named in a column, NULL if it is not a conversion."""
    cases = " ".join(f"WHEN {literal(name)} THEN {literal(reference)}" for name, reference in by_name.items())
    return f"CASE {column} {cases} END"
