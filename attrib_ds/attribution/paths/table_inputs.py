"""Reads the tables of a project from any engine by the columns of :mod:`attrib_ds.schema`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import ibis
import pandas as pd
import pyarrow as pa
from ibis.common.exceptions import TableNotFound

from attrib_ds import schema
from attrib_ds.attribution.engines.engine import double, moved
from attrib_ds.attribution.paths.columns import Input
from attrib_ds.attribution.paths.tables import Tables
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

#: Prefixes of the columns of events that hold statistics (numbers) and states (when they were reached).
STATISTIC: Final = "statistics."
STATE: Final = "states."
_CURRENCY: Final = ".currency"

#: What a column holds, in the words of errors, and the types of an engine that it may have.
_KINDS: Final = {
    "text": lambda kind: kind.is_string() or kind.is_integer() or kind.is_uuid() or kind.is_null(),
    "timestamp": lambda kind: kind.is_timestamp() or kind.is_date(),
    "number": lambda kind: kind.is_numeric() or kind.is_null(),
    "flag": lambda kind: kind.is_boolean() or kind.is_null(),
}
_TYPES: Final = {"text": "string", "timestamp": "timestamp(6)", "number": "float64", "flag": "boolean"}


@dataclass(frozen=True)
class Columns:
    """The columns that a table must have, and those that are empty where it does not have them."""

    needed: Mapping[str, str]
    optional: Mapping[str, str]


TABLES: Final = {
    "interactions": Columns(
        {"_id": "text", "userId": "text", "nodeId": "text", "startDate": "timestamp"},
        {
            "type": "text",
            "isBot": "flag",
            "trafficFilterId": "text",
            "hitCount": "number",
            "duration": "number",
        },
    ),
    "events": Columns({"_id": "text", "userId": "text", "eventType": "text", "eventDate": "timestamp"}, {}),
    "metrics": Columns(
        {"eventId": "text", "key": "text", "type": "text"},
        {
            "date": "timestamp",
            "number": "number",
            "amount": "number",
            "currency": "text",
            "deletedAt": "timestamp",
        },
    ),
    "nodes": Columns(
        {"_id": "text", "name": "text"},
        dict.fromkeys(("parentId", "type", "channel", "integrationId", "vendorId", "campaignSlug"), "text")
        | {"source": "text", "medium": "text"},
    ),
    "spend": Columns(
        {"campaignId": "text", "startDate": "timestamp", "endDate": "timestamp", "amount.amount": "number"},
        {"amount.currency": "text", "deletedAt": "timestamp"},
    ),
}


@dataclass(frozen=True)
class Lent:
    """Tables of a user's engine, by what they are.

    Attributes
    ----------
    backend : ibis backend
        Where they are.
    columns : mapping of str to mapping
        For a table, the names of its columns where they are not ours: ours to its.
    """

    backend: Any
    columns: Mapping[str, Mapping[str, str]]

    def read(self, name: str, given: Any) -> ir.Table:
        """Return a table with our columns, those that are absent empty, and all others as they are.

        Raises
        ------
        InvalidRequest
            If there is no such table, a needed column is absent, or a column holds another type than its name
            says.
        """
        table = self._named(name, given) if isinstance(given, str) else moved(given, self.backend)
        declared, renamed = TABLES[name], dict(self.columns.get(name, {}))
        absent = [source for source in renamed.values() if source not in table.columns]
        if absent:
            raise InvalidRequest.choice(f"columns[{name!r}]", absent[0], table.columns)
        table = table.rename(renamed)
        missing = [f"{each} ({kind})" for each, kind in declared.needed.items() if each not in table.columns]
        if missing:
            first = next(each for each in declared.needed if each not in table.columns)
            raise InvalidRequest(
                f"{name}: the columns {', '.join(missing)} are missing; the table has: "
                f"{', '.join(table.columns)}; where one has another name, "
                f"columns={{{name!r}: {{{first!r}: '…'}}}} tells it",
                field=name,
            )
        lent = Input(table, name, is_lent=True, dialect=self.backend.name)
        known = {**declared.needed, **declared.optional}
        held: dict[str, Any] = {}
        for each, kind in known.items():
            if each not in table.columns:
                held[each] = ibis.null(_TYPES[kind])
            else:
                held[each] = _as(lent, each, kind)
        others = {
            each: lent.instants(each, role=each, optional=True)
            if table[each].type().is_timestamp()
            else table[each]
            for each in table.columns
            if each not in known
        }
        return table.select(**held, **others)

    def _named(self, name: str, given: str) -> ir.Table:
        try:
            return self.backend.table(given)
        except TableNotFound as error:
            raise InvalidRequest(
                f"{name}: there is no table {given!r}{closest(given, self.backend.list_tables())}; one of "
                "another schema is given as a table of Ibis",
                field=name,
            ) from error


def read_tables(
    lent: Lent,
    *,
    interactions: Any,
    events: Any,
    metrics: Any,
    nodes: Any,
    spend: Any,
    currency: str,
    timezone: str,
) -> Tables:
    """Return the tables that attribution reads; for the parameters see :func:`attrib_ds.open_tables`."""
    touched = lent.read("interactions", interactions)
    touched = touched.mutate(hitCount=touched.hitCount.cast("int64"))
    happened = lent.read("events", events)
    measured = [*_told_apart(happened), *([] if metrics is None else [_metrics(lent, metrics)])]
    return Tables(
        interactions=touched,
        events=happened.drop(*(name for name in happened.columns if name.startswith((STATISTIC, STATE)))),
        metrics=reduce(lambda left, right: left.union(right), measured) if measured else _none(happened),
        nodes=_nodes(lent, nodes, touched),
        outlays=_empty_spend(touched) if spend is None else _spend(lent, spend, currency),
        currency=currency,
        timezone=timezone,
    )


def _as(lent: Input, name: str, kind: str) -> Any:
    column = lent.table[name]
    if not _KINDS[kind](column.type()):
        raise InvalidRequest(
            f"{lent.argument}: the column {name} holds {column.type()}; allowed: {kind}", field=lent.argument
        )
    return lent.instants(name, role=name, optional=True) if kind == "timestamp" else column.cast(_TYPES[kind])


def _metrics(lent: Lent, given: Any) -> ir.Table:
    table = lent.read("metrics", given)
    return table.mutate(amount=table.amount.cast("decimal(24, 6)")).select(*_metric(table))


def _told_apart(events: ir.Table) -> list[ir.Table]:
    """Return a table of metrics for each column of events that holds a statistic or a state."""
    found = []
    for name in events.columns:
        column = events[name]
        if name.startswith(STATE):
            of_kind = {
                "key": name.removeprefix(STATE),
                "type": "state",
                "date": column,
                "number": double(1.0),
            }
        elif name.startswith(STATISTIC) and not name.endswith(_CURRENCY):
            of_kind = {"key": name.removeprefix(STATISTIC), "type": "statistic", "date": events.eventDate}
            unit = f"{name}{_CURRENCY}"
            if unit in events.columns:
                of_kind |= {"amount": column.cast("decimal(24, 6)"), "currency": events[unit].cast("string")}
            else:
                of_kind["number"] = column.cast("float64")
        else:
            continue
        rows = events.filter(column.notnull())
        found.append(rows.select(**_metric(events, eventId=events["_id"], **of_kind)))
    return found


def _metric(table: ir.Table, **told: Any) -> dict[str, Any]:
    """Return the columns of metrics: what is told, what the table has, and nulls."""
    types = {
        "eventId": "string",
        "key": "string",
        "type": "string",
        "date": "timestamp(6)",
        "number": "float64",
    }
    types |= {"amount": "decimal(24, 6)", "currency": "string", "deletedAt": "timestamp(6)"}
    held = {}
    for name, kind in types.items():
        value = told.get(name) if told else table[name]
        held[name] = (
            ibis.null(kind) if value is None else (ibis.literal(value) if isinstance(value, str) else value)
        )
        held[name] = held[name].cast(kind).name(name)
    return held


def _none(events: ir.Table) -> ir.Table:
    return events.filter(ibis.literal(False)).select(**_metric(events, eventId=events["_id"]))


def _nodes(lent: Lent, given: Any, interactions: ir.Table) -> ir.Table:
    """Read the tree, which is small, and lay it out as the schema says."""
    if given is None:
        touched = interactions.filter(interactions.nodeId.notnull())
        rows = to_pandas(touched.select("nodeId").distinct().to_pyarrow())
        frame = pd.DataFrame({"_id": rows["nodeId"], "name": rows["nodeId"]})
    else:
        frame = to_pandas(lent.read("nodes", given).to_pyarrow())
    frame = frame.sort_values("_id", ignore_index=True)
    if "path" not in frame.columns:
        frame["path"] = _ancestors(frame)
    arrays = [
        pa.array(frame[each.name], each.type, from_pandas=True)
        if each.name in frame.columns
        else pa.nulls(len(frame), each.type)
        for each in _STORED
    ]
    return ibis.memtable(pa.table(arrays, schema=_STORED))


#: The schema of nodes with instants as the tables hold them: in UTC, without a zone.
_STORED: Final = pa.schema(
    [
        pa.field(each.name, pa.timestamp("us") if pa.types.is_timestamp(each.type) else each.type)
        for each in schema.NODE
    ]
)


def _ancestors(nodes: pd.DataFrame) -> list[list[str]]:
    """Return the ids above each node, the root first."""
    if "parentId" not in nodes.columns:
        return [[] for _ in range(len(nodes))]
    parents = nodes.set_index("_id")["parentId"].dropna().to_dict()
    found = []
    for node in nodes["_id"]:
        above: list[str] = []
        while node in parents and parents[node] not in above:
            node = parents[node]
            above.append(node)
        found.append(above[::-1])
    return found


def _spend(lent: Lent, given: Any, currency: str) -> ir.Table:
    table = lent.read("spend", given)
    return table.mutate(**{"amount.currency": table["amount.currency"].coalesce(currency)})


def _empty_spend(interactions: ir.Table) -> ir.Table:
    declared = TABLES["spend"]
    columns = {
        name: ibis.null(_TYPES[kind]) for name, kind in {**declared.needed, **declared.optional}.items()
    }
    return interactions.filter(ibis.literal(False)).select(**columns)
