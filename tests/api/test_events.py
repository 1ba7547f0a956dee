"""Events through the public functions."""

import dataclasses
import json

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import (
    connect,
    create_event_type,
    event,
    event_insights,
    get_event,
    get_event_type,
    get_raw_event,
    list_event_types,
    list_trashed_events,
    schema,
    search_events,
    send_events,
    update_states,
    update_statistics,
)
from attrib_ds.api.admin import (
    archive_event_type,
    replay_events,
    restore_event_type,
    update_event_type,
    validate_events,
)
from attrib_ds.errors import Conflict, InvalidRequest, NotFound, NotSupported, Unavailable
from attrib_ds.records.frames import TEXT

FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email"},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "date", "entity": "event", "storageKey": "delivery", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "confirmed"},
]


@pytest.fixture
def orders_shop(tmp_path):
    with connect("my-shop", path=tmp_path / "shop.duckdb") as project:
        create_event_type(project, "order", name="Order", fields=FIELDS)
        yield project


@pytest.fixture
def orders():
    """Four orders; the third has no email."""
    return pd.DataFrame(
        {
            "eventType": "order",
            "eventDate": pd.to_datetime(["2025-01-31T12:00:00Z"] * 4),
            "data.email": ["anna@example.com", "ben@example.com", None, "Anna@Example.com"],
            "data.turnover.amount": [90, 40.5, 1, 20],
            "data.turnover.currency": "EUR",
            "data.delivery": pd.to_datetime(["2025-02-03T08:00:00Z", None, None, None]),
            "data.confirmed": pd.array([1, None, 0, 0], dtype="Int64"),
        },
        index=["a", "b", "c", "d"],
    )


def metrics(project, id):
    """Return the statistics and states that an event has, by column."""
    event = get_event(project, id).dropna()
    return {name: value for name, value in event.items() if name.startswith(("statistics.", "states."))}


def count(project):
    whole = {"since": "2025-01-01T00:00:00Z", "until": "2025-12-31T00:00:00Z", "interval": "year"}
    return event_insights(project, metrics=["event-count"], **whole)["values.event-count"].item()


def test_rows_are_processed_or_trashed_and_a_re_run_sends_nothing_twice(orders_shop, orders):
    before = orders.copy(deep=True)
    sent = send_events(orders_shop, orders)
    pd.testing.assert_frame_equal(orders, before)
    assert sent.index.tolist() == ["a", "b", "c", "d"]
    assert list(sent.columns) == ["status", "id", "error"]
    assert sent["status"].tolist() == ["processed", "processed", "trashed", "processed"]
    assert sent["error"]["c"].startswith("data/email: missing")
    assert sent["error"].isna().tolist() == [True, True, False, True]
    pd.testing.assert_frame_equal(send_events(orders_shop, orders), sent)
    assert count(orders_shop) == 3
    trashed = list_trashed_events(orders_shop)
    assert list(trashed.columns) == schema.TRASHED_EVENT.names
    assert trashed["_id"].tolist() == [sent["id"]["c"]]
    assert trashed.attrs["total"] == 1


def test_what_a_row_holds_is_what_the_event_holds(orders_shop, orders):
    sent = send_events(orders_shop, orders)
    first = get_event(orders_shop, sent["id"]["a"])
    assert [name for name in schema.EVENT.names if name not in first.index] == []
    assert first["eventDate"] == pd.Timestamp("2025-01-31T12:00:00Z")
    assert first["event.delivery"] == pd.Timestamp("2025-02-03T08:00:00Z")
    assert first["user.email"] == "anna@example.com"
    assert metrics(orders_shop, sent["id"]["a"]) == {
        "statistics.turnover.amount": 90,
        "statistics.turnover.currency": "EUR",
        "states.confirmed": 1,
        "states.confirmed.date": pd.Timestamp("2025-01-31T12:00:00Z"),
    }
    assert metrics(orders_shop, sent["id"]["b"]) == {
        "statistics.turnover.amount": 40.5,
        "statistics.turnover.currency": "EUR",
    }
    assert json.loads(get_raw_event(orders_shop, sent["id"]["b"])["data"]) == {
        "email": "ben@example.com",
        "turnover": {"amount": 40.5, "currency": "EUR"},
    }
    assert get_event(orders_shop, sent["id"]["d"])["userId"] == first["userId"]


