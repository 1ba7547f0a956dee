"""Loads events with their states, statistics and metrics."""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, schema
from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, warn
from attrib_ds.instants import naive
from attrib_ds.records.sources import Source, instant, literal, quoted
from attrib_ds.service.events.retention import assign_policies
from attrib_ds.service.identity import identities, merging
from attrib_ds.service.loading import batch
from attrib_ds.service.store.tables import HEX_ID, TABLES, UUID

#: Pattern of references of event types.
_REFERENCE: Final = "[a-z0-9]+([-_][a-z0-9]+)*"
_REFERENCE_FORM: Final = "lower-case letters and digits with single - or _ between them"
#: Maps of keys to typed values.
_MAPS: Final = ("event", "user")
_OBJECTS: Final = ("states", "statistics", "expirationPolicy")


def check_events(connection: Connection, source: Source, project: batch.Project) -> batch.Batch:
    """Validate rows and stage them for insertion.

    Besides the columns of the resource, the source may have ``event.<key>`` and ``user.<key>`` (text),
    ``states.<key>`` (0 or 1) with ``states.<key>.date``, and ``statistics.<key>`` (a number) or
    ``statistics.<key>.amount`` with ``statistics.<key>.currency``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows.
    project : Project
        Their project.

    Returns
    -------
    Batch
        With the counts ``events`` and ``metrics``.

    Raises
    ------
    InvalidRequest
        If a column is unknown, or a key is not allowed.
    """
    checks = batch.Checks(source, argument="events", is_verbatim=project.is_mirror)
    keyed = [name for name in source.columns if is_metric(name) or name.startswith(("event.", "user."))]
    checks.refuse_unknown([*schema.EVENT.names, *keyed], _OBJECTS)
    checks.project(project.project_id)
    checks.word("_id", pattern=UUID, form="a UUID", lower=True, default="CAST(uuidv7() AS VARCHAR)")
    checks.word("userId", pattern=HEX_ID, form="24 lower-case hexadecimal digits", required=True)
    checks.instant("eventDate", required=True, recent=not project.is_mirror)
    if project.is_mirror:
        # A mirror holds every record of its source, however odd.
        checks.word("eventType", required=True)
    else:
        checks.word("eventType", pattern=_REFERENCE, form=_REFERENCE_FORM, required=True)
        checks.rule(f"length({quoted('eventType')}) > 64", "'eventType: is longer than 64 characters'")
    for name in ("expirationPolicy.expiresAt", "expirationPolicy.anonimizedAt"):
        checks.instant(name)
    checks.count("expirationPolicy.retentionDurationInDays")
    checks.texts("expirationPolicy.piiFields")
    for name in ("createdAt", "updatedAt"):
        checks.instant(name, default=project.now)
    for name in _MAPS:
        _add_map(checks, name)
    keys = add_metric_columns(checks)
    staged = checks.stage(connection, id="_id")
    table = stage_metrics(connection, staged, keys, project)
    count = connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]

    def insert(writer: Connection, valid: batch.ValidRows) -> dict[str, int]:
        valid.reject_stored(writer, "events", "_id")
        batch.reject_erased(writer, valid, identities.of_events(valid.rows))
        differing = differing_metrics(valid, table)
        with valid.replace_stored(
            writer, "events", "_id", changed="updatedAt", differing=differing
        ) as replaced:
            writer.execute(f"DELETE FROM metrics WHERE eventId IN (SELECT _id FROM {replaced})")
            rows = merging.surviving(writer, valid.rows)
            loaded = valid.insert(writer, "events", rows=rows)
            merging.register(writer, f"(SELECT userId, createdAt AS seen FROM {rows})")
            merging.remove_absent(writer, replaced)
        # Replacing records come from a service that has merged users already.
        identities.assign_identities(
            writer, identities.of_events(rows), naive(instants.now()), may_merge=not valid.is_replacing
        )
        assign_policies(writer)
        return {"events": loaded, "metrics": insert_metrics(writer, valid, table, project, count=count)}

    return batch.Batch(staged, "_id", insert)


