"""Loaded records take the place of stored ones where that is asked for."""

import pytest
from support.service_records import hex_id, order, send, table, uuid, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.service import Service

ANNA, BEN = hex_id(901), hex_id(902)
FEBRUARY, MARCH = "2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z"


def put(service, resource, *records, replace=True):
    """Load records and return how many were written, and why others were not."""
    answer = send(service, "load_records", resource=resource, source=table(*records), replace=replace)
    return answer.value[resource], answer.read()["reason"].to_pylist()


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    yield opened
    opened.close()


@pytest.fixture
def filled(service):
    nodes = [{"_id": "ads", "type": "channel", "name": "Ads", "updatedAt": FEBRUARY}]
    nodes += [{"_id": "brand", "type": "campaign", "name": "Brand", "parentId": "ads", "updatedAt": FEBRUARY}]
    put(service, "nodes", *nodes)
    visits = [
        visit(1, userId=ANNA, userData='{"email":"anna@example.com"}', updateDate=FEBRUARY, hitCount=2, firstHitId=uuid(50)),
        visit(2, userId=ANNA, startDate="2025-01-30T12:00:00Z", updateDate=FEBRUARY, userData=None),
    ]  # fmt: skip
    put(service, "interactions", *visits)
    hits = [{"id": uuid(n), "sessionId": hex_id(1), "serverDate": f"2025-01-31T12:00:{n}Z"} for n in (50, 51)]
    put(service, "hits", *hits)
    put(service, "events", order(1, userId=ANNA, updatedAt=FEBRUARY, **{"states.won": 1}))
    return service


