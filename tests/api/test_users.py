"""Users and audiences as DataFrames."""

import dataclasses
import json
import shutil
from contextlib import ExitStack

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.dtype_names import dtype_names

import attrib_ds as at
from attrib_ds import (
    get_user,
    search_users,
    user,
)
from attrib_ds.api.admin import create_audience, delete_audience, get_audience, list_audiences
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.records.frames import TEXT
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

ANNA, BEN, CARL = (f"{number:024x}" for number in (10, 11, 12))


KEYS = {
    "_id": "str",
    "fields.email": "str",
    "eventTypesCount.order": "Int64",
    "metrics.turnover.sum": "float64",
    "metrics.confirmed.count": "Int64",
    "eventCount": "Int64",
    "averageHitCount": "float64",
    "firstEventDate": "datetime64[us, UTC]",
    "firstInteractionNodeId": "str",
    "audienceIds": "object",
}


@pytest.mark.slow
def test_columns_and_dtypes_do_not_depend_on_the_rows(shop):
    keys = list(KEYS)[1:]
    for found in (
        search_users(shop, columns=keys),
        search_users(shop, columns=keys, where=user("eventCount") > 9),
    ):
        assert dtype_names(found) == KEYS
    assert found.attrs["total"] == 0


def test_counters_of_the_small_shop(shop):
    keys = ["eventTypesCount.order", "metrics.turnover.sum", "metrics.confirmed.sum", "interactionCount"]
    found = search_users(shop, columns=keys, sort="-metrics.turnover.sum")
    # One of Ben's three visits is a bot's, and one is filtered.
    expected = pd.DataFrame(
        {
            "_id": pd.Series([ANNA, BEN, CARL], dtype=TEXT),
            "eventTypesCount.order": pd.array([1, 1, 1], "Int64"),
            "metrics.turnover.sum": [90.0, 40.0, 20.0],
            "metrics.confirmed.sum": [1.0, 0.0, 1.0],
            "interactionCount": pd.array([3, 1, 1], "Int64"),
        }
    )
    pd.testing.assert_frame_equal(found, expected)
    assert found.attrs["total"] == 3


@pytest.mark.slow
def test_users_by_filter_and_page(shop):
    rich = search_users(shop, columns=[], where=user("metrics.turnover.max") > 30)
    assert rich["_id"].tolist() == [ANNA, BEN]
    last = search_users(shop, columns=[], offset=1, limit=1, sort="-_id")
    assert (last["_id"].tolist(), last.attrs["total"]) == ([BEN], 3)


@pytest.mark.slow
def test_users_by_sql(shop):
    found = search_users(
        shop, columns=["eventCount"], sql="SELECT userId FROM events WHERE eventType = 'lead'"
    )
    assert found["_id"].tolist() == [ANNA]


@pytest.mark.slow
def test_values_of_fields_are_text(shop):
    from attrib_ds import load

    shown = {
        "email": "dora@x.org",
        "age": 30,
        "member": True,
        "home": {"formattedAddress": "Oslo"},
        "tags": [1],
    }
    visits = [
        {"_id": f"{90 + n:024x}", "userId": f"{20 + n:024x}", "nodeId": "direct", "startDate": "2025-01-01T00:00:00Z",
         "userData": json.dumps(data)}
        for n, data in enumerate([shown, {"email": "ed@x.org"}])
    ]  # fmt: skip
    assert load(shop, interactions=pd.DataFrame(visits)).rejected.empty
    keys = [f"fields.{key}" for key in shown]
    found = search_users(shop, columns=keys, offset=3)
    assert found.iloc[0].tolist()[1:] == ["dora@x.org", "30", "true", "Oslo", "[1]"]
    assert found.iloc[1].isna().sum() == 4


@pytest.mark.slow
def test_one_user_is_a_series(shop):
    anna = get_user(shop, ANNA)
    assert anna.name == anna["_id"] == ANNA
    assert json.loads(anna["eventTypesCount"]) == {"lead": 1, "order": 1}
    with pytest.raises(NotFound):
        get_user(shop, f"{99:024x}")
    with pytest.raises(InvalidRequest, match="^id: "):
        get_user(shop, "anna")


@pytest.mark.slow
def test_audiences(shop):
    buyers = create_audience(shop, "Rich", user("metrics.turnover.sum") > 30)
    assert (buyers["name"], buyers["size"], buyers.name) == ("Rich", 2, buyers["_id"])
    member = {"type": "audience", "operator": "in", "value": [buyers["_id"]]}
    assert search_users(shop, columns=[], audience=member)["_id"].tolist() == [ANNA, BEN]
    assert get_audience(shop, buyers["_id"])["condition"] == buyers["condition"]
    listed = list_audiences(shop)
    assert listed["name"].tolist() == ["Rich"]
    assert listed.attrs["total"] == 1
    assert dtype_names(listed) == {
        "_id": "str",
        "projectId": "str",
        "name": "str",
        "condition": "str",
        "size": "Int64",
        "computedAt": "datetime64[us, UTC]",
    }
    assert delete_audience(shop, buyers["_id"]) == 1
    assert list_audiences(shop).empty


