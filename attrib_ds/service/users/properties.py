"""Derives properties of users from their events and interactions; only the requested ones are computed."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.outlays import in_project_currency_query
from attrib_ds.service.users import user_fields

_FIELDS: Final = "fields."
_OF_TYPE: Final = "eventTypesCount."
#: Condition in SQL for interactions that count.
IS_COUNTABLE: Final = "NOT coalesce(isBot, false) AND trafficFilterId IS NULL"
_OWN: Final = "userId IN (SELECT _id FROM ids)"
_META: Final = (
    f"{{'count': number, 'firstDate': {user_fields.instant_text('earliest')}, "
    f"'lastDate': {user_fields.instant_text('latest')}}}"
)
_CHANGES: Final = (
    "SELECT user_id, max(changed_at) AS changed FROM ("
    "SELECT userId AS user_id, updatedAt AS changed_at FROM events "
    "UNION ALL SELECT userId, coalesce(updateDate, ingestedAt, createdAt) FROM interactions "
    "UNION ALL SELECT userId, mergedAt FROM merged_users"
    ") AS changes WHERE user_id IN (SELECT _id FROM ids) GROUP BY user_id"
)
_BY_TYPE: Final = (
    "SELECT userId, eventType, count(*) AS number, min(eventDate) AS earliest, max(eventDate) AS latest "
    f"FROM events WHERE {_OWN} GROUP BY userId, eventType"
)
#: Expressions by column, and the relation that they are read from; users are in the relation ``ids``.
_GROUPS: Final[tuple[tuple[dict[str, str], str], ...]] = (
    (
        {"projectId": "(SELECT project_id FROM meta)", "createdAt": "createdAt"},
        "(SELECT *, _id AS userId FROM users WHERE _id IN (SELECT _id FROM ids)) AS registered GROUP BY ALL",
    ),
    (
        {"updatedAt": "max(greatest(createdAt, changed))"},
        f"(SELECT *, _id AS userId FROM users WHERE _id IN (SELECT _id FROM ids)) AS registered "
        f"LEFT JOIN ({_CHANGES}) AS changes ON user_id = _id GROUP BY userId",
    ),
    (
        {"eventCount": "count(*)", "firstEventDate": "min(eventDate)", "lastEventDate": "max(eventDate)"},
        f"events WHERE {_OWN} GROUP BY userId",
    ),
    (
        {
            "eventTypesCount": user_fields.object_of("eventType", "number"),
            "eventTypeMeta": user_fields.object_of("eventType", _META),
        },
        f"({_BY_TYPE}) AS by_type GROUP BY userId",
    ),
    (
        {
            "interactionCount": "count(*)",
            "hitCount": "sum(hitCount)::BIGINT",
            "averageHitCount": "sum(hitCount) / count(*)",
            "interactionDuration": "sum(duration)",
            "averageInteractionDuration": "sum(duration) / count(*)",
            "firstInteractionDate": "min(startDate)",
            "lastInteractionDate": "max(startDate)",
            "firstInteractionNodeId": "first(nodeId ORDER BY startDate, _id)",
            "lastInteractionNodeId": "first(nodeId ORDER BY startDate DESC, _id DESC)",
        },
        f"interactions WHERE {IS_COUNTABLE} AND {_OWN} GROUP BY userId",
    ),
)


def properties_query(
    project_keys: user_fields.ProjectKeys,
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
    queries = [
        *(_grouped(expressions, relation, names) for expressions, relation in _GROUPS),
        *(part(project_keys, names, mode) for part in _PARTS),
    ]
    if memberships is not None and "audienceIds" in names:
        queries.append(
            "SELECT userId AS owner, list(audienceId ORDER BY audienceId) AS audienceIds "
            f"FROM ({memberships}) AS members GROUP BY userId"
        )
    parts = {f"part_{number}": query for number, query in enumerate(queries) if query is not None}
    ctes = "".join(f", {name} AS ({part})" for name, part in parts.items())
    joins = "".join(f" LEFT JOIN {name} ON {name}.owner = ids._id" for name in parts)
    selected = "".join(f", {_with_default(columns.field(name))}" for name in names)
    return f"WITH ids AS (SELECT _id FROM {users}){ctes} SELECT ids._id{selected} FROM ids{joins}"


def _grouped(expressions: Mapping[str, str], relation: str, names: list[str]) -> str | None:
    selected = {name: expression for name, expression in expressions.items() if name in names}
    if "eventCount" in expressions:
        for name in names:
            if name.startswith(_OF_TYPE):
                kind = literal(name.removeprefix(_OF_TYPE))
                selected[name] = f"count(*) FILTER (WHERE eventType = {kind})"
    if not selected:
        return None
    listed = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in selected.items())
    return f"SELECT userId AS owner, {listed} FROM {relation}"


def _with_default(column: pa.Field) -> str:
    """Select a column; users without records get 0, an empty list or an empty object."""
    name = quoted(column.name)
    is_scalar = pa.types.is_string(column.type) or pa.types.is_timestamp(column.type)
    if column.name.startswith("mostProbableLocation.") or (is_scalar and not schema.is_json(column)):
        return name
    if column.name.startswith("metrics.") and column.nullable:
        return name
    if schema.is_json(column):
        default = "'[]'" if column.name.startswith(_FIELDS) else "'{}'"
    else:
        default = "[]" if pa.types.is_list(column.type) else "0"
    return f"coalesce({name}, {default}) AS {name}"


_AGGREGATIONS: Final = ("type", "sum", "max", "min", "count", "average")


def _metric_totals(project_keys: user_fields.ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select single aggregations of metrics, one column each."""
    requested = {
        name: name.removeprefix("metrics.").rpartition(".") for name in names if name.startswith("metrics.")
    }
    if not requested:
        return None
    columns = ", ".join(
        f"max({quoted(part)}) FILTER (WHERE key = {literal(metric)}) AS {quoted(name)}"
        for name, (metric, _, part) in requested.items()
    )
    of_keys = _by_key({metric for metric, _, _ in requested.values()})
    return f"SELECT userId AS owner, {columns} FROM ({of_keys}) AS by_key GROUP BY userId"


