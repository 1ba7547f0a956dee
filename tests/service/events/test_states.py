"""Updates of states and statistics (R049, R067, R106 to R112, R220 to R232)."""

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from support.order_events import declare_order, order
from support.service_records import order as loaded_order
from support.service_records import send, table, utc

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import NotFound
from attrib_ds.service import Service
from attrib_ds.service.events.states import _Update

NO_FIELD = "no storageKey matches a field of the event type"


@pytest.fixture(scope="module")
def service():
    """One project for all tests, each with events of its own."""
    opened = Service.open("shop", ":memory:")
    declare_order(opened)
    yield opened
    opened.close()


def process(service, **data):
    return send(service, "create_event_sync", **order(str(uuid4()), data=data)).value


def get(service, id):
    (event,) = send(service, "get_event", id=id).read().to_pylist()
    return {**event, "metrics": {entry["key"]: entry for entry in json.loads(event["metrics"])}}


def update(service, id, key, value, date=None, operation="update_event_state"):
    answer = send(service, operation, id=id, storage_key=key, value=value, date=date)
    (metric,) = answer.read().to_pylist()
    for name in ("data.raw", "data.current"):
        metric[name] = json.loads(metric[name])
    return metric


def history(service, id, key):
    with service._store.cursor() as cursor:
        query = (
            "SELECT number, amount, date FROM metric_history WHERE eventId = ? AND key = ? ORDER BY updatedAt"
        )
        return cursor.execute(query, [id, key]).fetchall()


def test_r066_r067_g072_the_delay_follows_the_state(service):
    id = process(service, confirmed=1)

    def delay():
        metric = get(service, id)["metrics"]["state-delay-confirmed"]
        return metric["data"]["current"], metric["deletedAt"] is None

    assert delay() == (0, True)
    update(service, id, "confirmed", 1, "2025-01-31T12:01:30.5Z")
    assert delay() == (90.5, True)
    update(service, id, "confirmed", 0)
    assert delay() == (90.5, False)
    update(service, id, "confirmed", 0)
    assert delay() == (90.5, False)
    update(service, id, "confirmed", 1, "2025-01-31T11:59:00Z")
    assert delay() == (-60, True)


def test_g072_g075_a_state_that_is_0_at_creation_has_no_delay(service):
    assert sorted(get(service, process(service, confirmed=0))["metrics"]) == ["confirmed", "event-count"]


def test_g068_r229_the_last_update_counts_and_the_earlier_ones_are_kept(service):
    id = process(service)
    update(service, id, "returned", 1, "2025-03-01T00:00:00Z")
    update(service, id, "returned", 0, "2025-02-01T00:00:00Z")
    update(service, id, "returned", 1, "2025-01-01T00:00:00Z")
    assert get(service, id)["metrics"]["returned"]["data"]["date"] == "2025-01-01T00:00:00.000Z"
    kept = [(number, date) for number, _, date in history(service, id, "returned")]
    assert kept == [(1, utc(2025, 3, 1).replace(tzinfo=None)), (0, utc(2025, 2, 1).replace(tzinfo=None))]


def test_loaded_events_have_declared_and_stored_metrics(service):
    rows = table(
        loaded_order(1, **{"states.won": 1}),
        loaded_order(2, createdAt="2020-01-01T00:00:00Z"),
    )
    send(service, "load_records", resource="events", source=rows)
    first, second = (loaded_order(number)["_id"] for number in (1, 2))
    assert update(service, first, "won", 0)["data.current"] == 0
    assert update(service, first, "confirmed", 1)["data.current"] == 1
    for key in ("won", "confirmed"):
        with pytest.raises(NotFound, match=NO_FIELD):
            update(service, second, key, 1)


def test_r227_g074_an_amount_keeps_its_currency(service):
    first = process(service, turnover={"amount": 90, "currency": "NOK"})
    second = process(service)

    def set_turnover(id, value):
        return update(service, id, "turnover", value, "2025-02-01T00:00:00Z", "update_event_statistic")

    assert set_turnover(first, 70.25)["data.current"] == {"amount": 70.25, "currency": "NOK"}
    assert set_turnover(second, 5)["data.raw"] == {"amount": 5, "currency": "EUR"}
    stored = get(service, first)["metrics"]["turnover"]
    assert stored["data"]["current"] == {"amount": 70.25, "currency": "NOK"}
    assert stored["data"]["date"] == "2025-02-01T00:00:00.000Z"
    assert [amount for _, amount, _ in history(service, first, "turnover")] == [90]


def test_a_number_statistic_is_set(service):
    id = process(service, items=3)
    metric = update(service, id, "items", 4.5, operation="update_event_statistic")
    assert (metric["data.type"], metric["data.current"]) == ("number", 4.5)
    assert get(service, id)["metrics"]["items"]["data"]["current"] == 4.5


def test_updates_that_wait_are_written_in_their_order_each_with_its_own_error(service):
    first, second = process(service, confirmed=0), process(service, turnover=1)
    asked = [
        ("update_event_state", first, "confirmed", 1),
        ("update_event_state", first, "nothing", 1),
        ("update_event_statistic", second, "turnover", 2.5),
        ("update_event_state", str(uuid4()), "confirmed", 1),
        ("update_event_state", first, "confirmed", 0),
        ("update_event_statistic", second, "turnover", 3.5),
    ]
    updates = [
        _Update(
            build(OPERATIONS[name], project_id="shop", id=id, storage_key=key, value=value),
            utc(2025, 2, 1).replace(tzinfo=None),
        )
        for name, id, key, value in asked
    ]
    before = get(service, first)["updatedAt"]
    results = service._states._write_all(updates)
    assert [type(result) for result in results] == [dict, NotFound, dict, NotFound, dict, dict]
    assert [record["number"] for record in results if isinstance(record, dict)] == [1, None, 0, None]
    # R230, whatever the clock says.
    assert get(service, first)["updatedAt"] > before
    assert get(service, first)["metrics"]["confirmed"]["data"]["current"] == 0
    assert get(service, first)["metrics"]["state-delay-confirmed"]["deletedAt"] is not None
    assert get(service, second)["metrics"]["turnover"]["data"]["current"]["amount"] == 3.5
    assert [number for number, _, _ in history(service, first, "confirmed")] == [0, 1]
    assert [amount for _, amount, _ in history(service, second, "turnover")] == [1, 2.5]


def test_r232_concurrent_updates_are_all_kept(service):
    id = process(service, confirmed=0)
    updates = [("confirmed", 1), ("returned", 1)] * 8
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda value: update(service, id, *value), updates))
    metrics = get(service, id)["metrics"]
    assert sorted(metrics) == [
        "confirmed",
        "event-count",
        "returned",
        "state-delay-confirmed",
        "state-delay-returned",
    ]
    assert metrics["confirmed"]["data"]["current"] == metrics["returned"]["data"]["current"] == 1
    assert (len(history(service, id, "confirmed")), len(history(service, id, "returned"))) == (8, 7)
