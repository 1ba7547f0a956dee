"""Results on other engines equal those on DuckDB; PostgreSQL and ClickHouse are started by the tests."""

import pandas as pd
import pytest
from support.engine_tables import MODELS, RATES, world

import attrib_ds as at
from attrib_ds.attribution.engines.engine import group_of, number_of, portable
from attrib_ds.attribution.models import PathModel
from attrib_ds.queries.insights import INTERVALS

PERIOD = {"since": "2025-01-01T00:00:00Z", "until": "2025-06-30T23:59:59Z"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("clickhouse", marks=pytest.mark.clickhouse),
    ],
)
def engines(request):
    """DuckDB and another engine with the same tables."""
    return [request.getfixturevalue(name) for name in ("duckdb", request.param)]


@pytest.fixture(scope="module")
def shops(engines):
    return [
        at.open_tables(backend, interactions="interactions", events="events", nodes="nodes")
        for backend in engines
    ]


def paths_of(backend, *, columns=(), **settings):
    tables = {name: backend.table(name) for name in ("touched", "converted", "observed")}
    return at.Paths.from_frames(
        tables["touched"],
        tables["converted"],
        users=tables["observed"],
        columns={"touch": "touch_id", **dict(columns)},
        **settings,
    )


@pytest.fixture(scope="module")
def both(engines):
    return [paths_of(backend) for backend in engines]


def same(answers):
    expected, found = answers
    assert len(expected)
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-9, atol=1e-9)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"where": at.interaction("geo.city") >= "P", "nodes": at.node("channel") == "paid"},
        {"where": at.interaction("geo.city").contains("ari"), "level": "channel"},
        {"state": "paid", "anchor": "state", "reset": "any", "lookback": "36h"},
        {
            "since": "2025-01-05",
            "until": "2025-01-25",
            "lookback": {"click": "8D", "default": "2D"},
            "node_lookbacks": {"direct": "36h"},
            "precedence": ("click", "view"),
            "milestones": {"lead": "paid"},
            "reset": "same",
        },
        {"adjustments": ["refund"], "in_currency": "EUR", "rates": RATES, "later_rate": "own"},
    ],
)
def test_paths_are_the_same(shops, settings):
    paths = [
        at.conversion_paths(shop, event_type="order", statistic="turnover", **settings) for shop in shops
    ]
    same(each.to_pandas() for each in paths)
    same(each.summary(top=None) for each in paths)
    same(each.lags() for each in paths)


def test_windows_of_types_are_the_same(engines):
    settings = {"lookback": {"click": "8D", "view": "1D"}, "precedence": ("click", "view"), "reset": "any"}
    same(paths_of(backend, **settings).to_pandas() for backend in engines)


def test_milestones_kinds_and_states_are_the_same(engines):
    settings = {
        "columns": {"milestone.lead": "led", "kind": "kind", "state": "led"},
        "reset": "same",
        "node_lookbacks": {"Email": "36h", "direct": "1500ms"},
    }
    models = {"lead": at.models.PositionBased(0.3, 0.3, milestones={"lead": 0.3}), "last": "last_touch"}
    same(at.attribute(paths_of(backend, **settings), models) for backend in engines)


def test_every_model_is_the_same(both):
    same(at.attribute(paths, MODELS) for paths in both)


def test_intervals_of_many_models_at_once_are_the_same(engines):
    settings = {"lookback": {"click": "8D", "view": "1D"}, "precedence": ("click", "view"), "reset": "any"}
    rules = {name: model for name, model in MODELS.items() if not isinstance(model, PathModel)}
    same(at.attribute(paths_of(backend, **settings), rules, confidence=0.9) for backend in engines)


@pytest.mark.parametrize("intervals", ["closed_form", "bootstrap"])
def test_intervals_are_the_same(both, intervals):
    models = ["linear", "markov", "shapley", "conversion_rate_shapley", "fractribution"]
    same(at.attribute(paths, models, confidence=0.9, intervals=intervals, replicates=20) for paths in both)


def test_money_and_series_are_the_same(engines):
    settings = {"in_currency": "EUR", "rates": RATES, "later_rate": "own"}
    paths = [paths_of(each, adjustments=each.table("refunds"), **settings) for each in engines]
    same(at.attribute(each, ["linear", "markov"]) for each in paths)
    for date in ("event", "touch"):
        same(
            at.credit_series(each, "linear", date=date, interval="week", timezone="Europe/Paris")
            for each in paths
        )


