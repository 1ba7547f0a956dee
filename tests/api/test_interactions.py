"""Interactions, hits, insights and nodes as DataFrames, and offline interactions."""

import json
import shutil
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.address_databases import write_asn, write_geo

import attrib_ds as at
from attrib_ds import (
    errors,
    get_interaction,
    instants,
    interaction,
    interaction_insights,
    list_hits,
    list_nodes,
    node,
    search_interactions,
)
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.schema import INTERACTION, ON_REQUEST
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import running


def number(frame):
    """Ids of the small shop end in a number of their own."""
    return [int(each, 16) for each in frame["_id"]]


@pytest.mark.slow
def test_the_default_population_is_neither_bots_nor_filtered_traffic(shop):
    assert number(search_interactions(shop)) == [3, 2, 4, 1, 7]
    assert number(search_interactions(shop, bots=True)) == [5]
    assert number(search_interactions(shop, filtered=True)) == [6]
    assert number(search_interactions(shop, bots=None, filtered=None)) == [3, 2, 6, 5, 4, 1, 7]


@pytest.mark.slow
def test_columns_and_dtypes_do_not_depend_on_the_rows(shop):
    some, none = (
        search_interactions(shop),
        search_interactions(shop, where=interaction("geo.city") == "Atlantis"),
    )
    assert none.empty
    assert none.dtypes.to_dict() == some.dtypes.to_dict()
    assert list(some.columns) == [name for name in INTERACTION.names if name not in ON_REQUEST]
    kinds = some.dtypes.astype(str)
    assert kinds[["startDate", "hitCount", "isBot", "type", "duration"]].tolist() == [
        "datetime64[us, UTC]",
        "Int64",
        "boolean",
        "str",
        "float64",
    ]


def test_columns_come_as_asked_for_with_the_id_first(shop):
    frame = search_interactions(shop, columns=["nodeId", "geo", "userData"])
    geo = ["geo.countryCode", "geo.state", "geo.city", "geo.latitude", "geo.longitude", "geo.zipcode"]
    assert list(frame.columns) == ["_id", "nodeId", *geo, "userData"]


@pytest.mark.slow
def test_sort_limit_and_offset(shop):
    by_country = ["-geo.countryCode", "startDate"]
    assert number(search_interactions(shop, sort=by_country)) == [1, 2, 4, 3, 7]
    page = search_interactions(shop, sort=by_country, limit=2, offset=1)
    assert number(page) == [2, 4]
    assert page.attrs["total"] == 5
    assert search_interactions(shop, limit=0).attrs["total"] == 5
    assert number(search_interactions(shop, offset=99)) == []


@pytest.mark.slow
def test_bounds_are_inclusive_and_compare_instants(shop):
    at_once = {"since": "2025-01-02T11:00:00+01:00", "until": "2025-01-02T10:00:00"}
    assert number(search_interactions(shop, **at_once)) == [4]
    assert number(search_interactions(shop, since="2025-02-01T00:00:00Z", until="2025-01-01T00:00:00Z")) == []


@pytest.mark.slow
def test_node_filters_bring_what_is_below(shop):
    assert number(search_interactions(shop, nodes=node("campaignId") == "brand")) == [4, 1]
    assert number(search_interactions(shop, nodes=~(node("campaignId") == "brand"))) == [3, 2, 7]
    assert number(search_interactions(shop, nodes=node("adsetName") == "Shoes")) == [1]


def test_one_interaction_has_every_property(shop):
    found = get_interaction(shop, f"{5:024x}")
    assert list(found.index) == INTERACTION.names
    assert found.name == f"{5:024x}"
    assert bool(found["isBot"]) is True
    with pytest.raises(errors.NotFound):
        get_interaction(shop, f"{99:024x}")


@pytest.mark.slow
def test_hits_of_the_sample(sample):
    session = search_interactions(sample, where=interaction("hitCount") == 3, limit=1).iloc[0]
    hits = list_hits(sample, session["firstHitId"])
    assert len(hits) == 3
    assert hits["id"].iloc[0] == session["firstHitId"]
    assert hits["serverDate"].is_monotonic_increasing
    assert set(hits["sessionId"]) == {session["_id"]}
    empty = list_hits(sample, hits["id"].iloc[1])
    assert empty.empty
    assert empty.dtypes.to_dict() == hits.dtypes.to_dict()


@pytest.mark.slow
def test_insights_count_by_group_and_interval(shop):
    months = interaction_insights(shop, interval="month", group_by="geo.countryCode")
    shown = months[["group", "interval", "sessionCount"]].astype(object)
    assert shown.where(shown.notna(), None).to_numpy().tolist() == [
        [None, "2024-11", 1],
        ["DE", "2025-01", 2],
        ["FR", "2025-01", 2],
    ]
    assert interaction_insights(shop)["sessionCount"].tolist() == [5]
    nothing = interaction_insights(shop, where=interaction("geo.city") == "Atlantis")
    assert nothing[["sessionCount", "hitCount", "durationSum"]].to_numpy().tolist() == [[0, 0, 0.0]]
    assert nothing.dtypes.to_dict() == months.drop(columns="is_partial").dtypes.to_dict()


