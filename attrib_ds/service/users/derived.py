"""Describes users by what follows from their events and interactions, only as far as is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.interactions.selection import rows_of
from attrib_ds.service.store.query_cache import Compiled
from attrib_ds.service.users import event_counts, interaction_counts, metric_totals, places
from attrib_ds.service.users.field_values import as_entry, field_values, object_of, reduced, text_of
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_VENDOR: Final = "vendorUserId"
_FIELDS: Final = "fields."


def described(backend: Backend, users: ir.Table, keys: Iterable[str], mode: str = "latest") -> ir.Table:
    """Add what keys ask for to users; nothing else is computed.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``.
    keys, mode
        As for :func:`described_query`.

    Returns
    -------
    ibis.Table
        The rows of :func:`described_query`.
    """
    ids = backend.compile(users.select("_id"))
    return rows_of(backend, described_query(backend, f"({ids}) AS users", keys, mode, compiled=Compiled()))


def described_query(
    backend: Backend, users: str, keys: Iterable[str], mode: str, *, compiled: Compiled
) -> str:
    """Return the query that adds what keys ask for to users; nothing else is computed.

    It is SQL, since an expression of Ibis takes longer to compile than a page of users takes to describe.
    Bots and the traffic that a filter captured do not count as interactions, as in searches and insights
    where nothing else is asked for. What identifies a user is taken from them all the same.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : str
        SQL that stands in a FROM clause, with the column ``_id``.
    keys : iterable of str
        As in searches; further ``fields``, every value of every field, and the members of
        ``mostProbableLocation``.
    mode : {"latest", "earliest", "alphabetical"}
        Which value of a field stands for all.
    compiled : Compiled
        Remembers what takes long.

    Returns
    -------
    str
        SQL. One row per user, in no order: ``_id`` and the columns of
        :func:`attrib_ds.schema.user_columns`; instants are naive, in UTC.
    """
    columns = schema.user_columns(keys)
    names = [name for name in columns.names if name != "_id"]
    vocabulary = Vocabulary(backend.con)
    made = [part(vocabulary, names, mode) for part in _PARTS]
    if "audienceIds" in names:
        made.append(_audiences(backend, users, vocabulary, compiled))
    parts = {f"part_{number}": part for number, part in enumerate(made) if part is not None}
    named = "".join(f", {name} AS ({part})" for name, part in parts.items())
    joined = "".join(f" LEFT JOIN {name} ON {name}.owner = ids._id" for name in parts)
    told = "".join(f", {_filled(columns.field(name))}" for name in names)
    return f"WITH ids AS (SELECT _id FROM {users}){named} SELECT ids._id{told} FROM ids{joined}"


def _filled(column: pa.Field) -> str:
    """Return a column; users of whom nothing is known have a zero, an empty list or an empty object."""
    name = quoted(column.name)
    if not _is_total(column):
        return name
    if schema.is_json(column):
        nothing = "'[]'" if column.name.startswith(_FIELDS) else "'{}'"
    else:
        nothing = "[]" if pa.types.is_list(column.type) else "0"
    return f"coalesce({name}, {nothing}) AS {name}"


def _is_total(column: pa.Field) -> bool:
    if column.name.startswith("metrics."):
        return not column.nullable
    is_place = column.name.startswith("mostProbableLocation.")
    is_scalar = pa.types.is_string(column.type) or pa.types.is_timestamp(column.type)
    return not is_place and (schema.is_json(column) or not is_scalar)


def _registered(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (one of the parts)
    """Return what the list of users itself says, and when anything about a user last changed."""
    columns = {
        "projectId": "(SELECT project_id FROM meta)",
        "createdAt": "createdAt",
        "updatedAt": "greatest(createdAt, changed)",
    }
    wanted = [f'{column} AS "{name}"' for name, column in columns.items() if name in names]
    if not wanted:
        return None
    changes = f"LEFT JOIN ({_CHANGES}) AS changes ON whose = _id" if "updatedAt" in names else ""
    return f"SELECT _id AS owner, {', '.join(wanted)} FROM users {changes} WHERE _id IN (SELECT _id FROM ids)"


_CHANGES: Final = (
    "SELECT whose, max(moment) AS changed FROM ("
    "SELECT userId AS whose, updatedAt AS moment FROM events "
    "UNION ALL SELECT userId, coalesce(updateDate, ingestedAt, createdAt) FROM interactions "
    "UNION ALL SELECT userId, mergedAt FROM merged_users"
    ") AS moments WHERE whose IN (SELECT _id FROM ids) GROUP BY whose"
)


def _fields(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:
    """Return one column per field: the JSON of a list of its one value (G-105)."""
    keys = [name.removeprefix(_FIELDS) for name in names if name.startswith(_FIELDS)]
    if not keys:
        return None
    values = reduced(field_values(vocabulary, "ids", keys=keys), mode)
    # There is one row per key, so any of them is the one.
    columns = ", ".join(
        f"any_value(text) FILTER (WHERE key = {literal(key)}) AS {quoted(f'{_FIELDS}{key}')}" for key in keys
    )
    entries = f"SELECT userId, key, '[' || {as_entry()}::VARCHAR || ']' AS text FROM ({values}) AS reduced"
    return f"SELECT userId AS owner, {columns} FROM ({entries}) AS entries GROUP BY userId"


def _all_fields(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Return every value of every field as one object."""
    if "fields" not in names:
        return None
    by_key = (
        f"SELECT userId, key, to_json(list({as_entry()} ORDER BY date, sourceId, source)) AS entries "
        f"FROM ({field_values(vocabulary, 'ids')}) AS told GROUP BY userId, key"
    )
    return (
        f"SELECT userId AS owner, {object_of('key', 'entries')} AS fields "
        f"FROM ({by_key}) AS by_key GROUP BY userId"
    )


