"""An event type whose events may say who somebody is or not, and what comes of them."""

from contextlib import closing, contextmanager

from support.service_records import send, table
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.service import Service

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


@contextmanager
def checked_service():
    """Open a project in memory with the event type, and check its users in the end."""
    with closing(Service.open("shop", ":memory:")) as opened:
        declare(opened)
        yield opened
        assert_users_agree(opened)


def load(service, resource: str, *records) -> None:
    """Load records, none of which is rejected."""
    answer = send(service, "load_records", resource=resource, source=table(*records))
    assert answer.read().num_rows == 0, answer.read().to_pylist()


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
