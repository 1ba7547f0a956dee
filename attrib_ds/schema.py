"""Arrow schema of each resource of the service.

A resource is a flat schema whose nested properties carry dotted names (``geo.city``), the names that
DataFrame columns and filters use too. Properties the specification leaves open in shape (``userData``,
``event``, ``fields``) are JSON text, marked by the field metadata ``{"json": "true"}``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa

INSTANT: Final = pa.timestamp("us", tz="UTC")
AMOUNT: Final = pa.decimal128(24, 6)


_TYPES: Final = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "json": pa.string(),
    "instant": INSTANT,
    "flag": pa.bool_(),
    "count": pa.int64(),
    "number": pa.float64(),
    "numbers": pa.list_(pa.float64()),
    "decimal": AMOUNT,
}


def _field(kind: str, name: str) -> pa.Field:
    return pa.field(name, _TYPES[kind], metadata={"json": "true"} if kind == "json" else None)


def _read() -> dict[str, pa.Schema]:
    """Read the schemas of the resources, and those of groups of columns."""
    columns: dict[str, list[pa.Field]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        first, *names = line.split()
        if not names:
            resource = first
        for name in names if first != "#" else ():
            parts = [f"{name}.{part}" for part in URL_PARTS] if first == "page" else [name]
            fields = (
                columns[name]
                if first == "group"
                else [_field("text" if first == "page" else first, part) for part in parts]
            )
            columns.setdefault(resource, []).extend(fields)
    return {name: pa.schema(fields) for name, fields in columns.items()}


URL_PARTS: Final = ("protocol", "hostname", "port", "origin", "pathname", "search", "hash")
_SCHEMAS: Final = _read()
INTERACTION: Final = _SCHEMAS["Interaction"]
HIT: Final = _SCHEMAS["Hit"]
#: Hits without sessions, as collectors write them. Where they are loaded, all columns but ``trackerId``,
#: ``date`` and ``pageUrl`` may be missing. ``otherTrackerId`` is a second id of the visitor: that of the page
#: beside one of the day, or one of the day beside one that lasts.
RAW_HIT: Final = _SCHEMAS["RawHit"]
RAW_EVENT: Final = _SCHEMAS["RawEvent"]
METRIC: Final = _SCHEMAS["Metric"]
EVENT: Final = _SCHEMAS["Event"]
TRASHED_EVENT: Final = _SCHEMAS["TrashedEvent"]
USER: Final = _SCHEMAS["User"]
#: Members are computed on reading, so ``size`` is that of the instant ``computedAt``.
AUDIENCE: Final = _SCHEMAS["Audience"]
EVENT_TYPE: Final = _SCHEMAS["EventType"]
CAMPAIGN: Final = _SCHEMAS["Campaign"]
OUTLAY: Final = _SCHEMAS["Outlay"]
INTEGRATION: Final = _SCHEMAS["Integration"]
INTERACTION_INSIGHT: Final = _SCHEMAS["InteractionInsight"]
#: Views of a page, and the visits that begin, end, or both, with one of them.
PAGE_INSIGHT: Final = _SCHEMAS["PageInsight"]
#: Steps of a funnel; shares of the step before and of the first step, and the median time since the former.
FUNNEL_STEP: Final = _SCHEMAS["FunnelStep"]
#: First views of a page, one per visit.
PAGE_CONVERSION: Final = _SCHEMAS["PageConversion"]
EVENT_INSIGHT: Final = _SCHEMAS["EventInsight"]
#: Exchange rates to the project's currency, each with its first date.
RATE: Final = _SCHEMAS["Rate"]
#: Settings of a project.
SETTINGS: Final = _SCHEMAS["Settings"]
#: Holdouts that the service draws; days in UTC as text.
HOLDOUT: Final = _SCHEMAS["Holdout"]
NODE: Final = _SCHEMAS["Node"]
#: Entries of the audit log.
AUDIT_LINE: Final = _SCHEMAS["AuditLine"]
#: Keys of service accounts, without the keys themselves.
KEY: Final = _SCHEMAS["Key"]
#: Failed consistency checks of a project.
FINDING: Final = _SCHEMAS["Finding"]

#: Properties that an offline interaction does not have at all.
SESSION_ONLY: Final = frozenset(
    {"firstHitId", "hitCount", "firstPage", "firstPageUrl", "userAgent", "asn", "geo"}
)

#: Personal properties, returned only when asked for by name or by ``get_interaction``.
ON_REQUEST: Final = frozenset({"userData", "rawUserData", "rawNodeData"})
#: Objects of records that are null when all of their properties are.
NULL_UNKNOWN: Final = frozenset({"expirationPolicy"})

#: Levels of the traffic-source tree, from the root down.
NODE_TYPES: Final = ("channel", "integration", "campaign", "adset", "ad", "keyword", "referrer")

RESOURCES: Final[dict[str, pa.Schema]] = {
    name: schema for name, schema in _SCHEMAS.items() if name not in {"userAgent", "asn", "geo", "RawHit"}
}


def leaves(schema: pa.Schema, name: str) -> list[str]:
    """Return the columns of ``schema`` that the property ``name`` covers: itself, or all below it.

    Examples
    --------
    >>> leaves(INTERACTION, "asn")
    ['asn.asnId', 'asn.asnName']
    >>> leaves(INTERACTION, "type")
    ['type']
    >>> leaves(INTERACTION, "nonsense")
    []
    """
    return [column for column in schema.names if column == name or column.startswith(f"{name}.")]


def user_columns(keys: Iterable[str]) -> pa.Schema:
    """Return the columns that keys of users stand for, each once, ``_id`` before all others.

    A count is never null. A value of a field is the JSON text of a list of it, or of none.

    Examples
    --------
    >>> user_columns(["fields.email", "eventTypesCount.order", "metrics.turnover.sum", "eventCount"]).names
    ['_id', 'fields.email', 'eventTypesCount.order', 'metrics.turnover.sum', 'eventCount']
    """
    columns = {"_id": USER.field("_id")}
    for key in keys:
        group, _, rest = key.partition(".")
        if group == "fields" and rest:
            columns[key] = _field("json", key)
        elif group in {"eventTypesCount", "metrics"} and rest:
            is_count = group == "eventTypesCount" or rest.endswith(".count")
            columns[key] = (
                pa.field(key, pa.int64(), nullable=False) if is_count else pa.field(key, pa.float64())
            )
        else:
            columns |= {name: USER.field(name) for name in leaves(USER, key)}
    return pa.schema(list(columns.values()))


def properties(schema: pa.Schema) -> list[str]:
    """Return every property name of ``schema``, objects before their members, in schema order.

    Examples
    --------
    >>> properties(pa.schema([("geo.city", pa.string()), ("geo.state", pa.string())]))
    ['geo', 'geo.city', 'geo.state']
    """
    names: dict[str, None] = {}
    for column in schema.names:
        parts = column.split(".")
        names.update(dict.fromkeys(".".join(parts[: depth + 1]) for depth in range(len(parts))))
    return list(names)


def is_json(field: pa.Field) -> bool:
    """Say whether the field holds JSON text of an object whose shape is open."""
    return bool(field.metadata) and field.metadata.get(b"json") == b"true"
