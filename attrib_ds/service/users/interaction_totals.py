"""Totals of the interactions of users, without bots and filtered traffic, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import quoted

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.service.users.project_keys import ProjectKeys

#: Condition in SQL for interactions that count, the same as of :func:`countable_interactions`.
IS_COUNTABLE: Final = "NOT coalesce(isBot, false) AND trafficFilterId IS NULL"
_COLUMNS: Final = {
    "interactionCount": "count(*)",
    "hitCount": "sum(hitCount)::BIGINT",
    "averageHitCount": "sum(hitCount) / count(*)",
    "interactionDuration": "sum(duration)",
    "averageInteractionDuration": "sum(duration) / count(*)",
    "firstInteractionDate": "min(startDate)",
    "lastInteractionDate": "max(startDate)",
    "firstInteractionNodeId": "first(nodeId ORDER BY startDate, _id)",
    "lastInteractionNodeId": "first(nodeId ORDER BY startDate DESC, _id DESC)",
}


def countable_interactions(backend: Backend) -> ir.Table:
    """Return the interactions that count, which a search returns by default."""
    interactions = backend.table("interactions")
    return interactions.filter(~interactions.isBot.fill_null(False), interactions.trafficFilterId.isnull())


def totals(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select the number of interactions, their sums and averages, the first and the last (G-063, R039)."""
    selected = [f"{column} AS {quoted(name)}" for name, column in _COLUMNS.items() if name in names]
    if not selected:
        return None
    return (
        f"SELECT userId AS owner, {', '.join(selected)} FROM interactions "
        f"WHERE {IS_COUNTABLE} AND userId IN (SELECT _id FROM ids) GROUP BY userId"
    )
