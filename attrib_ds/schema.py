"""Arrow schema of each resource of the service.

A resource is a flat schema whose nested properties carry dotted names (``geo.city``), the names that
DataFrame columns and filters use too. Properties the specification leaves open in shape (``userData``,
``event``, ``fields``) are JSON text, marked by the field metadata ``{"json": "true"}``.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

import pyarrow as pa

INSTANT: Final = pa.timestamp("us", tz="UTC")
AMOUNT: Final = pa.decimal128(24, 6)


def _fields(held: pa.DataType, *names: str, metadata: dict[str, str] | None = None) -> list[pa.Field]:
    return [pa.field(name, held, metadata=metadata) for name in names]


_text, _texts = partial(_fields, pa.string()), partial(_fields, pa.list_(pa.string()))
_json = partial(_fields, pa.string(), metadata={"json": "true"})
_instants, _flags = partial(_fields, INSTANT), partial(_fields, pa.bool_())
_counts, _numbers = partial(_fields, pa.int64()), partial(_fields, pa.float64())


def _amount(name: str) -> list[pa.Field]:
    return [pa.field(f"{name}.amount", AMOUNT), pa.field(f"{name}.currency", pa.string())]


def _page(name: str) -> list[pa.Field]:
    return _text(*(f"{name}.{part}" for part in URL_PARTS))


def _schema(*groups: list[pa.Field]) -> pa.Schema:
    return pa.schema([field for group in groups for field in group])


URL_PARTS: Final = ("protocol", "hostname", "port", "origin", "pathname", "search", "hash")
_USER_AGENT: Final = _text(
    "userAgent.ua", "userAgent.browser.name", "userAgent.browser.version", "userAgent.browser.major",
    "userAgent.engine.name", "userAgent.engine.version", "userAgent.os.name", "userAgent.os.version",
    "userAgent.device.vendor", "userAgent.device.model", "userAgent.device.type",
    "userAgent.cpu.architecture",
)  # fmt: skip
_ASN: Final = _text("asn.asnId", "asn.asnName")
_GEO: Final = [
    *_text("geo.countryCode", "geo.state", "geo.city"),
    *_numbers("geo.latitude", "geo.longitude"),
    *_text("geo.zipcode"),
]

INTERACTION: Final = _schema(
    _text("_id", "projectId", "type", "userId"),
    _counts("userLifetimeIndex"),
    _instants("startDate", "endDate"),
    _numbers("duration"),
    _instants("ingestedAt", "createdAt", "updateDate"),
    _json("userData"),
    _text("integrationId", "nodeId", "externalId", "firstHitId"),
    _counts("hitCount"),
    _flags("isBot"),
    _text("referrer", "referrerType", "trafficFilterId", "partialResolvedVendorId"),
    _instants("vendorUpdateDate"),
    _json("rawUserData", "rawNodeData"),
    _text("firstPage"),
    _page("firstPageUrl"),
    _USER_AGENT,
    _ASN,
    _GEO,
)

#: Properties that an offline interaction does not have at all.
SESSION_ONLY: Final = frozenset(
    {"firstHitId", "hitCount", "firstPage", "firstPageUrl", "userAgent", "asn", "geo"}
)

#: Personal properties, returned only when asked for by name or by ``get_interaction``.
ON_REQUEST: Final = frozenset({"userData", "rawUserData", "rawNodeData"})
#: Objects of records that are null when all of their properties are.
NULL_UNKNOWN: Final = frozenset({"expirationPolicy"})

HIT: Final = _schema(
    _text("id", "projectId", "sessionId"),
    _instants("serverDate"),
    _numbers("timezoneOffset"),
    _flags("isBot"),
    _text("userAgent"),
    _page("pageUrl"),
    _text("referrerType", "hitType"),
    _ASN,
    _GEO,
)

#: Hits without sessions, as collectors write them. Where they are loaded, all columns but ``trackerId``,
#: ``date`` and ``pageUrl`` may be missing. ``otherTrackerId`` is a second id of the visitor: that of the page
#: beside one of the day, or one of the day beside one that lasts.
RAW_HIT: Final = _schema(
    _text("projectId", "trackerId", "otherTrackerId", "hitId"),
    _instants("date", "ingestedAt"),
    _text("pageUrl", "referrer", "userAgent", "hitType"),
    _numbers("timezoneOffset"),
    _flags("isBot"),
    _text("ip"),
    _ASN,
    _GEO,
)

RAW_EVENT: Final = _schema(
    _text("_id", "projectId", "nonce", "eventType", "trackerId"), _instants("createdAt"), _json("data")
)

METRIC: Final = _schema(
    _text("_id", "projectId", "eventId", "key", "type", "data.type"),
    _instants("data.date"),
    _json("data.raw", "data.current"),
    _flags("data.anonymized", "data.invalid"),
    _instants("createdAt", "updatedAt", "deletedAt"),
)

EVENT: Final = _schema(
    _text("_id", "projectId", "userId"),
    _instants("eventDate"),
    _text("eventType"),
    _flags("attributable"),
    _instants("expirationPolicy.expiresAt"),
    _counts("expirationPolicy.retentionDurationInDays"),
    _texts("expirationPolicy.piiFields"),
    _instants("expirationPolicy.anonimizedAt"),
    _json("event", "user", "metrics"),
    _instants("createdAt", "updatedAt"),
)

TRASHED_EVENT: Final = _schema(
    _text("_id", "projectId"),
    _json("errors"),
    _text("eventTypeId", "eventTypeRef"),
    _instants("processingDate", "rawEventDate"),
)

USER: Final = _schema(
    _text("_id", "projectId"),
    _json("fields"),
    _texts("vendorUserIds", "audienceIds"),
    _text("mostProbableLocation.source"),
    _numbers("mostProbableLocation.confidence"),
    _text("mostProbableLocation.location.type"),
    _fields(pa.list_(pa.float64()), "mostProbableLocation.location.coordinates"),
    _counts("eventCount"),
    _json("eventTypesCount", "eventTypeMeta", "metrics"),
    _instants("firstEventDate", "lastEventDate"),
    _counts("interactionCount", "hitCount"),
    _numbers("averageHitCount", "interactionDuration", "averageInteractionDuration"),
    _instants("firstInteractionDate", "lastInteractionDate"),
    _text("firstInteractionNodeId", "lastInteractionNodeId"),
    _instants("createdAt", "updatedAt"),
)

#: Members are computed on reading, so ``size`` is that of the instant ``computedAt``.
AUDIENCE: Final = _schema(
    _text("_id", "projectId", "name"), _json("condition"), _counts("size"), _instants("computedAt")
)

EVENT_TYPE: Final = _schema(
    _text("_id"),
    _instants("createdAt", "updatedAt", "archivedAt"),
    _text("projectId", "reference", "name"),
    _json("fields", "metadata", "phoneParsingConfig"),
    # Beyond the specification: absent from the JSON if the project's settings apply.
    _counts("expirationPolicy.retentionDurationInDays"),
    _texts("expirationPolicy.piiFields"),
)

CAMPAIGN: Final = _schema(
    _text("id", "integrationId", "projectId", "name", "campaignSlug"),
    _flags("active", "explicit"),
    _instants("createdAt", "updatedAt"),
)

OUTLAY: Final = _schema(
    _text("_id", "projectId", "integrationId", "campaignId"),
    _amount("amount"),
    _instants("startDate", "endDate"),
    _text("country", "region"),
    _instants("deletedAt", "createdAt", "updatedAt"),
)

INTEGRATION: Final = _schema(
    _text("_id", "projectId", "vendorId", "type", "name", "currency"),
    _json("parameters"),
    _instants("createdAt", "updatedAt", "deletedAt"),
)

INTERACTION_INSIGHT: Final = _schema(
    _text("group", "interval"), _counts("sessionCount", "hitCount"), _numbers("durationSum")
)

#: Views of a page, and the visits that begin, end, or both, with one of them.
PAGE_INSIGHT: Final = _schema(
    _text("page", "group", "interval"), _counts("views", "sessions", "users", "entries", "exits", "bounces")
)

#: Steps of a funnel; shares of the step before and of the first step, and the median time since the former.
FUNNEL_STEP: Final = _schema(
    _text("group"),
    _counts("step"),
    _text("name"),
    _counts("count"),
    _numbers("share", "first_share", "median_seconds"),
)

#: First views of a page, one per visit.
PAGE_CONVERSION: Final = _schema(_text("_id", "userId"), _instants("eventDate"))

EVENT_INSIGHT: Final = _schema(_text("identifier", "interval"), _json("values"))

#: Exchange rates to the project's currency, each with its first date.
RATE: Final = _schema(_text("currency"), _instants("date"), _numbers("rate"))

#: Settings of a project.
SETTINGS: Final = _schema(
    _flags("lenientOptionalFields"),
    _counts("retentionDurationInDays"),
    _texts("piiFields"),
    _flags("requireTokenForEvents"),
    _texts("ingestKeys", "allowedOrigins", "excludedReferrers", "domains", "trafficFilters"),
    _counts("anonymousNodesPerDay"),
    _text("holdoutKey"),
    _flags("respectGpc", "respectDnt", "visitorOfTheDay", "anonymousIdentification"),
    _text("currency", "timezone"),
)

#: Holdouts that the service draws; days in UTC as text.
HOLDOUT: Final = _schema(
    _text("holdout", "nodeId"), _numbers("share"), _text("firstDay", "lastDay"), _flags("nodeExists")
)

NODE: Final = _schema(
    _text("_id", "projectId", "integrationId", "vendorId", "parentId", "type", "name", "externalId"),
    _text("channel", "campaignSlug", "source", "medium"),
    _texts("path"),
    _flags("active"),
    _instants("createdAt", "updatedAt"),
)

#: Entries of the audit log.
AUDIT_LINE: Final = _schema(
    _text("_id"), _instants("date"), _text("account", "operation", "subject"), _json("details")
)

#: Keys of service accounts, without the keys themselves.
KEY: Final = _schema(
    _text("_id", "clientId", "serviceAccountEmail"),
    _texts("scopes"),
    _instants("createdAt", "expiresAt", "revokedAt"),
)

#: Failed consistency checks of a project.
FINDING: Final = _schema(_text("check", "problem"), _counts("records"), _texts("examples"))

#: Levels of the traffic-source tree, from the root down.
NODE_TYPES: Final = ("channel", "integration", "campaign", "adset", "ad", "keyword", "referrer")

RESOURCES: Final[dict[str, pa.Schema]] = {
    "Interaction": INTERACTION, "Hit": HIT, "RawEvent": RAW_EVENT, "Event": EVENT, "Metric": METRIC,
    "TrashedEvent": TRASHED_EVENT, "User": USER, "Audience": AUDIENCE, "EventType": EVENT_TYPE,
    "Campaign": CAMPAIGN, "Outlay": OUTLAY, "Integration": INTEGRATION,
    "InteractionInsight": INTERACTION_INSIGHT, "EventInsight": EVENT_INSIGHT,
    "PageInsight": PAGE_INSIGHT, "FunnelStep": FUNNEL_STEP, "PageConversion": PAGE_CONVERSION,
    "Node": NODE, "Rate": RATE, "Settings": SETTINGS, "Holdout": HOLDOUT, "AuditLine": AUDIT_LINE,
    "Key": KEY, "Finding": FINDING,
}  # fmt: skip


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
            columns[key] = _json(key)[0]
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
