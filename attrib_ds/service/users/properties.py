"""Derives properties of users from their events and interactions; only the requested ones are computed.

Audiences are not among them: their conditions ask for properties. :mod:`described_users` adds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.users import event_totals, interaction_totals, locations, metric_totals
from attrib_ds.service.users.field_values import as_entry, field_values, object_of, reduced, text_of
from attrib_ds.service.users.project_keys import ProjectKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_VENDOR: Final = "vendorUserId"
_FIELDS: Final = "fields."


def with_properties(backend: Backend, users: ir.Table, keys: Iterable[str]) -> ir.Table:
    """Add properties to users.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``.
    keys : iterable of str
        As for :func:`properties_query`.

    Returns
    -------
    ibis.Table
        The rows of :func:`properties_query`.
    """
    ids = f"({backend.compile(users.select('_id'))}) AS users"
    return sql_table(backend, properties_query(ProjectKeys(backend.con), ids, keys))


def properties_query(
    project_keys: ProjectKeys,
    users: str,
    keys: Iterable[str],
    mode: str = "latest",
    *,
    memberships: str | None = None,
) -> str:
    """Return the query of users with the requested properties.

    The query is SQL because an Ibis expression takes longer to compile than a page of users takes to read.
    Bots and filtered traffic do not count as interactions, as in searches and insights by default, but
    their identifying values count.

    Parameters
    ----------
    project_keys : ProjectKeys
        Keys of the project.
    users : str
        Relation in SQL, for a FROM clause, with the column ``_id``.
    keys : iterable of str
        As in searches; also ``fields``, all values of all fields, and the members of
        ``mostProbableLocation``.
    mode : {"latest", "earliest", "alphabetical"}
        Which of several values of a field to return.
    memberships : str, optional
        Query of ``userId`` and ``audienceId``; required for the key ``audienceIds``.

    Returns
    -------
    str
        SQL. One row per user, in no order: ``_id`` and the columns of
        :func:`attrib_ds.schema.user_columns`; instants are naive, in UTC.
    """
    columns = schema.user_columns(keys)
    names = [name for name in columns.names if name != "_id"]
    queries = [part(project_keys, names, mode) for part in _PARTS]
    if memberships is not None and "audienceIds" in names:
        queries.append(_audience_ids(memberships))
    parts = {f"part_{number}": query for number, query in enumerate(queries) if query is not None}
    ctes = "".join(f", {name} AS ({part})" for name, part in parts.items())
    joins = "".join(f" LEFT JOIN {name} ON {name}.owner = ids._id" for name in parts)
    selected = "".join(f", {_with_default(columns.field(name))}" for name in names)
    return f"WITH ids AS (SELECT _id FROM {users}){ctes} SELECT ids._id{selected} FROM ids{joins}"


def _audience_ids(memberships: str) -> str:
    return (
        "SELECT userId AS owner, list(audienceId ORDER BY audienceId) AS audienceIds "
        f"FROM ({memberships}) AS members GROUP BY userId"
    )


def _with_default(column: pa.Field) -> str:
    """Select a column; users without records get 0, an empty list or an empty object."""
    name = quoted(column.name)
    if not _has_default(column):
        return name
    if schema.is_json(column):
        default = "'[]'" if column.name.startswith(_FIELDS) else "'{}'"
    else:
        default = "[]" if pa.types.is_list(column.type) else "0"
    return f"coalesce({name}, {default}) AS {name}"


def _has_default(column: pa.Field) -> bool:
    if column.name.startswith("metrics."):
        return not column.nullable
    is_place = column.name.startswith("mostProbableLocation.")
    is_scalar = pa.types.is_string(column.type) or pa.types.is_timestamp(column.type)
    return not is_place and (schema.is_json(column) or not is_scalar)


def _registered(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select columns of the list of users, and when a record of a user last changed."""
    columns = {
        "projectId": "(SELECT project_id FROM meta)",
        "createdAt": "createdAt",
        "updatedAt": "greatest(createdAt, changed)",
    }
    selected = [f'{column} AS "{name}"' for name, column in columns.items() if name in names]
    if not selected:
        return None
    changes = f"LEFT JOIN ({_CHANGES}) AS changes ON user_id = _id" if "updatedAt" in names else ""
    return (
        f"SELECT _id AS owner, {', '.join(selected)} FROM users {changes} WHERE _id IN (SELECT _id FROM ids)"
    )


_CHANGES: Final = (
    "SELECT user_id, max(changed_at) AS changed FROM ("
    "SELECT userId AS user_id, updatedAt AS changed_at FROM events "
    "UNION ALL SELECT userId, coalesce(updateDate, ingestedAt, createdAt) FROM interactions "
    "UNION ALL SELECT userId, mergedAt FROM merged_users"
    ") AS changes WHERE user_id IN (SELECT _id FROM ids) GROUP BY user_id"
)


def _fields(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:
    """Select one column per field: a JSON list of the one value that the mode selects (G-105)."""
    keys = [name.removeprefix(_FIELDS) for name in names if name.startswith(_FIELDS)]
    if not keys:
        return None
    values = reduced(field_values(project_keys, "ids", keys=keys), mode)
    # There is one row per key.
    columns = ", ".join(
        f"any_value(text) FILTER (WHERE key = {literal(key)}) AS {quoted(f'{_FIELDS}{key}')}" for key in keys
    )
    entries = f"SELECT userId, key, '[' || {as_entry()}::VARCHAR || ']' AS text FROM ({values}) AS reduced"
    return f"SELECT userId AS owner, {columns} FROM ({entries}) AS entries GROUP BY userId"


def _all_fields(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select all values of all fields as one object."""
    if "fields" not in names:
        return None
    by_key = (
        f"SELECT userId, key, to_json(list({as_entry()} ORDER BY date, sourceId, source)) AS entries "
        f"FROM ({field_values(project_keys, 'ids')}) AS field_values GROUP BY userId, key"
    )
    return (
        f"SELECT userId AS owner, {object_of('key', 'entries')} AS fields "
        f"FROM ({by_key}) AS by_key GROUP BY userId"
    )


def _vendors(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select the vendor's ids of each user, in the order in which they first occurred."""
    if "vendorUserIds" not in names:
        return None
    values = field_values(project_keys, "ids", keys=[_VENDOR])
    first = (
        f"SELECT userId, {text_of('current')} AS text, min(date) AS date, min(sourceId) AS id "
        f"FROM ({values}) AS field_values WHERE text IS NOT NULL GROUP BY userId, text"
    )
    return (
        "SELECT userId AS owner, list(text ORDER BY date, id, text) AS vendorUserIds "
        f"FROM ({first}) AS first_seen GROUP BY userId"
    )


#: Each returns the query of its requested columns by ``owner``, or None if none is requested. Users are in
#: the relation ``ids``.
_PARTS: Final[tuple[Callable[[ProjectKeys, list[str], str], str | None], ...]] = (
    _registered,
    event_totals.totals,
    event_totals.by_type,
    metric_totals.totals,
    metric_totals.all_metrics,
    interaction_totals.totals,
    _fields,
    _all_fields,
    _vendors,
    locations.most_probable,
)