def _add_map(checks: batch.Checks, name: str) -> None:
    """Add a map column, from a JSON object and from columns per key."""
    text = checks.source.word(name) if checks.has(name) else "CAST(NULL AS VARCHAR)"
    is_object = f"CASE WHEN {batch.is_json(text)} THEN json_type({text}) = 'OBJECT' END"
    entries = f"TRY_CAST(CASE WHEN {is_object} THEN {text} END AS JSON)"
    checks.value(f"{name} entries", f"TRY_CAST({entries} AS MAP(VARCHAR, JSON))")
    if checks.has(name):
        wrong = f"{batch.original(name)} <> 'null' AND {quoted(f'{name} entries')} IS NULL"
        checks.rule(
            wrong,
            f"{batch.labelled_value(name)} || "
            f"{batch.not_json(batch.original(name), 'a JSON object with one value per key')}",
        )
    single = []
    for column in checks.source.columns:
        if column.startswith(f"{name}."):
            key = column.removeprefix(f"{name}.")
            if not re.fullmatch(KEY, key):
                raise InvalidRequest(
                    f"events: the key {key!r} of the column {column!r} is not allowed; "
                    "allowed: a letter, then up to 63 letters, digits, _ and -"
                )
            cell = batch.original(column)
            wrapped = f"CASE WHEN {cell} IS NOT NULL THEN {_typed(cell, cell)} END"
            single.append(f"{{'key': {literal(key)}, 'value': {wrapped}}}")
    has_shape = "(json_exists(entry.value, '$.current') OR json_exists(entry.value, '$.raw'))"
    plain = _typed("entry.value", "json_extract_string(entry.value, '$')")
    value = f"CASE WHEN json_type(entry.value) = 'OBJECT' AND {has_shape} THEN entry.value ELSE {plain} END"
    entries = quoted(f"{name} entries")
    whole = f"list_transform(map_entries({entries}), lambda entry: {{'key': entry.key, 'value': {value}}})"
    keyed = f"list_filter([{', '.join(single)}], lambda entry: entry.value IS NOT NULL)" if single else ""
    parts = [f"to_json(map_from_entries({part}))" for part in (whole, keyed) if part]
    merged = f"json_merge_patch(coalesce({parts[0]}, '{{}}'), {parts[1]})" if single else parts[0]
    checks.derive(name, f"CAST(coalesce({merged}, '{{}}') AS VARCHAR)")


def _typed(raw: str, current: str) -> str:
    date = f"strftime({quoted('eventDate')}, '%Y-%m-%dT%H:%M:%S.%gZ')"
    return (
        f"json_object('raw', {raw}, 'current', {current}, 'type', 'string', 'date', {date}, "
        "'anonymized', false, 'invalid', false)"
    )


