"""The event types of the sample shop: orders and leads with their fields and states."""

from __future__ import annotations

from typing import Any


def event_types() -> list[dict[str, Any]]:
    """Return the event types of the sample data, as arguments of ``create_event_type``.

    Returns
    -------
    list of dict
        With ``reference``, ``name`` and ``fields``.

    Examples
    --------
    >>> [event_type["reference"] for event_type in event_types()]
    ['order', 'lead']
    """
    return [
        {
            "reference": "order",
            "name": "Order",
            "fields": [
                # Guests order without an email.
                {"type": "email", "entity": "user", "storageKey": "email", "optional": True},
                {"type": "string", "entity": "event", "storageKey": "orderNumber"},
                {"type": "currency", "entity": "event", "storageKey": "turnover"},
                {"type": "number", "entity": "event", "storageKey": "items"},
                _state("confirmed"),
                _state("refunded"),
            ],
        },
        {
            "reference": "lead",
            "name": "Lead",
            "fields": [
                {"type": "email", "entity": "user", "storageKey": "email"},
                _state("qualified"),
                _state("converted"),
            ],
        },
    ]


def _state(key: str) -> dict[str, Any]:
    return {"type": "state", "entity": "event", "storageKey": key, "ingestionKey": None}