def _all_metrics(project_keys: user_fields.ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select the aggregations of all metrics as one object.

    It includes the number of amounts without a rate, if there are any.
    """
    if "metrics" not in names:
        return None
    members = ", ".join(f"{literal(name)}: {quoted(name)}" for name in _AGGREGATIONS)
    entry = (
        f"CASE WHEN unconverted > 0 THEN to_json({{{members}, 'count_unconverted': unconverted}}) "
        f"ELSE to_json({{{members}}}) END"
    )
    return (
        f"SELECT userId AS owner, {user_fields.object_of('key', entry)} AS metrics "
        f"FROM ({_by_key(None)}) AS by_key GROUP BY userId"
    )


def _by_key(keys: Collection[str] | None) -> str:
    """Aggregate metrics by user and key, without deleted ones; states count as 0 and 1."""
    only_keys = "" if keys is None else f"AND key IN ({', '.join(map(literal, sorted(keys)))})"
    present = (
        "SELECT userId, key, type, dataType, date, number, amount, currency FROM metrics "
        f"JOIN (SELECT _id AS event, userId FROM events WHERE {_OWN}) AS own_events "
        f"ON eventId = event WHERE deletedAt IS NULL {only_keys}"
    )
    by_key = (
        "SELECT userId, key, max(type) AS type, "
        # Amounts are decimals, summed exactly.
        "coalesce(sum(converted)::DOUBLE, 0.0::DOUBLE) "
        "+ coalesce(sum(number) FILTER (WHERE dataType <> 'currency'), 0.0::DOUBLE) AS added, "
        "max(value) AS max, min(value) AS min, count(value) AS count, "
        "count(*) FILTER (WHERE amount IS NOT NULL AND converted IS NULL) AS unconverted "
        "FROM (SELECT *, CASE WHEN dataType = 'currency' THEN converted::DOUBLE ELSE number END AS value "
        f"FROM ({in_project_currency_query(present, '(SELECT currency FROM meta)')}) AS converted_metrics) "
        "AS metric_values GROUP BY userId, key"
    )
    return (
        "SELECT userId, key, type, max, min, count, unconverted, "
        # No sum without values.
        "CASE WHEN count > 0 THEN added END AS sum, "
        # Rounding must not move the average beyond the extremes.
        "CASE WHEN count > 0 THEN greatest(least(added / nullif(count, 0), max), min) END AS average "
        f"FROM ({by_key}) AS added_up"
    )


_LOCATIONS: Final = {
    "mostProbableLocation.source": "source",
    "mostProbableLocation.confidence": "confidence",
    "mostProbableLocation.location.type": "'Point'",
    "mostProbableLocation.location.coordinates": "coordinates",
}
# The location of an IP address comes without a confidence.
_FROM_SESSIONS: Final = (
    "SELECT userId AS owner, 2 AS rank, startDate AS date, _id AS id, '' AS key, "
    "'interaction-based' AS source, 0.0::DOUBLE AS confidence, "
    '["geo.longitude", "geo.latitude"]::DOUBLE[] AS coordinates FROM interactions '
    f'WHERE {IS_COUNTABLE} AND "geo.latitude" IS NOT NULL AND "geo.longitude" IS NOT NULL '
    f"AND {_OWN}"
)


def _most_probable(project_keys: user_fields.ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select the location from the latest event that has one, otherwise from the latest session."""
    selected = [f"{column} AS {quoted(name)}" for name, column in _LOCATIONS.items() if name in names]
    if not selected:
        return None
    candidates = _FROM_SESSIONS
    keys = [key for key, field in project_keys.fields.items() if field.placing]
    if keys:
        candidates = f"{candidates} UNION ALL {_from_events(project_keys, keys)}"
    return (
        f"SELECT owner, {', '.join(selected)} FROM ({candidates}) AS candidates "
        "QUALIFY row_number() OVER (PARTITION BY owner ORDER BY rank, date DESC, id DESC, key) = 1"
    )


def _from_events(project_keys: user_fields.ProjectKeys, keys: list[str]) -> str:
    coordinates = "try_cast(json_extract(current, '$.location.coordinates') AS DOUBLE[])"
    confidence = "coalesce(try_cast(json_extract_string(current, '$.extra.confidence') AS DOUBLE), 0.0)"
    return (
        f"SELECT userId AS owner, 1 AS rank, date, sourceId AS id, key, 'event-based' AS source, "
        f"{confidence} AS confidence, {coordinates} AS coordinates "
        f"FROM ({user_fields.field_values(project_keys, 'ids', keys=keys)}) AS field_values "
        'WHERE "placing" AND NOT invalid AND NOT anonymized AND len(coordinates) = 2'
    )


_VENDOR: Final = "vendorUserId"


def _fields(project_keys: user_fields.ProjectKeys, names: list[str], mode: str) -> str | None:
    """Select one column per field: a JSON list of the one value that the mode selects."""
    keys = [name.removeprefix(_FIELDS) for name in names if name.startswith(_FIELDS)]
    if not keys:
        return None
    values = user_fields.reduced(user_fields.field_values(project_keys, "ids", keys=keys), mode)
    # There is one row per key.
    columns = ", ".join(
        f"any_value(text) FILTER (WHERE key = {literal(key)}) AS {quoted(f'{_FIELDS}{key}')}" for key in keys
    )
    entries = (
        f"SELECT userId, key, '[' || {user_fields.as_entry()}::VARCHAR || ']' AS text "
        f"FROM ({values}) AS reduced"
    )
    return f"SELECT userId AS owner, {columns} FROM ({entries}) AS entries GROUP BY userId"


def _all_fields(project_keys: user_fields.ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select all values of all fields as one object."""
    if "fields" not in names:
        return None
    by_key = (
        f"SELECT userId, key, to_json(list({user_fields.as_entry()} ORDER BY date, sourceId, source)) "
        f"AS entries FROM ({user_fields.field_values(project_keys, 'ids')}) AS field_values "
        "GROUP BY userId, key"
    )
    return (
        f"SELECT userId AS owner, {user_fields.object_of('key', 'entries')} AS fields "
        f"FROM ({by_key}) AS by_key GROUP BY userId"
    )


def _vendors(project_keys: user_fields.ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select the vendor's ids of each user, in the order in which they first occurred."""
    if "vendorUserIds" not in names:
        return None
    values = user_fields.field_values(project_keys, "ids", keys=[_VENDOR])
    first = (
        f"SELECT userId, {user_fields.text_of('current')} AS text, min(date) AS date, min(sourceId) AS id "
        f"FROM ({values}) AS field_values WHERE text IS NOT NULL GROUP BY userId, text"
    )
    return (
        "SELECT userId AS owner, list(text ORDER BY date, id, text) AS vendorUserIds "
        f"FROM ({first}) AS first_seen GROUP BY userId"
    )


#: Each returns the query of its requested columns by ``owner``, or None if none is requested.
_PARTS: Final[tuple[Callable[[user_fields.ProjectKeys, list[str], str], str | None], ...]] = (
    _metric_totals, _all_metrics, _fields, _all_fields, _vendors, _most_probable,
)  # fmt: skip
