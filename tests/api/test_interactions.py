"""Interactions, hits, insights and nodes as DataFrames, on the small shop of conftest."""

import pandas as pd
import pytest

from attrib_ds import (
    errors,
    get_interaction,
    interaction,
    interaction_insights,
    list_hits,
    list_nodes,
    node,
    search_interactions,
)
from attrib_ds.schema import INTERACTION, ON_REQUEST


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