#: Pattern of storage keys.
KEY: Final = "[A-Za-z][A-Za-z0-9_-]{0,63}"
_COLUMN: Final = re.compile(r"(states|statistics)\.([^.]+)(?:\.(date|amount|currency))?")
_PARTS: Final = {"states": {None, "date"}, "statistics": {None, "amount", "currency"}}
_RESERVED: Final = re.compile("event-count|state-delay-.*")
_COLUMNS: Final = {
    name: kind for name, kind in TABLES["metrics"].items() if name not in {"projectId", "eventId"}
}
_SHAPE: Final = (
    '[{"_id":"VARCHAR","key":"VARCHAR","type":"VARCHAR","createdAt":"VARCHAR","updatedAt":"VARCHAR",'
    '"deletedAt":"VARCHAR","data":{"type":"VARCHAR","date":"VARCHAR","raw":"JSON","current":"JSON",'
    '"anonymized":"BOOLEAN","invalid":"BOOLEAN"}}]'
)
_KEY_RULE: Final = f"key IS NULL OR NOT regexp_full_match(key, '{KEY}')"
#: Amounts whose currency is unknown.
CURRENCY_RULE: Final = (
    "dataType = 'currency' AND amount IS NOT NULL AND "
    f"(currency IS NULL OR NOT regexp_full_match(currency, '{batch.CURRENCY}'))"
)
#: Violations of nested metrics, in the order of reporting.
_NESTED_RULES: Final = {
    _KEY_RULE: "has a key that is not allowed",
    "type IS NULL OR type NOT IN ('state', 'statistic')": "has a type other than state and statistic",
    "dataType NOT IN ('state', 'number', 'currency') OR (type = 'state') <> (dataType = 'state')": (
        "has a data.type that is not allowed for its type"
    ),
    "dataType = 'state' AND (number NOT IN (0, 1) OR number IS NULL AND NOT invalid)": (
        "is a state other than 0 and 1"
    ),
    "dataType = 'number' AND (NOT isfinite(number) OR number IS NULL AND NOT invalid)": (
        "has no finite number"
    ),
    "dataType = 'currency' AND amount IS NULL AND NOT invalid": "has no amount",
    CURRENCY_RULE: "has no currency of ISO 4217",
    "given_date IS NOT NULL AND (read_date IS NULL OR read_date < TIMESTAMP '1990-01-01') "
    "OR given_created IS NOT NULL AND createdAt IS NULL OR given_updated IS NOT NULL AND updatedAt IS NULL "
    "OR given_deleted IS NOT NULL AND deletedAt IS NULL": (
        "has a date that is not an RFC 3339 date-time since 1990"
    ),
}


#: Parts with separate columns, None for the value itself, by the kind and key of a metric.
Keys: TypeAlias = Mapping[tuple[str, str], set[str | None]]


def is_metric(column: str) -> bool:
    """Return whether a column is named like a column of a metric.

    Examples
    --------
    >>> is_metric("states.won.date"), is_metric("statistics.revenue.date"), is_metric("event.won")
    (True, False, False)
    """
    match = _COLUMN.fullmatch(column)
    return match is not None and match[3] in _PARTS[match[1]]


def add_metric_columns(checks: batch.Checks) -> Keys:
    """Add the columns of metrics to the checks of events.

    Parameters
    ----------
    checks : Checks
        Checks of the events.

    Returns
    -------
    Keys
        Keys of the metrics.

    Raises
    ------
    InvalidRequest
        If a key is not allowed or reserved.
    """
    checks.json("metrics", "ARRAY", "a list of metrics")
    parts_by_key: dict[tuple[str, str], set[str | None]] = {}
    for column in checks.source.columns:
        match = _COLUMN.fullmatch(column)
        if match is not None:
            _check_key(checks.argument, column, match[2])
            parts_by_key.setdefault((match[1], match[2]), set()).add(match[3])
    for (kind, key), parts in parts_by_key.items():
        name = f"{kind}.{key}"
        for part, required in (("date", name), ("currency", f"{name}.amount")):
            if part in parts and not checks.has(required):
                raise InvalidRequest(
                    f"{checks.argument}: the column {f'{name}.{part}'!r} requires the column {required!r}"
                )
        if kind == "states":
            checks.flag(name, form="is not 0 or 1")
            checks.instant(f"{name}.date", recent=True)
        elif None in parts:
            checks.number(name)
        if "amount" in parts:
            _add_amount(checks, name)
    return parts_by_key


def _check_key(argument: str, column: str, key: str) -> None:
    problem = ""
    if not re.fullmatch(KEY, key):
        problem = "is not allowed; allowed: a letter, then up to 63 letters, digits, _ and -"
    elif _RESERVED.fullmatch(key):
        problem = "is reserved for a built-in metric"
    if problem:
        raise InvalidRequest(f"{argument}: the key {key!r} of the column {column!r} {problem}")