def test_without_waiting_events_are_accepted_and_processed_later(orders_shop, orders):
    sent = send_events(orders_shop, orders, wait=False)
    assert sent["status"].tolist() == ["accepted"] * 4
    orders_shop.close()
    with connect("my-shop", path=orders_shop.transport.address) as again:
        assert count(again) == 3
        assert send_events(again, orders)["id"].tolist() == sent["id"].tolist()
        assert count(again) == 3


def test_rows_of_one_nonce_are_sent_in_their_order(orders_shop):
    rows = pd.DataFrame(
        {
            "nonce": ["n1"] * 3 + ["n2"],
            "data.email": ["anna@example.com", "anna@example.com", "ben@example.com", "ben@example.com"],
        }
    )
    sent = send_events(orders_shop, rows, event_type="order")
    assert sent["status"].tolist() == ["processed", "processed", "rejected", "processed"]
    assert sent["id"][0] == sent["id"][1]
    assert sent["error"][2].startswith("nonce: 'n1' is the nonce of the event")


def test_the_same_row_twice_is_two_events(orders_shop, orders):
    twice = pd.concat([orders.head(1), orders.head(1)])
    assert send_events(orders_shop, twice)["id"].nunique() == 2
    assert send_events(orders_shop, twice)["id"].nunique() == 2
    assert count(orders_shop) == 2


@pytest.mark.slow
def test_many_events_share_commits(orders_shop):
    rows = pd.DataFrame({"nonce": [f"n{i}" for i in range(400)], "data.email": "anna@example.com"})
    writes = "SELECT writes FROM meta"
    with orders_shop.transport._store.cursor() as cursor:
        before = cursor.execute(writes).fetchone()[0]
        assert (send_events(orders_shop, rows, event_type="order")["status"] == "processed").all()
        after = cursor.execute(writes).fetchone()[0]
    assert after - before < 200


def test_frames_that_cannot_be_sent(orders_shop, orders):
    with pytest.raises(InvalidRequest, match="events: has no column 'eventType'"):
        send_events(orders_shop, orders.drop(columns="eventType"))
    with pytest.raises(InvalidRequest, match="events: has an unknown column 'email'"):
        send_events(orders_shop, orders.rename(columns={"data.email": "email"}))
    with pytest.raises(InvalidRequest, match="events: nonce or eventDate is required; 4 rows lack both"):
        send_events(orders_shop, orders.drop(columns="eventDate"))
    with pytest.raises(InvalidRequest, match="conflicts with another column"):
        send_events(orders_shop, orders.assign(**{"data.turnover": 5}))
    with pytest.raises(InvalidRequest, match="events: a row contains"):
        send_events(orders_shop, orders.assign(**{"data.email": object()}))
    assert len(send_events(orders_shop, orders.head(0))) == 0
    assert count(orders_shop) == 0


def test_a_row_whose_envelope_is_wrong_is_rejected_alone(orders_shop):
    rows = pd.DataFrame({"nonce": ["x" * 300, "n2"], "data.email": "anna@example.com"})
    sent = send_events(orders_shop, rows, event_type="order")
    assert sent["status"].tolist() == ["rejected", "processed"]
    assert sent["error"][0].startswith("nonce: ")


