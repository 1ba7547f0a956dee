"""Loaded records say whose identities are, whatever comes first."""

from __future__ import annotations

import pytest
from support.identified_users import checked_service, load, see, user_of, users
from support.service_records import hex_id, order, send, table, visit
from support.user_invariants import rows_of

ANNA = "anna@example.com"


@pytest.fixture
def service():
    with checked_service() as opened:
        yield opened


@pytest.mark.parametrize(
    "data", [f'{{"email": " {ANNA.upper()} "}}', '{"vendorUserId": " v1 "}', '{"trackerId": "t1"}']
)
def test_r005_an_interaction_tells_who_its_user_is(service, data):
    load(service, "interactions", visit(1, userId=hex_id(7), userData=data))
    given = {"email": ANNA} if "MAIL" in data.upper() else {"vendorUserId": "v1"}
    event = see(service, "n1", "t1") if "tracker" in data else see(service, "n1", **given)
    assert user_of(service, event) == hex_id(7)


@pytest.mark.parametrize(
    "user",
    [
        {"user.email": ANNA},
        {"user": f'{{"email": "{ANNA}"}}'},
        {"user": f'{{"email": {{"raw": "x", "current": "{ANNA}", "type": "email"}}}}'},
    ],
)
def test_r005_an_event_tells_who_its_user_is(service, user):
    load(service, "events", order(1, userId=hex_id(7), **user))
    assert user_of(service, see(service, "n1", email=ANNA)) == hex_id(7)


def test_discriminant_fields_identify_users(service):
    fields = [
        {"type": "string", "entity": "user", "storageKey": "card", "discriminant": True, "optional": True},
        {"type": "email", "entity": "user", "storageKey": "workMail", "optional": True},
        {"type": "phone", "entity": "user", "storageKey": "mobile", "discriminant": True, "optional": True},
    ]
    send(service, "create_event_type", reference="buy", name="Buy", fields=fields)
    load(
        service,
        "interactions",
        visit(1, userId=hex_id(1), userData='{"card": "c1"}'),
        visit(2, userId=hex_id(2), userData=f'{{"workMail": "{ANNA}"}}'),
        visit(3, userId=hex_id(3), userData='{"mobile": "+47 22 33 44 55"}'),
        visit(
            4, userId=hex_id(4), userData='{"card": " ", "workMail": "none", "mobile": "22", "other": "c1"}'
        ),
    )
    held = rows_of(service, "SELECT kind, value, userId FROM identities ORDER BY userId")
    assert held == [
        ("card", "c1", hex_id(1)),
        ("email", ANNA, hex_id(2)),
        ("phone", "+4722334455", hex_id(3)),
    ]


def test_who_carried_it_first_holds_it_and_loaded_users_stay_apart(service):
    load(
        service,
        "interactions",
        visit(1, userId=hex_id(1), startDate="2025-01-02T00:00:00Z", userData=f'{{"email": "{ANNA}"}}'),
        visit(2, userId=hex_id(2), startDate="2025-01-01T00:00:00Z", userData=f'{{"email": "{ANNA}"}}'),
    )
    load(service, "interactions", visit(3, userId=hex_id(3), userData=f'{{"email": "{ANNA}"}}'))
    assert users(service) == {hex_id(1), hex_id(2), hex_id(3)}
    assert user_of(service, see(service, "n1", email=ANNA)) == hex_id(2)


def test_g147_a_browser_is_the_last_ones_who_was_loaded_with_it(service):
    load(
        service,
        "interactions",
        visit(1, userId=hex_id(1), startDate="2025-01-02T00:00:00Z", userData='{"trackerId": "t1"}'),
        visit(2, userId=hex_id(2), startDate="2025-01-01T00:00:00Z", userData='{"trackerId": "t1"}'),
    )
    assert user_of(service, see(service, "n1", "t1")) == hex_id(1)


@pytest.mark.slow
@pytest.mark.parametrize("loads_first", [True, False])
@pytest.mark.parametrize("carries", ["email", "trackerId"])
def test_events_and_interactions_of_one_person_meet_in_either_order(service, loads_first, carries):
    value = ANNA if carries == "email" else "t1"
    late = visit(
        1, userId=hex_id(7), startDate="2025-01-30T00:00:00Z", userData=f'{{"{carries}": "{value}"}}'
    )
    if loads_first:
        load(service, "interactions", late)
    event = see(service, "n1", "t1", email=ANNA)
    if not loads_first:
        load(service, "interactions", late)
    assert len(users(service)) == 1
    assert send(service, "get_event", id=event).read()["attributable"].to_pylist() == [True]
    # The id that was loaded answers, whoever survived.
    assert send(service, "get_user", id=hex_id(7)).read()["interactionCount"].to_pylist() == [1]
    load(service, "interactions", visit(2, userId=hex_id(7)))
    assert len(users(service)) == 1


def test_late_interactions_of_two_anonymous_users_make_the_older_one(service):
    generated = user_of(service, see(service, "n1", "t1"))
    load(
        service,
        "interactions",
        visit(1, userId=hex_id(7), ingestedAt="2024-01-01T00:00:00Z", userData='{"trackerId": "t1"}'),
    )
    assert users(service) == {hex_id(7)}
    assert send(service, "get_user", id=generated).read()["_id"].to_pylist() == [hex_id(7)]


def test_g148_who_is_identified_survives_an_older_anonymous_user(service):
    generated = user_of(service, see(service, "n1", "t1", email=ANNA))
    load(
        service,
        "interactions",
        visit(1, userId=hex_id(7), ingestedAt="2024-01-01T00:00:00Z", userData='{"trackerId": "t1"}'),
    )
    assert users(service) == {generated}


def test_late_interactions_of_somebody_else_leave_the_browser_alone(service):
    anna = user_of(service, see(service, "n1", "t1", email=ANNA))
    data = '{"trackerId": "t1", "email": "ben@example.com"}'
    load(service, "interactions", visit(1, userId=hex_id(7), userData=data))
    assert users(service) == {anna, hex_id(7)}
    assert user_of(service, see(service, "n2", "t1")) == anna


def test_rejected_rows_add_no_identities(service):
    records = [visit(1, userId="x", userData=f'{{"email": "{ANNA}"}}')]
    send(service, "load_records", resource="interactions", source=table(*records))
    assert rows_of(service, "SELECT * FROM identities") == []