def _add_amount(checks: batch.Checks, name: str) -> None:
    amount, currency = f"{name}.amount", f"{name}.currency"
    checks.amount(amount)
    checks.currency(currency)
    missing = f"{quoted(amount)} IS NOT NULL AND {quoted(currency)} IS NULL"
    checks.rule(f"{missing} AND {batch.original(currency)} IS NULL", literal(f"{currency}: is missing"))


def stage_metrics(connection: Connection, staged: batch.Staged, keys: Keys, project: batch.Project) -> str:
    """Create the table of all metrics, and list violations of nested ones.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database.
    staged : Staged
        The events.
    keys : Keys
        From :func:`add_columns`.
    project : Project
        Their project.

    Returns
    -------
    str
        The table: ``row`` and the columns of the table ``metrics`` without its ids.
    """
    table = f"{staged.relation.rsplit('.', 1)[0]}.staged_metrics"
    queries = _from_columns(staged, keys)
    if "metrics" in staged.source_columns:
        nested = _read_nested(connection, staged, project)
        # A mirrored event that has an odd metric is kept without it.
        fit = (
            f"AND (problem IS NULL OR {CURRENCY_RULE}) QUALIFY row_number() OVER "
            "(PARTITION BY row, key ORDER BY deletedAt IS NOT NULL, updatedAt DESC NULLS LAST) = 1"
        )
        queries.append(
            f"SELECT * EXCLUDE (problem, is_built_in) FROM {nested} WHERE NOT is_built_in "
            f"{fit if project.is_mirror else ''}"
        )
    connection.execute(f"CREATE TABLE {table} AS {' UNION ALL '.join(queries)}")
    # A delay exists while its state is 1.
    delay = {
        "_id": "NULL",
        "key": "'state-delay-' || key",
        "type": "'statistic'",
        "dataType": "'number'",
        "number": "(epoch_us(date) - epoch_us(eventDate)) / 1e6",
    }
    columns = ", ".join(delay.get(name, name) for name in _COLUMNS)
    connection.execute(
        f"INSERT INTO {table} SELECT row, {columns} FROM {table} "
        f"JOIN (SELECT row, eventDate FROM {staged.relation}) USING (row) WHERE type = 'state' AND number = 1"
    )
    if "metrics" in staged.source_columns:
        _restore_built_in(connection, nested, table)
    duplicates = f"SELECT row, key FROM {table} GROUP BY row, key HAVING count(*) > 1"
    connection.execute(
        f"INSERT INTO {staged.problems} SELECT row, 900, "
        f"'metrics: ' || {batch.quote_text('key')} || ' occurs more than once' FROM ({duplicates}) "
        "WHERE NOT starts_with(key, 'state-delay-')"
    )
    return table


def _rows(staged: batch.Staged, *, key: str, kind: str, where: str = "true", **values: str) -> str:
    """Return the query of the metrics of one key with :data:`_COLUMNS`; ``values`` holds SQL."""
    texts = {"key": key, "type": "state" if kind == "state" else "statistic", "dataType": kind}
    expressions = (
        {name: literal(text) for name, text in texts.items()} | {"date": quoted("eventDate")} | values
    )
    columns = ", ".join(
        f"CAST({expressions.get(name, 'NULL')} AS {_COLUMNS[name]}) AS {name}" for name in _COLUMNS
    )
    return f"SELECT row, {columns} FROM {staged.relation} WHERE {where}"


def _from_columns(staged: batch.Staged, keys: Keys) -> list[str]:
    """Return the queries of metrics with separate columns, and of event counts."""
    flags = {"anonymized": "false", "invalid": "false"}
    queries = [_rows(staged, key="event-count", kind="number", number="1", **flags)]
    for (kind, key), parts in keys.items():
        name = f"{kind}.{key}"
        value = quoted(name)
        given = {"where": f"{value} IS NOT NULL", **flags}
        if kind == "states":
            date = quoted(f"{name}.date") if "date" in parts else "NULL"
            date = f"coalesce({date}, {quoted('eventDate')})"
            queries.append(_rows(staged, key=key, kind="state", number=value, date=date, **given))
        elif None in parts:
            queries.append(_rows(staged, key=key, kind="number", number=value, **given))
        if "amount" in parts:
            amount, currency = (quoted(f"{name}.{part}") for part in ("amount", "currency"))
            given["where"] = f"{amount} IS NOT NULL"
            queries.append(_rows(staged, key=key, kind="currency", amount=amount, currency=currency, **given))
    return queries