@pytest.mark.parametrize(
    ("dates", "stored"),
    [
        (["2025-01-31", "2025-01-31T12:00:00Z"], ["2025-01-31T22:59:59.999Z", "2025-01-31T12:00:00Z"]),
        (["2025-01-31", "2025-07-31 00:00:00.000"], ["2025-01-31T22:59:59.999Z", "2025-07-31T21:59:59.999Z"]),
        (["2025-01-31T00:00:00Z", "2025-07-31T00:00:00"], ["2025-01-31T00:00:00Z", "2025-07-31T00:00:00Z"]),
        (
            pd.to_datetime(["2025-01-31", "2025-07-31"]),
            ["2025-01-31T22:59:59.999Z", "2025-07-31T21:59:59.999Z"],
        ),
        (
            pd.to_datetime(["2025-01-31", "2025-07-31"], utc=True),
            ["2025-01-31T00:00:00Z", "2025-07-31T00:00:00Z"],
        ),
    ],
)
def test_g253_a_day_is_sent_as_its_end_in_the_time_zone_of_the_project(dates, stored):
    email = {"type": "email", "entity": "user", "storageKey": "email"}
    with connect("my-shop", path=":memory:", timezone="Europe/Paris") as shop:
        create_event_type(shop, "order", name="Order", fields=[email])
        rows = pd.DataFrame({"eventDate": dates, "data.email": "anna@example.com"})
        sent = send_events(shop, rows, event_type="order")
        assert sent["status"].tolist() == ["processed", "processed"]
        assert [get_event(shop, id)["eventDate"] for id in sent["id"]] == [
            pd.Timestamp(date) for date in stored
        ]


def test_what_no_row_can_do_is_raised(orders_shop, orders):
    orders_shop.close()
    with pytest.raises(Unavailable, match="the project is closed"):
        send_events(orders_shop, orders)
    reading = connect("my-shop", path=orders_shop.transport.address, read_only=True)
    with reading, pytest.raises(NotSupported, match="read_only=True"):
        send_events(reading, orders, wait=False)


def test_r106_r227_states_and_statistics_from_frames(orders_shop, orders):
    ids = send_events(orders_shop, orders)["id"]
    states = pd.DataFrame(
        {
            "id": [ids["a"], ids["a"], ids["b"], ids["b"], ids["c"]],
            "storageKey": ["confirmed", "confirmed", "confirmd", "confirmed", "confirmed"],
            "value": [0, 1, 1, 2, 1],
            "date": pd.to_datetime(["2025-02-02T00:00:00Z", "2025-01-31T13:00:00Z", None, None, None]),
        },
        index=list("vwxyz"),
    )
    told = update_states(orders_shop, states)
    assert told["status"].tolist() == ["updated", "updated", "rejected", "rejected", "rejected"]
    assert told["id"].tolist()[:2] == [ids["a"]] * 2
    assert "no storageKey matches a field of the event type" in told["error"]["x"]
    assert told["error"]["y"].startswith("value: 2 is not allowed")
    assert "there is no event" in told["error"]["z"]
    assert metrics(orders_shop, ids["a"])["states.confirmed.date"] == pd.Timestamp("2025-01-31T13:00:00Z")
    worth = pd.DataFrame({"id": [ids["b"]], "storageKey": "turnover", "value": [12.25]})
    assert update_statistics(orders_shop, worth)["status"].tolist() == ["updated"]
    assert metrics(orders_shop, ids["b"]) == {
        "statistics.turnover.amount": 12.25,
        "statistics.turnover.currency": "EUR",
    }
    with pytest.raises(InvalidRequest, match="updates: has no column 'storageKey'"):
        update_states(orders_shop, states.drop(columns="storageKey"))


@pytest.mark.slow
def test_loaded_events_and_their_insights(shop):
    order = get_event(shop, "00000000-0000-7000-8000-000000000001")
    assert order["attributable"] is True
    values = {metric["key"]: metric["data"]["current"] for metric in json.loads(order["metrics"])}
    assert values["turnover"] == {"amount": 90, "currency": "EUR"}
    frame = event_insights(
        shop,
        metrics=["event-count", "turnover", "confirmed", "nothing"],
        since="2025-01-06T00:00:00Z",
        until="2025-01-10T23:59:59Z",
        group_by="event-type",
        interval="week",
    )
    assert frame.to_dict("list") == {
        "identifier": ["lead", "order"],
        "interval": ["2025-W02", "2025-W02"],
        "values.event-count": [1, 3],
        "values.turnover": [0, 150],
        "values.confirmed": [0, 2],
        "values.nothing": [0, 0],
        # The week ends after until.
        "is_partial": [True, True],
    }
    empty = event_insights(
        shop, metrics=["event-count"], since="2025-01-02T00:00:00Z", until="2025-01-01T00:00:00Z"
    )
    assert empty.dtypes.to_dict() == frame.dtypes.loc[list(empty.columns)].to_dict()
    assert len(empty) == 0


