"""Whoever sends events in whatever order and batches, their users are those of a model in plain Python."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.identified_users import checked_service, declare, load, see, user_of, users
from support.law_examples import examples
from support.service_records import hex_id, order, send, table, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.service import Service

#: Who sends an event: browser, email and the id of a vendor, each known or not.
EVENT = st.tuples(
    st.sampled_from([None, "t1", "t2", "t3", "t4"]),
    st.sampled_from([None, None, "a@b.no", "c@d.no", "e@f.no"]),
    st.sampled_from([None, None, None, "v1", "v2"]),
)
#: Whose interaction, by which browser, before any event.
VISIT = st.tuples(st.integers(1, 3), st.sampled_from([None, "t1", "t2", "t3"]))


def people_of(visits, events):
    """Return a label per visit and per event, equal for one person, by relabelling all that is known."""
    labels = [f"loaded {user}" for user, _ in visits]
    holder = {}
    for (_, tracker), label in zip(visits, labels, strict=True):
        if tracker is not None:
            holder["tracker", tracker] = label  # The last who was seen with it.

    def has_name(label):
        return any(kind != "tracker" and held == label for (kind, _), held in holder.items())

    for number, (tracker, email, vendor) in enumerate(events):
        names = [(k, v) for k, v in (("email", email), ("vendor", vendor)) if v is not None]
        at_browser = holder.get(("tracker", tracker))
        me = next((holder[name] for name in names if name in holder), None)
        if me is not None and at_browser is not None and not has_name(at_browser):
            labels = [me if label == at_browser else label for label in labels]
            holder = {key: me if held == at_browser else held for key, held in holder.items()}
        if me is None and at_browser is not None and not (names and has_name(at_browser)):
            me = at_browser
        me = me or f"sent {number}"
        labels.append(me)
        for name in names:
            holder.setdefault(name, me)
        if tracker is not None:
            holder["tracker", tracker] = me
    return labels


def partition(labels):
    groups = {}
    for position, label in enumerate(labels):
        groups.setdefault(label, []).append(position)
    return sorted(groups.values())


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=examples(40))
@given(
    visits=st.lists(VISIT, max_size=5),
    batches=st.lists(st.lists(EVENT, min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_g147_users_are_those_of_the_model(visits, batches):
    events = [event for batch in batches for event in batch]
    service = Service.open("shop", ":memory:")
    try:
        declare(service)
        if visits:
            records = [
                visit(
                    number,
                    userId=hex_id(user),
                    startDate=f"2025-01-01T00:00:{number:02}Z",
                    userData=f'{{"trackerId": "{tracker}"}}' if tracker else None,
                )
                for number, (user, tracker) in enumerate(visits, 1)
            ]
            send(service, "load_records", resource="interactions", source=table(*records))
        ids = []
        for batch in batches:
            sent = [
                {
                    "projectId": "shop",
                    "eventType": "view",
                    "nonce": f"n{len(ids) + number}",
                    "trackerId": tracker,
                    "eventDate": "2025-01-31T12:00:00Z",
                    "data": {"email": email, "vendorUserId": vendor},
                }
                for number, (tracker, email, vendor) in enumerate(batch)
            ]
            ids += send(service, "create_events", events=sent, wait=True).value
        users = dict(rows_of(service, "SELECT _id, userId FROM events"))
        visitors = [user for (user,) in rows_of(service, "SELECT userId FROM interactions ORDER BY _id")]
        found = [*visitors, *(users[id] for id in ids)]
        expected = people_of(visits, events)
        assert partition(found) == partition(expected)
        assert_users_agree(service)
        label_of = dict(zip(found, expected, strict=True))
        seen = Counter(expected[: len(visits)])
        counts = Counter(expected[len(visits) :])
        for user in (
            send(service, "search_users", fields=["eventCount", "interactionCount"]).read().to_pylist()
        ):
            label = label_of[user["_id"]]
            assert (user["eventCount"], user["interactionCount"]) == (counts[label], seen[label])
    finally:
        service.close()


ANNA = "anna@example.com"


@pytest.fixture
def service():
    with checked_service() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [f'{{"email": " {ANNA.upper()} "}}', '{"vendorUserId": " v1 "}', '{"trackerId": "t1"}']
)
def test_r005_an_interaction_tells_who_its_user_is(service, data):
    load(service, "interactions", visit(1, userId=hex_id(7), userData=data))
    given = {"email": ANNA} if "MAIL" in data.upper() else {"vendorUserId": "v1"}
    event = see(service, "n1", "t1") if "tracker" in data else see(service, "n1", **given)
    assert user_of(service, event) == hex_id(7)


@pytest.mark.slow
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


@pytest.mark.few(3)
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


@pytest.mark.slow
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


@pytest.mark.slow
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
