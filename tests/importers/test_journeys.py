"""Imported journeys, loaded into a project and attributed without one."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import attrib_ds as at

# The exports have rows that cannot be read, and days without a conversion.
pytestmark = pytest.mark.filterwarnings(
    "ignore::attrib_ds.errors.RejectedRows", "ignore::attrib_ds.errors.InputWarning"
)

DATA = Path(__file__).parent / "data"
DAYS = [DATA / "events_20250101.json", DATA / "events_20250102.json"]
READ = {
    "ga4": lambda: at.read_ga4(DAYS),
    "snowplow": lambda: at.read_snowplow(DATA / "enriched-good"),
    "matomo": lambda: at.read_matomo(DATA / "last_visits_details.json"),
    "journeys": lambda: at.read_journeys(DATA / "touchpoints.csv", DATA / "orders.csv", event_type="order"),
}
TYPES = {"ga4": "purchase", "snowplow": "transaction", "matomo": "order", "journeys": "order"}


@pytest.fixture
def shop():
    with at.connect("shop", path=":memory:") as project:
        yield project


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("source", READ)
def test_a_project_and_paths_give_the_same_credits(shop, source):
    journeys = READ[source]()
    assert journeys.load(shop).rejected.empty
    paths = journeys.paths(event_type=TYPES[source])
    models = ["first_touch", "linear", "last_non_direct"]
    in_project = at.conversion_paths(shop, event_type=TYPES[source], statistic="revenue")
    columns = ["model", "node_id", "node_name", "conversions", "value", "currency"]
    pd.testing.assert_frame_equal(
        at.attribute(in_project, models)[columns], at.attribute(paths, models)[columns]
    )


def test_paths_of_a_period_are_those_of_a_project(shop):
    visits = pd.DataFrame({"user": ["u", "v", "w", "w"], "channel": ["Ads", "Mail", "Ads", "Mail"],
                           "date": ["2025-01-01T10:00"] * 3 + ["2025-01-03T10:00"]})  # fmt: skip
    dates = ["2025-01-02T10:00", "2025-01-03T23:30", "2025-01-04T10:00", "2025-01-04T10:00"]
    orders = pd.DataFrame({"order_id": [1, 2, 3, 4], "user": ["u", "v", "w", "x"], "date": dates,
                           "value": [10.0, 20.0, 40.0, 80.0]})  # fmt: skip
    spend = pd.DataFrame(
        {"date": ["2025-01-02", "2025-01-03"], "channel": ["Ads", "Ads"], "spend": [5.0, 7.0]}
    )
    journeys = at.read_journeys(visits, orders, spend=spend, currency="EUR")
    journeys.load(shop)
    period = {"since": "2025-01-03", "until": "2025-01-03"}
    paths = journeys.paths(**period)
    in_project = at.conversion_paths(shop, event_type="conversion", statistic="revenue", **period)
    for model in ("linear", "markov"):
        credits = at.attribute(paths, model)
        assert credits["conversions"].sum() == 1.0
        expected = at.attribute(in_project, model)
        columns = ["node_id", "conversions", "value", "currency"]
        pd.testing.assert_frame_equal(
            expected[columns], credits[credits["conversions"] > 0][columns], check_names=False
        )
    # Of the spend, that of the day.
    assert credits.set_index("node_id")["spend"].dropna().to_dict() == {"Ads": 7.0}
    assert {name: paths.settings[name] for name in period} == {
        name: in_project.settings[name] for name in period
    }
    assert journeys.paths(until="2025-01-03T12:00:00Z").lengths()["conversions"].sum() == 1.0
    with pytest.raises(at.errors.InvalidRequest, match="until: 2025-01-02 is before since, 2025-01-03"):
        journeys.paths(since="2025-01-03", until="2025-01-02")


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("source", READ)
def test_loading_twice_creates_no_duplicates(shop, source):
    first = READ[source]().load(shop)
    before = at.search_interactions(shop, bots=None)
    again = READ[source]().load(shop)
    assert set(again.counts.values()) == {0}
    assert again.rejected.empty
    pd.testing.assert_frame_equal(at.search_interactions(shop, bots=None), before)
    assert first.counts["interactions"] == len(before)


@pytest.mark.large
@pytest.mark.slow
def test_later_days_are_added(shop):
    at.read_ga4(DAYS[0]).load(shop)
    assert len(at.search_interactions(shop)) == 3
    # The second day identifies the user of the first day's device.
    at.read_ga4(DAYS).load(shop)
    assert len(at.search_interactions(shop)) == 5
    paths = at.conversion_paths(shop, event_type="purchase", statistic="revenue")
    pd.testing.assert_frame_equal(
        at.attribute(paths, "linear"), at.attribute(at.read_ga4(DAYS).paths(), "linear"), check_exact=False
    )


@pytest.mark.large
@pytest.mark.slow
def test_frames_can_be_loaded(shop):
    journeys = READ["ga4"]()
    report = at.load(
        shop,
        nodes=journeys.nodes,
        interactions=journeys.interactions,
        hits=journeys.hits,
        events=journeys.events,
    )
    assert report.rejected.empty
    assert report.counts["interactions"] == 5
    # Without replace=True, existing records are kept.
    assert len(at.load(shop, interactions=journeys.interactions).rejected) == 5


@pytest.mark.large
@pytest.mark.slow
def test_levels(shop):
    journeys = READ["ga4"]()
    by_campaign = at.attribute(journeys.paths(level="campaign"), "first_touch").set_index("node_id")
    assert by_campaign.loc["google/cpc/Spring Boots", "conversions"] == 1.0
    by_channel = at.attribute(journeys.paths(level="channel"), "first_touch").set_index("node_id")
    assert by_channel["conversions"].to_dict() == {
        "Paid Search": 1.0,
        "Organic Social": 1.0,
        "Email": 0.0,
        "Direct": 0.0,
        "Organic Search": 0.0,
    }


@pytest.mark.large
@pytest.mark.slow
def test_bots_are_loaded_and_have_no_credit(shop):
    journeys = READ["snowplow"]()
    journeys.load(shop)
    assert len(at.search_interactions(shop, bots=True)) == 1
    assert "device d9" not in set(journeys.paths().to_pandas()["user_id"])
    assert len(journeys.paths().touchpoints.to_pyarrow()) == 4


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")
def test_a_repr_counts():
    assert repr(READ["matomo"]()) == (
        "<Journeys of 5 interactions, 4 events, 6 hits, 10 nodes; 1 row rejected>"
    )


@pytest.mark.large
@pytest.mark.slow
def test_users_have_the_account_of_the_source(shop):
    READ["ga4"]().load(shop)
    user_data = at.search_interactions(shop, columns=["userData"])["userData"].map(str).tolist()
    assert sum("cust-7" in identity for identity in user_data) == 2


@pytest.mark.large
@pytest.mark.slow
def test_an_export_without_conversions_or_without_visits(shop):
    view = {"event_timestamp": 1735725600000000, "event_name": "page_view", "user_pseudo_id": "a.1"}
    params = [{"key": "ga_session_id", "value": {"int_value": 1735725600}}]
    views = at.read_ga4(pd.DataFrame([view | {"event_params": params}]))
    assert at.attribute(views.paths(), "linear").empty
    assert views.load(shop).counts["interactions"] == 1
    orders = at.read_ga4(pd.DataFrame([view | {"event_name": "purchase", "event_params": None}]))
    credits = at.attribute(orders.paths(), "linear")
    assert credits[["node_id", "conversions"]].isna().to_numpy().tolist() == [[True, False]]
    assert orders.load(shop).rejected.empty
    for journeys in (views, orders):
        assert [frame.dtypes.to_dict() for frame in frames_of(journeys)] == [
            frame.dtypes.to_dict() for frame in frames_of(READ["ga4"]())
        ]


def frames_of(journeys):
    return journeys.interactions, journeys.events, journeys.nodes, journeys.hits, journeys.rejected


VISITS = pd.DataFrame({"customer": ["a", "b"], "channel": ["Ads", "Mail"], "time": ["2025-01-01"] * 2})
ORDERS = pd.DataFrame(
    {
        "order_id": [1001, 1002],
        "customer": ["a", "b"],
        "time": ["2025-01-02"] * 2,
        "value": [100.0, 80.0],
        "currency": ["EUR", "USD"],
    }
)
RATES = pd.DataFrame({"currency": ["USD"], "date": ["2025-01-01"], "rate": [0.5]})


def values(paths):
    credits = at.attribute(paths, "last_touch")
    return dict(zip(zip(credits["node_id"], credits["currency"], strict=True), credits["value"], strict=True))


def test_later_amounts_are_added_to_their_conversion():
    refunds = pd.DataFrame({"event_id": [1001, 7], "date": ["2025-01-09"] * 2, "value": [-40.0, -1.0]})
    paths = at.read_journeys(VISITS, ORDERS).paths(adjustments=refunds)
    assert values(paths) == {("Ads", "EUR"): 60.0, ("Mail", "USD"): 80.0}


def test_values_are_converted_to_one_currency():
    journeys = at.read_journeys(VISITS, ORDERS)
    assert values(journeys.paths(in_currency="EUR", rates=RATES)) == {
        ("Ads", "EUR"): 100.0,
        ("Mail", "EUR"): 40.0,
    }
    # A refund in the rate of its own day, where a dollar is worth more.
    later = pd.concat([RATES, RATES.assign(date="2025-01-09", rate=0.8)])
    refunds = pd.DataFrame({"event_id": ["1002"], "date": ["2025-01-09"], "value": [-10.0]})
    paths = journeys.paths(adjustments=refunds, in_currency="EUR", rates=later, later_rate="own")
    assert values(paths)[("Mail", "EUR")] == 32.0


def test_a_conversion_without_a_value_needs_no_rate():
    third = {"order_id": [1001, 1002, 1003], "value": [100.0, 80.0, None], "currency": ["EUR", "USD", None]}
    orders = ORDERS.iloc[[0, 1, 1]].assign(**third)
    paths = at.read_journeys(VISITS, orders).paths(in_currency="EUR", rates=RATES)
    credits = at.attribute(paths, "last_touch").set_index("node_id")
    assert credits["conversions"].to_dict() == {"Ads": 1.0, "Mail": 2.0}
    assert credits["value"].to_dict() == {"Ads": 100.0, "Mail": 40.0}


def test_a_missing_rate_is_named():
    with pytest.raises(at.errors.InvalidRequest, match="no rate of USD to EUR on 2025-01-02"):
        at.read_journeys(VISITS, ORDERS).paths(in_currency="EUR")


@pytest.mark.few(2)
@pytest.mark.parametrize(("reset", "credited"), [("none", 3.0), ("same", 2.0), ("any", 1.0)])
def test_earlier_conversions_end_the_window(reset, credited):
    """One touchpoint, then two orders and a lead."""
    clicks = pd.DataFrame({"user": ["u"], "channel": ["search"], "date": ["2025-01-01"]})
    orders = pd.DataFrame({"user": ["u"] * 2, "order_id": ["a", "b"], "date": ["2025-01-02", "2025-01-03"]})
    lead = pd.DataFrame({"user": ["u"], "order_id": ["c"], "date": ["2025-01-04"]})
    journeys = at.read_journeys(clicks, orders, event_type="order")
    lead_events = at.read_journeys(clicks, lead, event_type="lead").events
    both = replace(journeys, events=pd.concat([journeys.events, lead_events], ignore_index=True))
    paths = both.paths(event_type=["order", "lead"], reset=reset)
    credits = at.attribute(paths, "last_touch").set_index("node_id")["conversions"]
    assert credits["search"] == credited
    # The orders end the window of the lead if all do, though only the lead is a conversion.
    lead_paths = both.paths(event_type="lead", reset=reset, lookback={"session": "30D"})
    lengths = lead_paths.to_pandas()
    assert lengths["event_id"].tolist() == ["c"]
    assert lengths["length"].tolist() == [0 if reset == "any" else 1]
    assert both.paths(event_type="lead", lookback={"session": "2D"}).to_pandas()["length"].tolist() == [0]
