"""Sums up the states and statistics of users' events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds.service.rates import in_project_currency
from attrib_ds.service.users.field_values import to_json

if TYPE_CHECKING:
    from collections.abc import Collection

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend


def totals(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001  (one of the parts)
    """Return single aggregations of metrics, one column for each."""
    asked = {
        name: name.removeprefix("metrics.").rpartition(".") for name in names if name.startswith("metrics.")
    }
    if not asked:
        return None
    keys = {metric for metric, _, _ in asked.values()}
    by_key = _by_key(backend, ids, keys)
    return by_key.group_by(owner="userId").agg(
        **{name: by_key[part].max(where=by_key.key == metric) for name, (metric, _, part) in asked.items()}
    )


def whole(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001
    """Return the aggregations of every metric as one object (R080).

    Amounts that no rate converts are told beside, where there are any (G-065).
    """
    if "metrics" not in names:
        return None
    by_key = _by_key(backend, ids, None)
    parts: dict[str, Any] = {name: by_key[name] for name in ("type", "sum", "max", "min", "count", "average")}
    told = ibis.struct({**parts, "count_unconverted": by_key.unconverted})
    entry = ibis.ifelse(by_key.unconverted > 0, to_json(told), to_json(ibis.struct(parts)))
    by_key = by_key.select("userId", "key", entry=entry)
    objects = ibis.map(by_key.key.collect(order_by=by_key.key), by_key.entry.collect(order_by=by_key.key))
    return by_key.group_by(owner="userId").agg(metrics=to_json(objects).cast("string"))


def _by_key(backend: Backend, ids: ir.Table, keys: Collection[str] | None) -> ir.Table:
    """Return what the metrics of each user and key add up to: states as 0 and 1, no deleted ones."""
    events, metrics = backend.table("events"), backend.table("metrics")
    mine = events.semi_join(ids, events.userId == ids["_id"]).select("userId", event="_id")
    kept = metrics.filter(metrics.deletedAt.isnull())
    if keys is not None:
        kept = kept.filter(kept.key.isin(sorted(keys)))
    kept = kept.inner_join(mine, kept.eventId == mine.event)
    kept = kept.select("userId", "key", "type", "dataType", "date", "number", "amount", "currency")
    rated = in_project_currency(backend, kept, _currency(backend))
    value = ibis.ifelse(rated.dataType == "currency", rated.converted.cast("float64"), rated.number)
    rated = rated.mutate(value=value)
    by_key = rated.group_by("userId", "key").agg(
        type=rated.type.max(),
        # Amounts are added exactly.
        amounts=rated.converted.sum().cast("float64"),
        numbers=rated.number.sum(where=rated.dataType != "currency"),
        max=rated.value.max(),
        min=rated.value.min(),
        count=rated.value.count(),
        unconverted=rated.count(where=rated.amount.notnull() & rated.converted.isnull()),
    )
    # Of nothing there is no sum.
    added = by_key.amounts.fill_null(0.0) + by_key.numbers.fill_null(0.0)
    by_key = by_key.mutate(sum=ibis.ifelse(by_key["count"] > 0, added, ibis.null("float64")))
    average = by_key["sum"] / by_key["count"].nullif(0)
    # Rounding must not carry the average beyond what it is the average of (R081).
    within = ibis.greatest(ibis.least(average, by_key["max"]), by_key["min"])
    by_key = by_key.mutate(average=ibis.ifelse(by_key["count"] > 0, within, ibis.null("float64")))
    return by_key.drop("amounts", "numbers")


def _currency(backend: Backend) -> str:
    return str(backend.con.execute("SELECT currency FROM meta").fetchall()[0][0])
