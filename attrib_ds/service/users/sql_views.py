"""The flat, read-only views that a user's SQL may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds import schema
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.users.field_values import field_values, is_key, text_of
from attrib_ds.service.users.project_keys import ProjectKeys
from attrib_ds.service.users.properties import with_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

#: Columns by view, its key first. Documented in docs/how-to/users-by-sql.md.
VIEWS: Final[dict[str, tuple[str, ...]]] = {
    "users": (
        "_id",
        "createdAt",
        "updatedAt",
        "eventCount",
        "firstEventDate",
        "lastEventDate",
        "interactionCount",
        "hitCount",
        "averageHitCount",
        "interactionDuration",
        "averageInteractionDuration",
        "firstInteractionDate",
        "lastInteractionDate",
        "firstInteractionNodeId",
        "lastInteractionNodeId",
    ),
    "user_fields": ("userId", "key", "type", "value", "date", "source", "sourceId"),
    "events": ("_id", "userId", "eventType", "eventDate", "createdAt", "updatedAt", "event"),
    "metrics": (
        "_id",
        "eventId",
        "userId",
        "eventType",
        "key",
        "type",
        "date",
        "number",
        "amount",
        "currency",
        "createdAt",
        "updatedAt",
    ),
    # Personal columns are in the view of user fields.
    "interactions": tuple(name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST),
}


def query_of(
    backend: Backend, view: str, columns: Iterable[str], *, limits: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the SQL of a view that computes only the requested columns and rows.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    view : str
        One of :data:`VIEWS`.
    columns : iterable of str
        Some of its columns.
    limits : mapping of str to sequence of str, optional
        Values by column; other rows are left out.

    Returns
    -------
    str
        SQL for a connection to the same database.
    """
    names = list(columns)
    limits = limits or {}
    table = _TABLES[view](backend, names, limits)
    conditions = [table[column].isin(list(values)) for column, values in limits.items()]
    return str(backend.compile((table.filter(conditions) if conditions else table).select(names)))


def _users(backend: Backend, columns: list[str], limits: Mapping[str, Sequence[str]]) -> ir.Table:
    return with_properties(backend, _only(backend, limits.get("_id")), columns)


def _user_fields(backend: Backend, columns: list[str], limits: Mapping[str, Sequence[str]]) -> ir.Table:  # noqa: ARG001  (signature of all views)
    users, keys = _only(backend, limits.get("userId")), limits.get("key")
    if keys is not None:
        keys = [key for key in keys if is_key(key)]
        if not keys:
            # No field can have such a key.
            users, keys = users.limit(0), None
    ids = f"({backend.compile(users)}) AS users"
    values = field_values(ProjectKeys(backend.con), ids, keys=keys)
    return sql_table(backend, f"SELECT *, {text_of('current')} AS value FROM ({values}) AS field_values")


def _only(backend: Backend, ids: Sequence[str] | None) -> ir.Table:
    users = backend.table("users")
    return users if ids is None else users.filter(users["_id"].isin(list(ids)))


def _metrics(backend: Backend, columns: list[str], limits: Mapping[str, Sequence[str]]) -> ir.Table:  # noqa: ARG001
    metrics = backend.table("metrics")
    present = metrics.filter(metrics.deletedAt.isnull())
    if not {"userId", "eventType"} & set(columns):
        return present
    events = backend.table("events").select("userId", "eventType", event="_id")
    return present.inner_join(events, present.eventId == events.event)


def _stored(name: str) -> Callable[[Backend, list[str], Mapping[str, Sequence[str]]], ir.Table]:
    return lambda backend, *_: backend.table(name)


_TABLES: Final[dict[str, Callable[[Backend, list[str], Mapping[str, Sequence[str]]], ir.Table]]] = {
    "users": _users,
    "user_fields": _user_fields,
    "events": _stored("events"),
    "metrics": _metrics,
    "interactions": _stored("interactions"),
}