@pytest.mark.slow
def test_errors_name_the_argument(shop):
    with pytest.raises(InvalidRequest, match=r"^columns/0: 'fields.emial' .*did you mean 'fields.email'"):
        search_users(shop, columns=["fields.emial"])
    with pytest.raises(InvalidRequest, match="^multi_field_mode: "):
        search_users(shop, columns=[], multi_field_mode="first")


FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email"},
    {"type": "number", "entity": "user", "storageKey": "age", "optional": True},
    {"type": "boolean", "entity": "user", "storageKey": "member", "optional": True},
    {"type": "date", "entity": "event", "storageKey": "delivery", "optional": True},
    {"type": "number", "entity": "event", "storageKey": "items", "optional": True},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "won"},
]


ORDERS = pd.DataFrame(
    {
        "nonce": ["1", "2"],
        "eventDate": ["2025-01-31T12:00:00Z", "2025-02-01T12:00:00Z"],
        "data.email": "anna@example.com",
        "data.age": [30, None],
        "data.member": [True, None],
        "data.delivery": ["2025-02-03T08:00:00Z", None],
        "data.items": [2.0, None],
        "data.turnover": [{"amount": 19.99, "currency": "NOK"}, None],
        "data.won": pd.array([1, None], "Int64"),
    }
)


INSTANT = "datetime64[us, UTC]"


#: Columns of events in the place of ``event``, ``user`` and ``metrics``.
DECLARED = {
    "event.delivery": INSTANT,
    "event": "str",
    "user.email": "str",
    "user.age": "float64",
    "user.member": "boolean",
    "user": "str",
    "statistics.items": "float64",
    "statistics.turnover.amount": "float64",
    "statistics.turnover.currency": "str",
    "states.won": "Int64",
    "states.won.date": INSTANT,
    "metrics": "str",
}


USER_KEYS = ["fields.age", "fields.member", "fields.email", "eventTypesCount", "eventCount"]


