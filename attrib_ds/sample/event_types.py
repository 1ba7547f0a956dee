"""The event types of the shop: what its orders and leads carry."""

from __future__ import annotations

from typing import Any


def event_types() -> list[dict[str, Any]]:
    """Return the event types of the sample data, as they are created.

    Returns
    -------
    list of dict
        ``reference``, ``name`` and ``fields`` of each.

    Examples
    --------
    >>> [each["reference"] for each in event_types()]
    ['order', 'lead']
    """
    return [
        {
            "reference": "order",
            "name": "Order",
            "fields": [
                # Guests leave none.
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
