"""Counts the interactions of users, without bots and the traffic that a filter captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend


def counted(backend: Backend) -> ir.Table:
    """Return the interactions that count, as those of a search where nothing else is asked for."""
    interactions = backend.table("interactions")
    return interactions.filter(~interactions.isBot.fill_null(False), interactions.trafficFilterId.isnull())


def totals(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001  (one of the parts)
    """Return the number of interactions and what they add up to, the first and the last one (G-063, R039)."""
    kept = counted(backend)
    kept = kept.semi_join(ids, kept.userId == ids["_id"])
    count, hits, seconds = kept.count(), kept.hitCount.sum().cast("int64"), kept.duration.sum()
    earliest = [kept.startDate.asc(), kept["_id"].asc()]
    latest = [kept.startDate.desc(), kept["_id"].desc()]
    columns = {
        "interactionCount": count,
        "hitCount": hits,
        "averageHitCount": hits / count,
        "interactionDuration": seconds,
        "averageInteractionDuration": seconds / count,
        "firstInteractionDate": kept.startDate.min(),
        "lastInteractionDate": kept.startDate.max(),
        "firstInteractionNodeId": kept.nodeId.first(order_by=earliest, include_null=True),
        "lastInteractionNodeId": kept.nodeId.first(order_by=latest, include_null=True),
    }
    wanted = {name: column for name, column in columns.items() if name in names}
    return kept.group_by(owner="userId").agg(**wanted) if wanted else None
