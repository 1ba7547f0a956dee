"""Suggest values for controls from the data of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.api.event_types import list_event_types
from attrib_ds.api.insights import interaction_insights
from attrib_ds.api.nodes import list_nodes
from attrib_ds.errors import AttribError, NotSupported

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.filters.vocabulary import Kind
    from attrib_ds.project import Project

#: Maximum number of suggestions.
_LIMIT: Final = 200

#: Columns of the node tree for the fields of node predicates.
_NODE_COLUMNS: Final = {"nodeId": "_id", "nodeName": "name", "nodeType": "type"}


def event_types(project: Project) -> list[str]:
    """Return the references of the project's event types."""
    return _distinct(list_event_types(project)["reference"])


def statistics(project: Project) -> list[str]:
    """Return the statistics that can be credited: the event count and those of the project's events."""
    try:
        metrics = project.tables().metrics
    except NotSupported:
        # A remote service does not list its statistics; users can still type one.
        return ["event-count"]
    keys = metrics.filter(metrics.type == "statistic").select("key").distinct().order_by("key")
    return list(dict.fromkeys(["event-count", *keys.to_pyarrow()["key"].to_pylist()]))


def has_channels(project: Project) -> bool:
    """Return whether nodes of the project belong to channels; no if they cannot be listed."""
    try:
        return bool(list_nodes(project)["channel"].notna().any())
    except AttribError:
        return False


def vendors(project: Project) -> list[str]:
    """Return the vendor ids of the project's integrations; none if the service does not list them."""
    try:
        return list(project.send("list_integrations").read()["vendorId"].to_pylist())
    except AttribError:
        return []


def values(project: Project, kind: Kind, field: str) -> list[str]:
    """Return the values of a field in the project, most frequent first.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    kind : str
        Kind of record that the field belongs to.
    field : str
        Name of the field.

    Returns
    -------
    list of str
        At most 200; empty for fields whose values the service does not count.

    Raises
    ------
    AttribError
        If the service cannot be reached, or cannot group by the field (dates, numbers, objects).
    """
    if kind == "event":
        return event_types(project) if field == "eventType" else []
    if kind == "node":
        return _node_values(project, field)
    if kind != "interaction":
        return []
    return _distinct(interaction_insights(project, group_by=field, sort="-sessionCount")["group"])


def _node_values(project: Project, field: str) -> list[str]:
    nodes = list_nodes(project)
    levels = ("campaign", "adset", "ad")
    level = next((level for level in levels if field in (f"{level}Id", f"{level}Name")), None)
    if level is not None:
        nodes = nodes[nodes["type"] == level]
        field = field.removeprefix(level).replace("Id", "_id").replace("Name", "name")
    column = _NODE_COLUMNS.get(field, field)
    return _distinct(nodes[column]) if column in nodes.columns else []


def _distinct(values: pd.Series[str]) -> list[str]:
    present = [value for value in values if isinstance(value, str) and value]
    return list(dict.fromkeys(present))[:_LIMIT]
