"""Counts the interactions of users, without bots and the traffic that a filter captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import quoted

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.service.users.vocabulary import Vocabulary

#: The interactions that count, in SQL, as :func:`counted` says it.
COUNTED: Final = "NOT coalesce(isBot, false) AND trafficFilterId IS NULL"
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


def counted(backend: Backend) -> ir.Table:
    """Return the interactions that count, as those of a search where nothing else is asked for."""
    interactions = backend.table("interactions")
    return interactions.filter(~interactions.isBot.fill_null(False), interactions.trafficFilterId.isnull())


def totals(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (one of the parts)
    """Return the number of interactions and what they add up to, the first and the last one (G-063, R039)."""
    wanted = [f"{column} AS {quoted(name)}" for name, column in _COLUMNS.items() if name in names]
    if not wanted:
        return None
    return (
        f"SELECT userId AS owner, {', '.join(wanted)} FROM interactions "
        f"WHERE {COUNTED} AND userId IN (SELECT _id FROM ids) GROUP BY userId"
    )
