"""A project over tables of a user's own engine answers as the embedded project that holds the same rows."""

import ibis
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.attribution.engines.engine import portable

SINCE, UNTIL = "2025-01-01T00:00:00Z", "2025-06-30T23:59:59Z"


def written(tables):
    named = {"interactions": tables.interactions, "events": tables.events, "metrics": tables.metrics}
    named |= {"nodes": tables.nodes, "spend": tables.outlays}
    return {name: table.to_pyarrow() for name, table in named.items()}


@pytest.fixture(
    scope="module",
    params=[
        "duckdb",
        pytest.param(
            "spark",
            marks=pytest.mark.spark,
        ),
        pytest.param("clickhouse", marks=pytest.mark.clickhouse),
    ],
)
def lent(request, sample):
    tables = sample.tables()
    frames = written(tables)
    if request.param == "duckdb":
        backend = ibis.duckdb.connect()
        for name, frame in frames.items():
            backend.create_table(name, frame)
    elif request.param == "clickhouse":
        backend = request.getfixturevalue("clickhouse_database")("sample")
        for name, frame in frames.items():
            columns = frame.select([each for each in frame.column_names if frame[each].type != pa.null()])
            portable(backend).create_table(name, columns)
    else:
        backend = request.getfixturevalue("spark")
        for name, frame in frames.items():
            backend._session.createDataFrame(frame).createOrReplaceTempView(name)
    return at.open_tables(
        backend, **{name: name for name in frames}, project_id=sample.project_id, currency=tables.currency
    )


def same(found, expected):
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_paths_and_credits_are_those_of_the_embedded_project(sample, lent):
    found, expected = (
        at.conversion_paths(
            project, event_type="order", statistic="turnover", level="channel", lookback="10D"
        )
        for project in (lent, sample)
    )
    same(found.to_pandas(), expected.to_pandas())
    models = ["time_decay", "markov", "conversion_rate_shapley"]
    same(at.attribute(found, models), at.attribute(expected, models))


@pytest.mark.slow
def test_several_models_at_once_need_nothing_computed_before(sample, lent):
    question = {"event_type": "order", "level": "channel", "lookback": "7D"}
    found, expected = (
        at.attribute(at.conversion_paths(project, **question), ["linear", "markov"])
        for project in (lent, sample)
    )
    same(found, expected)


