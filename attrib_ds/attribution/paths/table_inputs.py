"""Reads a project from tables in the user's own engine, for :func:`attrib_ds.open_tables`."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa
from ibis.common.exceptions import TableNotFound

from attrib_ds import schema
from attrib_ds.attribution.engines.engine import double, rebound, table_names
from attrib_ds.attribution.paths import inputs, project_tables
from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, closest, warn
from attrib_ds.records.frames import to_pandas

#: Prefixes of the columns of events that hold statistics (numbers) and states (when they were reached).
STATISTIC: Final = "statistics."
STATE: Final = "states."
_CURRENCY: Final = ".currency"

#: Kinds of columns as errors name them, and the types that each of them allows.
_KINDS: Final = {
    "text": lambda kind: kind.is_string() or kind.is_integer() or kind.is_uuid() or kind.is_null(),
    "timestamp": lambda kind: kind.is_timestamp() or kind.is_date(),
    "number": lambda kind: kind.is_numeric() or kind.is_null(),
    "flag": lambda kind: kind.is_boolean() or kind.is_null(),
}
_TYPES: Final = {"text": "string", "timestamp": "timestamp(6)", "number": "float64", "flag": "boolean"}


def _kinds(text: str = "", timestamp: str = "", number: str = "", flag: str = "") -> dict[str, str]:
    """Return the kind of each column from the names of the columns of each kind."""
    of_kinds = {"text": text, "timestamp": timestamp, "number": number, "flag": flag}
    return {column: kind for kind, columns in of_kinds.items() for column in columns.split()}


_AMOUNTS: Final = ("amount", "number", "amount.amount")
_CURRENCIES: Final = ("currency", "amount.currency")
_IDS: Final = ("_id", "eventId", "campaignId")
#: Required columns of each table, and optional ones, which are null by default.
TABLES: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "interactions": (
        _kinds("_id userId nodeId", "startDate"),
        _kinds("type trafficFilterId", number="hitCount duration", flag="isBot"),
    ),
    "events": (_kinds("_id userId eventType", "eventDate"), {}),
    "metrics": (_kinds("eventId key type"), _kinds("currency", "date deletedAt", "number amount")),
    "nodes": (
        _kinds("_id name"),
        _kinds("parentId type channel integrationId vendorId campaignSlug source medium"),
    ),
    "spend": (
        _kinds("campaignId", "startDate endDate", "amount.amount"),
        _kinds("amount.currency", "deletedAt"),
    ),
    "users": (_kinds("_id"), {}),
    "hits": (
        _kinds("trackerId pageUrl", "date"),
        _kinds("hitId referrer userAgent hitType ip projectId", number="timezoneOffset", flag="isBot")
        | {
            name: "number" if pa.types.is_floating(schema.HIT.field(name).type) else "text"
            for group in ("asn", "geo")
            for name in schema.leaves(schema.HIT, group)
        },
    ),
    "events of hits": (_kinds("_id eventType", "eventDate"), _kinds("trackerId userId")),
}


#: Ids of people and browsers beside raw hits.
_IDS_OF_HITS: Final = ("trackerId", "userId")
#: What becomes of rows without a user.
_PEOPLE: Final = {"interactions": "they are in no path", "events": "as conversions they are unattributed"}


@dataclass(frozen=True)
class ExternalTables:
    """Tables in the user's engine, and the names of their columns.

    Attributes
    ----------
    backend : ibis backend
        Connection of the tables.
    columns : mapping of str to mapping
        For each table, names of the schema to the names of its columns, where they differ.
    """

    backend: Any
    columns: Mapping[str, Mapping[str, str]]

    def read(
        self, name: str, given: Any, *, like: str | None = None, one_of: Collection[str] = ()
    ) -> ir.Table:
        """Return a table with the columns of the schema, optional ones as nulls, and all other columns.

        ``like`` is the name of another schema of ``TABLES``; one of the columns ``one_of`` is required.

        Raises
        ------
        InvalidRequest
            If there is no such table, a required column is missing, or a column has the wrong type.
        """
        table = self.named(name, given)
        needed, optional = TABLES[like or name]
        renamed = dict(self.columns.get(name, {}))
        absent = [source for source in renamed.values() if source not in table.columns]
        if absent:
            raise InvalidRequest.choice(f"columns[{name!r}]", absent[0], table.columns)
        table = table.rename(renamed)
        missing = [column for column in needed if column not in table.columns]
        if missing:
            described = ", ".join(f"{column} ({needed[column]})" for column in missing)
            raise InvalidRequest(
                f"{name}: the columns {described} are missing; the table has: {', '.join(table.columns)}; if "
                f"a column has another name, pass columns={{{name!r}: {{{missing[0]!r}: '…'}}}}"
            )
        if one_of and not {*one_of} & {*table.columns}:
            raise InvalidRequest(
                f"{name}: one of the columns {', '.join(one_of)} is needed; the table has: "
                f"{', '.join(table.columns)}"
            )
        source = inputs.Input(table, name, is_external=True, dialect=self.backend.name)
        schema_columns = needed | optional
        for column in table.columns:
            if column in _AMOUNTS or (column.startswith(STATISTIC) and not column.endswith(_CURRENCY)):
                source.identity = next((key for key in _IDS if key in table.columns), None)
                is_money = column in _AMOUNTS or f"{column}{_CURRENCY}" in table.columns
                source.amounts(column, maximum=_MOST_MONEY if is_money else inputs.MOST_VALUE)
        converted = {
            column: _as(source, column, kind, like=like or name)
            if column in table.columns
            else ibis.null(_TYPES[kind])
            for column, kind in schema_columns.items()
        }
        others = {
            column: source.instants(column, role=column, optional=True, at_end=column.startswith(STATE))
            if table[column].type().is_timestamp() or column.startswith(STATE)
            else table[column]
            for column in table.columns
            if column not in schema_columns
        }
        currencies = [name for name in table.columns if name in schema_columns and name in _CURRENCIES]
        converted |= {name: source.codes(name) for name in currencies}
        units = [name for name in others if name.startswith(STATISTIC) and name.endswith(_CURRENCY)]
        others |= {name: source.codes(name) for name in units}
        if (like or name) in _PEOPLE:
            source.expect_ids("userId")
        source.check()
        for column in _IDS_OF_HITS if (like or name) in ("hits", "events of hits") else ():
            if source.has(column) and column in converted:
                converted[column] = source.somebody(column, converted[column])
        if (like or name) in _PEOPLE:
            converted["userId"], count = source.people("userId", converted["userId"])
            if count:
                warn(f"{name}: {counted(count, 'rows')} without 'userId': {_PEOPLE[like or name]}")
        return table.select(**converted, **others)

    def named(self, name: str, given: Any) -> ir.Table:
        """Return a table of the backend, given by its name or as an Ibis table."""
        if isinstance(given, ir.Table):
            return rebound(given, self.backend)
        if not isinstance(given, str):
            raise InvalidRequest(
                f"{name}: {type(given).__name__} is not allowed; allowed: the name of a table or an Ibis "
                "table, such as ibis.memtable(frame)"
            )
        try:
            return self.backend.table(given)
        except Exception as error:
            # DuckDB takes the name of a table that is none for that of a file.
            known = table_names(self.backend)
            if given in known and not isinstance(error, TableNotFound):
                raise
            raise InvalidRequest(
                f"{name}: there is no table {given!r}{closest(given, known)}; pass a table of another "
                "schema, or a file, as an Ibis table, such as backend.read_parquet(…)"
            ) from error


def read_tables(
    tables: ExternalTables, given: Mapping[str, Any], currency: str, timezone: str
) -> project_tables.Tables:
    """Return the tables that attribution reads; ``given`` is as for :func:`attrib_ds.open_tables`."""
    interactions = tables.read("interactions", given["interactions"])
    interactions = interactions.mutate(hitCount=interactions.hitCount.cast("int64"))
    events = tables.read("events", given["events"])
    measured = _metrics_in_columns(events)
    if given.get("metrics") is not None:
        rows = tables.read("metrics", given["metrics"])
        measured.append(_metrics(rows, {name: rows[name] for name in _METRIC}))
    if measured:
        amounts = ibis.union(*measured).filter(lambda rows: rows.type == "statistic")
        inputs.warn_of_missing_currencies(
            "events", amounts, value="amount", used=f"{currency}, the currency of the project"
        )
    nothing = _metrics(events.filter(ibis.literal(False)), {})
    spend, users = given.get("spend"), given.get("users")
    return project_tables.Tables(
        interactions=interactions,
        events=events.drop(*(name for name in events.columns if name.startswith((STATISTIC, STATE)))),
        metrics=ibis.union(*measured) if measured else nothing,
        nodes=_nodes(tables, given["nodes"], interactions),
        outlays=_empty_spend(interactions) if spend is None else _spend(tables, spend, currency),
        currency=currency,
        timezone=timezone,
        users=None if users is None else tables.read("users", users),
    )


#: Columns of instants in which a day stands for its end, by the table.
_ENDS: Final = (("events", "eventDate"), ("events of hits", "eventDate"), ("metrics", "date"))


def _as(source: inputs.Input, name: str, kind: str, *, like: str) -> Any:
    column = source.table[name]
    if not _KINDS[kind](column.type()):
        raise InvalidRequest(f"{source.argument}: the column {name} holds {column.type()}; allowed: {kind}")
    return (
        source.instants(name, role=name, optional=True, at_end=(like, name) in _ENDS)
        if kind == "timestamp"
        else column.cast(_TYPES[kind])
    )


#: Money has 18 digits before the decimal point; this is the largest such float.
_MOST_MONEY: Final = math.nextafter(1e18, 0)
#: Columns of metrics and their types.
_METRIC: Final = {
    name: _TYPES[kind] for name, kind in (TABLES["metrics"][0] | TABLES["metrics"][1]).items()
} | {"amount": "decimal(24, 6)"}


def _metrics(rows: ir.Table, values: Mapping[str, Any]) -> ir.Table:
    """Return rows of metrics; columns without a value are null."""
    columns = {}
    for name, kind in _METRIC.items():
        value = values.get(name)
        column = ibis.literal(value) if isinstance(value, str) else value
        columns[name] = ibis.null(kind) if column is None else column.cast(kind)
    return rows.select(**columns)


def _metrics_in_columns(events: ir.Table) -> list[ir.Table]:
    """Return a table of metrics for each column of events that holds a statistic or a state."""
    parts = []
    for name in events.columns:
        column = events[name]
        values: dict[str, Any] = {"eventId": events["_id"]}
        if name.startswith(STATE):
            values |= {
                "key": name.removeprefix(STATE),
                "type": "state",
                "date": column,
                "number": double(1.0),
            }
        elif name.startswith(STATISTIC) and not name.endswith(_CURRENCY):
            values |= {"key": name.removeprefix(STATISTIC), "type": "statistic", "date": events.eventDate}
            unit = f"{name}{_CURRENCY}"
            has_unit = unit in events.columns
            values |= {"amount": column, "currency": events[unit]} if has_unit else {"number": column}
        else:
            continue
        parts.append(_metrics(events.filter(column.notnull()), values))
    return parts


def _nodes(tables: ExternalTables, given: Any, interactions: ir.Table) -> ir.Table:
    """Load the tree, which is small, with the columns of the schema."""
    if given is None:
        touched = interactions.filter(interactions.nodeId.notnull())
        rows = to_pandas(touched.select("nodeId").distinct().to_pyarrow())
        frame = pd.DataFrame({"_id": rows["nodeId"], "name": rows["nodeId"]})
    else:
        frame = to_pandas(tables.read("nodes", given).to_pyarrow())
    frame = frame.sort_values("_id", ignore_index=True)
    if "path" not in frame.columns:
        # Without rows, the type of a list is not known by itself.
        frame["path"] = pd.Series(_ancestors(frame), dtype=object)
    arrays = [
        pa.array(frame[column.name], column.type, from_pandas=True)
        if column.name in frame.columns
        else pa.nulls(len(frame), column.type)
        for column in _STORED
    ]
    return ibis.memtable(pa.table(arrays, schema=_STORED))


#: Schema of nodes with instants in UTC, without a zone.
_STORED: Final = pa.schema(
    [
        pa.field(column.name, pa.timestamp("us") if pa.types.is_timestamp(column.type) else column.type)
        for column in schema.NODE
    ]
)


def _ancestors(nodes: pd.DataFrame) -> list[list[str]]:
    """Return the ids above each node, the root first."""
    if "parentId" not in nodes.columns:
        return [[] for _ in range(len(nodes))]
    parents = nodes.set_index("_id")["parentId"].dropna().to_dict()
    ancestors = []
    for node in nodes["_id"]:
        above: list[str] = []
        while node in parents and parents[node] not in above:
            node = parents[node]
            above.append(node)
        ancestors.append(above[::-1])
    return ancestors


def _spend(tables: ExternalTables, given: Any, currency: str) -> ir.Table:
    table = tables.read("spend", given)
    return table.mutate(**{"amount.currency": table["amount.currency"].coalesce(currency)})


def _empty_spend(interactions: ir.Table) -> ir.Table:
    needed, optional = TABLES["spend"]
    columns = {name: ibis.null(_TYPES[kind]) for name, kind in (needed | optional).items()}
    return interactions.filter(ibis.literal(False)).select(**columns)
