"""Answers that the data of a project suggest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.api.event_types import list_event_types
from attrib_ds.api.insights import interaction_insights
from attrib_ds.api.nodes import list_nodes
from attrib_ds.errors import NotSupported

if TYPE_CHECKING:
    from attrib_ds.filters.vocabulary import Kind
    from attrib_ds.project import Project

#: How many answers are offered.
_MOST: Final = 200

#: Fields of node predicates that the tree names otherwise.
_NODE_COLUMNS: Final = {"nodeId": "_id", "nodeName": "name", "nodeType": "type"}


def event_types(project: Project) -> list[str]:
    """Return the references of the project's event types."""
    return _listed(list_event_types(project)["reference"])


def statistics(project: Project) -> list[str]:
    """Return what may be credited: the number of events, and statistics that events have."""
    try:
        metrics = project.tables().metrics
    except NotSupported:
        # A remote service does not tell; whoever knows one types it.
        return ["event-count"]
    keys = metrics.filter(metrics.type == "statistic").select("key").distinct().order_by("key")
    return ["event-count", *keys.to_pyarrow()["key"].to_pylist()]


def values(project: Project, kind: Kind, field: str) -> list[str]:
    """Return values that a field has in the project, the most frequent first.

    Parameters
    ----------
    project : Project
        Whose data.
    kind : str
        What the field belongs to.
    field : str
        Its name.

    Returns
    -------
    list of str
        At most 200; empty for fields whose values no service counts.

    Raises
    ------
    AttribError
        If the service cannot be reached, or counts by no field like this: dates, numbers and objects.
    """
    if kind == "event":
        return event_types(project) if field == "eventType" else []
    if kind == "node":
        return _of_nodes(project, field)
    if kind != "interaction":
        return []
    return _listed(interaction_insights(project, group=field, sort={"sessionCount": -1})["group"])


def _of_nodes(project: Project, field: str) -> list[str]:
    nodes = list_nodes(project)
    level = next(
        (each for each in ("campaign", "adset", "ad") if field in (f"{each}Id", f"{each}Name")), None
    )
    if level is not None:
        nodes = nodes[nodes["type"] == level]
        field = field.removeprefix(level).replace("Id", "_id").replace("Name", "name")
    column = _NODE_COLUMNS.get(field, field)
    return _listed(nodes[column]) if column in nodes.columns else []


def _listed(found: object) -> list[str]:
    present = [str(each) for each in list(found) if isinstance(each, str) and each]  # type: ignore[call-overload]
    return list(dict.fromkeys(present))[:_MOST]
