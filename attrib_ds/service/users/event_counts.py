"""Counts the events of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import ibis

from attrib_ds.service.users.field_values import instant_text, to_json

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_OF_TYPE: Final = "eventTypesCount."


def totals(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001  (one of the parts)
    """Return the number of events, those of single types among them, and when the first and last were."""
    events = backend.table("events")
    kept = events.semi_join(ids, events.userId == ids["_id"])
    columns = {
        "eventCount": kept.count(),
        "firstEventDate": kept.eventDate.min(),
        "lastEventDate": kept.eventDate.max(),
    }
    wanted = {name: column for name, column in columns.items() if name in names}
    for name in names:
        if name.startswith(_OF_TYPE):
            wanted[name] = kept.count(where=kept.eventType == name.removeprefix(_OF_TYPE))
    return kept.group_by(owner="userId").agg(**wanted) if wanted else None


def maps(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001
    """Return the objects that tell the events of every type."""
    wanted = [name for name in ("eventTypesCount", "eventTypeMeta") if name in names]
    if not wanted:
        return None
    events = backend.table("events")
    kept = events.semi_join(ids, events.userId == ids["_id"])
    by_type = kept.group_by("userId", "eventType").agg(
        count=kept.count(), first=kept.eventDate.min(), last=kept.eventDate.max()
    )
    meta = ibis.struct(
        {
            "count": by_type["count"],
            "firstDate": instant_text(by_type["first"]),
            "lastDate": instant_text(by_type["last"]),
        }
    )
    values = {"eventTypesCount": by_type["count"], "eventTypeMeta": meta}
    types = by_type.eventType.collect(order_by=by_type.eventType)
    objects = {
        name: to_json(ibis.map(types, values[name].collect(order_by=by_type.eventType))).cast("string")
        for name in wanted
    }
    return by_type.group_by(owner="userId").agg(**objects)
