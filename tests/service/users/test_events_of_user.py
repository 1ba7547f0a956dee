"""The events and metrics of one user."""

from __future__ import annotations

import json
import time

import pytest
from support.service_records import hex_id, order, send, table, uuid, visit

from attrib_ds import schema
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import NotFound
from attrib_ds.service import Service

ANNA, BEN = hex_id(1), hex_id(2)
EVENTS = [
    # Two at one moment, and one that no interaction came before.
    order(1, userId=ANNA, eventDate="2025-01-10T00:00:00Z", createdAt="2025-02-04T00:00:00Z"),
    order(2, userId=ANNA, eventDate="2025-01-20T00:00:00Z", createdAt="2025-02-03T00:00:00Z"),
    order(3, userId=ANNA, eventDate="2025-01-20T00:00:00Z", createdAt="2025-02-02T00:00:00Z"),
    order(4, userId=ANNA, eventDate="2025-01-30T00:00:00Z", createdAt="2025-02-01T00:00:00Z"),
    order(5, userId=BEN, eventDate="2025-01-20T00:00:00Z"),
]


@pytest.fixture(scope="module")
def service():
    opened = Service.open("shop", ":memory:")
    events = [
        {
            **value,
            "states.confirmed": 1,
            "states.confirmed.date": "2025-01-25T00:00:00Z",
            "statistics.items": n,
        }
        for n, value in enumerate(EVENTS)
    ]
    send(opened, "load_records", resource="events", source=table(*events))
    seen = visit(1, userId=ANNA, startDate="2025-01-15T00:00:00Z")
    send(opened, "load_records", resource="interactions", source=table(seen))
    yield opened
    opened.close()


def events(service, **arguments):
    return [
        id[-1] for id in send(service, "list_user_events", id=ANNA, **arguments).read()["_id"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "4231"),
        ({"order": "ASC"}, "1234"),
        ({"sort": "eventDate"}, "1234"),
        ({"sort": "eventDate", "order": "DESC"}, "4231"),
        ({"sort": "createdAt", "order": "ASC"}, "4321"),
        ({"sort": "_id", "order": "DESC"}, "4321"),
        ({"attributable": True}, "423"),
        ({"attributable": False}, "4231"),
        ({"since": "2025-01-20T00:00:00Z"}, "423"),
        ({"until": "2025-01-20T00:00:00Z"}, "231"),
        ({"since": "2025-01-20T00:00:00.001Z", "until": "2025-01-29T00:00:00Z"}, ""),
        ({"offset": 1, "limit": 2}, "23"),
        ({"limit": 0}, ""),
        ({"offset": 9}, ""),
    ],
)
def test_g100_g151_g152_r263_r264_selection_and_order_of_events(service, arguments, expected):
    assert "".join(events(service, **arguments)) == expected


def test_r265_a_page_tells_its_totals(service):
    answer = send(service, "list_user_events", id=ANNA, attributable=True, offset=1, limit=1)
    assert (answer.total, answer.offset, answer.limit, answer.read().num_rows) == (3, 1, 1, 1)


def test_an_event_is_listed_as_it_is_got(service):
    listed = send(service, "list_user_events", id=ANNA, sort="_id").read()
    assert listed.schema == schema.EVENT
    assert listed.slice(1, 1).equals(send(service, "get_event", id=uuid(2)).read())


@pytest.mark.parametrize("id", [hex_id(9), "nobody"])
def test_g150_an_unknown_user_has_no_events_and_no_metrics(service, id):
    answer = send(service, "list_user_events", id=id)
    assert (answer.read().num_rows, answer.total) == (0, 0)
    with pytest.raises(NotFound, match="there is no user"):
        send(service, "list_user_metrics", id=id)


def test_a_user_without_events_has_no_metrics(service):
    send(service, "load_records", resource="interactions", source=table(visit(9, userId=hex_id(8))))
    assert send(service, "list_user_metrics", id=hex_id(8)).total == 0


def metrics(service, **arguments):
    found = send(service, "list_user_metrics", id=ANNA, **arguments).read().to_pylist()
    return [(record["eventId"][-1], record["key"]) for record in found]


def test_r266_the_type_of_metrics(service):
    assert {key for _, key in metrics(service, type="state")} == {"confirmed"}
    assert {key for _, key in metrics(service, type="statistic")} == {
        "event-count",
        "items",
        "state-delay-confirmed",
    }
    assert len(metrics(service)) == 16


def test_r267_bounds_are_inclusive_and_on_the_date_of_the_metric(service):
    moment = "2025-01-25T00:00:00Z"
    assert {key for _, key in metrics(service, since=moment, until=moment)} == {
        "confirmed",
        "state-delay-confirmed",
    }
    late = metrics(service, since="2025-01-25T00:00:00.001Z")
    assert sorted(late) == [("4", "event-count"), ("4", "items")]


def test_g100_r268_metrics_are_listed_from_the_newest(service):
    found = send(service, "list_user_metrics", id=ANNA).read()
    dates = found["data.date"].to_pylist()
    assert dates == sorted(dates, reverse=True)
    assert found.schema == schema.METRIC
    ascending = send(service, "list_user_metrics", id=ANNA, sort="metricDate", order="ASC").read()
    assert ascending["data.date"].to_pylist() == sorted(dates)


def test_g153_deleted_metrics_are_not_listed(service):
    send(service, "update_event_state", id=uuid(5), storageKey="confirmed", value=0)
    found = send(service, "list_user_metrics", id=BEN).read()
    assert "state-delay-confirmed" not in found["key"].to_pylist()
    assert found.num_rows == 3


@pytest.mark.large
@pytest.mark.slow
def test_g101_many_events_come_in_batches_in_their_order(service):
    many = [
        order(
            1_000 + n, userId=hex_id(5), eventDate=f"2025-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z"
        )
        for n in range(5_000)
    ]
    send(service, "load_records", resource="events", source=table(*many))
    operation = OPERATIONS["list_user_events"]
    answer = service.stream(operation, build(operation, project_id="shop", id=hex_id(5), order="ASC"))
    batches = list(answer.tables)
    answer.close()
    assert answer.count == answer.total == 5_000
    assert max(batch.num_rows for batch in batches) < 5_000
    ids = [id for batch in batches for id in batch["_id"].to_pylist()]
    assert ids == [uuid(1_000 + n) for n in range(5_000)]
    last = json.loads(batches[-1]["metrics"].to_pylist()[-1])
    assert [(record["key"], record["eventId"]) for record in last] == [("event-count", ids[-1])]


def test_events_of_thousands_of_users_are_searched_at_once(service):
    users = [ANNA, *(hex_id(number) for number in range(100, 10_099))]
    before = time.process_time()
    found = send(service, "search_events", userIds=users).read()
    assert sorted(id[-1] for id in found["_id"].to_pylist()) == ["1", "2", "3", "4"]
    # A query for each user took 10 s.
    assert time.process_time() - before < 5
