"""An event type with a field of every kind that matters, and events of it."""

from support.service_records import send


def declared(kind: str, entity: str, key: str, **others) -> dict:
    return {"type": kind, "entity": entity, "storageKey": key, **others}


#: Of an order: email is mandatory, the rest is not.
FIELDS = [
    declared("email", "user", "email", ingestionKey="mail", discriminant=True),
    declared("phone", "user", "phone", discriminant=True, optional=True),
    declared("string", "user", "vendorUserId", optional=True),
    declared("string", "event", "coupon", optional=True),
    declared("currency", "event", "turnover", optional=True),
    declared("number", "event", "items", optional=True),
    declared("state", "event", "confirmed"),
    declared("state", "event", "returned", ingestionKey=None),
]


def declare_order(service) -> None:
    """Create the event type "order" of the project "shop"."""
    phones = [{"order": 2, "countryCode": "GB"}, {"order": 1, "countryCode": "FR"}]
    send(
        service,
        "create_event_type",
        reference="order",
        name="Order",
        fields=FIELDS,
        phone_parsing_config=phones,
    )


def order(nonce: str, **envelope) -> dict:
    """Return a valid order; ``data`` is merged into what it holds."""
    data = {"mail": "anna@example.com", **envelope.pop("data", {})}
    usual = {"event_type": "order", "event_date": "2025-01-31T12:00:00Z"}
    return {"nonce": nonce, "data": data, **usual, **envelope}
