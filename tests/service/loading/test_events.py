"""Loading events: their values by key, and the states and statistics that credit is about."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from support.service_records import hex_id, lines, order, reasons, table, utc, uuid

from attrib_ds.contract.identifiers import NO_SIGN
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.loading import load_records


@pytest.fixture
def load(memory_store):
    return lambda *records: load_records(memory_store, "events", table(*records))


@pytest.fixture
def metrics(rows):
    """Return (type, dataType, date, number, amount, currency) by event and key."""

    def read():
        query = "SELECT eventId, key, type, dataType, date, number, amount, currency FROM metrics"
        return {(event, key): tuple(values) for event, key, *values in rows(query)}

    return read


NOON = utc(2025, 1, 31, 12).replace(tzinfo=None)
COUNT = ("statistic", "number", NOON, 1.0, None, None)


def value(current, raw=None):
    return {
        "raw": current if raw is None else raw,
        "current": current,
        "type": "string",
        "date": "2025-01-31T12:00:00.000Z",
        "anonymized": False,
        "invalid": False,
    }


# -- events -----------------------------------------------------------------------------------------


def test_a_plain_event_counts_once(load, rows, metrics):
    counts, rejected = load({**order(1), "_id": None})
    assert (counts, rejected.num_rows) == ({"events": 1, "metrics": 1}, 0)
    ((event_id, *rest),) = rows(
        'SELECT _id, projectId, userId, eventDate, eventType, event, "user" FROM events'
    )
    assert len(event_id) == 36
    assert rest == ["shop", hex_id(900), NOON, "order", "{}", "{}"]
    assert metrics() == {(event_id, "event-count"): COUNT}
    ((metric_id, project_id, is_now),) = rows(
        "SELECT metrics._id, metrics.projectId, metrics.createdAt = events.createdAt "
        "AND metrics.updatedAt = events.updatedAt FROM metrics JOIN events ON eventId = events._id"
    )
    assert (len(metric_id), project_id, is_now) == (24, "shop", True)


def test_columns_by_key_become_typed_values(load, rows):
    load(
        order(1, **{"event.shop": "Oslo", "event.note": 'it\'s "new"', "user.email": "A@x.no"}),
        order(2, **{"event.note": " "}),
    )
    stored = rows('SELECT event, "user" FROM events ORDER BY _id')
    assert [tuple(map(json.loads, item)) for item in stored] == [
        ({"shop": value("Oslo"), "note": value('it\'s "new"')}, {"email": value("A@x.no")}),
        ({}, {}),
    ]


def test_nested_values_keep_their_shape_and_plain_ones_get_it(memory_store, rows, tmp_path):
    shaped = {"raw": " X ", "current": "x", "type": "email", "date": "2025-01-01T00:00:00Z", "extra": None}
    event = {"number": 3, "flag": True, "list": [1], "shaped": shaped, "object": {"a": 1}, "null": None}
    counts, rejected = load_records(
        memory_store, "events", lines(tmp_path / "events.ndjson", order(1, event=event, user=None))
    )
    assert (counts["events"], rejected.num_rows) == (1, 0)
    ((stored, user),) = rows('SELECT event, "user" FROM events')
    read = json.loads(stored)
    assert read["number"] == value("3", raw=3)
    assert read["flag"] == value("true", raw=True)
    assert read["list"] == value("[1]", raw=[1])
    assert read["shaped"] == shaped
    assert read["object"] == value('{"a":1}', raw={"a": 1})
    assert user == "{}"


def test_json_and_columns_of_one_event_are_joined(load, rows):
    load(order(1, **{"event": '{"a": "1"}', "event.b": "2"}))
    ((stored,),) = rows("SELECT event FROM events")
    assert json.loads(stored) == {"a": value("1"), "b": value("2")}


def test_the_policy_is_kept_and_attributable_is_not(load, rows):
    load(
        order(
            1,
            **{
                "attributable": True,
                "expirationPolicy.expiresAt": "2026-01-31T12:00:00Z",
                "expirationPolicy.retentionDurationInDays": 365,
                "expirationPolicy.piiFields": ["email", "phone"],
                "createdAt": "2025-02-01T00:00:00Z",
            },
        )
    )
    columns = "expiresAt", "retentionDurationInDays", "piiFields", "anonimizedAt"
    quoted = ", ".join(f'"expirationPolicy.{name}"' for name in columns)
    assert rows(f"SELECT {quoted}, createdAt FROM events") == [
        (
            utc(2026, 1, 31, 12).replace(tzinfo=None),
            365,
            ["email", "phone"],
            None,
            utc(2025, 2, 1).replace(tzinfo=None),
        )
    ]


@pytest.mark.few(17)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"_id": "first"}, "_id: 'first' is not a UUID"),
        ({"userId": None}, "userId: is missing"),
        ({"userId": "anna"}, "userId: 'anna' is not 24 lower-case hexadecimal digits"),
        ({"eventDate": None}, "eventDate: is missing"),
        (
            {"eventDate": "2025-01-31"},
            "eventDate: '2025-01-31' is not a date with a time, such as 2025-01-31T12:00:00Z",
        ),
        ({"eventDate": "1989-12-31T23:59:59Z"}, "eventDate: '1989-12-31T23:59:59Z' is before 1990"),
        ({"eventType": None}, "eventType: is missing"),
        (
            {"eventType": "Big Order"},
            "eventType: 'Big Order' is not lower-case letters and digits with single - or _ between them",
        ),
        ({"eventType": "x" * 65}, "eventType: is longer than 64 characters"),
        ({"states.won": "2"}, "states.won: '2' is not 0 or 1"),
        (
            {"states.won": "1", "states.won.date": "soon"},
            "states.won.date: 'soon' is not a date with a time, such as 2025-01-31T12:00:00Z",
        ),
        ({"statistics.items": "many"}, "statistics.items: 'many' is not a finite number"),
        ({"statistics.items": "inf"}, "statistics.items: 'inf' is not a finite number"),
        ({"statistics.turnover.amount": "5"}, "statistics.turnover.currency: is missing"),
        (
            {"statistics.turnover.amount": "5", "statistics.turnover.currency": "Euro"},
            f"statistics.turnover.currency: 'Euro' is not {NO_SIGN}",
        ),
        (
            {"statistics.turnover.amount": "x", "statistics.turnover.currency": "EUR"},
            "statistics.turnover.amount: 'x' is not an amount of at most 18 digits before and 6 after the point",
        ),
        ({"event": "[1]"}, "event: '[1]' is not a JSON object with one value per key"),
        ({"user": "anna"}, "user: 'anna' is not a JSON object with one value per key"),
        ({"metrics": "{}"}, "metrics: '{}' is not a list of metrics"),
        ({"states": "1"}, "states: '1' is not an object"),
        (
            {"expirationPolicy.piiFields": "email"},
            "expirationPolicy.piiFields: 'email' is not a list of texts",
        ),
        ({"projectId": "other"}, "projectId: 'other' is not this project, 'shop'"),
    ],
)
def test_rules_of_events(load, rows, change, reason):
    counts, rejected = load(order(1), {**order(2), **change})
    assert counts == {"events": 1, "metrics": 1}
    assert reasons(rejected) == {1: reason}
    assert rows("SELECT DISTINCT eventId FROM metrics") == [(uuid(1),)]


def test_events_are_loaded_once(load, rows):
    load(order(1))
    counts, rejected = load(order(1), order(2), order(2), {**order(3), "_id": uuid(10).upper()}, order(10))
    assert counts == {"events": 2, "metrics": 2}
    assert reasons(rejected) == {
        0: f"_id: '{uuid(1)}' is already loaded",
        2: f"_id: '{uuid(2)}' is also the id of row 1",
        4: f"_id: '{uuid(10)}' is also the id of row 3",
    }
    assert len(rows("FROM events")) == len(rows("FROM metrics")) == 3


# -- metrics ----------------------------------------------------------------------------------------


def test_states_have_dates_and_delays(load, metrics):
    counts, rejected = load(
        order(1, **{"states.won": 1, "states.won.date": "2025-02-01T12:00:00.5Z"}),
        order(2, **{"states.won": 0, "states.won.date": None}),
        order(3, **{"states.won": 1, "states.won.date": "2025-01-31T11:00:00Z"}),
        order(4, **{"states.won": None, "states.won.date": "2025-02-01T12:00:00Z"}),
        order(5, **{"states.won": 1}),
    )
    assert (counts, rejected.num_rows) == ({"events": 5, "metrics": 12}, 0)
    found = metrics()
    later = utc(2025, 2, 1, 12, 0, 0, 500_000).replace(tzinfo=None)
    earlier = utc(2025, 1, 31, 11).replace(tzinfo=None)
    assert found[uuid(1), "won"] == ("state", "state", later, 1.0, None, None)
    assert found[uuid(1), "state-delay-won"] == ("statistic", "number", later, 86_400.5, None, None)
    assert found[uuid(2), "won"] == ("state", "state", NOON, 0.0, None, None)
    assert (uuid(2), "state-delay-won") not in found
    assert found[uuid(3), "state-delay-won"] == ("statistic", "number", earlier, -3_600.0, None, None)
    assert (uuid(4), "won") not in found
    assert found[uuid(5), "state-delay-won"] == ("statistic", "number", NOON, 0.0, None, None)


def test_flags_and_floats_are_states_too(memory_store, metrics):
    events = table(order(1), order(2), order(3)).append_column("states.won", pa.array([True, False, None]))
    load_records(memory_store, "events", events.append_column("states.lost", pa.array([0.0, 1.0, None])))
    states = {key: values[3] for key, values in metrics().items() if key[1] in {"won", "lost"}}
    assert states == {
        (uuid(1), "won"): 1.0,
        (uuid(1), "lost"): 0.0,
        (uuid(2), "won"): 0.0,
        (uuid(2), "lost"): 1.0,
    }


def test_statistics_are_numbers_or_amounts(load, metrics):
    load(
        order(
            1,
            **{
                "statistics.items": -2.5,
                "statistics.turnover.amount": "19.99",
                "statistics.turnover.currency": "NOK",
            },
        ),
        order(
            2,
            **{
                "statistics.items": None,
                "statistics.turnover.amount": None,
                "statistics.turnover.currency": "NOK",
            },
        ),
    )
    assert metrics() == {
        (uuid(1), "event-count"): COUNT,
        (uuid(2), "event-count"): COUNT,
        (uuid(1), "items"): ("statistic", "number", NOON, -2.5, None, None),
        (uuid(1), "turnover"): ("statistic", "currency", NOON, None, Decimal("19.99"), "NOK"),
    }


def metric(key, current, kind=None, **data):
    type_ = "state" if kind == "state" else "statistic"
    return {"key": key, "type": type_, "data": {"type": kind, "raw": current, "current": current, **data}}


def test_nested_metrics_of_the_resource(memory_store, metrics, rows, tmp_path):
    nested = [
        {**metric("won", 1, "state", date="2025-02-01T12:00:00Z"), "_id": "kept"},
        {**metric("lost", 0, "state"), "createdAt": "2025-02-02T00:00:00Z"},
        {
            **metric("turnover", {"amount": 12.5, "currency": "NOK"}, "currency"),
            "deletedAt": "2025-03-01T00:00:00Z",
        },
        metric("fee", 2.5, "currency"),
        metric("items", 3, "number", invalid=True),
        metric("untyped", 4),
        # The service counts these itself.
        metric("event-count", 7, "number"),
        metric("state-delay-won", 7, "number"),
    ]
    counts, rejected = load_records(
        memory_store, "events", lines(tmp_path / "events.ndjson", order(1, metrics=nested), order(2))
    )
    assert (counts, rejected.num_rows) == ({"events": 2, "metrics": 9}, 0)
    day_later = utc(2025, 2, 1, 12).replace(tzinfo=None)
    assert metrics() == {
        (uuid(1), "event-count"): COUNT,
        (uuid(2), "event-count"): COUNT,
        (uuid(1), "won"): ("state", "state", day_later, 1.0, None, None),
        (uuid(1), "state-delay-won"): ("statistic", "number", day_later, 86_400.0, None, None),
        (uuid(1), "lost"): ("state", "state", NOON, 0.0, None, None),
        (uuid(1), "turnover"): ("statistic", "currency", NOON, None, Decimal("12.5"), "NOK"),
        (uuid(1), "fee"): ("statistic", "currency", NOON, None, Decimal("2.5"), "EUR"),
        (uuid(1), "items"): ("statistic", "number", NOON, 3.0, None, None),
        (uuid(1), "untyped"): ("statistic", "number", NOON, 4.0, None, None),
    }
    assert rows("SELECT _id FROM metrics WHERE key = 'won'") == [("kept",)]
    assert rows("SELECT invalid FROM metrics WHERE key = 'items'") == [(True,)]
    assert rows("SELECT deletedAt FROM metrics WHERE key = 'turnover'") == [
        (utc(2025, 3, 1).replace(tzinfo=None),)
    ]
    assert rows("SELECT createdAt FROM metrics WHERE key = 'lost'") == [
        (utc(2025, 2, 2).replace(tzinfo=None),)
    ]
    assert rows("SELECT count(DISTINCT _id) FROM metrics") == [(9,)]


def test_raw_values_of_nested_numbers_and_invalid_ones_are_kept(memory_store, rows, tmp_path):
    """As a mirror reads them."""
    nested = [
        metric("items", 12.5, "number", raw=" 12.50 "),
        metric("weight", None, "number", raw="heavy", invalid=True),
        metric("turnover", None, "currency", invalid=True),
        metric("size", 3, "number"),
        metric("height", None, "number", raw=4),
    ]
    _, rejected = load_records(
        memory_store, "events", lines(tmp_path / "events.ndjson", order(1, metrics=nested))
    )
    assert reasons(rejected) == {}
    assert rows("SELECT key, number, raw FROM metrics WHERE key <> 'event-count' ORDER BY key") == [
        ("height", 4.0, None),
        ("items", 12.5, '" 12.50 "'),
        ("size", 3.0, None),
        ("turnover", None, None),
        ("weight", None, '"heavy"'),
    ]


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (metric("1st", 1), "metrics: '1st' has a key that is not allowed"),
        ({"type": "statistic", "data": {"current": 1}}, "metrics: one has a key that is not allowed"),
        ({**metric("a", 1), "type": "other"}, "metrics: 'a' has a type other than state and statistic"),
        (metric("a", 1, "text"), "metrics: 'a' has a data.type that is not allowed for its type"),
        (
            {**metric("a", 1, "state"), "type": "statistic"},
            "metrics: 'a' has a data.type that is not allowed for its type",
        ),
        (metric("a", 2, "state"), "metrics: 'a' is a state other than 0 and 1"),
        (metric("a", None, "state"), "metrics: 'a' is a state other than 0 and 1"),
        (metric("a", "x", "number"), "metrics: 'a' has no finite number"),
        (metric("a", "Infinity", "number"), "metrics: 'a' has no finite number"),
        (metric("a", {"amount": 1}, "currency"), "metrics: 'a' has no currency of ISO 4217"),
        (metric("a", {"amount": 1, "currency": "euro"}), "metrics: 'a' has no currency of ISO 4217"),
        (
            metric("a", 1, date="2025-01-31"),
            "metrics: 'a' has a date that is not an RFC 3339 date-time since 1990",
        ),
        (
            {**metric("a", 1), "deletedAt": "x"},
            "metrics: 'a' has a date that is not an RFC 3339 date-time since 1990",
        ),
    ],
)
def test_rules_of_nested_metrics(memory_store, tmp_path, wrong, reason):
    records = [order(1, metrics=[metric("fine", 1)]), order(2, metrics=[metric("fine", 1), wrong])]
    counts, rejected = load_records(memory_store, "events", lines(tmp_path / "events.ndjson", *records))
    assert counts == {"events": 1, "metrics": 2}
    assert reasons(rejected) == {2: reason}


@pytest.mark.parametrize(("written", "code"), [(" eur", "EUR"), ("€", "EUR"), ("Kč", "CZK"), ("usd", "USD")])
def test_currencies_are_read_in_any_case_and_as_signs(memory_store, rows, tmp_path, written, code):
    """In columns, in nested metrics and in spend, as in frames and files."""
    records = [
        order(1, **{"statistics.turnover.amount": 5, "statistics.turnover.currency": written}),
        order(2, metrics=[metric("turnover", {"amount": 5, "currency": written})]),
    ]
    for number, record in enumerate(records):
        load_records(memory_store, "events", lines(tmp_path / f"{number}.ndjson", record))
    spent = {"campaignId": "spring", "startDate": "2025-01-01T00:00:00Z", "endDate": "2025-02-01T00:00:00Z"}
    spent |= {"amount.amount": 5, "amount.currency": written}
    load_records(memory_store, "spend", lines(tmp_path / "spend.ndjson", spent))
    found = "SELECT currency FROM metrics WHERE key = 'turnover' UNION ALL SELECT \"amount.currency\" FROM outlays"
    assert rows(found) == [(code,)] * 3


def test_one_key_has_one_metric(memory_store, tmp_path):
    records = [
        order(1, metrics=[metric("a", 1), metric("a", 2)]),
        order(2, metrics=[metric("won", 1, "state")], states={"won": 1}),
        order(3, states={"won": 1}, statistics={"won": 2}),
    ]
    _, rejected = load_records(memory_store, "events", lines(tmp_path / "events.ndjson", *records))
    assert reasons(rejected) == {
        1: "metrics: 'a' occurs more than once",
        2: "metrics: 'won' occurs more than once",
        3: "metrics: 'won' occurs more than once",
    }


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("statistics.event-count", "the key 'event-count' of the column .* is reserved"),
        ("states.state-delay-won", "the key 'state-delay-won' of the column .* is reserved"),
        ("states.1st", "the key '1st' of the column 'states.1st' is not allowed"),
        ("states.won.date", "the column 'states.won.date' requires the column 'states.won'"),
        (
            "statistics.turnover.currency",
            "the column 'statistics.turnover.currency' requires the column 'statistics.turnover.amount'",
        ),
        ("statistics.turnover.date", "the column 'statistics.turnover.date' is not known"),
        ("event.a b", "the key 'a b' of the column 'event.a b' is not allowed"),
        ("evntType", "the column 'evntType' is not known .did you mean 'eventType'"),
    ],
)
def test_columns_of_events_that_are_refused(load, rows, column, message):
    with pytest.raises(InvalidRequest, match=f"events: {message}"):
        load(order(1, **{column: "1"}))
    assert rows("FROM events") == []


@pytest.mark.parametrize("name", ["event", "user", "metrics"])
def test_only_standard_json_is_accepted(memory_store, name):
    text = '[{"key": "a", "data": NaN}]' if name == "metrics" else '{"a": NaN}'
    _, rejected = load_records(memory_store, "events", table(order(1, **{name: text})))
    (reason,) = rejected["reason"].to_pylist()
    assert reason.startswith(f"{name}: ")
    assert "has NaN, Infinity or a trailing comma" in reason


def test_a_list_of_texts_is_standard_json(memory_store):
    source = table(
        order(1, **{"expirationPolicy.piiFields": '["a",]'}),
        order(2, **{"expirationPolicy.piiFields": '["a"]'}),
    )
    counts, rejected = load_records(memory_store, "events", source)
    assert counts["events"] == 1
    assert "is not a list of texts" in rejected["reason"].to_pylist()[0]
