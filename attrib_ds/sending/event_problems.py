"""Words for the problems that a service finds in events, by the columns they were sent from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.sending.conversion_cells import described

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a field of each type holds.
_EXPECTED: Final = {
    "string": "text",
    "message": "text",
    "email": "an email address",
    "phone": "a phone number",
    "location": "a location",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date",
    "url": "a URL",
    "country": "a country",
    "state": "0 or 1",
    "currency": "an amount of money",
}


def explained(problem: Mapping[str, Any]) -> str:
    """Return a problem, as in a trashed event, in words.

    Examples
    --------
    >>> field = {"type": "string", "ingestionKey": "deal"}
    >>> explained({"type": "invalid-field", "field": field, "value": 900})
    'data.deal: expected text, got number 900'
    >>> explained({"type": "unknown-event-type", "field": None, "value": "order"})
    'unknown-event-type'
    """
    field = problem["field"]
    if not field:
        return str(problem["type"])
    found = described(problem["value"])
    return (
        f"data.{field['ingestionKey']}: expected {_EXPECTED.get(field['type'], field['type'])}, got {found}"
    )
