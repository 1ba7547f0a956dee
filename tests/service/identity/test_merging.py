"""Users who turn out to be one become one, by themselves or by hand, and can be parted again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.identified_users import checked_service, load, see, user_of, users
from support.service_records import hex_id, order, send, utc, uuid, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.errors import Conflict, InvalidRequest, NotFound

ANNA, BEN = "anna@example.com", "ben@example.com"


@pytest.fixture
def service():
    with checked_service() as opened:
        yield opened


def places(service, user):
    return rows_of(
        service,
        f"SELECT _id, userLifetimeIndex FROM interactions WHERE userId = '{user}' ORDER BY userLifetimeIndex",
    )


@pytest.mark.slow
def test_g147_an_anonymous_user_is_merged_into_the_holder_of_the_email(service):
    identified = user_of(service, see(service, "n1", email=ANNA))
    before = see(service, "n2", "t1")
    anonymous = user_of(service, before)
    assert anonymous != identified
    met = see(service, "n3", "t1", email=ANNA)
    assert user_of(service, met) == user_of(service, before) == identified
    assert users(service) == {identified}
    # What the browser does from now on is hers.
    assert user_of(service, see(service, "n4", "t1")) == identified


def test_a_vendors_id_finds_its_holder_too(service):
    identified = user_of(service, see(service, "n1", vendorUserId="v1"))
    before = see(service, "n2", "t1")
    see(service, "n3", "t1", vendorUserId="v1")
    assert user_of(service, before) == identified


def test_g147_two_identified_users_stay_two_and_the_browser_is_the_newer_ones(service):
    first = see(service, "n1", "t1", email=ANNA)
    second = see(service, "n2", "t1", email=BEN)
    anna, ben = user_of(service, first), user_of(service, second)
    assert anna != ben
    assert user_of(service, see(service, "n3", "t1")) == ben
    see(service, "n4", "t1", email=ANNA)
    assert user_of(service, see(service, "n5", "t1")) == anna
    assert users(service) == {anna, ben}
    assert rows_of(service, "SELECT count(*) FROM merged_users") == [(0,)]


def test_an_event_with_two_identities_of_two_users_merges_neither(service):
    anna = user_of(service, see(service, "n1", email=ANNA))
    ben = user_of(service, see(service, "n2", vendorUserId="v1"))
    both = see(service, "n3", email=ANNA, vendorUserId="v1")
    assert user_of(service, both) == anna
    assert users(service) == {anna, ben}


def test_g145_discriminant_fields_precede_the_vendors_id(service):
    fields = [
        {"type": "string", "entity": "user", "storageKey": "vendorUserId", "optional": True},
        {"type": "string", "entity": "user", "storageKey": "card", "discriminant": True, "optional": True},
    ]
    send(service, "create_event_type", reference="stay", name="Stay", fields=fields)

    def stay(nonce, **data):
        id = send(service, "create_event_sync", event_type="stay", nonce=nonce, data=data).value
        return user_of(service, id)

    anna, ben = stay("n1", card="L1"), stay("n2", vendorUserId="v1")
    assert anna != ben
    assert stay("n3", vendorUserId="v1", card="L1") == anna


def test_an_anonymous_user_becomes_the_one_behind_a_new_email(service):
    first = see(service, "n1", "t1")
    second = see(service, "n2", "t1", email=ANNA)
    assert user_of(service, first) == user_of(service, second)


@pytest.mark.slow
def test_of_one_anonymous_user_every_browser_goes_along(service):
    identified = user_of(service, see(service, "n1", email=ANNA))
    load(service, "interactions", visit(1, userId=hex_id(7), userData='{"trackerId": "t1"}'))
    load(service, "interactions", visit(2, userId=hex_id(7), userData='{"trackerId": "t2"}'))
    see(service, "n2", "t1", email=ANNA)
    assert user_of(service, see(service, "n3", "t2")) == identified


def test_g061_interactions_are_numbered_over_both(service):
    load(
        service,
        "interactions",
        visit(1, userId=hex_id(7), startDate="2025-01-01T00:00:00Z", userData=f'{{"email": "{ANNA}"}}'),
        visit(2, userId=hex_id(7), startDate="2025-01-03T00:00:00Z"),
        visit(3, userId=hex_id(8), startDate="2025-01-02T00:00:00Z", userData='{"trackerId": "t1"}'),
        visit(4, userId=hex_id(8), startDate="2025-01-04T00:00:00Z"),
    )
    assert user_of(service, see(service, "n1", "t1", email=ANNA)) == hex_id(7)
    assert places(service, hex_id(7)) == [(hex_id(1), 1), (hex_id(3), 2), (hex_id(2), 3), (hex_id(4), 4)]


@pytest.mark.slow
def test_g064_an_event_becomes_attributable_when_its_user_is_merged(service):
    id = see(service, "n1", email=ANNA)
    see(service, "n2", "t1")
    load(service, "interactions", visit(1, userId=hex_id(7), userData='{"trackerId": "t1"}'))
    assert send(service, "get_event", id=id).read()["attributable"].to_pylist() == [False]
    see(service, "n3", "t1", email=ANNA)
    assert send(service, "get_event", id=id).read()["attributable"].to_pylist() == [True]


@pytest.mark.slow
def test_g148_a_merged_id_answers_with_the_survivor(service):
    identified = user_of(service, see(service, "n1", email=ANNA))
    anonymous = user_of(service, see(service, "n2", "t1"))
    see(service, "n3", "t1", email=ANNA)
    assert send(service, "get_user", id=anonymous).read()["_id"].to_pylist() == [identified]
    for operation in ("list_user_events", "list_user_metrics"):
        answers = [send(service, operation, id=id) for id in (identified, anonymous)]
        assert answers[0].read().equals(answers[1].read())
        assert answers[0].total == 3


@pytest.mark.slow
def test_g148_records_loaded_with_a_merged_id_belong_to_the_survivor(service):
    identified = user_of(service, see(service, "n1", email=ANNA))
    anonymous = user_of(service, see(service, "n2", "t1"))
    see(service, "n3", "t1", email=ANNA)
    load(service, "interactions", visit(1, userId=anonymous, userData='{"trackerId": "t9"}'))
    load(service, "events", order(1, userId=anonymous))
    assert user_of(service, uuid(1)) == identified
    assert places(service, identified) == [(hex_id(1), 1)]
    assert user_of(service, see(service, "n4", "t9")) == identified
    assert users(service) == {identified}


@pytest.mark.slow
def test_a_chain_of_merges_leads_to_its_end(service):
    load(service, "interactions", visit(1, userId=hex_id(1)), visit(2, userId=hex_id(2)))
    load(service, "interactions", visit(3, userId=hex_id(3)), visit(4, userId=hex_id(4)))
    send(service, "merge_users", id=hex_id(2), userId=hex_id(1))
    send(service, "merge_users", id=hex_id(3), userId=hex_id(2))
    # A merged id stands for its survivor here too.
    send(service, "merge_users", id=hex_id(4), userId=hex_id(1))
    assert {user(service, number) for number in (1, 2, 3)} == {hex_id(4)}
    assert places(service, hex_id(4)) == [(hex_id(n), n) for n in (1, 2, 3, 4)]


def user(service, number):
    (id,) = send(service, "get_user", id=hex_id(number)).read()["_id"].to_pylist()
    return id


def test_one_batch_can_merge_its_own_users(service):
    """Events that wait for one transaction see each other as if they came one by one."""
    identified = user_of(service, see(service, "n0", email=ANNA))
    stored = see(service, "n1", "t1")
    events = [
        ("n2", "t2", {}),  # Somebody new,
        ("n3", "t2", {"email": ANNA}),  # who is Anna;
        ("n4", "t1", {"email": ANNA}),  # as is who was known by another browser,
        ("n5", "t1", {"email": BEN}),  # which Ben uses next,
        ("n6", "t1", {}),  # and goes on using.
    ]
    sent = [
        {"projectId": "shop", "eventType": "view", "nonce": nonce, "trackerId": tracker, "data": data}
        for nonce, tracker, data in events
    ]
    ids = send(service, "create_events", events=sent, wait=True).value
    found = [user_of(service, id) for id in ids]
    assert found[:3] == [identified] * 3
    assert found[3] == found[4] != identified
    assert user_of(service, stored) == identified
    assert users(service) == {identified, found[3]}


@pytest.mark.large
@pytest.mark.slow
def test_r006_64_threads_with_one_new_email_make_one_user(service):
    def send_one(number):
        return see(service, f"n{number}", f"t{number % 8}", email=ANNA)

    with ThreadPoolExecutor(64) as pool:
        ids = list(pool.map(send_one, range(128)))
    assert len({user_of(service, id) for id in ids}) == 1
    assert len(users(service)) == 1


# -- by hand ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_g149_a_merge_by_hand_can_be_undone(service):
    anna = user_of(service, see(service, "n1", "t1", email=ANNA))
    ben = user_of(service, see(service, "n2", "t2", email=BEN))
    load(
        service,
        "interactions",
        visit(1, userId=anna, startDate="2025-01-02T00:00:00Z"),
        visit(2, userId=ben, startDate="2025-01-01T00:00:00Z"),
    )

    def state():
        return [
            sorted(rows_of(service, query))
            for query in (
                "SELECT _id, userId FROM events",
                "SELECT _id, userId, userLifetimeIndex FROM interactions",
                "SELECT * FROM identities",
                "SELECT * FROM users",
                "SELECT _id, userId FROM merged_users",
            )
        ]

    before = state()
    assert send(service, "merge_users", id=anna, userId=ben).value == 1
    assert users(service) == {anna}
    assert places(service, anna) == [(hex_id(2), 1), (hex_id(1), 2)]
    assert user_of(service, see(service, "n3", email=BEN)) == anna
    assert_users_agree(service)
    assert send(service, "split_user", id=anna, userId=ben).value == 1
    assert_users_agree(service)
    came_since = see(service, "n4", email=BEN)
    assert user_of(service, came_since) == ben
    after = state()
    # Two events came since; the one that came while they were one stays where it was.
    assert [row for row in after[0] if row in before[0]] == before[0]
    assert after[1:3] == before[1:3]
    assert [row[0] for row in after[3]] == [row[0] for row in before[3]]
    assert after[4] == []


def test_both_are_in_the_audit_log(service):
    load(service, "interactions", visit(1, userId=hex_id(1)), visit(2, userId=hex_id(2)))
    send(service, "merge_users", id=hex_id(1), userId=hex_id(2))
    send(service, "split_user", id=hex_id(1), userId=hex_id(2))
    entries = rows_of(service, "SELECT operation, subject, details FROM audit ORDER BY _id")
    assert [(name, subject, json.loads(details)) for name, subject, details in entries] == [
        ("merge_users", hex_id(1), {"userId": hex_id(2)}),
        ("split_user", hex_id(1), {"userId": hex_id(2)}),
    ]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2])
def test_a_chain_can_be_split_from_either_end(service, first):
    """1 into 2, 2 into 3."""
    load(service, "interactions", *(visit(n, userId=hex_id(n)) for n in (1, 2, 3)))
    send(service, "merge_users", id=hex_id(2), userId=hex_id(1))
    send(service, "merge_users", id=hex_id(3), userId=hex_id(2))
    send(service, "split_user", id=hex_id(3), userId=hex_id(first))
    assert_users_agree(service)
    if first == 1:
        assert (user(service, 1), user(service, 2)) == (hex_id(1), hex_id(3))
        send(service, "split_user", id=hex_id(3), userId=hex_id(2))
    else:
        # What had been merged into 2 goes with it.
        assert (user(service, 1), user(service, 2)) == (hex_id(2), hex_id(2))
        send(service, "split_user", id=hex_id(2), userId=hex_id(1))
    assert [user(service, n) for n in (1, 2, 3)] == [hex_id(n) for n in (1, 2, 3)]
    assert all(places(service, hex_id(n)) == [(hex_id(n), 1)] for n in (1, 2, 3))


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "arguments", "kind", "message"),
    [
        ("merge_users", {"id": hex_id(1), "userId": hex_id(1)}, InvalidRequest, "are one user"),
        ("merge_users", {"id": hex_id(1), "userId": hex_id(9)}, NotFound, "user_id: there is no user"),
        ("merge_users", {"id": hex_id(9), "userId": hex_id(1)}, NotFound, "id: there is no user"),
        ("split_user", {"id": hex_id(1), "userId": hex_id(2)}, NotFound, "was not merged into"),
        ("split_user", {"id": hex_id(9), "userId": hex_id(2)}, NotFound, "id: there is no user"),
        ("merge_users", {"id": "x", "userId": hex_id(2)}, InvalidRequest, "24 lower-case"),
    ],
)
def test_invalid_merges_and_splits(service, operation, arguments, kind, message):
    load(service, "interactions", visit(1, userId=hex_id(1)), visit(2, userId=hex_id(2)))
    with pytest.raises(kind, match=message):
        send(service, operation, **arguments)


def test_a_user_without_earlier_records_cannot_be_split(service):
    see(service, "n1", email=ANNA)
    ids = sorted(users(service))
    load(service, "interactions", visit(1, userId=hex_id(1)))
    send(service, "merge_users", id=ids[0], userId=hex_id(1))
    service._store.write(
        lambda connection: connection.execute("UPDATE merged_users SET undo = NULL").fetchall()
    )
    with pytest.raises(Conflict, match="none of its records from before the merge exist"):
        send(service, "split_user", id=ids[0], userId=hex_id(1))


def test_a_user_is_as_old_as_the_first_that_was_merged_into_it(service):
    load(service, "events", order(1, userId=hex_id(1), createdAt="2025-01-01T00:00:00Z"))
    load(service, "events", order(2, userId=hex_id(2), createdAt="2024-01-01T00:00:00Z"))
    send(service, "merge_users", id=hex_id(1), userId=hex_id(2))
    assert rows_of(service, "SELECT createdAt FROM users") == [(utc(2024, 1, 1).replace(tzinfo=None),)]
    send(service, "split_user", id=hex_id(1), userId=hex_id(2))
    assert len(users(service)) == 2