def test_g138_events_are_checked_and_not_stored(orders_shop):
    rows = pd.DataFrame(
        {
            "data.email": ["anna@example.com", "nobody", None, "ben@example.com"],
            "trackerId": ["t1", "t2", "t3", 7],
        },
        index=list("abcd"),
    )
    told = validate_events(orders_shop, rows, event_type="order")
    assert list(told.columns) == ["status", "error", "errors"]
    assert told["status"].to_dict() == {"a": "valid", "b": "invalid", "c": "invalid", "d": "rejected"}
    assert told["error"].tolist()[1:3] == [
        "data.email: expected an email address, got text 'nobody'",
        "data.email: expected an email address, got nothing",
    ]
    assert told["error"]["d"].startswith("tracker_id: ")
    assert json.loads(told["errors"]["a"]) == []
    assert json.loads(told["errors"]["b"])[0]["value"] == "nobody"
    assert told["errors"].isna().tolist() == [False, False, False, True]
    unknown = validate_events(orders_shop, rows.assign(eventType="nothing"))
    assert unknown["error"]["a"] == "unknown-event-type"
    assert validate_events(orders_shop, rows.head(0), event_type="order").dtypes.eq(TEXT).all()
    with pytest.raises(InvalidRequest, match="events: has no column 'eventType'"):
        validate_events(orders_shop, rows)
    assert count(orders_shop) == len(list_trashed_events(orders_shop)) == 0


def test_g057_trashed_events_are_replayed(orders_shop):
    rows = pd.DataFrame(
        {"eventType": ["call", "call", "visit"], "nonce": ["n1", "n2", "n3"]}, index=list("abc")
    )
    sent = send_events(orders_shop, rows)
    assert sent["status"].tolist() == ["trashed"] * 3
    create_event_type(orders_shop, "call", name="Call")
    told = replay_events(orders_shop, pd.concat([sent["id"], pd.Series({"d": "nothing"})]))
    assert told["status"].to_dict() == {"a": "processed", "b": "processed", "c": "trashed", "d": "rejected"}
    assert told["id"].tolist()[:3] == sent["id"].tolist()
    assert told["error"]["c"].startswith("eventType: there is no event type 'visit'")
    assert list_trashed_events(orders_shop)["_id"].tolist() == [sent["id"]["c"]]
    assert replay_events(orders_shop, [sent["id"]["a"]])["status"].tolist() == ["rejected"]
    assert len(replay_events(orders_shop, [])) == 0


class Without:
    """A service that does not take many events in one request."""

    def __init__(self, transport, refuses):
        self.sent = []
        self._transport = transport
        self._refuses = refuses

    @property
    def address(self):
        return self._transport.address

    def send(self, operation, request):
        self.sent.append(operation.name)
        if operation.name == "create_events" and self._refuses(request):
            raise InvalidRequest("body: is too large")
        return self._transport.send(operation, request)

    def close(self):
        self._transport.close()


@pytest.mark.parametrize("wait", [True, False])
def test_one_by_one_the_outcomes_are_the_same(orders_shop, orders, wait):
    together = send_events(orders_shop, orders, wait=wait)
    transport = Without(orders_shop.transport, lambda request: True)
    alone = send_events(dataclasses.replace(orders_shop, transport=transport), orders, wait=wait)
    assert set(transport.sent) == {"create_events", "create_event_sync" if wait else "create_event"}
    pd.testing.assert_frame_equal(alone, together)


def test_events_that_are_too_much_for_one_request_are_sent_alone(orders_shop):
    rows = pd.DataFrame({"eventDate": "2025-01-31T12:00:00Z", "nonce": [f"n-{n}" for n in range(502)]})
    transport = Without(orders_shop.transport, lambda request: len(request.events) == 2)
    project = dataclasses.replace(orders_shop, transport=transport)
    told = send_events(project, rows, event_type="order", wait=False)
    assert told["status"].tolist() == ["accepted"] * 502
    assert transport.sent == ["create_events"] * 2 + ["create_event"] * 2


