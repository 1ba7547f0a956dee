from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attrib_ds.contract import OPERATIONS, Request, to_wire

Ask = Callable[..., Request]
Refusal = Callable[..., str]

EMAIL = {
    "type": "email",
    "entity": "user",
    "storageKey": "email",
    "ingestionKey": "mail",
    "discriminant": True,
    "isPii": True,
    "isMostProbableLocation": False,
    "optional": False,
}
ORDER = {"reference": "order", "name": "Order", "fields": [EMAIL], "metadata": {}}


def _with_field(**members: Any) -> dict[str, Any]:
    return ORDER | {"fields": [EMAIL | members]}


def test_event_types_accepted(receive: Ask) -> None:
    request = receive("create_event_type", body=ORDER)
    assert request.fields[0].model_dump() == EMAIL


@pytest.mark.parametrize(
    ("given", "held"),
    [({"ingestionKey": "mail"}, "mail"), ({"ingestionKey": None}, None), ({}, "email")],
)
def test_a_field_is_read_from_its_storage_key_unless_told(
    receive: Ask, given: dict[str, Any], held: str | None
) -> None:  # R094, G-156
    field = {"type": "email", "entity": "user", "storageKey": "email"} | given
    assert receive("create_event_type", body=ORDER | {"fields": [field]}).fields[0].ingestionKey == held


def test_flags_of_a_field_are_false_unless_told(receive: Ask) -> None:
    field = {"type": "state", "entity": "event", "storageKey": "converted"}
    held = receive("create_event_type", body=ORDER | {"fields": [field]}).fields[0]
    assert (held.discriminant, held.isPii, held.isMostProbableLocation, held.optional) == (False,) * 4


@pytest.mark.parametrize(
    "accepted", ["string", "message", "phone", "location", "number", "state", "currency"]
)
def test_types_of_event_fields(receive: Ask, accepted: str) -> None:  # G-049
    body = _with_field(type=accepted, entity="event")
    assert receive("create_event_type", body=body).fields[0].type == accepted


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (_with_field(entity="session"), "/fields/0/entity"),  # R092
        (_with_field(entity="User"), "/fields/0/entity"),
        (_with_field(entity=""), "/fields/0/entity"),
        (_with_field(entity=1), "/fields/0/entity"),
        (_with_field(entity=None), "/fields/0/entity"),
        (_with_field(type="text"), "/fields/0/type"),
        (_with_field(type="state"), "/fields/0/type"),
        (_with_field(type="currency"), "/fields/0/type"),
        (_with_field(storageKey="1st"), "/fields/0/storageKey"),
        (_with_field(storageKey="e mail"), "/fields/0/storageKey"),
        (_with_field(storageKey="a" * 65), "/fields/0/storageKey"),
        (_with_field(storageKey="event-count"), "/fields/0/storageKey"),  # G-155
        (_with_field(storageKey="state-delay-paid"), "/fields/0/storageKey"),
        (_with_field(discriminant="yes"), "/fields/0/discriminant"),
        (_with_field(ingestionKey=5), "/fields/0/ingestionKey"),
        (ORDER | {"fields": [EMAIL, EMAIL]}, "/fields/1/storageKey"),
        (ORDER | {"fields": [5]}, "/fields/0"),
        (ORDER | {"fields": {"email": "email"}}, "/fields"),
        (ORDER | {"name": " "}, "/name"),
        (ORDER | {"metadata": []}, "/metadata"),
        (
            ORDER | {"phoneParsingConfig": [{"order": 1, "countryCode": "fr"}]},
            "/phoneParsingConfig/0/countryCode",
        ),
        (ORDER | {"phoneParsingConfig": [{"countryCode": "FR"}]}, "/phoneParsingConfig/0/order"),
    ],
)
def test_event_types_refused(bad_request: Refusal, body: dict[str, Any], label: str) -> None:
    assert bad_request("create_event_type", body=body).startswith(f"{label}: ")


def test_a_repeated_key_is_told(refusal: Refusal) -> None:
    message = refusal("create_event_type", **(ORDER | {"fields": [EMAIL, EMAIL]}))
    assert message == "fields/1/storageKey: 'email' is used twice; expected a different key for each field"


@pytest.mark.parametrize(
    ("written", "held"),
    [
        ("-createdAt,name", {"createdAt": -1, "name": 1}),
        ("reference", {"reference": 1}),
        ("", {}),
    ],
)
def test_sorts_are_read_from_text(receive: Ask, written: str, held: dict[str, int]) -> None:  # R273
    order = receive("list_event_types", query={"sort": written}).sort
    assert list(order.items()) == list(held.items())


@pytest.mark.parametrize(
    "refused", ["colour", "-", "name,", "createdAt:desc", "+name", "fields", "name, name"]
)
def test_sorts_refused(bad_request: Refusal, refused: str) -> None:  # G-157
    assert bad_request("list_event_types", query={"sort": refused}).startswith("sort: ")


def test_sorts_are_written_as_text(ask: Ask) -> None:
    request = ask("list_event_types", sort={"createdAt": -1, "name": 1}, archived=True)
    assert to_wire(OPERATIONS["list_event_types"], request).query == {
        "archived": "true",
        "sort": "-createdAt,name",
    }