def _read_nested(connection: Connection, staged: batch.Staged, project: batch.Project) -> str:
    """Create the table of nested metrics and list violations."""
    table = f"{staged.relation.rsplit('.', 1)[0]}.nested_metrics"
    columns = ", ".join(f"CAST({name} AS {_COLUMNS[name]}) AS {name}" for name in _COLUMNS)
    rules = _NESTED_RULES
    if project.is_mirror:
        rules = {"key IS NULL" if rule == _KEY_RULE else rule: reason for rule, reason in rules.items()}
    problem = " ".join(f"WHEN {broken} THEN {literal(reason)}" for broken, reason in rules.items())
    connection.execute(
        f"""
        CREATE TABLE {table} AS
        WITH listed AS (
            SELECT row, eventDate, unnest(from_json(metrics, '{_SHAPE}')) AS metric FROM {staged.relation}
        ), opened AS (
            SELECT row, eventDate, metric._id, metric.key, metric.type, metric.data.type AS given_type,
                CASE WHEN json_type(metric.data.current) <> 'NULL' THEN metric.data.current
                    WHEN metric.data.invalid IS NOT TRUE THEN metric.data.raw END AS value,
                NULLIF(metric.data.raw, metric.data.current) AS sent,
                metric.data.date AS given_date, {_instant("metric.data.date")} AS read_date,
                coalesce(metric.data.anonymized, false) AS anonymized,
                coalesce(metric.data.invalid, false) AS invalid,
                metric.createdAt AS given_created, {_instant("metric.createdAt")} AS createdAt,
                metric.updatedAt AS given_updated, {_instant("metric.updatedAt")} AS updatedAt,
                metric.deletedAt AS given_deleted, {_instant("metric.deletedAt")} AS deletedAt,
                -- Those of exported events are recomputed.
                coalesce(metric.key = 'event-count' OR starts_with(metric.key, 'state-delay-'), false)
                    AS is_built_in
            FROM listed
        ), valued AS (
            SELECT *, json_type(value) = 'OBJECT' AS is_object, json_extract_string(value, '$') AS text,
                coalesce(given_type, CASE WHEN type = 'state' THEN 'state'
                    WHEN json_type(value) = 'OBJECT' THEN 'currency' ELSE 'number' END) AS dataType,
                coalesce(read_date, eventDate) AS date
            FROM opened
        ), typed AS (
            SELECT *, CASE WHEN dataType <> 'currency' THEN TRY_CAST(text AS DOUBLE) END AS number,
                CASE WHEN dataType = 'number' AND (value IS NULL OR value <> sent) THEN sent END AS raw,
                CASE WHEN dataType = 'currency' THEN TRY_CAST(
                    CASE WHEN is_object THEN json_extract_string(value, '$.amount') ELSE text END
                    AS DECIMAL(24,6)) END AS amount,
                CASE WHEN dataType = 'currency' THEN
                    CASE WHEN is_object THEN json_extract_string(value, '$.currency')
                        ELSE {literal(project.currency)} END END AS given_currency,
                {_currency("trim(given_currency)")} AS currency
            FROM valued
        )
        SELECT row, {columns}, CASE WHEN NOT is_built_in THEN CASE {problem} END END AS problem, is_built_in
        FROM typed
        """
    )
    if project.is_mirror:
        _warn_of_odd(connection, table)
    else:
        name = f"coalesce({batch.quote_text('key')}, 'one')"
        connection.execute(
            f"INSERT INTO {staged.problems} SELECT row, 900, 'metrics: ' || {name} || ' ' || problem "
            f"FROM {table} WHERE problem IS NOT NULL"
        )
    return table


