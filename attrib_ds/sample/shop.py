"""The sample project: a fictional outdoor-goods shop, loaded from the shipped files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds import sample
from attrib_ds.api.loading import load
from attrib_ds.errors import InvalidRequest
from attrib_ds.project import connect

if TYPE_CHECKING:
    from pathlib import Path

    from attrib_ds.project import Project


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
            raise InvalidRequest(
                "path: the sample data cannot be loaded into this project: "
                f"{report.rejected.iloc[0].to_dict()}"
            )
        for event_type in sample.event_types():
            shop.send("create_event_type", **event_type)
    return shop
