"""What is known of users, against a recomputation from the records by plain Python."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.order_events import declare_order, order
from support.service_records import hex_id, send, table, uuid, visit
from support.user_projects import AGGREGATIONS, clear, declare, event, moment, recomputed

from attrib_ds import instants
from attrib_ds.service import Service
from attrib_ds.service.users.audiences import describe_users

USERS = [hex_id(number) for number in (1, 2, 3)]
_FIRST = datetime(2025, 1, 1, tzinfo=UTC)
_DAYS = st.integers(0, 6).map(lambda days: instants.format(_FIRST + timedelta(days=days, hours=days % 2)))
_SMALL = st.integers(-5, 20)

EVENTS = st.lists(
    st.fixed_dictionaries(
        {"user": st.integers(1, 3), "date": _DAYS, "kind": st.sampled_from(["order", "lead"])},
        optional={
            "statistics.items": _SMALL,
            "amount": st.tuples(st.integers(-300, 900), st.sampled_from(["EUR", "EUR", "NOK"])),
            "states.confirmed": st.integers(0, 1),
        },
    ),
    max_size=12,
)
VISITS = st.lists(
    st.fixed_dictionaries(
        {
            "userId": st.sampled_from(USERS),
            "startDate": _DAYS,
            "nodeId": st.sampled_from(["ads", "letter", "direct"]),
            "type": st.sampled_from(["session", "session", "offline"]),
        },
        optional={
            "hitCount": st.integers(0, 9),
            "duration": st.integers(0, 600).map(float),
            "isBot": st.booleans(),
            "trafficFilterId": st.just("office"),
        },
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def opened():
    service = Service.open("shop", ":memory:")
    yield service
    service.close()


@pytest.fixture
def service(opened):
    clear(opened)
    return opened


def load(service, events, visits):
    if visits:
        answer = send(service, "load_records", resource="interactions", source=table(*visits))
        assert not answer.read().num_rows, answer.read().to_pylist()
    if events:
        answer = send(service, "load_records", resource="events", source=table(*events))
        assert not answer.read().num_rows, answer.read().to_pylist()


def get(service, user):
    record = send(service, "get_user", id=user).read().to_pylist()[0]
    for name in ("fields", "eventTypesCount", "eventTypeMeta", "metrics"):
        record[name] = json.loads(record[name])
    return record


def written_event(number, drawn):
    metrics = {name: value for name, value in drawn.items() if name.startswith(("statistics", "states"))}
    if "amount" in drawn:
        cents, currency = drawn["amount"]
        metrics |= {"statistics.turnover.amount": cents / 100, "statistics.turnover.currency": currency}
    return event(number, drawn["user"], drawn["date"], drawn["kind"], **metrics)


def written_visit(number, drawn):
    offline = drawn["type"] == "offline"
    dropped = {"hitCount", "isBot"} if offline else set()
    return visit(number, **{name: value for name, value in drawn.items() if name not in dropped})


COUNTERS = [
    *("eventCount", "eventTypesCount", "eventTypeMeta", "metrics", "firstEventDate", "lastEventDate"),
    *("interactionCount", "hitCount", "averageHitCount", "interactionDuration", "averageInteractionDuration"),
    *("firstInteractionDate", "lastInteractionDate", "firstInteractionNodeId", "lastInteractionNodeId"),
]


def check(service, events, visits):
    registered = {row["userId"] for row in [*events, *visits]}
    records = send(service, "search_users", fields=COUNTERS).read().to_pylist()
    assert [record["_id"] for record in records] == sorted(registered)
    for found in records:
        expected = recomputed(found["_id"], events, visits)
        for name in ("eventTypesCount", "eventTypeMeta", "metrics"):
            found[name] = json.loads(found[name])
        for name, value in expected.items():
            if name == "eventTypeMeta":
                got = {
                    kind: (meta["count"], moment(meta["firstDate"]), moment(meta["lastDate"]))
                    for kind, meta in found[name].items()
                }
                assert got == value
            elif name == "metrics":
                check_metrics(found[name], value)
            else:
                assert (
                    found[name] == pytest.approx(value) if isinstance(value, float) else found[name] == value
                ), name
        assert sum(found["eventTypesCount"].values()) == found["eventCount"]


def check_metrics(found, expected):
    for key, values in expected.items():
        got = found[key]
        assert got["count"] == len(values)
        assert got["sum"] == pytest.approx(sum(values))
        assert (got["max"], got["min"]) == (max(values), min(values))
        assert got["average"] == pytest.approx(sum(values) / len(values))
        assert got["min"] <= got["average"] <= got["max"]
    # What is left are amounts that no rate converts.
    assert all(
        found[key]["count"] == 0 and found[key]["count_unconverted"] for key in set(found) - set(expected)
    )


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(early=EVENTS, late=EVENTS, visits=VISITS, late_visits=VISITS)
def test_r082_r087_counters_are_those_of_a_recomputation(opened, early, late, visits, late_visits):
    clear(opened)
    all_events, all_visits = [], []
    for events, sessions in ((early, visits), (late, late_visits)):
        new_events = [written_event(len(all_events) + n, value) for n, value in enumerate(events)]
        new_visits = [written_visit(len(all_visits) + n, item) for n, item in enumerate(sessions)]
        load(opened, new_events, new_visits)
        all_events += new_events
        all_visits += new_visits
        check(opened, all_events, all_visits)


def test_r087_counters_are_the_same_after_a_restart(tmp_path):
    path = tmp_path / "shop.duckdb"
    service = Service.open("shop", path)
    load(service, [event(1, 1, "2025-01-01T00:00:00Z")], [visit(1, userId=USERS[0])])
    before = get(service, USERS[0])
    service.close()
    service = Service.open("shop", path)
    assert get(service, USERS[0]) == before
    service.close()


def test_r083_a_late_event_moves_the_first_date_and_not_the_last(service):
    load(service, [event(1, 1, "2025-01-05T00:00:00Z")], [])
    load(service, [event(2, 1, "2025-01-02T00:00:00Z")], [])
    found = get(service, USERS[0])
    assert found["firstEventDate"] == datetime(2025, 1, 2, tzinfo=UTC)
    assert found["lastEventDate"] == datetime(2025, 1, 5, tzinfo=UTC)


def test_r084_online_and_offline_interactions_count(service):
    load(service, [], [visit(1, userId=USERS[0]), visit(2, userId=USERS[0], type="offline")])
    assert get(service, USERS[0])["interactionCount"] == 2


def test_bots_and_filtered_traffic_do_not_count_but_are_users_all_the_same(service):
    visits = [
        visit(1, userId=USERS[0], isBot=True, hitCount=5, nodeId="ads"),
        visit(2, userId=USERS[0], trafficFilterId="office", nodeId="ads"),
        visit(3, userId=USERS[0], startDate="2025-02-01T00:00:00Z", nodeId="letter", hitCount=1),
        visit(4, userId=USERS[1], isBot=True),
    ]
    load(service, [], visits)
    found = get(service, USERS[0])
    assert (found["interactionCount"], found["hitCount"], found["firstInteractionNodeId"]) == (1, 1, "letter")
    nobody = get(service, USERS[1])
    assert (nobody["interactionCount"], nobody["averageHitCount"], nobody["firstInteractionDate"]) == (
        0,
        0,
        None,
    )
    assert nobody["updatedAt"] >= nobody["createdAt"]


def test_r039_of_interactions_at_one_moment_the_smaller_id_is_the_first(service):
    visits = [visit(2, userId=USERS[0], nodeId="b"), visit(1, userId=USERS[0], nodeId="a")]
    visits.append(visit(3, userId=USERS[0], nodeId="c"))
    load(service, [], visits)
    found = get(service, USERS[0])
    assert (found["firstInteractionNodeId"], found["lastInteractionNodeId"]) == ("a", "c")


def test_r081_an_average_stays_between_the_least_and_the_greatest(service):
    money = {
        "statistics.turnover.currency": "EUR",
        "statistics.turnover.amount": 0.1,
        "statistics.items": 0.1,
    }
    load(service, [event(number, 1, "2025-01-01T00:00:00Z", **money) for number in (1, 2, 3)], [])
    for key in ("turnover", "items"):
        metric = get(service, USERS[0])["metrics"][key]
        assert metric["min"] <= metric["average"] <= metric["max"]
    assert get(service, USERS[0])["metrics"]["turnover"]["sum"] == 0.3


def test_r080_a_metric_tells_its_type_and_five_aggregations(service):
    load(service, [event(1, 1, "2025-01-01T00:00:00Z", **{"states.confirmed": 1, "statistics.items": 3})], [])
    metrics = get(service, USERS[0])["metrics"]
    one = {"sum": 1.0, "max": 1.0, "min": 1.0, "count": 1, "average": 1.0}
    none = {"sum": 0.0, "max": 0.0, "min": 0.0, "count": 1, "average": 0.0}
    three = {"sum": 3.0, "max": 3.0, "min": 3.0, "count": 1, "average": 3.0}
    assert metrics == {
        "confirmed": {"type": "state", **one},
        "event-count": {"type": "statistic", **one},
        "items": {"type": "statistic", **three},
        "state-delay-confirmed": {"type": "statistic", **none},
    }


def test_g065_amounts_are_converted_at_their_date_and_others_are_counted(service):
    put = "INSERT INTO rates VALUES ('NOK', '2025-01-10', 0.1), ('NOK', '2025-01-20', 0.2)"
    service._store.write(lambda connection: connection.execute(put))
    amounts = [
        ("2025-01-05", 50, "NOK"),
        ("2025-01-15", 50, "NOK"),
        ("2025-01-25", 50, "NOK"),
        ("2025-01-01", 1, "EUR"),
    ]
    events = [
        event(
            number,
            1,
            f"{day}T00:00:00Z",
            **{"statistics.turnover.amount": amount, "statistics.turnover.currency": currency},
        )
        for number, (day, amount, currency) in enumerate(amounts)
    ]
    load(service, events, [])
    aggregations = {
        "sum": 16.0,
        "max": 10.0,
        "min": 1.0,
        "count": 3,
        "average": 16 / 3,
        "count_unconverted": 1,
    }
    assert get(service, USERS[0])["metrics"]["turnover"] == {"type": "statistic", **aggregations}


def test_deleted_metrics_do_not_count(service):
    load(
        service,
        [event(number, 1, "2025-01-01T00:00:00Z", **{"statistics.items": 4}) for number in (1, 2)],
        [],
    )
    delete = f"UPDATE metrics SET deletedAt = createdAt WHERE eventId = '{uuid(1)}' AND key = 'items'"
    service._store.write(lambda connection: connection.execute(delete))
    assert get(service, USERS[0])["metrics"]["items"]["count"] == 1


# -- fields -----------------------------------------------------------------------------------------


def test_r077_r078_values_tell_where_they_came_from(service):
    declare(service)
    load(
        service,
        [event(1, 1, "2025-01-02T00:00:00.000Z", fields={"email": "anna@x.org", "first_name": "Anna"})],
        [
            visit(
                1,
                userId=USERS[0],
                startDate="2025-01-01T00:00:00Z",
                userData='{"email":" Anna@Y.org ","phone":null}',
            )
        ],
    )
    assert get(service, USERS[0])["fields"] == {
        "email": [
            {
                "type": "email",
                "current": "anna@y.org",
                "raw": " Anna@Y.org ",
                "date": "2025-01-01T00:00:00.000Z",
                "invalid": False,
                "anonymized": False,
                "discriminant": True,
                "from": {"type": "interaction", "id": hex_id(1)},
            },
            {
                "type": "email",
                "current": "anna@x.org",
                "raw": "anna@x.org",
                "date": "2025-01-02T00:00:00.000Z",
                "invalid": False,
                "anonymized": False,
                "discriminant": True,
                "from": {"type": "event", "id": uuid(1)},
            },
        ],
        "first_name": [
            {
                "type": "string",
                "current": "Anna",
                "raw": "Anna",
                "date": "2025-01-02T00:00:00.000Z",
                "invalid": False,
                "anonymized": False,
                "discriminant": False,
                "from": {"type": "event", "id": uuid(1)},
            }
        ],
    }


def test_r078_values_of_processed_events_are_normalised(service):
    declare_order(service)
    data = {"mail": " Anna@Example.COM ", "phone": "0612345678", "turnover": 12.5, "confirmed": 1}
    answer = send(service, "create_event_sync", **order("n1", data=data))
    (user,) = send(service, "search_users", fields=["metrics.turnover.sum"]).read().to_pylist()
    assert user["metrics.turnover.sum"] == 12.5
    fields = get(service, user["_id"])["fields"]
    assert {
        key: (value[0]["type"], value[0]["current"], value[0]["raw"]) for key, value in fields.items()
    } == {
        "email": ("email", "Anna@example.com", " Anna@Example.COM "),
        "phone": ("phone", "+33612345678", "0612345678"),
    }
    (email,) = fields["email"]
    assert (email["discriminant"], email["from"]) == (True, {"type": "event", "id": answer.value})


def test_equal_values_that_follow_each_other_are_one(service):
    names = ["Anna", "Anna", "Ann", "Anna"]
    events = [
        event(number, 1, f"2025-01-0{number}T00:00:00Z", fields={"first_name": name})
        for number, name in enumerate(names, start=1)
    ]
    load(service, events, [])
    found = get(service, USERS[0])["fields"]["first_name"]
    assert [(record["current"], record["from"]["id"]) for record in found] == [
        ("Anna", uuid(1)),
        ("Ann", uuid(3)),
        ("Anna", uuid(4)),
    ]


def test_keys_of_any_kind_in_loaded_data_do_no_harm(service):
    odd = json.dumps({'a"b': 1, "a/b": 2, "a~b": 3, "": 4, "$.x": 5, "fine": {"deep": [1]}, "blank": " "})
    load(service, [], [visit(1, userId=USERS[0], userData=odd)])
    assert [(key, value[0]["current"]) for key, value in get(service, USERS[0])["fields"].items()] == [
        ("fine", {"deep": [1]})
    ]


def test_r086_ids_of_vendors_come_in_the_order_they_came_up_each_once(service):
    values = [(3, "v2"), (1, "v1"), (2, "v2"), (4, "v1")]
    events = [event(n, 1, f"2025-01-0{n}T00:00:00Z", fields={"vendorUserId": value}) for n, value in values]
    load(
        service,
        events,
        [visit(1, userId=USERS[0], startDate="2024-12-01T00:00:00Z", userData='{"vendorUserId":"v9"}')],
    )
    found = get(service, USERS[0])
    assert found["vendorUserIds"] == ["v9", "v1", "v2"]
    assert found["audienceIds"] == []


# -- places -----------------------------------------------------------------------------------------


def place(longitude, latitude):
    return {
        "formattedAddress": "1 Main Street",
        "location": {"type": "Point", "coordinates": [longitude, latitude]},
        "extra": {"confidence": 0.5},
    }


def location(found):
    return {
        name.removeprefix("mostProbableLocation."): value
        for name, value in found.items()
        if name.startswith("most")
    }


def test_r085_g066_the_latest_valid_value_of_a_placing_field_is_the_most_probable_location(service):
    declare(service)
    events = [
        event(1, 1, "2025-01-01T00:00:00Z", fields={"home": place(1, 10)}),
        event(2, 1, "2025-01-02T00:00:00Z", fields={"home": place(2, 20)}),
        event(3, 1, "2025-01-03T00:00:00Z", fields={"home": {"formattedAddress": "nowhere"}}),
        event(4, 1, "2025-01-04T00:00:00Z", "lead", fields={"home": place(4, 40)}),
    ]
    load(service, events, [visit(1, userId=USERS[0], geo__latitude=50.0, geo__longitude=5.0)])
    assert location(get(service, USERS[0])) == {
        "source": "event-based",
        "confidence": 0.5,
        "location.type": "Point",
        "location.coordinates": [2.0, 20.0],
    }


def test_g066_without_such_a_field_the_latest_session_tells(service):
    visits = [
        visit(1, userId=USERS[0], startDate="2025-01-01T00:00:00Z", geo__latitude=50.0, geo__longitude=5.0),
        visit(2, userId=USERS[0], startDate="2025-01-02T00:00:00Z", geo__latitude=60.0, geo__longitude=6.0),
        visit(
            3,
            userId=USERS[0],
            startDate="2025-01-03T00:00:00Z",
            geo__latitude=70.0,
            geo__longitude=7.0,
            isBot=True,
        ),
        visit(4, userId=USERS[0], startDate="2025-01-04T00:00:00Z"),
        visit(5, userId=USERS[1]),
    ]
    load(service, [], visits)
    found = location(get(service, USERS[0]))
    assert (found["source"], found["location.coordinates"]) == ("interaction-based", [6.0, 60.0])
    assert set(location(get(service, USERS[1])).values()) == {None}


# -- only what is asked for -------------------------------------------------------------------------


def test_only_requested_properties_are_computed(service):
    with service._store.read() as backend:
        users = backend.table("users")
        assert describe_users(backend, users, []).columns == ("_id",)
        query = backend.compile(describe_users(backend, users, ["eventCount"]))
    assert "interactions" not in query
    assert "metrics" not in query


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_users_without_a_metric_have_no_sum_but_a_count_of_none(service, aggregation):
    load(
        service, [event(1, 1, "2025-01-01T00:00:00Z", **{"statistics.items": 4})], [visit(1, userId=USERS[1])]
    )
    key = f"metrics.items.{aggregation}"
    found = send(service, "search_users", fields=[key]).read()[key].to_pylist()
    assert found == ([1, 0] if aggregation == "count" else [4.0, None])