USER_COLUMNS = {
    "_id": "str",
    "fields.age": "float64",
    "fields.member": "boolean",
    "fields.email": "str",
    "eventTypesCount.lead": "Int64",
    "eventTypesCount.order": "Int64",
    "eventTypesCount": "str",
    "eventCount": "Int64",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Open a project as it is, over HTTP, and with a key that may not read event types."""
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    with at.connect("my-shop", path=here / "my-shop.duckdb") as project:
        at.create_event_type(project, "order", name="Order", fields=FIELDS)
        at.create_event_type(project, "lead", name="Lead", fields=FIELDS[:1])
        assert (at.send_events(project, ORDERS, event_type="order")["status"] == "processed").all()
        at.admin.archive_event_type(project, "order")
    shutil.copy(here / "my-shop.duckdb", there / "my-shop.duckdb")
    create_key(there, there / "all.json", projects=None)
    create_key(there, there / "some.json", projects=None, scopes=["users:read", "events:read"])
    with ExitStack() as stack:
        url = stack.enter_context(running(there, options=ServerOptions(rate_limits=None)))
        yield {
            "embedded": stack.enter_context(at.connect("my-shop", path=here / "my-shop.duckdb")),
            "remote": stack.enter_context(at.connect("my-shop", url=url, key=there / "all.json")),
            "without scope": stack.enter_context(at.connect("my-shop", url=url, key=there / "some.json")),
        }


@pytest.fixture(params=["embedded", "remote"])
def typed_shop(served, request):
    return served[request.param]


def anna(project):
    return at.search_users(project, columns=[])["_id"].item()


@pytest.mark.slow
def test_events_of_a_user_have_a_typed_column_per_declared_key(typed_shop):
    events = at.list_user_events(typed_shop, anna(typed_shop), sort="eventDate")
    types = dtype_names(events)
    assert {name: types[name] for name in DECLARED} == DECLARED
    assert [name for name in events.columns if name in DECLARED] == list(DECLARED)
    shown = events.loc[0, list(DECLARED)].dropna().to_dict()
    assert shown == {
        "event.delivery": pd.Timestamp("2025-02-03T08:00:00Z"),
        "user.email": "anna@example.com",
        "user.age": 30.0,
        "user.member": True,
        "statistics.items": 2.0,
        "statistics.turnover.amount": 19.99,
        "statistics.turnover.currency": "NOK",
        "states.won": 1,
        "states.won.date": pd.Timestamp("2025-01-31T12:00:00Z"),
    }
    assert events.loc[1, list(DECLARED)].dropna().to_dict() == {"user.email": "anna@example.com"}
    event = at.get_event(typed_shop, events["_id"][0])
    pd.testing.assert_series_equal(event, events.astype(object).iloc[0], check_names=False)


@pytest.mark.slow
def test_no_events_have_the_same_columns(typed_shop):
    events = at.list_user_events(typed_shop, anna(typed_shop))
    assert dtype_names(at.list_user_events(typed_shop, "0" * 24)) == dtype_names(events)


@pytest.mark.slow
def test_listed_events_can_be_loaded(typed_shop):
    events = at.list_user_events(typed_shop, anna(typed_shop), sort="_id")
    with at.connect("my-shop", path=":memory:") as copy:
        for reference, fields in (("lead", FIELDS[:1]), ("order", FIELDS)):
            at.create_event_type(copy, reference, name=reference, fields=fields)
        assert at.load(copy, events=events).rejected.empty
        loaded = at.list_user_events(copy, anna(copy), sort="_id")
    values = [name for name in DECLARED if name.startswith(("statistics.", "states.", "user."))]
    pd.testing.assert_frame_equal(loaded[values], events[values])


@pytest.mark.slow
def test_users_have_typed_fields_in_frames_and_files(typed_shop, tmp_path):
    users = at.search_users(typed_shop, columns=USER_KEYS)
    assert dtype_names(users) == USER_COLUMNS
    assert users.iloc[0].drop("_id").dropna().tolist() == [30.0, True, "anna@example.com", 0, 2, 2]
    file = at.export_users(typed_shop, tmp_path / "users.parquet", columns=USER_KEYS)
    assert pq.read_table(file).to_pylist() == [
        dict(
            zip(USER_COLUMNS, [anna(typed_shop), 30.0, True, "anna@example.com", 0, 2, None, 2], strict=True)
        )
    ]
    nobody = at.search_users(typed_shop, columns=USER_KEYS, limit=0)
    assert dtype_names(nobody) == USER_COLUMNS
    assert nobody.empty


def test_one_user_has_the_entries_that_a_search_returns_by_key(typed_shop):
    keys = ["fields.age", "fields.member", "fields.email", "fields.phone", "eventTypesCount.order"]
    keys += [f"metrics.{key}.{name}" for key in ("items", "won", "turnover", "event-count", "state-delay-won")
             for name in ("sum", "max", "min", "count", "average")]  # fmt: skip
    found = at.search_users(typed_shop, columns=keys).astype(object).iloc[0]
    person = at.get_user(typed_shop, anna(typed_shop))
    pd.testing.assert_series_equal(person[["_id", *keys]], found, check_names=False)
    assert [entry["current"] for entry in json.loads(person["fields"])["age"]] == [30]


def test_metrics_of_a_user_have_numbers_and_amounts(typed_shop):
    metrics = at.list_user_metrics(typed_shop, anna(typed_shop)).set_index("key")
    values = ["data.current", "data.current.amount", "data.current.currency"]
    types = dtype_names(metrics)
    assert [types[name] for name in values] == ["float64", "float64", "str"]
    assert metrics.loc["items", values].dropna().tolist() == [2.0]
    assert metrics.loc["won", values].dropna().tolist() == [1.0]
    assert metrics.loc["turnover", values].dropna().tolist() == [19.99, "NOK"]
    assert metrics.loc["turnover", "data.raw.amount"] == 19.99
    nothing = at.list_user_metrics(typed_shop, anna(typed_shop), until="1999-01-01")
    assert dtype_names(nothing.set_index("key")) == types


def test_a_key_that_may_not_read_event_types_gets_json_text(served):
    whole, typed_shop = served["remote"], served["without scope"]
    events = at.list_user_events(typed_shop, anna(whole), sort="eventDate")
    assert not events.columns.intersection(DECLARED).difference(["event", "user", "metrics"]).size
    assert json.loads(events["user"][0])["age"]["current"] == 30
    assert {metric["key"] for metric in json.loads(events["metrics"][0])} == {
        "items",
        "turnover",
        "won",
        "state-delay-won",
    }
    assert at.search_users(typed_shop, columns=["fields.age"])["fields.age"].tolist() == ["30"]


class Recording:
    """A service that records the operations it carries out."""

    def __init__(self, transport):
        self._transport, self.operations = transport, []

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def send(self, operation, request):
        self.operations.append(operation.name)
        return self._transport.send(operation, request)

    def stream(self, operation, request):
        self.operations.append(operation.name)
        return self._transport.stream(operation, request)


def test_event_types_are_requested_once_and_only_if_needed(served):
    recording = Recording(served["embedded"].transport)
    project = dataclasses.replace(served["embedded"], transport=recording)
    at.search_users(project, columns=["eventCount", "eventTypesCount.order"])
    assert recording.operations == ["search_users"]
    at.search_users(project, columns=["fields.age"])
    # The event types in use, and the archived ones.
    assert recording.operations[1:] == ["search_users", "list_event_types", "list_event_types"]
