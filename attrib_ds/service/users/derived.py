"""Describes users by what follows from their events and interactions, only as far as is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ibis
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.service.users import event_counts, interaction_counts, metric_totals, places
from attrib_ds.service.users.field_values import as_entry, field_values, reduced, text_of, to_json
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_VENDOR: Final = "vendorUserId"
#: Columns that are null where nothing is known; of the others nothing is a value too.
_UNKNOWN: Final = ("string", "timestamp")


def described(backend: Backend, users: ir.Table, keys: Iterable[str], mode: str = "latest") -> ir.Table:
    """Add what keys ask for to users; nothing else is computed.

    Bots and the traffic that a filter captured do not count as interactions, as in searches and insights
    where nothing else is asked for. What identifies a user is taken from them all the same.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``.
    keys : iterable of str
        As in searches; further ``fields``, every value of every field, and the members of
        ``mostProbableLocation``.
    mode : {"latest", "earliest", "alphabetical"}
        Which value of a field stands for all.

    Returns
    -------
    ibis.Table
        One row per user, in no order: ``_id`` and the columns of
        :func:`attrib_ds.schema.user_columns`; instants are naive, in UTC.
    """
    columns = schema.user_columns(keys)
    names = [name for name in columns.names if name != "_id"]
    ids = users.select("_id")
    found = ids
    for part in _PARTS:
        made = part(backend, ids, names, mode)
        if made is not None:
            found = found.left_join(made, found["_id"] == made.owner).drop("owner")
    filled = {
        name: found[name].fill_null(_nothing(columns.field(name)))
        for name in names
        if _is_total(columns.field(name))
    }
    return found.mutate(**filled).select("_id", *names) if names else found


def _is_total(column: pa.Field) -> bool:
    """Say whether a user of whom nothing is known has a value: none, an empty list or an empty object."""
    if column.name.startswith("metrics."):
        return not column.nullable
    is_place = column.name.startswith("mostProbableLocation.")
    is_scalar = pa.types.is_string(column.type) or pa.types.is_timestamp(column.type)
    return not is_place and (schema.is_json(column) or not is_scalar)


def _nothing(column: pa.Field) -> Any:
    if schema.is_json(column):
        return "[]" if column.name.startswith("fields.") else "{}"
    if pa.types.is_list(column.type):
        return ibis.literal([], type="array<string>")
    return 0


def _registered(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001  (one of the parts)
    """Return what the list of users itself says, and when anything about a user last changed."""
    wanted = [name for name in ("projectId", "createdAt", "updatedAt") if name in names]
    if not wanted:
        return None
    users = backend.table("users")
    kept = users.semi_join(ids, users["_id"] == ids["_id"])
    kept = kept.select(owner="_id", createdAt="createdAt")
    if "projectId" in wanted:
        kept = kept.mutate(projectId=backend.table("meta").project_id.as_scalar())
    if "updatedAt" in wanted:
        changed = _changes(backend, ids)
        kept = kept.left_join(changed, kept.owner == changed.whose).drop("whose")
        kept = kept.mutate(updatedAt=ibis.greatest(kept.createdAt, kept.changed.fill_null(kept.createdAt)))
    return kept.select("owner", *wanted)


def _changes(backend: Backend, ids: ir.Table) -> ir.Table:
    events, interactions, merged = (
        backend.table(name) for name in ("events", "interactions", "merged_users")
    )
    seen = ibis.coalesce(interactions.updateDate, interactions.ingestedAt, interactions.createdAt)
    changes = ibis.union(
        events.select(whose="userId", moment="updatedAt"),
        interactions.select(whose="userId", moment=seen.cast(events.updatedAt.type())),
        merged.select(whose="userId", moment="mergedAt"),
    )
    changes = changes.semi_join(ids, changes.whose == ids["_id"])
    return changes.group_by("whose").agg(changed=changes.moment.max())


def _fields(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:
    """Return one column per field: the JSON of a list of its one value (G-105)."""
    keys = [name.removeprefix("fields.") for name in names if name.startswith("fields.")]
    if not keys:
        return None
    values = reduced(field_values(backend, ids, Vocabulary(backend.con), keys=keys), mode)
    values = values.select("userId", "key", entry=as_entry(values))
    text = ibis.literal("[") + values.entry.cast("string") + "]"
    # There is one row per key, so any of them is the one.
    return values.group_by(owner="userId").agg(
        **{f"fields.{key}": text.max(where=values.key == key) for key in keys}
    )


def _all_fields(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001
    """Return every value of every field as one object."""
    if "fields" not in names:
        return None
    values = field_values(backend, ids, Vocabulary(backend.con))
    values = values.mutate(entry=as_entry(values))
    order = [values.date, values.sourceId, values.source]
    by_key = values.group_by("userId", "key").agg(entries=to_json(values.entry.collect(order_by=order)))
    maps = ibis.map(by_key.key.collect(order_by=by_key.key), by_key.entries.collect(order_by=by_key.key))
    return by_key.group_by(owner="userId").agg(fields=to_json(maps).cast("string"))


def _vendors(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001
    """Return the vendor's own ids of each user, in the order in which they came up."""
    if "vendorUserIds" not in names:
        return None
    values = field_values(backend, ids, Vocabulary(backend.con), keys=[_VENDOR])
    values = values.select("userId", "date", "sourceId", text=text_of(values.current)).filter(
        ibis._.text.notnull()
    )
    first = values.group_by("userId", "text").agg(date=values.date.min(), id=values.sourceId.min())
    listed = first.text.collect(order_by=[first.date, first.id, first.text])
    return first.group_by(owner="userId").agg(vendorUserIds=listed)


def _audiences(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001
    if "audienceIds" not in names:
        return None
    # Imported late: the condition of an audience may ask for anything else that is derived here.
    from attrib_ds.service.users.audience_conditions import memberships

    members = memberships(backend, ids)
    if members is None:
        return ids.select(owner="_id", audienceIds=ibis.literal([], type="array<string>"))
    listed = members.audienceId.collect(order_by=members.audienceId)
    return members.group_by(owner="userId").agg(audienceIds=listed)


#: Each returns its columns, as far as they are asked for, by ``owner``; None if none is.
_PARTS: Final[tuple[Callable[[Backend, ir.Table, list[str], str], ir.Table | None], ...]] = (
    _registered,
    event_counts.totals,
    event_counts.maps,
    metric_totals.totals,
    metric_totals.whole,
    interaction_counts.totals,
    _fields,
    _all_fields,
    _vendors,
    _audiences,
    places.most_probable,
)
