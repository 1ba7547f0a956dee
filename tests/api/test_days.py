"""Days in ``since`` and ``until`` are whole local days of the project.

In Paris, 30 March 2025 had 23 hours: from 2025-03-29T23:00Z to 2025-03-30T22:00Z.
"""

import shutil
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import running

ANNA = f"{10:024x}"
#: Instants around the day, and one that is a part of the day in New York.
INSTANTS = [
    "2025-03-29T22:59:59.999999Z",
    "2025-03-29T23:00:00Z",
    "2025-03-30T21:59:59.999999Z",
    "2025-03-30T22:00:00Z",
    "2025-03-31T03:00:00Z",
]
IDS = [f"{number:024x}" for number in range(1, 6)]
EVENTS = [f"0190163d-8694-739b-aea5-{number:012x}" for number in range(1, 6)]
DAY = {"since": "2025-03-30", "until": "2025-03-30"}


def fill(project):
    at.load(
        project,
        nodes=pd.DataFrame(
            {"_id": ["search"], "name": ["Search"], "type": ["channel"], "channel": ["Search"]}
        ),
        interactions=pd.DataFrame({"_id": IDS, "userId": ANNA, "nodeId": "search", "startDate": INSTANTS}),
        events=pd.DataFrame({"_id": EVENTS, "userId": ANNA, "eventType": "order", "eventDate": INSTANTS}),
    )
    at.admin.create_integration(project, "ads", name="Ads")
    spring = at.create_campaign(project, "ads", "spring", name="Spring")
    periods = [
        ("2025-03-29T22:00:00Z", "2025-03-29T23:00:00Z"),
        ("2025-03-29T23:00:00Z", "2025-03-30T01:00:00Z"),
        ("2025-03-30T21:00:00Z", "2025-03-30T23:00:00Z"),
        ("2025-03-30T22:00:00Z", "2025-03-30T23:00:00Z"),
    ]
    for amount, (start, end) in enumerate(periods, 1):
        at.create_outlay(project, "ads", spring, amount=amount, start_date=start, end_date=end)


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    with ExitStack() as stack:
        with at.connect("paris", path=there / "paris.duckdb", timezone="Europe/Paris") as project:
            fill(project)
        shutil.copy(there / "paris.duckdb", here)
        create_key(there, there / "key.json", projects=None)
        url = stack.enter_context(running(there))
        yield {
            "embedded": stack.enter_context(at.connect("paris", path=here / "paris.duckdb")),
            "remote": stack.enter_context(at.connect("paris", url=url, key=there / "key.json")),
        }


