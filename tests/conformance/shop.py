"""A small shop for the conformance tests: records to load, an event type and request bodies."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from conformance.transports import Project, carry_out, load
from support.waiting import eventually

_numbers = itertools.count(1)

NOON = "2025-01-31T12:00:00Z"
VENDOR = "my-ads"
#: Properties of interactions that offline ones do not have.
SESSION_ONLY = {"firstHitId", "hitCount", "firstPage", "firstPageUrl", "userAgent", "asn", "geo"}
#: Everything but the properties of sessions alone.
COMMON = {
    "_id",
    "projectId",
    "type",
    "userId",
    "userLifetimeIndex",
    "startDate",
    "endDate",
    "duration",
    "ingestedAt",
    "createdAt",
    "updateDate",
    "userData",
    "integrationId",
    "nodeId",
    "externalId",
    "isBot",
    "referrer",
    "referrerType",
    "trafficFilterId",
    "partialResolvedVendorId",
    "vendorUpdateDate",
    "rawUserData",
    "rawNodeData",
}
#: Parts of paths.
PLACE = {
    "vendorId": VENDOR,
    "parentCampaignId": "c",
    "storageKey": "k",
    "outlayId": "o",
    "holdout": "h",
    "portionId": "00000000-0000-4000-8000-000000000001",
    "id": "00000000-0000-7000-8000-000000000009",
    "keyId": "0" * 40,
    "firstHitId": "h",
}


def hex_id(number: int) -> str:
    return f"{number:024x}"


def uuid(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def table(*records: dict) -> pa.Table:
    """Return records as an Arrow table with a column for every key of any of them."""
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: [record.get(name) for record in records] for name in names})


def visit(number: int, start: str = NOON, **properties: Any) -> dict:
    """Return an interaction to load; ``geo__city`` stands for ``geo.city``."""
    usual = {"_id": hex_id(number), "userId": hex_id(900), "nodeId": "ads", "startDate": start}
    return usual | {name.replace("__", "."): value for name, value in properties.items()}


def hit(number: int, session: int, date: str, **properties: Any) -> dict:
    usual = {"id": uuid(number), "sessionId": hex_id(session), "serverDate": date, "hitType": "pageview"}
    return usual | {name.replace("__", "."): value for name, value in properties.items()}


def node(id: str, kind: str = "campaign", parent: str | None = None, **properties: Any) -> dict:
    return {"_id": id, "type": kind, "name": id.title(), "parentId": parent, **properties}


def declared(kind: str, entity: str, key: str, **others: Any) -> dict:
    return {"type": kind, "entity": entity, "storageKey": key, **others}


#: Fields of an order: the email is mandatory and read from the key ``mail``; the others are optional.
FIELDS = [
    declared("email", "user", "email", ingestionKey="mail", discriminant=True, isPii=True),
    declared("phone", "user", "phone", discriminant=True, optional=True),
    declared("string", "user", "firstName", optional=True),
    declared("string", "user", "vendorUserId", optional=True),
    declared("location", "user", "address", isMostProbableLocation=True, optional=True),
    declared("string", "event", "coupon", optional=True),
    declared("currency", "event", "turnover", optional=True),
    declared("number", "event", "items", optional=True),
    declared("state", "event", "confirmed"),
    declared("state", "event", "returned"),
]
ORDER = {
    "reference": "order",
    "name": "Order",
    "fields": FIELDS,
    "phoneParsingConfig": [{"order": 2, "countryCode": "GB"}, {"order": 1, "countryCode": "FR"}],
}


def made(transport: Any, project_id: str, *, prepare: Any = None, **records: Any) -> Project:
    """Create a project with an integration and an event type."""

    def fill(service: Any) -> None:
        carry_out(service, project_id, "create_integration", vendorId=VENDOR, name="My ads")
        carry_out(service, project_id, "create_event_type", **ORDER)
        load(service, project_id, **records)
        if prepare is not None:
            prepare(service)

    transport.open(project_id, fill)
    return Project(project_id, transport)


def new(word: str = "n") -> str:
    """Return a unique text."""
    return f"{word}-{next(_numbers)}"


def email() -> str:
    return f"{new('user')}@example.com"


def event(project: Any, mail: str = "anna@example.com", **parts: Any) -> dict:
    """Return the envelope of a valid order; ``data`` is merged into its data."""
    data = {"mail": mail, **parts.pop("data", {})}
    usual = {"projectId": project.id, "eventType": "order", "eventDate": NOON, "nonce": new("nonce")}
    return usual | {"data": data} | parts


def send_event(project: Any, mail: str = "anna@example.com", **parts: Any) -> str:
    """Send a valid order, wait until it is processed, and return its id."""
    return project.send("create_event_sync", body=event(project, mail, **parts)).ok()


def computed(project: Any, id: str) -> dict:
    return project.send("get_event", {"id": id}).ok()


def metrics(project: Any, id: str) -> dict[str, dict]:
    """Return the metrics of an event that are not deleted, by key."""
    present = [metric for metric in computed(project, id)["metrics"] if metric["deletedAt"] is None]
    by_key = {metric["key"]: metric for metric in present}
    assert len(by_key) == len(present), "two metrics have the same key"
    return by_key


def search(project: Any, **body: Any) -> dict:
    return project.send("search_interactions", body=body).ok()


def found(project: Any, **body: Any) -> list[int]:
    """Search interactions and return their numbers in order."""
    return [int(record["_id"], 16) for record in search(project, **body)["data"]]


def trashed(project: Any, id: str) -> dict:
    """Wait for a trashed event and return it."""

    def look() -> dict | None:
        listed = project.send("list_trashed_events").ok()["data"]
        return next((record for record in listed if record["_id"] == id), None)

    return eventually(look)


def trash(project: Any, **parts: Any) -> dict:
    """Send an invalid event and return the trashed event."""
    return trashed(project, project.send("create_event", body=event(project, **parts)).ok())


def predicate(field: str, operator: str, *value: Any) -> dict:
    value_part = {"value": value[0]} if value else {}
    return {"type": "predicate", "field": field, "operator": operator, **value_part}


def on_node(filter_id: str, operator: str, value: Any) -> dict:
    return {"id": "p", "type": "predicate", "filterId": filter_id, "operator": operator, "value": value}


def condition(*rules: dict, combinator: str = "AND") -> dict:
    return {"id": "c", "type": "condition", "condition": combinator, "rules": list(rules)}