def _currency(given: str) -> str:
    """Return SQL for the code of a currency; what has none stays as it is, since a mirror keeps it."""
    code = batch.currency(given)
    return f"CASE WHEN regexp_full_match({code}, '{batch.CURRENCY}') THEN {code} ELSE NULLIF({given}, '') END"


def _warn_of_odd(connection: Connection, table: str) -> None:
    """Warn of metrics that a mirror keeps with an unknown currency or not at all."""
    query = (
        f"SELECT key, problem, bool_and({CURRENCY_RULE}), count(*) FROM {table} WHERE problem IS NOT NULL "
        "GROUP BY ALL ORDER BY ALL LIMIT 10"
    )
    for key, problem, is_kept, count in connection.execute(query).fetchall():
        effect = "kept as they are" if is_kept else "left out of their events"
        warn(f"sync: {counted(count, 'values')} of the metric {key!r} {effect}; each {problem}")


def _instant(text: str) -> str:
    return batch.truncated(instant(text))


def _restore_built_in(connection: Connection, nested: str, table: str) -> None:
    """Restore ids and dates of exported built-in metrics, and deleted delays."""
    built_in = (
        f"(SELECT * EXCLUDE (problem, is_built_in) FROM {nested} WHERE is_built_in "
        "QUALIFY count(*) OVER (PARTITION BY row, key) = 1 AND count(*) OVER (PARTITION BY _id) = 1 "
        f"AND regexp_full_match(_id, '{HEX_ID}')) AS built_in"
    )
    connection.execute(
        f"UPDATE {table} AS metric SET _id = built_in._id, createdAt = built_in.createdAt, "
        f"updatedAt = built_in.updatedAt FROM {built_in} "
        "WHERE metric.row = built_in.row AND metric.key = built_in.key"
    )
    connection.execute(
        f"INSERT INTO {table} SELECT * REPLACE ('statistic' AS type, 'number' AS dataType) "
        f"FROM {built_in} ANTI JOIN {table} AS metric USING (row, key) "
        "WHERE deletedAt IS NOT NULL AND isfinite(number)"
    )


def differing_metrics(valid: batch.ValidRows, table: str) -> str:
    """Return the query of ``row`` for events whose metrics differ from those of their stored event."""
    compared = ("key", "type", "dataType", "date", "number", "amount", "currency")
    columns = ", ".join(("row", *compared))
    loaded = (
        f"SELECT {columns} FROM {table} SEMI JOIN {valid.rows} AS event USING (row) WHERE deletedAt IS NULL"
    )
    stored = (
        f"SELECT {columns} FROM metrics JOIN (SELECT row, _id AS eventId FROM {valid.rows}) USING (eventId) "
        "WHERE deletedAt IS NULL"
    )
    return (
        f"SELECT row FROM (({loaded}) EXCEPT ({stored})) "
        f"UNION ALL SELECT row FROM (({stored}) EXCEPT ({loaded}))"
    )


def insert_metrics(
    connection: Connection, valid: batch.ValidRows, table: str, project: batch.Project, *, count: int
) -> int:
    """Insert the metrics of valid events; return their number.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    valid : ValidRows
        The events.
    table : str
        From :func:`stage`.
    project : Project
        Their project.
    count : int
        Number of metrics in the table.
    """
    position = "row_number() OVER () - 1"
    rows = (
        f"(SELECT metric.*, event._id AS eventId, event.createdAt AS created, event.updatedAt AS updated, "
        f"{position} AS position FROM {table} AS metric JOIN {valid.rows} AS event USING (row))"
    )
    return valid.insert(
        connection,
        "metrics",
        rows=rows,
        values={
            **{name: quoted(name) for name in TABLES["metrics"]},
            "_id": f"coalesce(_id, {project.ids.many('position', count=count)})",
            "projectId": literal(project.project_id),
            "createdAt": "coalesce(createdAt, created)",
            "updatedAt": "coalesce(updatedAt, updated)",
        },
    )