def _vendors(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Return the vendor's own ids of each user, in the order in which they came up."""
    if "vendorUserIds" not in names:
        return None
    values = field_values(vocabulary, "ids", keys=[_VENDOR])
    first = (
        f"SELECT userId, {text_of('current')} AS text, min(date) AS date, min(sourceId) AS id "
        f"FROM ({values}) AS told WHERE text IS NOT NULL GROUP BY userId, text"
    )
    return (
        "SELECT userId AS owner, list(text ORDER BY date, id, text) AS vendorUserIds "
        f"FROM ({first}) AS first_seen GROUP BY userId"
    )


def _audiences(backend: Backend, users: str, vocabulary: Vocabulary, compiled: Compiled) -> str:
    # Imported late: the condition of an audience may ask for anything else that is derived here.
    from attrib_ds.service.users.audience_conditions import memberships

    kept = tuple(backend.con.execute("SELECT _id, condition FROM audiences ORDER BY _id").fetchall())
    if not kept:
        return "SELECT NULL::VARCHAR AS owner, NULL::VARCHAR[] AS audienceIds WHERE false"
    members = compiled.get(
        (users, kept, vocabulary.declarations),
        lambda: backend.compile(memberships(backend, rows_of(backend, f"SELECT _id FROM {users}"))),
    )
    return (
        "SELECT userId AS owner, list(audienceId ORDER BY audienceId) AS audienceIds "
        f"FROM ({members}) AS members GROUP BY userId"
    )


#: Each returns the query of its columns, as far as they are asked for, by ``owner``; None if none is. The
#: users are in ``ids``.
_PARTS: Final[tuple[Callable[[Vocabulary, list[str], str], str | None], ...]] = (
    _registered,
    event_counts.totals,
    event_counts.maps,
    metric_totals.totals,
    metric_totals.whole,
    interaction_counts.totals,
    _fields,
    _all_fields,
    _vendors,
    places.most_probable,
)
