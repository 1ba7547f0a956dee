"""Small projects of users for the tests, and their properties recomputed in plain Python."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime

from support.order_events import declared
from support.service_records import hex_id, send, uuid

from attrib_ds.service.store.tables import TABLES

AGGREGATIONS = ("sum", "max", "min", "count", "average")


def declare(service) -> None:
    """Create the event types "order" and "lead" of the project "shop"."""
    fields = [
        declared("email", "user", "email", discriminant=True, optional=True),
        declared("string", "user", "first_name", optional=True),
        declared("number", "user", "age", optional=True),
        declared("boolean", "user", "member", optional=True),
        declared("date", "user", "birthday", optional=True),
        declared("location", "user", "home", optional=True, isMostProbableLocation=True),
        declared("string", "user", "vendorUserId", optional=True),
        declared("currency", "event", "turnover", optional=True),
        declared("number", "event", "items", optional=True),
        declared("state", "event", "confirmed"),
    ]
    send(service, "create_event_type", reference="order", name="Order", fields=fields)
    lead = [declared("email", "user", "email", optional=True), declared("state", "event", "converted")]
    send(service, "create_event_type", reference="lead", name="Lead", fields=lead)


def clear(service) -> None:
    """Empty every table of a project but the one about itself, which is quicker than a new project."""

    def write(connection):
        for name in TABLES:
            if name != "meta":
                connection.execute(f"DELETE FROM {name}")

    service._store.write(write)


def event(number: int, user: int, date: str, kind: str = "order", *, fields=None, **metrics) -> dict:
    """Return an event to load; ``fields`` are values of user fields, in the types of the declaration."""
    types = {"email": "email", "age": "number", "member": "boolean", "birthday": "date", "home": "location"}
    values = {
        key: {
            "raw": value,
            "current": value,
            "type": types.get(key, "string"),
            "date": date,
            "anonymized": False,
            "invalid": False,
        }
        for key, value in (fields or {}).items()
    }
    record = {
        "_id": uuid(number),
        "userId": hex_id(user),
        "eventDate": date,
        "eventType": kind,
        "user": json.dumps(values),
    }
    return record | metrics


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def recomputed(user: str, events: list[dict], interactions: list[dict]) -> dict:
    """Return the counters of a user from the records themselves."""
    mine = [entry for entry in events if entry["userId"] == user]
    visits = [
        entry
        for entry in interactions
        if entry["userId"] == user and not entry.get("isBot") and not entry.get("trafficFilterId")
    ]
    dates = sorted(moment(entry["eventDate"]) for entry in mine)
    ordered = sorted(visits, key=lambda entry: (moment(entry["startDate"]), entry["_id"]))
    hits, seconds = (sum(entry.get(name) or 0 for entry in visits) for name in ("hitCount", "duration"))
    by_type = defaultdict(list)
    for entry in mine:
        by_type[entry["eventType"]].append(moment(entry["eventDate"]))
    return {
        "eventCount": len(mine),
        "eventTypesCount": dict(Counter(entry["eventType"] for entry in mine)),
        "eventTypeMeta": {kind: (len(found), min(found), max(found)) for kind, found in by_type.items()},
        "firstEventDate": dates[0] if dates else None,
        "lastEventDate": dates[-1] if dates else None,
        "interactionCount": len(visits),
        "hitCount": hits,
        "interactionDuration": seconds,
        "averageHitCount": hits / len(visits) if visits else 0,
        "averageInteractionDuration": seconds / len(visits) if visits else 0,
        "firstInteractionDate": moment(ordered[0]["startDate"]) if ordered else None,
        "lastInteractionDate": moment(ordered[-1]["startDate"]) if ordered else None,
        "firstInteractionNodeId": ordered[0]["nodeId"] if ordered else None,
        "lastInteractionNodeId": ordered[-1]["nodeId"] if ordered else None,
        "metrics": _metrics(mine),
    }


def _metrics(events: list[dict]) -> dict[str, list[float]]:
    """Return the values of each metric; amounts in the currency of the project alone."""
    found = defaultdict(list)
    for entry in events:
        found["event-count"].append(1)
        for name, value in entry.items():
            kind, _, key = name.partition(".")
            if value is None or kind not in {"states", "statistics"} or key.endswith((".date", ".currency")):
                continue
            key = key.removesuffix(".amount")
            if name.endswith(".amount") and entry[f"statistics.{key}.currency"] != "EUR":
                continue
            found[key].append(float(value))
            if kind == "states" and value == 1:
                date = entry.get(f"states.{key}.date") or entry["eventDate"]
                found[f"state-delay-{key}"].append(
                    (moment(date) - moment(entry["eventDate"])).total_seconds()
                )
    return dict(found)