@pytest.mark.slow
def test_predicates_run_where_the_tables_are(sample, lent):
    settings = {
        "event_type": "order",
        "where": at.interaction("geo.countryCode") == "FR",
        "nodes": at.node("channel").contains("paid"),
        "since": SINCE,
        "until": UNTIL,
    }
    found, expected = (at.conversion_paths(project, **settings).to_pandas() for project in (lent, sample))
    assert 0 < expected["node_id"].notna().sum() < len(expected)
    same(found, expected)


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"interval": "week", "timezone": "Europe/Paris"},
        {"interval": "month", "group_by": "geo.countryCode"},
        {"interval": "hourOfDay", "timezone": "Europe/Paris", "sort": "-interval"},
        {"interval": "custom", "segments": 7, "since": SINCE, "until": UNTIL},
    ],
)
def test_insights_of_interactions(sample, lent, settings):
    same(at.interaction_insights(lent, **settings), at.interaction_insights(sample, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("group_by", ["project", "event-type"])
def test_insights_of_events(sample, lent, group_by):
    asked = {"metrics": ["event-count", "turnover"], "interval": "month", "since": SINCE, "until": UNTIL}
    found, expected = (
        at.event_insights(project, group_by=group_by, timezone="America/New_York", **asked)
        for project in (lent, sample)
    )
    # Event types without an event are known to the embedded project alone.
    same(found, expected[expected["identifier"].isin(found["identifier"])].reset_index(drop=True))


def test_nodes_are_listed(sample, lent):
    columns = ["_id", "parentId", "type", "name", "channel", "path"]
    same(at.list_nodes(lent, search="a")[columns], at.list_nodes(sample, search="a")[columns])


@pytest.fixture
def engine():
    return ibis.duckdb.connect()


DAYS = pa.array([1, 2, 3, 4], pa.timestamp("s"))
VISITS = pa.table(
    {"visit": ["1", "2"], "userId": [7, 8], "nodeId": ["search", "email"], "startDate": DAYS[:2]}
)
ORDERS = pa.table(
    {
        "_id": ["a", "b"],
        "userId": [7, 8],
        "eventType": ["order", "order"],
        "eventDate": DAYS[2:],
        "statistics.turnover": [30.0, None],
        "statistics.turnover.currency": ["USD", None],
        "statistics.items": [2, 1],
        "states.paid": pa.array([None, 4], pa.timestamp("s")),
    }
)
RENAMED = {"interactions": {"_id": "visit"}}


@pytest.fixture
def small(engine):
    engine.create_table("visits", VISITS)
    engine.create_table("orders", ORDERS)
    return at.open_tables(engine, interactions="visits", events=engine.table("orders"), columns=RENAMED)


@pytest.mark.slow
def test_statistics_and_states_may_be_columns_of_events(small):
    money = at.attribute(at.conversion_paths(small, event_type="order", statistic="turnover"), "linear")
    money = money.set_index("node_id")[["value", "currency"]]
    assert money.T.to_dict("list") == {"search": [30, "USD"], "email": [0, "EUR"]}
    items = at.attribute(at.conversion_paths(small, event_type="order", statistic="items"), "linear")
    assert dict(zip(items["node_id"], items["value"], strict=True)) == {"search": 2, "email": 1}
    paid = at.conversion_paths(small, event_type="order", state="paid").to_pandas()
    assert paid["event_id"].tolist() == ["b"]
    bounds = {"since": "1970-01-01T00:00:00Z", "until": "1970-01-01T23:00:00Z"}
    counted = at.event_insights(small, metrics=["event-count", "items", "paid", "turnover"], **bounds)
    # No rate is known for dollars.
    assert counted.filter(like="values").to_numpy().tolist() == [[2, 3, 1, 0]]


def test_nodes_without_a_tree_are_named_by_their_ids(small):
    assert at.list_nodes(small)[["_id", "name"]].values.tolist() == [["email", "email"], ["search", "search"]]


def test_a_tree_needs_no_paths(engine):
    engine.create_table("visits", VISITS)
    engine.create_table("orders", ORDERS)
    tree = pa.table(
        {
            "_id": ["search", "ads", "email"],
            "name": ["Search", "Ads", "Email"],
            "parentId": ["ads", None, None],
        }
    )
    engine.create_table("tree", tree)
    shop = at.open_tables(engine, interactions="visits", events="orders", nodes="tree", columns=RENAMED)
    paths = at.conversion_paths(shop, event_type="order", nodes=at.node("nodeName") == "Ads")
    assert paths.to_pandas()["node_id"].dropna().tolist() == ["search"]
    assert at.list_nodes(shop).set_index("_id").loc["search", "path"] == ["ads"]


def test_missing_columns_are_named_with_their_types(engine):
    engine.create_table("visits", VISITS)
    engine.create_table("orders", ORDERS.drop_columns(["eventDate", "eventType"]))
    with pytest.raises(
        errors.InvalidRequest, match=r"interactions: the columns _id \(text\) are missing.*visit"
    ):
        at.open_tables(engine, interactions="visits", events="orders")
    expected = r"events: the columns eventType \(text\), eventDate \(timestamp\) are missing"
    with pytest.raises(errors.InvalidRequest, match=expected):
        at.open_tables(engine, interactions="visits", events="orders", columns=RENAMED)


def test_columns_of_another_type_are_refused(engine):
    engine.create_table("visits", VISITS.set_column(3, "startDate", pa.array(["monday", "tuesday"])))
    engine.create_table("orders", ORDERS)
    with pytest.raises(
        errors.InvalidRequest, match="interactions: the column startDate holds string; allowed: timest"
    ):
        at.open_tables(engine, interactions="visits", events="orders", columns=RENAMED)
    with pytest.raises(errors.InvalidRequest, match=r"columns\['interactions'\]: 'visitor' is not"):
        at.open_tables(
            engine, interactions="visits", events="orders", columns={"interactions": {"_id": "visitor"}}
        )


def test_everything_else_is_refused_in_words(small):
    refusal = "a project over tables is read-only and answers only event_insights, interaction_insights, list_nodes and"
    for call in (
        lambda: at.search_interactions(small),
        lambda: at.search_users(small, columns=["_id"]),
        lambda: at.list_event_types(small),
    ):
        with pytest.raises(errors.NotSupported, match=refusal):
            call()
    with pytest.raises(
        errors.NotSupported, match="group_by: the table of interactions has no column 'geo.city'"
    ):
        at.interaction_insights(small, group_by="geo.city")
    with small as closed:
        assert repr(closed) == "<Project 'tables' at tables of duckdb>"