@pytest.mark.slow
def test_insights_follow_the_calendar_of_a_time_zone(shop):
    # Ten in the morning UTC is the evening of the same day in Tokyo, and the next day's small hours in Kiritimati.
    utc = interaction_insights(
        shop, interval="day", since="2025-01-01T00:00:00Z", until="2025-01-01T23:00:00Z"
    )
    far = interaction_insights(
        shop,
        interval="day",
        since="2025-01-01T00:00:00Z",
        until="2025-01-01T23:00:00Z",
        timezone="Pacific/Kiritimati",
    )
    assert (utc["interval"].item(), far["interval"].item()) == ("2025-01-01", "2025-01-02")


def test_the_tree_of_nodes(shop):
    tree = list_nodes(shop).set_index("_id")
    assert tree.loc["shoes", "path"].tolist() == ["ads", "brand"]
    assert pd.isna(tree.loc["ads", "parentId"])
    assert list_nodes(shop, type="adset")["_id"].tolist() == ["boots", "shoes"]
    assert list_nodes(shop, search="NEWS")["_id"].tolist() == ["letter"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (search_interactions, {"columns": []}, "columns"),
        (search_interactions, {"columns": ["geo.cty"]}, "columns.*did you mean 'geo.city'"),
        (search_interactions, {"limit": -1}, "limit: -1"),
        (search_interactions, {"offset": -1}, "offset: -1"),
        (search_interactions, {"sort": "startdate"}, "sort.*did you mean 'startDate'"),
        (search_interactions, {"sort": {"startDate": -1}}, "sort"),
        (search_interactions, {"since": "2025-02-30T00:00:00Z"}, "since"),
        (search_interactions, {"since": "2025-02-29"}, "since.*does not exist"),
        (search_interactions, {"since": "20250131"}, "since.*date without a time"),
        (search_interactions, {"bots": "yes"}, "bots: 'yes'"),
        (search_interactions, {"where": node("nodeId") == "a"}, "where"),
        (search_interactions, {"nodes": interaction("type") == "session"}, "nodes"),
        (interaction_insights, {"interval": "weekly"}, "interval.*did you mean 'week'"),
        (interaction_insights, {"interval": "custom"}, "segments"),
        (interaction_insights, {"group_by": "geo"}, "group_by"),
        (interaction_insights, {"timezone": "Paris"}, "timezone"),
        (list_nodes, {"type": "adgroup"}, "type"),
    ],
)
def test_bad_input_is_refused_by_name(shop, call, arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        call(shop, **arguments)


@pytest.fixture
def centre():
    """A project with an integration for phone calls and one campaign of it."""
    with at.connect("my-shop", path=":memory:") as project:
        project.send("create_integration", vendor_id="phone", name="Call centre")
        at.create_campaign(project, "phone", "flyer", name="Flyer")
        yield project


def calls(*rows, columns=("date", "userData.email", "nodeData.vendorId"), index=None):
    return pd.DataFrame(list(rows), columns=list(columns), index=index)


@pytest.mark.slow
def test_each_row_is_an_interaction(centre):
    """R028, R029, R030, R185, R187."""
    rows = calls(
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "flyer"),
        ("2025-02-01T12:00:00Z", "ANNA@example.com ", "phone", None),
        ("2025-02-01T12:00:00Z", None, "phone", "flyer"),
        ("01/02/2025", "anna@example.com", "phone", "flyer"),
        ("2025-02-01T12:00:00Z", "anna@example.com", "fax", "flyer"),
        (None, "anna@example.com", "phone", "flyer"),
        ("2025-02-01T12:00:00Z", "anna@example.com", None, "flyer"),
        columns=("date", "userData.email", "nodeData.vendorId", "nodeData.campaignSlug"),
        index=list("abcdefg"),
    )
    before = rows.copy()
    result = at.create_offline_interactions(centre, rows)
    pd.testing.assert_frame_equal(rows, before)
    assert result.index.tolist() == list("abcdefg")
    assert result["status"].tolist() == ["created", "created", *["rejected"] * 5]
    assert [error.partition(":")[0] for error in result["error"].dropna()] == [
        "user_data",
        "date",
        "node_data/vendorId",
        "date",
        "node_data",
    ]
    first, second = (at.get_interaction(centre, id) for id in result["id"].dropna())
    assert (first["type"], first["userLifetimeIndex"], second["userLifetimeIndex"]) == ("offline", 1, 2)
    assert first["userId"] == second["userId"]
    assert first["startDate"] == pd.Timestamp("2025-01-31T12:00:00Z")
    flyer = at.list_campaigns(centre, "phone", campaign_slug="flyer")["id"].item()
    assert first["nodeId"] == flyer
    assert json.loads(first["rawNodeData"]) == {"vendorId": "phone", "campaignSlug": "flyer"}
    assert json.loads(second["rawNodeData"]) == {"vendorId": "phone"}
    assert at.search_interactions(centre).attrs["total"] == 2