@pytest.mark.slow
def test_a_later_change_takes_the_place(filled):
    assert put(filled, "interactions", visit(1, userId=BEN, referrer="b", updateDate=MARCH)) == (1, [])
    assert put(filled, "events", order(1, userId=BEN, updatedAt=MARCH, **{"states.won": 0})) == (1, [])
    assert rows_of(filled, "SELECT _id, userId, referrer FROM interactions ORDER BY 1") == [
        (hex_id(1), BEN, "b"),
        (hex_id(2), ANNA, None),
    ]
    assert rows_of(filled, "SELECT userId FROM events") == [(BEN,)]
    assert rows_of(filled, "SELECT key, number FROM metrics ORDER BY 1") == [("event-count", 1), ("won", 0)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_an_earlier_one_does_not(filled):
    early = "2025-01-31T23:59:59Z"
    assert put(filled, "interactions", visit(1, userId=BEN, updateDate=early)) == (0, [])
    assert put(filled, "events", order(1, userId=BEN, updatedAt=early)) == (0, [])
    assert put(filled, "nodes", {"_id": "ads", "type": "channel", "name": "x", "updatedAt": early}) == (0, [])
    assert rows_of(filled, "SELECT DISTINCT userId FROM interactions UNION SELECT userId FROM events") == [
        (ANNA,)
    ]
    assert rows_of(filled, "SELECT name FROM nodes WHERE _id = 'ads'") == [("Ads",)]


@pytest.mark.slow
def test_of_two_changes_at_the_same_moment_the_loaded_one_counts(filled):
    assert put(filled, "interactions", visit(2, userId=ANNA, referrer="b", updateDate=FEBRUARY)) == (1, [])
    assert put(filled, "interactions", visit(1, userId=BEN)) == (1, [])
    assert_users_agree(filled)


@pytest.mark.slow
def test_users_without_records_are_removed_with_their_identities(filled):
    moved = [visit(n, userId=BEN, userData='{"email":"anna@example.com"}', updateDate=MARCH) for n in (1, 2)]
    put(filled, "interactions", *moved)
    assert rows_of(filled, "SELECT _id FROM users ORDER BY 1") == [(ANNA,), (BEN,)]
    put(filled, "events", order(1, userId=BEN, updatedAt=MARCH))
    assert rows_of(filled, "SELECT _id FROM users") == [(BEN,)]
    assert rows_of(filled, "SELECT * FROM merged_users") == []
    # What identified them is learnt again with the next record that carries it.
    put(filled, "interactions", moved[0] | {"referrer": "again"})
    assert rows_of(filled, "SELECT value, userId FROM identities") == [("anna@example.com", BEN)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_hits_of_a_session_that_counts_others_are_forgotten(filled):
    same = visit(1, userId=ANNA, referrer="b", updateDate=MARCH, hitCount=2, firstHitId=uuid(50))
    put(filled, "interactions", same)
    assert rows_of(filled, "SELECT count(*) FROM hits") == [(2,)]
    put(filled, "interactions", same | {"hitCount": 3})
    assert rows_of(filled, "SELECT count(*) FROM hits") == [(0,)]
    assert rows_of(filled, "SELECT hitCount FROM interactions WHERE hitCount > 0") == [(3,)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_a_hit_moves_to_another_session(filled):
    moved = {"id": uuid(50), "sessionId": hex_id(2), "serverDate": "2025-01-30T12:00:00Z"}
    assert put(filled, "hits", moved) == (1, [])
    assert rows_of(filled, "SELECT firstHitId, hitCount FROM interactions ORDER BY _id") == [
        (uuid(51), 1),
        (uuid(50), 1),
    ]
    assert_users_agree(filled)


@pytest.mark.slow
def test_a_node_moves_with_those_below_it(filled):
    put(filled, "nodes", {"_id": "paid", "type": "channel", "name": "Paid"})
    put(
        filled,
        "nodes",
        {"_id": "ads", "type": "integration", "name": "Ads", "parentId": "paid", "updatedAt": MARCH},
    )
    assert rows_of(filled, "SELECT path FROM nodes WHERE _id = 'brand'") == [(["paid", "ads"],)]
    assert_users_agree(filled)


def test_an_outlay_changes(filled):
    period = {"startDate": FEBRUARY, "endDate": MARCH, "amount.currency": "EUR", "campaignId": "brand"}
    put(filled, "spend", {"_id": "o", "amount.amount": "10", "updatedAt": FEBRUARY, **period})
    put(
        filled, "spend", {"_id": "o", "amount.amount": "20", "updatedAt": MARCH, "deletedAt": MARCH, **period}
    )
    query = 'SELECT CAST("amount.amount" AS INTEGER), deletedAt IS NULL FROM outlays'
    assert rows_of(filled, query) == [(20, False)]


def test_unchanged_records_are_not_written(filled):
    before = rows_of(filled, "SELECT * FROM metrics")
    same = order(1, userId=ANNA, updatedAt=FEBRUARY, **{"states.won": 1})
    assert put(filled, "events", same) == (0, [])
    assert rows_of(filled, "SELECT * FROM metrics") == before


@pytest.mark.parametrize("corrected", [{"statistics.revenue": 11}, {}])
def test_a_corrected_amount_takes_the_place(service, corrected):
    # The date of an imported order does not change with its amount.
    put(service, "events", order(1, userId=ANNA, updatedAt=FEBRUARY, **{"statistics.revenue": 10}))
    again = order(1, userId=ANNA, updatedAt=FEBRUARY, **corrected)
    assert put(service, "events", again) == (1, [])
    assert put(service, "events", again) == (0, [])
    amounts = rows_of(service, "SELECT number FROM metrics WHERE key = 'revenue'")
    assert amounts == [(amount,) for amount in corrected.values()]
    assert_users_agree(service)


def test_an_amount_updated_since_stays(service):
    first = order(1, userId=ANNA, updatedAt=FEBRUARY, **{"statistics.revenue": 10})
    put(service, "events", first)
    send(service, "update_event_statistic", id=uuid(1), storage_key="revenue", value=4)
    assert put(service, "events", first) == (0, [])
    assert rows_of(service, "SELECT number FROM metrics WHERE key = 'revenue'") == [(4,)]


@pytest.mark.slow
def test_erased_users_stay_erased_and_their_counts_stay(filled):
    send(filled, "delete_user", id=ANNA, mode="anonymise")
    before = rows_of(filled, "SELECT * FROM interactions ORDER BY _id")
    erased = "userId: belongs to a person who was erased after this date"
    later = visit(1, userId=ANNA, userData='{"email":"anna@example.com"}', updateDate="2100-01-01T00:00:00Z")
    assert put(filled, "interactions", later) == (0, [erased])
    assert rows_of(filled, "SELECT * FROM interactions ORDER BY _id") == before


@pytest.mark.slow
def test_users_stay_apart_whatever_identifies_them(filled):
    ben = '{"email":"ben@example.com"}'
    put(filled, "interactions", visit(3, userId=BEN, type="offline", rawUserData="{}", userData=ben))
    put(filled, "events", order(2, userId=hex_id(903), user=ben))
    assert rows_of(filled, "SELECT count(*) FROM merged_users") == [(0,)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_who_had_only_interactions_is_forgotten_with_the_last(filled):
    put(filled, "interactions", visit(3, userId=BEN))
    put(filled, "interactions", visit(3, userId=ANNA))
    assert rows_of(filled, "SELECT _id FROM users") == [(ANNA,)]
    assert_users_agree(filled)


def test_unless_asked_stored_records_stay(filled):
    reason = [f"_id: '{hex_id(1)}' is already loaded"]
    assert put(filled, "interactions", visit(1, updateDate=MARCH), replace=False) == (0, reason)


@pytest.mark.slow
def test_metrics_keep_their_ids_and_deleted_delays(filled):
    send(filled, "update_event_state", id=uuid(1), storage_key="won", value=0)
    (event,) = send(filled, "get_event", id=uuid(1)).read().to_pylist()
    filled._store.write(
        lambda connection: connection.execute("UPDATE events SET updatedAt = TIMESTAMP '2025-02-01'")
    )
    before = rows_of(filled, "SELECT * FROM metrics ORDER BY key")
    assert put(filled, "events", event) == (1, [])
    assert rows_of(filled, "SELECT * FROM metrics ORDER BY key") == before
    assert_users_agree(filled)