@pytest.fixture
def empty_shop():
    with connect("my-shop", path=":memory:") as project:
        yield project


def test_an_empty_list_has_every_column(empty_shop):
    frame = list_event_types(empty_shop)
    assert list(frame.columns) == schema.EVENT_TYPE.names
    assert len(frame) == frame.attrs["total"] == 0


def test_r275_r276_r277_created_listed_and_read(empty_shop):
    fields = [
        {"type": "email", "entity": "user", "storageKey": "email"},
        {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None},
    ]
    created = create_event_type(empty_shop, "lead", name="Lead", fields=fields)
    assert created.name == created["_id"]
    assert [each["ingestionKey"] for each in json.loads(created["fields"])] == ["email", None]
    assert json.loads(created["metadata"]) == {}
    assert get_event_type(empty_shop, "lead").equals(created)
    create_event_type(empty_shop, "call", name="Phone call", metadata={"a": 1})
    assert list_event_types(empty_shop)["reference"].tolist() == ["call", "lead"]
    assert list_event_types(empty_shop, sort="-name", limit=1)["name"].tolist() == ["Phone call"]
    assert list_event_types(empty_shop, storage_key="won").attrs["total"] == 1
    assert list_event_types(empty_shop, search="PHONE")["reference"].tolist() == ["call"]
    assert len(list_event_types(empty_shop, archived=True)) == 0


def test_errors_name_the_argument(empty_shop):
    create_event_type(empty_shop, "lead", name="Lead")
    with pytest.raises(Conflict, match="reference: the event type 'lead' exists already"):
        create_event_type(empty_shop, "lead", name="Lead again")
    with pytest.raises(InvalidRequest, match="reference: 'Lead' is not allowed"):
        create_event_type(empty_shop, "Lead", name="Lead")
    with pytest.raises(InvalidRequest, match="fields/0/storageKey: 'event-count' is the name of a built-in"):
        field = {"type": "number", "entity": "event", "storageKey": "event-count"}
        create_event_type(empty_shop, "order", name="Order", fields=[field])
    with pytest.raises(NotFound, match="reference: there is no event type 'order'"):
        get_event_type(empty_shop, "order")


def test_g077_g158_changed_archived_and_restored(empty_shop):
    create_event_type(empty_shop, "lead", name="Lead")
    won = {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None}
    changed = update_event_type(empty_shop, "lead", name="Sales lead", fields=[won], metadata={"a": 1})
    assert (changed["name"], json.loads(changed["metadata"])) == ("Sales lead", {"a": 1})
    assert json.loads(changed["fields"])[0]["ingestionKey"] is None
    assert get_event_type(empty_shop, "lead").equals(changed)
    with pytest.raises(Conflict, match="fields/0/type: 'won' is in use with the type 'state'"):
        update_event_type(empty_shop, "lead", fields=[{**won, "type": "number"}])
    assert archive_event_type(empty_shop, "lead")["archivedAt"] is not None
    assert len(list_event_types(empty_shop)) == 0
    restore_event_type(empty_shop, "lead")
    assert list_event_types(empty_shop)["reference"].tolist() == ["lead"]
    with pytest.raises(NotFound, match="reference: there is no event type 'call'"):
        archive_event_type(empty_shop, "call")


ANNA, BEN = f"{10:024x}", f"{11:024x}"


@pytest.mark.parametrize(
    ("search", "numbers"),
    [
        ({}, [1, 2, 3, 4]),
        ({"event_type": "lead"}, [4]),
        ({"event_type": ["order", "unknown"]}, [1, 2, 3]),
        ({"event_type": event("eventType") != "order"}, [4]),
        ({"user_ids": pd.Series([BEN, "nobody"])}, [2]),
        ({"user_ids": [ANNA]}, [1, 4]),
        ({"user_ids": []}, []),
        ({"since": "2025-01-07"}, [1, 2, 3]),
        ({"until": "2025-01-06"}, [4]),
        ({"limit": 2, "offset": 1}, [2, 3]),
        ({"changed_since": "2999-01-01"}, []),
        ({"changed_since": "2025-01-01"}, [1, 2, 3, 4]),
    ],
)
def test_events_of_all_users_are_searched_newest_first(shop, search, numbers):
    # Three orders of 10 January, in the order of their ids, and a lead of 6 January.
    found = search_events(shop, **search)
    assert found["_id"].tolist() == [f"00000000-0000-7000-8000-00000000000{number}" for number in numbers]
    if search == {"limit": 2, "offset": 1}:
        assert found.attrs["total"] == 4


