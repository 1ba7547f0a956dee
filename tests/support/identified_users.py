"""An event type whose events may say who somebody is or not, and what comes of them."""

from __future__ import annotations

from support.service_records import send
from support.user_invariants import rows_of

FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email", "optional": True, "isPii": True},
    {"type": "string", "entity": "user", "storageKey": "vendorUserId", "optional": True},
    {"type": "string", "entity": "user", "storageKey": "firstName", "optional": True},
    {"type": "string", "entity": "event", "storageKey": "note", "optional": True, "isPii": True},
    {"type": "string", "entity": "event", "storageKey": "product", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "confirmed"},
]


def declare(service, **others) -> None:
    send(service, "create_event_type", reference="view", name="View", fields=FIELDS, **others)


def see(service, nonce: str, tracker: str | None = None, *, date="2025-01-31T12:00:00Z", **data) -> str:
    """Send an event and return its id."""
    return send(
        service,
        "create_event_sync",
        event_type="view",
        nonce=nonce,
        event_date=date,
        tracker_id=tracker,
        data=data,
    ).value


def user_of(service, id: str) -> str:
    (user,) = send(service, "get_event", id=id).read()["userId"].to_pylist()
    return user


def users(service) -> set[str]:
    return {id for (id,) in rows_of(service, "SELECT _id FROM users")}
