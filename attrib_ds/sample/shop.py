"""The sample project: half a year of a fictional outdoor-goods shop, loaded from the shipped files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrib_ds import errors, sample
from attrib_ds.api.results import load
from attrib_ds.project import Project, connect


def sample_project(path: str | Path = ":memory:") -> Project:
    """Open an embedded project with the shipped sample data.

    Parameters
    ----------
    path : str or Path, default ":memory:"
        File of the project. An existing file with the sample data is opened unchanged.

    Returns
    -------
    Project
        ``sample-shop``: half a year of an outdoor-goods shop, with campaigns, sessions, offline
        interactions, bots, orders, leads, spend and event types. All data is fictional.

    Examples
    --------
    >>> from attrib_ds import sample_project
    >>> sample_project()
    <Project 'sample-shop' at :memory:>
    """
    shop = connect("sample-shop", path=path)
    if shop.send("list_nodes", limit=0).total == 0:
        tables: dict[str, Any] = {**sample.files()}
        report = load(shop, **tables)
        if len(report.rejected):
            raise errors.InvalidRequest(
                "path: the sample data cannot be loaded into this project: "
                f"{report.rejected.iloc[0].to_dict()}"
            )
        for event_type in event_types():
            shop.send("create_event_type", **event_type)
    return shop


def event_types() -> list[dict[str, Any]]:
    """Return the event types of the sample data, as arguments of ``create_event_type``.

    Returns
    -------
    list of dict
        With ``reference``, ``name`` and ``fields``.

    Examples
    --------
    >>> [event_type["reference"] for event_type in event_types()]
    ['order', 'lead']
    """
    return [
        {
            "reference": "order",
            "name": "Order",
            "fields": [
                # Guests order without an email.
                {"type": "email", "entity": "user", "storageKey": "email", "optional": True},
                {"type": "string", "entity": "event", "storageKey": "orderNumber"},
                {"type": "currency", "entity": "event", "storageKey": "turnover"},
                {"type": "number", "entity": "event", "storageKey": "items"},
                _state("confirmed"),
                _state("refunded"),
            ],
        },
        {
            "reference": "lead",
            "name": "Lead",
            "fields": [
                {"type": "email", "entity": "user", "storageKey": "email"},
                _state("qualified"),
                _state("converted"),
            ],
        },
    ]


def _state(key: str) -> dict[str, Any]:
    return {"type": "state", "entity": "event", "storageKey": key, "ingestionKey": None}