@pytest.mark.parametrize(
    "days",
    [
        ["2025-07-01", "2025-07-02T10:00:00Z"],
        [date(2025, 7, 1), date(2025, 7, 2)],
        pd.to_datetime(["2025-07-01", "2025-07-02"]),
    ],
)
def test_a_day_of_an_interaction_is_its_start_in_the_time_zone_of_the_project(days):
    """G-253."""
    with at.connect("shop", path=":memory:", timezone="Europe/Paris") as shop:
        at.admin.create_integration(shop, "phone", name="Phone")
        sent = pd.DataFrame({"date": days, "userData.email": ["a@x.example", "b@x.example"]})
        sent = at.create_offline_interactions(shop, sent.assign(**{"nodeData.vendorId": "phone"}))
        nodes = pd.DataFrame({"_id": ["tv"], "name": ["TV"], "type": ["channel"]})
        visits = pd.DataFrame({"userId": [f"{number:024x}" for number in (1, 2)], "nodeId": "tv"})
        loaded = at.load(shop, nodes=nodes, interactions=visits.assign(startDate=days))
        assert sent["error"].isna().all()
        assert loaded.rejected.empty
        first = at.search_interactions(shop, sort="startDate")["startDate"].head(2)
    # Midnight in Paris in summer.
    assert first.tolist() == [pd.Timestamp("2025-06-30T22:00:00Z")] * 2


def test_an_external_id_makes_a_second_run_harmless(centre):
    """G-143."""
    columns = ("date", "userData.email", "nodeData.vendorId", "externalId")
    rows = calls(
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "call-1"),
        ("2025-01-31T12:00:00Z", "ben@example.com", "phone", "call-2"),
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "call-1"),
        columns=columns,
    )
    first = at.create_offline_interactions(centre, rows)
    assert first["status"].tolist() == ["created", "created", "present"]
    again = at.create_offline_interactions(centre, rows)
    assert again["status"].tolist() == ["present"] * 3
    assert again["id"].tolist() == first["id"].tolist()
    assert first["id"][0] == first["id"][2]


def test_ids_that_a_file_holds_as_numbers_are_ids(centre):
    """A missing cell turns whole numbers into floats, and ids must not end in .0."""
    columns = ("date", "userData.vendorUserId", "nodeData.vendorId", "nodeData.campaignId", "externalId")
    rows = calls(
        ("2025-01-31T12:00:00Z", 5.0, "phone", 7.0, 1.0),
        ("2025-01-31T12:00:00Z", 5.0, "phone", None, None),
        columns=columns,
    )
    assert at.create_offline_interactions(centre, rows)["error"].isna().all()
    found = at.search_interactions(centre, columns=["rawNodeData", "userData", "externalId"], sort="_id")
    assert json.loads(found["rawNodeData"][0]) == {"vendorId": "phone", "campaignId": 7}
    assert json.loads(found["userData"][0]) == {"vendorUserId": "5"}
    assert found["externalId"][0] == "1"


def test_dates_may_be_instants(centre):
    moments = pd.to_datetime(["2025-01-31T13:00:00+01:00"], utc=True)
    rows = pd.DataFrame({"date": moments, "userData.phone": ["1"], "nodeData.vendorId": ["phone"]})
    assert at.create_offline_interactions(centre, rows)["status"].tolist() == ["created"]
    assert at.search_interactions(centre)["startDate"].tolist() == [pd.Timestamp("2025-01-31T12:00:00Z")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["userData.email"], "frame: has no column 'date'"),
        (["date", "email"], "has an unknown column 'email'; allowed: date, externalId, userData.<key>"),
        (["date", "userData"], "has an unknown column 'userData'"),
        (["date", "external_id"], r"'external_id' \(did you mean 'externalId'\?\)"),
    ],
)
def test_a_frame_of_another_form_is_refused_as_a_whole(centre, columns, message):
    with pytest.raises(InvalidRequest, match=message):
        at.create_offline_interactions(centre, pd.DataFrame(columns=columns))


def test_a_key_that_identifies_nobody_is_named(centre):
    """R186."""
    rows = calls(
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "Anna"),
        columns=("date", "userData.email", "nodeData.vendorId", "userData.firstName"),
    )
    (error,) = at.create_offline_interactions(centre, rows)["error"]
    assert error == "user_data/firstName: 'firstName' is not allowed; allowed: email, phone, vendorUserId"


