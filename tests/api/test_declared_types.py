"""Users and events have the types that event types declare, embedded and remote."""

import dataclasses
import json
import shutil
from contextlib import ExitStack

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.dtype_names import dtype_names

import attrib_ds as at
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

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
def shop(served, request):
    return served[request.param]


def anna(project):
    return at.search_users(project, columns=[])["_id"].item()


@pytest.mark.slow
def test_events_of_a_user_have_a_typed_column_per_declared_key(shop):
    events = at.list_user_events(shop, anna(shop), sort="eventDate")
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
    event = at.get_event(shop, events["_id"][0])
    pd.testing.assert_series_equal(event, events.astype(object).iloc[0], check_names=False)


def test_no_events_have_the_same_columns(shop):
    events = at.list_user_events(shop, anna(shop))
    assert dtype_names(at.list_user_events(shop, "0" * 24)) == dtype_names(events)


def test_listed_events_can_be_loaded(shop):
    events = at.list_user_events(shop, anna(shop), sort="_id")
    with at.connect("my-shop", path=":memory:") as copy:
        for reference, fields in (("lead", FIELDS[:1]), ("order", FIELDS)):
            at.create_event_type(copy, reference, name=reference, fields=fields)
        assert at.load(copy, events=events).rejected.empty
        loaded = at.list_user_events(copy, anna(copy), sort="_id")
    values = [name for name in DECLARED if name.startswith(("statistics.", "states.", "user."))]
    pd.testing.assert_frame_equal(loaded[values], events[values])


@pytest.mark.slow
def test_users_have_typed_fields_in_frames_and_files(shop, tmp_path):
    users = at.search_users(shop, columns=USER_KEYS)
    assert dtype_names(users) == USER_COLUMNS
    assert users.iloc[0].drop("_id").dropna().tolist() == [30.0, True, "anna@example.com", 0, 2, 2]
    file = at.export_users(shop, tmp_path / "users.parquet", columns=USER_KEYS)
    assert pq.read_table(file).to_pylist() == [
        dict(zip(USER_COLUMNS, [anna(shop), 30.0, True, "anna@example.com", 0, 2, None, 2], strict=True))
    ]
    nobody = at.search_users(shop, columns=USER_KEYS, limit=0)
    assert dtype_names(nobody) == USER_COLUMNS
    assert nobody.empty


def test_one_user_has_the_entries_that_a_search_returns_by_key(shop):
    keys = ["fields.age", "fields.member", "fields.email", "fields.phone", "eventTypesCount.order"]
    keys += [f"metrics.{key}.{name}" for key in ("items", "won", "turnover", "event-count", "state-delay-won")
             for name in ("sum", "max", "min", "count", "average")]  # fmt: skip
    found = at.search_users(shop, columns=keys).astype(object).iloc[0]
    person = at.get_user(shop, anna(shop))
    pd.testing.assert_series_equal(person[["_id", *keys]], found, check_names=False)
    assert [entry["current"] for entry in json.loads(person["fields"])["age"]] == [30]


def test_metrics_of_a_user_have_numbers_and_amounts(shop):
    metrics = at.list_user_metrics(shop, anna(shop)).set_index("key")
    values = ["data.current", "data.current.amount", "data.current.currency"]
    types = dtype_names(metrics)
    assert [types[name] for name in values] == ["float64", "float64", "str"]
    assert metrics.loc["items", values].dropna().tolist() == [2.0]
    assert metrics.loc["won", values].dropna().tolist() == [1.0]
    assert metrics.loc["turnover", values].dropna().tolist() == [19.99, "NOK"]
    assert metrics.loc["turnover", "data.raw.amount"] == 19.99
    nothing = at.list_user_metrics(shop, anna(shop), until="1999-01-01")
    assert dtype_names(nothing.set_index("key")) == types


def test_a_key_that_may_not_read_event_types_gets_json_text(served):
    whole, shop = served["remote"], served["without scope"]
    events = at.list_user_events(shop, anna(whole), sort="eventDate")
    assert not events.columns.intersection(DECLARED).difference(["event", "user", "metrics"]).size
    assert json.loads(events["user"][0])["age"]["current"] == 30
    assert {metric["key"] for metric in json.loads(events["metrics"][0])} == {
        "items",
        "turnover",
        "won",
        "state-delay-won",
    }
    assert at.search_users(shop, columns=["fields.age"])["fields.age"].tolist() == ["30"]


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