def test_a_search_has_the_same_columns_without_rows(shop):
    all_events, none = search_events(shop), search_events(shop, limit=0)
    assert none.dtypes.equals(all_events.dtypes)
    with pytest.raises(InvalidRequest, match="user_ids"):
        search_events(shop, user_ids=["a"] * 10_001)


def test_clicks_need_no_declared_type(orders_shop):
    clicks = pd.DataFrame(
        {
            "nonce": ["c-1", "c-2", "c-3", "c-4"],
            "eventType": ["outbound-link", "outbound-link", "file-download", "inbound-link"],
            "data.url": [f"https://other.example/{number}" for number in range(4)],
        }
    )
    for row in range(4):
        # Whether somebody waits or not.
        orders_shop.send(
            "create_event_sync" if row == 0 else "create_event",
            event_type=clicks["eventType"][row],
            nonce=clicks["nonce"][row],
            data={"url": clicks["data.url"][row]},
        )
    found = search_events(orders_shop)
    assert sorted(zip(found["eventType"], found["event.url"], strict=True)) == [
        ("file-download", "https://other.example/2"),
        ("outbound-link", "https://other.example/0"),
        ("outbound-link", "https://other.example/1"),
    ]
    assert list_trashed_events(orders_shop)["eventTypeRef"].tolist() == ["inbound-link"]
    assert list_event_types(orders_shop)["reference"].tolist() == ["file-download", "order", "outbound-link"]


def test_clicks_keep_a_type_that_is_declared(orders_shop):
    url = {"type": "string", "entity": "event", "storageKey": "target", "ingestionKey": "url"}
    create_event_type(orders_shop, "outbound-link", name="Exit", fields=[url])
    clicks = pd.DataFrame({"nonce": ["c-1"], "data.url": ["https://other.example/"]})
    send_events(orders_shop, clicks, event_type="outbound-link")
    assert search_events(orders_shop)["event.target"].tolist() == ["https://other.example/"]
    archive_event_type(orders_shop, "outbound-link")
    orders_shop.send("create_event", event_type="outbound-link", nonce="c-2", data={"url": "x"})
    assert len(list_trashed_events(orders_shop)) == 1


def test_g253_a_day_of_loaded_events_is_its_end_in_the_time_zone_of_the_project():
    """The end of 5 March in New York is 4:59:59.999 of 6 March in UTC; midnights beside other instants are instants."""
    rows = pd.DataFrame({"userId": ["a" * 24, "b" * 24], "eventType": "order"})
    days, instants = (
        pd.to_datetime(["2025-03-05", "2025-03-05"]),
        pd.to_datetime(["2025-03-05T00:00", "2025-03-05T10:00"]),
    )
    ends = []
    for dates in (days, instants):
        with at.connect("shop", path=":memory:", timezone="America/New_York") as shop:
            assert at.load(shop, events=rows.assign(eventDate=dates)).counts["events"] == 2
            ends.append(sorted(at.search_events(shop)["eventDate"].dt.strftime("%d %H:%M:%S.%f")))
    assert ends[0] == ["06 04:59:59.999000"] * 2
    assert ends[1] == ["05 00:00:00.000000", "05 10:00:00.000000"]


def test_a_value_beyond_all_floats_is_rejected_with_its_row():
    rows = pd.DataFrame(
        {"m": ["a@x.example", "b@x.example"], "d": "2025-03-01", "i": ["1", "2"], "v": ["1e999", "5"]}
    )
    with at.connect("shop", path=":memory:") as shop:
        sent = at.send_conversions(shop, rows, email="m", date="d", id="i", value="v")
    assert sent["status"].tolist() == ["rejected", "processed"]
    assert "1e999" in sent["error"][0]