@pytest.fixture(params=["embedded", "remote"])
def paris(request, projects):
    return projects[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("form", [str, date.fromisoformat, np.datetime64], ids=["text", "date", "numpy"])
def test_interactions(paris, form):
    bounds = {name: form(day) for name, day in DAY.items()}
    assert at.search_interactions(paris, **bounds, sort="startDate")["_id"].tolist() == IDS[1:3]


@pytest.mark.slow
def test_one_bound(paris):
    assert at.search_interactions(paris, since="2025-03-30", sort="startDate")["_id"].tolist() == IDS[1:]
    assert at.search_interactions(paris, until="2025-03-30", sort="startDate")["_id"].tolist() == IDS[:3]


def test_a_timestamp_is_an_instant(paris):
    found = at.search_interactions(
        paris, since=pd.Timestamp("2025-03-30"), until=datetime(2025, 3, 30, 22, tzinfo=UTC), sort="startDate"
    )
    assert found["_id"].tolist() == IDS[2:4]


def test_insights(paris):
    assert at.interaction_insights(paris, **DAY)["sessionCount"].tolist() == [2]
    counted = at.event_insights(paris, metrics=["event-count"], interval="year", **DAY)
    assert counted["values.event-count"].tolist() == [2.0]


def test_days_follow_the_time_zone_of_the_call(paris):
    new_york = {"timezone": "America/New_York", "interval": "day", **DAY}
    counted = at.interaction_insights(paris, **new_york)
    assert counted[["interval", "sessionCount"]].to_numpy().tolist() == [["2025-03-30", 3]]
    counted = at.event_insights(paris, metrics=["event-count"], **new_york)
    assert counted[["interval", "values.event-count"]].to_numpy().tolist() == [["2025-03-30", 3.0]]
    with pytest.raises(InvalidRequest, match="^timezone: 'Paris' is not allowed; allowed: an IANA time zone"):
        at.interaction_insights(paris, timezone="Paris", **DAY)


def test_events_and_metrics_of_a_user(paris):
    assert at.list_user_events(paris, ANNA, **DAY, sort="eventDate")["_id"].tolist() == EVENTS[1:3]
    assert at.list_user_metrics(paris, ANNA, **DAY, sort="metricDate")["eventId"].tolist() == EVENTS[1:3]


def test_outlays(paris):
    spring = at.list_campaigns(paris, "ads")["id"].item()
    assert at.list_outlays(paris, "ads", spring, **DAY, sort="amount")["amount.amount"].tolist() == [2.0, 3.0]


def test_trashed_events(projects):
    paris = projects["embedded"]
    at.send_events(paris, pd.DataFrame({"nonce": ["1"]}), event_type="unknown")
    today = datetime.now(UTC).date()
    around = {"since": today - timedelta(days=2), "until": today + timedelta(days=2)}
    assert len(at.list_trashed_events(paris, **around)) == 1
    assert at.list_trashed_events(paris, until=today - timedelta(days=2)).empty


@pytest.mark.slow
def test_mirrors(paris, tmp_path):
    with at.sync(paris, tmp_path / "mirror.duckdb", **DAY) as mirror:
        assert at.search_interactions(mirror, sort="startDate")["_id"].tolist() == IDS[1:3]
        assert at.list_user_events(mirror, ANNA, sort="eventDate")["_id"].tolist() == EVENTS[1:3]


def test_paths_and_their_spend(projects):
    paris = projects["embedded"]
    paths = at.conversion_paths(paris, event_type="order", level="channel", **DAY)
    assert sorted(paths.to_pandas()["event_id"].unique()) == EVENTS[1:3]
    # 2 + 3/2: the last hour of the third outlay is on the next day.
    assert paths.spend["spend"].sum() == pytest.approx(3.5, rel=1e-13)


def test_tables_of_another_engine():
    engine = ibis.duckdb.connect()
    visits = pd.DataFrame(
        {
            "_id": IDS,
            "userId": ANNA,
            "nodeId": "search",
            "startDate": pd.to_datetime(INSTANTS, format="ISO8601"),
        }
    )
    visits["startDate"] = visits["startDate"].dt.tz_localize(None)
    orders = visits.rename(columns={"startDate": "eventDate"})[["_id", "userId", "eventDate"]]
    engine.create_table("visits", pa.Table.from_pandas(visits))
    engine.create_table("orders", pa.Table.from_pandas(orders.assign(eventType="order")))
    shop = at.open_tables(engine, interactions="visits", events="orders", timezone="Europe/Paris")
    assert at.interaction_insights(shop, **DAY)["sessionCount"].tolist() == [2]
    paths = at.conversion_paths(shop, event_type="order", **DAY)
    assert sorted(paths.to_pandas()["event_id"].unique()) == IDS[1:3]


class WithoutSettings:
    """A remote service that has no settings, as the specification allows."""

    address = "https://example.com/api/v1"
    timezone = None

    def __init__(self, transport):
        self.transport = transport

    def send(self, operation, request):
        if operation.name == "get_settings":
            raise NotFound("no such page")
        return self.transport.send(operation, request)


def test_days_are_in_utc_if_the_service_has_no_settings(projects):
    shop = at.Project("paris", WithoutSettings(projects["embedded"].transport))
    assert at.search_interactions(shop, **DAY, sort="startDate")["_id"].tolist() == IDS[2:4]


@pytest.mark.slow
def test_several_event_types(tmp_path):
    with at.connect("shop", path=tmp_path / "shop.duckdb") as shop:
        visits = pd.DataFrame({"_id": IDS[:1], "userId": ANNA, "nodeId": "search", "startDate": INSTANTS[:1]})
        events = pd.DataFrame(
            {
                "_id": EVENTS[:4],
                "userId": ANNA,
                "eventDate": INSTANTS[:4],
                "eventType": ["lead", "order", "call", "lead"],
            }
        )
        at.load(shop, interactions=visits, events=events)
        paths = at.conversion_paths(shop, event_type=["order", "lead"])
        assert sorted(paths.to_pandas()["event_id"]) == [EVENTS[0], EVENTS[1], EVENTS[3]]
        assert paths.settings["event_type"] == "order, lead"
        of_one = at.conversion_paths(shop, event_type=["call"])
        assert of_one.to_pandas()["event_id"].tolist() == EVENTS[2:3]
        with pytest.raises(
            InvalidRequest,
            match=r"^event_type: there are no events of the type 'lede' \(did you mean 'lead'\?\)",
        ):
            at.conversion_paths(shop, event_type=["order", "lede"])
        with pytest.raises(
            InvalidRequest, match=r"^event_type: \[\] is not allowed; allowed: call, lead, order"
        ):
            at.conversion_paths(shop, event_type=[])
        counted = {
            given: at.event_insights(
                shop,
                metrics=["event-count"],
                group_by="event-type",
                interval="year",
                event_type=given,
                since="2025-01-01",
                until="2025-12-31",
            )["identifier"].tolist()
            for given in ("lead", ("lead", "call"))
        }
        assert counted == {"lead": ["lead"], ("lead", "call"): ["call", "lead"]}