@pytest.fixture(scope="module")
def week_shop():
    """A project with one interaction a day from Monday 2 June to Tuesday 10 June 2025."""
    days = pd.date_range("2025-06-02T12:00Z", "2025-06-10T12:00Z", freq="D")
    interactions = pd.DataFrame(
        {
            "_id": [f"{number:024x}" for number in range(1, len(days) + 1)],
            "type": "session",
            "userId": f"{99:024x}",
            "nodeId": "search",
            "startDate": days,
            "endDate": days,
        }
    )
    nodes = pd.DataFrame({"_id": ["search"], "name": "Search", "type": "channel", "channel": "Search"})
    with at.connect("weeks", path=":memory:") as project:
        assert at.load(project, nodes=nodes, interactions=interactions).rejected.empty
        yield project


def partial(frame):
    assert frame["is_partial"].dtype == "boolean"
    return frame.loc[frame["is_partial"], "interval"].tolist()


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, ["2025-W24"]),  # the last interaction was on a Tuesday
        ({"until": "2025-06-08"}, []),
        ({"until": "2025-06-07"}, ["2025-W23"]),
        ({"since": "2025-06-03", "until": "2025-06-15"}, ["2025-W23"]),
        ({"since": "2025-06-02", "until": "2025-06-14T23:00:00Z"}, ["2025-W24"]),
    ],
)
def test_weeks_that_bounds_cut_are_partial(week_shop, bounds, expected):
    assert partial(at.interaction_insights(week_shop, interval="week", **bounds)) == expected


def test_the_time_zone_determines_where_a_day_ends(week_shop):
    bounds = {"since": "2025-06-01T22:00:00Z", "until": "2025-06-08T21:59:59.999Z"}
    assert (
        partial(at.interaction_insights(week_shop, interval="week", timezone="Europe/Paris", **bounds)) == []
    )
    assert partial(at.interaction_insights(week_shop, interval="week", **bounds)) == ["2025-W23"]


def test_an_interval_that_is_not_over_is_partial(week_shop):
    today = instants.now().date()
    rows = at.event_insights(
        week_shop,
        metrics=["event-count"],
        since="2025-06-02",
        until=f"{today.year + 1}-12-31",
        interval="year",
    )
    # 2025 is cut by since, the present year is not over, and the next has not begun.
    assert partial(rows) == list(dict.fromkeys(["2025", str(today.year), str(today.year + 1)]))


def test_only_calendar_intervals_can_be_partial(week_shop):
    assert "is_partial" not in at.interaction_insights(week_shop).columns
    assert "is_partial" not in at.interaction_insights(week_shop, interval="dayOfWeek").columns


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


@pytest.mark.slow
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


@pytest.mark.large
@pytest.mark.slow
def test_mirrors(paris, tmp_path):
    with at.sync(paris, tmp_path / "mirror.duckdb", **DAY) as mirror:
        assert at.search_interactions(mirror, sort="startDate")["_id"].tolist() == IDS[1:3]
        assert at.list_user_events(mirror, ANNA, sort="eventDate")["_id"].tolist() == EVENTS[1:3]


def test_days_in_comparisons(paris):
    start = at.interaction("startDate")
    found = at.search_interactions(paris, where=start == "2025-03-30", sort="startDate", columns="nodeId")
    assert (found["_id"].tolist(), list(found.columns)) == (IDS[1:3], ["_id", "nodeId"])
    later = {"where": start > date(2025, 3, 30)}
    assert at.interaction_insights(paris, **later)["sessionCount"].tolist() == [2]
    # In New York the day is not over at the last of them.
    in_new_york = at.interaction_insights(paris, **later, interval="day", timezone="America/New_York")
    assert in_new_york["sessionCount"].tolist() == []
    paths = at.conversion_paths(paris, event_type="order", where=at.event("eventDate") <= "2025-03-29")
    assert paths.to_pandas()["event_id"].unique().tolist() == EVENTS[:1]


def test_paths_and_their_spend(paris):
    """Those of a remote project are those of the project itself: it is mirrored into memory."""
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


def test_raw_hits_alone_are_looked_up_in_databases(tmp_path):
    hit = {
        "trackerId": "t-1",
        "date": "2025-02-01T10:00:00Z",
        "pageUrl": "https://shop.example/",
        "ip": "203.0.113.7",
    }
    nodes = pd.DataFrame({"_id": ["ads"], "type": ["campaign"], "name": ["Ads"]})
    databases = {"geo": write_geo(tmp_path / "geo.mmdb"), "asn": write_asn(tmp_path / "asn.mmdb")}
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, nodes=nodes, hits=pd.DataFrame([hit]), **databases)
        found = at.search_interactions(shop)
        assert found[["geo.city", "asn.asnId"]].values.tolist() == [["Paris", "AS3215"]]
