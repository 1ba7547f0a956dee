"""Shows the tables of a project as the flat, read-only views that a user's SQL may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds import schema
from attrib_ds.service.users.derived import described
from attrib_ds.service.users.field_values import field_values, text_of
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

#: Columns by view, the key of each first. They are told in docs/how-to/users-by-sql.md.
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
    # What is personal in it is among the user fields.
    "interactions": tuple(name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST),
}


def query_of(backend: Backend, view: str, columns: Iterable[str]) -> str:
    """Return the SQL of a view, of which only what is asked for is computed.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    view : str
        One of :data:`VIEWS`.
    columns : iterable of str
        Some of its columns.

    Returns
    -------
    str
        For a connection to the same database.
    """
    wanted = list(columns)
    return str(backend.compile(_MADE[view](backend, wanted).select(wanted)))


def _users(backend: Backend, columns: list[str]) -> ir.Table:
    return described(backend, backend.table("users"), columns)


def _user_fields(backend: Backend, columns: list[str]) -> ir.Table:  # noqa: ARG001  (one of the views)
    values = field_values(backend, backend.table("users"), Vocabulary(backend.con))
    return values.mutate(value=text_of(values.current))


def _metrics(backend: Backend, columns: list[str]) -> ir.Table:
    metrics = backend.table("metrics")
    kept = metrics.filter(metrics.deletedAt.isnull())
    if not {"userId", "eventType"} & set(columns):
        return kept
    events = backend.table("events").select("userId", "eventType", event="_id")
    return kept.inner_join(events, kept.eventId == events.event)


def _stored(name: str) -> Callable[[Backend, list[str]], ir.Table]:
    return lambda backend, _: backend.table(name)


_MADE: Final[dict[str, Callable[[Backend, list[str]], ir.Table]]] = {
    "users": _users,
    "user_fields": _user_fields,
    "events": _stored("events"),
    "metrics": _metrics,
    "interactions": _stored("interactions"),
}