def test_single_conversions_are_explained_alike(both):
    event_id = both[0].to_pandas().groupby("event_id").size().idxmax()
    for model in ("linear", "fractribution"):
        same(at.explain(paths, model, event_id) for paths in both)
    for model in ("time_decay", "conversion_rate_shapley", "discrete_hazard"):
        same(at.touch_credits(paths, model) for paths in both)
    same(at.position_credits(paths) for paths in both)
    same(paths.lengths() for paths in both)


def test_comparisons_are_the_same(both):
    same(at.compare_lookbacks(paths, ["7D", "30D"]) for paths in both)
    same(at.compare_orders(paths, [1, 2]) for paths in both)


@pytest.mark.parametrize(
    "settings",
    [
        {"interval": "week", "timezone": "Europe/Paris"},
        {"interval": "hourOfDay", "timezone": "America/New_York", "sort": "-interval"},
        {"interval": "month", "group_by": "geo.city"},
        {"interval": "custom", "segments": 7, **PERIOD},
    ],
)
def test_insights_are_the_same(shops, settings):
    same(at.interaction_insights(shop, **settings) for shop in shops)


@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_insights_of_events_are_the_same(shops, timezone):
    asked = {"metrics": ["event-count", "turnover", "paid"], "interval": "week", "timezone": timezone}
    same(at.event_insights(shop, group_by="event-type", **asked, **PERIOD) for shop in shops)


@pytest.mark.parametrize("interval", INTERVALS)
def test_every_interval_is_the_same(shops, interval):
    asked = {"interval": interval, "timezone": "Australia/Lord_Howe"}
    same(at.interaction_insights(shop, **asked) for shop in shops)


CITY, DURATION = at.interaction("geo.city"), at.interaction("duration")
PREDICATES = {
    "equals": CITY == "paris",
    "not": CITY != "paris",
    "missing": CITY.is_null(),
    "nonempty": CITY.is_not_empty(),
    "in": CITY.isin(["Paris", "Évry", "x"]),
    "not in": CITY.not_in(["Paris", "x"]),
    "case": CITY.starts_with("éV") | CITY.ends_with("RIS"),
    "order": CITY > "Paris",
    "pattern": CITY.matches("^[Pp]ar"),
    "number": (DURATION >= 20) & (DURATION < 80.5),
    "between": DURATION.between(10, 20),
    "flag": at.interaction("isBot") == True,  # noqa: E712
    "instant": at.interaction("startDate") > "2025-01-10T12:00:00Z",
    "neither": ~((CITY == "Paris") | (DURATION > 50)),
    "node": at.node("channel") != "paid",
    "name": at.node("nodeName").contains("MAIL"),
}


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates_are_the_same(shops, name):
    asked = {"nodes" if PREDICATES[name].kind == "node" else "where": PREDICATES[name]}
    same(at.interaction_insights(shop, bots=None, **asked) for shop in shops)


def test_random_numbers_are_the_same(engines):
    tables = [portable(backend).table("texts") for backend in engines]
    numbered = [
        each.mutate(number=number_of(each.text), group=group_of(each.text, 20)).order_by("text")
        for each in tables
    ]
    expected, found = (each.to_pyarrow().to_pandas() for each in numbered)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_parquet_files_are_uploaded(engines, tmp_path):
    folder = tmp_path / "converted"
    folder.mkdir()
    frame = world()["converted"]
    for part in range(2):
        frame.iloc[part::2].to_parquet(folder / f"{part}.parquet")
    paths = [
        at.Paths.from_frames(backend.table("touched"), str(folder), columns={"touch": "touch_id"})
        for backend in engines
    ]
    same(each.to_pandas() for each in paths)
    same(at.attribute(each, ["linear", "markov"]) for each in paths)


def test_frames_and_tables_may_be_mixed(engines, both):
    frames = world()
    touched = engines[1].table("touched")
    beside = at.Paths.from_frames(
        touched,
        frames["converted"],
        users=frames["observed"].assign(segment=None),
        columns={"touch": "touch_id"},
    )
    models = ["linear", "discrete_hazard"]
    same([at.attribute(both[0], models), at.attribute(beside, models)])
