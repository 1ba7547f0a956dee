"""States and statistics after the event (R106 to R112, R220 to R232)."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from conformance.shop import NOON, computed, declared, event, metrics, send_event, uuid

LATER = "2025-02-01T12:00:00Z"
SINCE = {
    "since": "2025-01-01T00:00:00Z",
    "until": "2025-12-31T00:00:00Z",
    "groupBy": "project",
    "interval": "year",
}


def put(project, id, key, value, operation="state", **parts):
    place = {"id": id, "storageKey": key}
    return project.send(f"update_event_{operation}", place, body={"value": value, **parts})


@pytest.fixture(scope="module")
def grown(new_project):
    """A project whose order got a state and a statistic after its first event, and the id of that event."""
    project = new_project()
    id = send_event(project)
    fields = [declared("state", "event", "shipped"), declared("number", "event", "weight", optional=True)]
    project.send("update_event_type", {"id": "order"}, body={"fields": fields}).ok()
    return project, id


@pytest.mark.slow
def test_r106_a_state_becomes_what_it_is_set_to(service):
    for first in (None, 0, 1):
        for value in (0, 1):
            id = send_event(service, data={"confirmed": first})
            put(service, id, "confirmed", value).ok()
            data = metrics(service, id)["confirmed"]["data"]
            assert (data["raw"], data["current"]) == (value, value)


def test_r107_a_given_date_is_the_date_of_the_state(service):
    id = send_event(service)
    put(service, id, "confirmed", 1, date="2025-02-01T14:00:00+02:00").ok()
    assert metrics(service, id)["confirmed"]["data"]["date"] == "2025-02-01T12:00:00.000Z"


def test_r108_r222_r225_a_key_that_matches_no_field_is_404(service):
    id = send_event(service, data={"confirmed": 1})
    before = computed(service, id)
    for operation in ("state", "statistic"):
        for key in ("confirmd", "CONFIRMED", "event-count", "state-delay-confirmed", "mail", " "):
            reply = put(service, id, key, 1, operation)
            assert reply.status == 404, (operation, key)
            assert "no storageKey matches a field of the event type" in reply.body["message"], key
    assert computed(service, id) == before


def test_r109_a_state_declared_after_the_event_is_404(grown):
    project, id = grown
    before = computed(project, id)
    assert put(project, id, "shipped", 1).status == 404
    assert put(project, id, "weight", 1, "statistic").status == 404
    assert computed(project, id) == before


def test_r110_events_created_after_the_declaration_have_the_state(grown):
    project, _ = grown
    id = send_event(project)
    assert put(project, id, "shipped", 1).ok()["data"]["current"] == 1
    assert metrics(project, id)["shipped"]["data"]["current"] == 1


def test_r111_an_event_can_have_several_states(service):
    id = send_event(service)
    put(service, id, "confirmed", 1, date=NOON).ok()
    put(service, id, "returned", 1, date=LATER).ok()
    put(service, id, "confirmed", 0, date=NOON).ok()
    shown = {key: metrics(service, id)[key]["data"] for key in ("confirmed", "returned")}
    assert {key: (data["current"], data["date"]) for key, data in shown.items()} == {
        "confirmed": (0, "2025-01-31T12:00:00.000Z"),
        "returned": (1, "2025-02-01T12:00:00.000Z"),
    }


def test_r112_setting_a_state_again_leaves_one_metric(service):
    id = send_event(service)
    shown = [put(service, id, "confirmed", value).ok() for value in (1, 1, 0, 1)]
    assert {(each["_id"], each["key"], each["type"], each["data"]["type"]) for each in shown} == {
        (shown[0]["_id"], "confirmed", "state", "state")
    }
    keys = [entry["key"] for entry in computed(service, id)["metrics"] if entry["deletedAt"] is None]
    assert sorted(keys) == ["confirmed", "event-count", "state-delay-confirmed"]


def test_r220_a_state_is_the_number_0_or_1(service):
    id = send_event(service, data={"confirmed": 0})
    before = computed(service, id)
    for value in (2, -1, 0.5, "1", True, False, None, [], {}, ...):
        body = {} if value is ... else {"value": value}
        reply = service.send("update_event_state", {"id": id, "storageKey": "confirmed"}, body=body)
        assert (reply.status, "value" in reply.body["message"]) == (400, True), value
    assert computed(service, id) == before


def test_r221_the_date_is_optional(service):
    """It is the moment of reception then."""
    id = send_event(service)
    shown = put(service, id, "confirmed", 1).ok()
    assert shown["data"]["date"] > "2025-02"
    assert shown["data"]["date"][:16] == shown["updatedAt"][:16]


def test_r223_an_unknown_event_is_404(service):
    for id in (uuid(999), "nonsense"):
        for key, operation in (("confirmed", "state"), ("turnover", "statistic")):
            reply = put(service, id, key, 1, operation)
            assert (reply.status, "id: there is no event" in reply.body["message"]) == (404, True), (id, key)


def test_r224_a_key_that_is_not_a_state_is_404(service):
    id = send_event(service, data={"turnover": 5, "coupon": "SPRING"})
    for key in ("turnover", "items", "coupon", "email"):
        assert put(service, id, key, 1).status == 404, key


def test_r225_a_statistic_takes_a_number(service):
    id = send_event(service)
    for value in ("5", None, True, [], {"amount": 5, "currency": "EUR"}, ...):
        body = {} if value is ... else {"value": value}
        reply = service.send("update_event_statistic", {"id": id, "storageKey": "turnover"}, body=body)
        assert reply.status == 400, value
    assert "turnover" not in metrics(service, id)


def test_r225_any_number_is_accepted_with_or_without_a_date(service):
    id = send_event(service)
    for value in (0, -3, 12.5, 1_000_000):
        assert put(service, id, "items", value, "statistic").ok()["data"]["current"] == value
        shown = put(service, id, "items", value, "statistic", date=LATER).ok()
        assert shown["data"]["date"] == "2025-02-01T12:00:00.000Z"


def test_r226_a_key_that_is_not_a_statistic_is_404(service):
    id = send_event(service, data={"confirmed": 1, "coupon": "SPRING"})
    for key in ("confirmed", "coupon", "email"):
        assert put(service, id, key, 1, "statistic").status == 404, key


def test_r227_money_keeps_its_currency(service):
    id = send_event(service, data={"turnover": {"amount": 5, "currency": "USD"}})
    put(service, id, "turnover", 7.25, "statistic").ok()
    assert metrics(service, id)["turnover"]["data"]["current"] == {"amount": 7.25, "currency": "USD"}
    id = send_event(service)
    put(service, id, "turnover", 3, "statistic").ok()
    assert metrics(service, id)["turnover"]["data"]["current"] == {"amount": 3, "currency": "EUR"}


def test_r229_every_update_is_stored_with_its_date(service):
    """The event shows the update received last, whatever its date."""
    id = send_event(service, data={"items": 1})
    for value, date in [(2, LATER), (3, NOON), (4, "2025-03-01T12:00:00Z")]:
        shown = put(service, id, "items", value, "statistic", date=date).ok()["data"]
        assert (shown["current"], shown["date"]) == (value, date.replace("Z", ".000Z"))
        stored = metrics(service, id)["items"]["data"]
        assert (stored["current"], stored["date"]) == (shown["current"], shown["date"])


def test_r230_updated_at_increases_and_the_other_dates_stay(service):
    id = send_event(service, data={"items": 1})
    before, metric = computed(service, id), metrics(service, id)["items"]
    put(service, id, "items", 2, "statistic", date=LATER).ok()
    after, changed = computed(service, id), metrics(service, id)["items"]
    for old, now in ((before, after), (metric, changed)):
        assert now["updatedAt"] > old["updatedAt"]
        assert now["createdAt"] == old["createdAt"]
    assert after["eventDate"] == before["eventDate"]


@pytest.mark.slow
def test_r231_insights_show_an_update_once(fresh):
    id = send_event(fresh, data={"turnover": 10, "confirmed": 1})
    send_event(fresh, data={"turnover": 5})
    for value in (20, 30):
        put(fresh, id, "turnover", value, "statistic").ok()
    put(fresh, id, "confirmed", 1).ok()
    body = {**SINCE, "metrics": ["turnover", "confirmed", "event-count"]}
    (record,) = fresh.send("event_insights", body=body).ok()
    assert record["values"] == {"turnover": 35, "confirmed": 1, "event-count": 2}


@pytest.mark.slow
def test_r231_users_show_an_update_once(fresh):
    id = send_event(fresh, data={"turnover": 10})
    put(fresh, id, "turnover", 30, "statistic").ok()
    user = fresh.send("get_user", {"id": computed(fresh, id)["userId"]}).ok()
    shown = {name: user["metrics"]["turnover"][name] for name in ("sum", "min", "max", "count", "average")}
    assert shown == {"sum": 30, "min": 30, "max": 30, "count": 1, "average": 30}


@pytest.mark.slow
def test_r232_concurrent_updates_are_all_kept(service):
    for _ in range(3):
        id = service.send("create_event_sync", body=event(service)).ok()
        updates = [
            ("confirmed", 1, "state"),
            ("returned", 1, "state"),
            ("items", 5, "statistic"),
            ("turnover", 7, "statistic"),
        ]
        with ThreadPoolExecutor(4) as threads:
            replies = list(threads.map(lambda entry, id=id: put(service, id, *entry), updates))
        assert [reply.status for reply in replies] == [200] * 4
        shown = {key: entry["data"]["current"] for key, entry in metrics(service, id).items()}
        assert {key: shown[key] for key in ("confirmed", "returned", "items", "turnover")} == {
            "confirmed": 1,
            "returned": 1,
            "items": 5,
            "turnover": {"amount": 7, "currency": "EUR"},
        }
