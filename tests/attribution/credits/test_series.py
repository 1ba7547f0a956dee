"""Credits over time, on examples computed by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.dtype_names import dtype_names

from attrib_ds import Paths, attribute, credit_series, errors, simulate, touch_credits
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.records.frames import TEXT

#: No touchpoint is of the radio, which has spend.
pytestmark = pytest.mark.filterwarnings("ignore:spend. these nodes:attrib_ds.errors.InputWarning")


def instants(*dates):
    return pd.to_datetime([f"2025-{date}" for date in dates], utc=True, format="ISO8601")


TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": ["u", "u", "v"],
        "node_id": ["search", "email", "email"],
        "date": instants("01-01", "01-03", "01-31T23:30"),
    }
)
#: Two orders with touchpoints and one without; all are qualified later.
ORDERS = pd.DataFrame(
    {
        "event_id": ["e", "f", "g"],
        "user_id": ["u", "v", "w"],
        "date": instants("01-05", "01-31T23:30", "02-02"),
        "value": [30.0, 12.0, 5.0],
        "currency": "EUR",
        "qualified": instants("02-01", "02-03", "03-01"),
    }
)
LATER = pd.DataFrame({"event_id": ["e"], "date": instants("03-15"), "value": [-10.0]})
SPEND = pd.DataFrame(
    {
        "node_id": ["search", "search", "radio"],
        "date": instants("01-01", "02-10", "02-11"),
        "spend": [4.0, 2.0, 8.0],
        "currency": "EUR",
    }
)


def series(paths=None, models="linear", **options):
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS) if paths is None else paths
    options = {"interval": "month"} | options
    rows = credit_series(paths, models, **options)
    shown = rows[[options["interval"], "node_id", "conversions", "value"]].astype(object)
    return [tuple(None if pd.isna(each) else each for each in row) for row in shown.to_numpy()]


@pytest.mark.slow
def test_by_the_date_of_the_event():
    assert series() == [
        ("2025-01", "email", 1.5, 27.0),
        ("2025-01", "search", 0.5, 15.0),
        ("2025-02", None, 1.0, 5.0),
    ]
    frame = credit_series(Paths.from_frames(TOUCHPOINTS, ORDERS), ["linear", "last_touch"])
    assert frame.columns.tolist() == [
        *("model", "day", "start", "node_id", "node_name", "conversions", "value", "currency", "is_partial")
    ]
    assert dtype_names(frame) == {
        **dict.fromkeys(["model", "day", "node_id", "node_name", "currency"], "str"),
        **dict.fromkeys(["conversions", "value"], "float64"),
        "start": "datetime64[us, UTC]",
        "is_partial": "boolean",
    }
    assert list(dict.fromkeys(frame["model"])) == ["linear", "last_touch"]


def test_by_the_date_of_the_touchpoint():
    assert series(date="touch", interval="day") == [
        ("2025-01-01", "search", 0.5, 15.0),
        ("2025-01-03", "email", 0.5, 15.0),
        ("2025-01-31", "email", 1.0, 12.0),
        # A conversion without touchpoints.
        ("2025-02-02", None, 1.0, 5.0),
    ]


@pytest.mark.large
@pytest.mark.slow
def test_by_the_date_of_the_state():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS, columns={"state": "qualified"})
    assert series(paths, date="state") == [
        ("2025-02", "email", 1.5, 27.0),
        ("2025-02", "search", 0.5, 15.0),
        ("2025-03", None, 1.0, 5.0),
    ]
    assert series(paths) == series()


@pytest.mark.slow
def test_the_date_of_the_report_and_the_anchor_of_windows_are_independent():
    paths = Paths.from_frames(
        TOUCHPOINTS, ORDERS, columns={"state": "qualified"}, anchor="state", lookback="30D"
    )
    # Qualified on 1 February: with a lookback of 30 days only touchpoints after 2 January count.
    assert series(paths) == [("2025-01", "email", 2.0, 42.0), ("2025-02", None, 1.0, 5.0)]
    assert series(paths, date="state") == [("2025-02", "email", 2.0, 42.0), ("2025-03", None, 1.0, 5.0)]


@pytest.mark.large
@pytest.mark.slow
def test_later_amounts_count_at_the_event_or_at_their_own_date():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS, adjustments=LATER)
    assert series(paths)[:2] == [("2025-01", "email", 1.5, 22.0), ("2025-01", "search", 0.5, 10.0)]
    assert series(paths, date="state") == [
        ("2025-01", "email", 1.5, 27.0),
        ("2025-01", "search", 0.5, 15.0),
        ("2025-02", None, 1.0, 5.0),
        ("2025-03", "email", 0.0, -5.0),
        ("2025-03", "search", 0.0, -5.0),
    ]
    qualified = Paths.from_frames(TOUCHPOINTS, ORDERS, adjustments=LATER, columns={"state": "qualified"})
    assert [row[0] for row in series(qualified, date="state")] == [
        *("2025-02", "2025-02", "2025-03", "2025-03", "2025-03")
    ]


@pytest.mark.slow
def test_periods_are_those_of_a_time_zone():
    # 23:30 UTC on 31 January is 1 February in Paris.
    assert series(timezone="Europe/Paris")[:2] == [
        ("2025-01", "email", 0.5, 15.0),
        ("2025-01", "search", 0.5, 15.0),
    ]
    frame = credit_series(
        Paths.from_frames(TOUCHPOINTS, ORDERS), "linear", interval="quarter", timezone="Europe/Paris"
    )
    assert set(frame["start"].astype(TEXT)) == {"2024-12-31 23:00:00+00:00"}
    assert (frame.attrs["timezone"], frame.attrs["date"]) == ("Europe/Paris", "event")


@pytest.mark.large
@pytest.mark.slow
def test_spend_is_joined_to_the_credit_of_its_period():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(SPEND)
    rows = credit_series(paths, "linear", interval="month")
    spent = rows[rows["spend"].notna()]
    assert spent[["month", "node_id", "conversions", "value", "spend"]].to_numpy().tolist() == [
        ["2025-01", "search", 0.5, 15.0, 4.0],
        ["2025-02", "radio", 0.0, 0.0, 8.0],
        ["2025-02", "search", 0.0, 0.0, 2.0],
    ]
    assert rows["node_id"].isna().tolist() == [False, False, False, False, True]
    # 4 EUR for half a conversion and 15 EUR; nothing came of the rest.
    assert spent["cpa"].tolist() == pytest.approx([8.0, np.nan, np.nan], nan_ok=True)
    assert spent["roas"].tolist() == [3.75, 0.0, 0.0]
    assert rows.loc[rows["spend"].isna(), ["cpa", "roas"]].isna().all(axis=None)
    given = credit_series(Paths.from_frames(TOUCHPOINTS, ORDERS), "linear", interval="month", spend=SPEND)
    pd.testing.assert_frame_equal(given, rows)
    # Spend without dates cannot be assigned to periods.
    assert "spend" not in credit_series(paths.with_spend(SPEND.drop(columns="date")), "linear").columns


def test_the_returns_of_all_periods_are_those_of_attribute():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(SPEND)
    series = credit_series(paths, ["linear", "last_touch"], interval="week")
    sums = series.groupby(["model", "node_id"])[["value", "spend"]].sum().reset_index()
    credits = attribute(paths, ["linear", "last_touch"])
    expected = credits[credits["node_id"].notna()].sort_values(["model", "node_id"])
    found = sums["value"] / sums["spend"].where(sums["spend"] > 0)
    assert found.tolist() == pytest.approx(expected["roas"].tolist(), nan_ok=True)


def test_spend_of_a_day_belongs_to_that_day_in_any_time_zone():
    spend = SPEND.assign(date=["2025-01-01", "2025-02-01", "2025-02-28"])
    rows = credit_series(
        Paths.from_frames(TOUCHPOINTS, ORDERS),
        "linear",
        interval="month",
        timezone="America/New_York",
        spend=spend,
    )
    assert rows.groupby("month")["spend"].sum().to_dict() == {"2025-01": 4.0, "2025-02": 10.0}


def test_values_that_are_no_money_have_no_return():
    counts = Paths.from_frames(TOUCHPOINTS, ORDERS.drop(columns=["value", "currency"]))
    rows = credit_series(counts, "linear", interval="month", spend=SPEND)
    assert rows["roas"].isna().all()
    assert rows["cpa"].max() == 8.0


def test_spend_without_dates_is_refused():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    with pytest.raises(errors.InvalidRequest, match="spend: no column 'date'"):
        credit_series(paths, "linear", spend=SPEND.drop(columns="date"))


def test_a_missing_currency_is_filled_from_the_other_side():
    counts = Paths.from_frames(TOUCHPOINTS, ORDERS.drop(columns=["value", "currency"])).with_spend(SPEND)
    assert set(credit_series(counts, "linear")["currency"]) == {"EUR"}
    plain = Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(SPEND.drop(columns="currency"))
    assert set(credit_series(plain, "linear")["currency"]) == {"EUR"}
    several = counts.with_spend(SPEND.assign(currency=["EUR", "USD", "EUR"]))
    with pytest.raises(
        errors.InvalidRequest, match="spend: has EUR, USD, but the conversions have no currency; allowed"
    ):
        credit_series(several, "linear")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:conversions. 1 row with a value but no currency")
def test_credit_without_a_currency_is_not_merged_into_another_currency():
    orders = ORDERS.assign(currency=["EUR", None, "EUR"])
    for spend in (SPEND, SPEND.drop(columns="currency")):
        paths = Paths.from_frames(TOUCHPOINTS, orders).with_spend(spend)
        with pytest.warns(errors.UnknownCurrency, match="some values have no currency, .* in EUR"):
            rows = credit_series(paths, "linear", interval="year")
        email = rows[rows["node_id"] == "email"]
        assert dict(zip(email["currency"].fillna("none"), email["value"], strict=True)) == {
            "EUR": 15.0,
            "none": 12.0,
        }
        assert set(rows.loc[rows["spend"].notna(), "currency"]) == {"EUR"}


@pytest.mark.parametrize(
    ("spend", "message"),
    [
        (SPEND.assign(date=["2025-01-01", "soon", "2025-01-01"]), "spend: .*'date' is 'soon' in row 1"),
        (
            SPEND.assign(date=["2025-01-01", "01.02.2025", "13.02.2025"]),
            "'date' is '01.02.2025' in row 1; .*ISO",
        ),
        (SPEND.assign(date=["13.02.2025", "01.02.2025", "2025-01-01"]), "'date' is '13.02.2025' in row 0"),
        (SPEND.assign(date=[45689, 45690, 45691]), "'date' is 45689 in row 0; allowed: dates, timestamps"),
        (SPEND.assign(date=[None, "2025-01-01", "2025-01-01"]), "spend: .*'date' is missing in row 0"),
        (SPEND.assign(spend=[1.0, -2.0, 3.0]), "spend: .*'spend' is -2.0 in row 1; allowed: 0 or more"),
        (SPEND.drop(columns="node_id"), "spend: no column 'node_id'"),
    ],
)
def test_bad_spend_is_refused_by_name(spend, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        credit_series(Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(spend), "linear")


def test_values_of_unknown_currency_are_not_labelled_with_that_of_the_spend():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS.drop(columns="currency"))
    with pytest.warns(errors.UnknownCurrency, match="values have no currency, .* in EUR") as caught:
        rows = credit_series(paths, ["linear", "last_touch"], interval="year", spend=SPEND)
    (warning,) = [each for each in caught if each.category is errors.UnknownCurrency]
    assert warning.filename == __file__
    assert rows[["currency", "roas"]].isna().all(axis=None)
    linear = rows[rows["model"] == "linear"].set_index(rows["node_name"][:4])
    assert linear["value"].to_dict() == {"email": 27.0, "radio": 0.0, "search": 15.0, "unattributed": 5.0}
    assert linear["spend"].dropna().to_dict() == {"radio": 8.0, "search": 6.0}
    # 6 EUR for half a conversion.
    assert linear["cpa"].dropna().to_dict() == {"search": 12.0}


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("spend", [SPEND, SPEND.drop(columns="currency"), SPEND.iloc[:0]])
def test_columns_do_not_depend_on_conversions_or_spend(spend):
    busy = Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(SPEND)
    quiet = Paths.from_frames(TOUCHPOINTS, ORDERS.iloc[:0]).with_spend(spend)
    for function in (credit_series, attribute):
        rows = function(quiet, "linear")
        pd.testing.assert_series_equal(rows.dtypes, function(busy, "linear").dtypes)
        without_spend = function(busy.with_spend(SPEND.iloc[:0]), "linear")
        pd.testing.assert_series_equal(without_spend.dtypes, rows.dtypes)
        assert without_spend[["spend", "cpa", "roas"]].isna().all(axis=None)


@pytest.mark.parametrize("function", [credit_series, attribute])
def test_spend_without_any_conversion_has_earned_nothing(function):
    quiet = Paths.from_frames(TOUCHPOINTS, ORDERS.iloc[:0])
    spend = SPEND.assign(currency=["EUR", "CHF", "EUR"])
    rows = function(quiet.with_spend(spend), ["linear", "last_touch"]).sort_values(["model", "spend"])
    assert rows[["node_id", "currency", "spend"]].to_numpy().tolist() == 2 * [
        ["search", "CHF", 2.0],
        ["search", "EUR", 4.0],
        ["radio", "EUR", 8.0],
    ]
    assert rows.get("share", pd.Series(0.0)).eq(0.0).all()
    for column in ("conversions", "value", "roas"):
        assert rows[column].tolist() == [0.0] * 6
    assert rows["cpa"].isna().all()


def test_no_conversions_give_an_empty_series_with_all_columns():
    empty = credit_series(Paths.from_frames(TOUCHPOINTS, ORDERS.iloc[:0]), "linear", timezone="Europe/Paris")
    whole = credit_series(Paths.from_frames(TOUCHPOINTS, ORDERS), "linear")
    assert empty.empty
    assert empty.dtypes.to_dict() == whole.dtypes.to_dict()


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("date", ["event", "state", "touch"])
@pytest.mark.parametrize("model", ["shapley", "participation", "fractribution", "conversion_rate_shapley"])
def test_credits_summed_over_periods_equal_those_of_attribute(model, date):
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS, adjustments=LATER)
    summed = (
        credit_series(paths, model, date=date)
        .groupby("node_id", dropna=False)[["conversions", "value"]]
        .sum()
    )
    credits = attribute(paths, model).set_index("node_id")[["conversions", "value"]]
    pd.testing.assert_frame_equal(summed.sort_index(), credits.sort_index(), check_exact=False, rtol=1e-12)


#: Few half-lives and rows, because the tests check sums, not the fit.
HAZARDS = {
    "alone": DiscreteHazard(half_lives=("2D",), rows=1_000),
    "pairs": DiscreteHazard(half_lives=("1D", "5D"), rows=1_000, interactions=True),
}


@pytest.fixture(scope="module")
def world():
    """Touchpoints and conversions; most are qualified some days later, some corrected."""
    simulated = simulate("random", users=600, seed=12)
    conversions = simulated.conversions.sort_values("event_id", ignore_index=True)
    later = conversions["date"] + pd.to_timedelta(conversions.index % 9, unit="D") + pd.Timedelta("3h")
    conversions = conversions.assign(qualified=later.where(conversions.index % 5 > 0))
    corrected = conversions.iloc[::3]
    adjustments = pd.DataFrame(
        {
            "event_id": corrected["event_id"],
            "date": corrected["date"] + pd.Timedelta("40D"),
            "value": -corrected["value"] / 4,
        }
    )
    return simulated.touchpoints, conversions, adjustments


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lookback:attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("date", ["event", "state", "touch"])
@pytest.mark.parametrize("anchor", ["event", "state"])
@pytest.mark.parametrize("hazard", HAZARDS)
def test_hazard_credits_summed_over_periods_equal_those_of_attribute(world, hazard, anchor, date):
    touchpoints, conversions, adjustments = world
    paths = Paths.from_frames(
        touchpoints,
        conversions,
        adjustments=adjustments,
        columns={"state": "qualified"},
        anchor=anchor,
        lookback="6D",
    )
    model = HAZARDS[hazard]
    credits = attribute(paths, model).set_index("node_id")[["conversions", "value"]]
    interval, timezone = ("day", "UTC") if date == "event" else ("month", "America/New_York")
    rows = credit_series(paths, model, date=date, interval=interval, timezone=timezone)
    summed = rows.groupby("node_id", dropna=False)[["conversions", "value"]].sum()
    # Nodes without credit have no row in a series.
    summed = summed.reindex(credits.index, fill_value=0.0)
    pd.testing.assert_frame_equal(summed, credits, check_exact=False, rtol=1e-7, atol=1e-9)
    qualified = conversions[conversions["qualified"].notna()]
    corrected = adjustments[adjustments["event_id"].isin(qualified["event_id"])]
    assert rows["conversions"].sum() == pytest.approx(len(qualified))
    assert rows["value"].sum() == pytest.approx(qualified["value"].sum() + corrected["value"].sum())


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("hazard", HAZARDS)
def test_hazard_credits_of_a_day_sum_to_its_conversions(world, hazard):
    touchpoints, conversions, adjustments = world
    paths = Paths.from_frames(
        touchpoints, conversions, adjustments=adjustments, columns={"state": "qualified"}
    )
    qualified = conversions[conversions["qualified"].notna()]
    for date, column in (("event", "date"), ("state", "qualified")):
        rows = credit_series(paths, HAZARDS[hazard], date=date)
        found = rows.groupby("start")["conversions"].sum()
        expected = qualified.groupby(qualified[column].dt.floor("D")).size()
        # Later amounts have dates of their own and are not conversions.
        np.testing.assert_allclose(found.drop(expected.index), 0.0, atol=1e-9)
        pd.testing.assert_series_equal(
            found.loc[expected.index], expected.astype("float64"), check_names=False, check_index_type=False
        )


@pytest.mark.slow
@pytest.mark.parametrize("hazard", HAZARDS)
def test_hazard_credits_by_touch_are_on_the_day_of_the_touchpoint(world, hazard):
    touchpoints, conversions, _ = world
    paths = Paths.from_frames(touchpoints, conversions)
    rows = credit_series(paths, HAZARDS[hazard], date="touch")
    by_touch = touch_credits(paths, HAZARDS[hazard])
    by_touch = by_touch[by_touch["node_id"].notna()]
    expected = by_touch.groupby([by_touch["date"].dt.floor("D"), "node_id"])["conversions"].sum()
    found = rows[rows["node_id"].notna()].set_index(["start", "node_id"])["conversions"]
    both = pd.concat([found, expected], axis=1, keys=["found", "expected"]).fillna(0.0)
    np.testing.assert_allclose(both["found"], both["expected"], atol=1e-9)
    # The baseline stays at the day of the conversion.
    baseline = rows[rows["node_id"].isna()].set_index("start")["conversions"]
    days = conversions["date"].dt.floor("D")
    assert set(baseline[baseline.abs() > 1e-9].index) <= set(days)


def test_several_models_keep_their_order():
    rows = credit_series(
        Paths.from_frames(TOUCHPOINTS, ORDERS), {"b": "fractribution", "a": "linear"}, interval="year"
    )
    assert list(dict.fromkeys(rows["model"])) == ["b", "a"]
    assert list(rows.attrs["models"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": "hour"}, "interval: 'hour' is not allowed.*quarter"),
        ({"date": "click"}, "date: 'click' is not allowed.*event, state, touch"),
        ({"date": "state"}, "date: 'state' needs the dates of a state or of later amounts"),
        ({"timezone": "Paris"}, "timezone: 'Paris' is not a time zone"),
        ({"models": "markov", "date": "touch"}, "credits nodes, not touchpoints.*allowed: 'event'"),
        ({"confidence": 95}, "confidence: 95 is not allowed"),
        ({"models": "linaer"}, "models: 'linaer' is not a model"),
        ({"models": "assisted"}, r"Paths.roles\(\) counts assisted conversions"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        series(**options)


def test_an_argument_other_than_paths_is_refused():
    with pytest.raises(errors.InvalidRequest, match="paths: DataFrame is not Paths"):
        credit_series(TOUCHPOINTS, "linear")


def test_aggregated_paths_have_no_dates():
    paths = Paths.from_sequences(pd.DataFrame({"path": ["a"], "n": [1]}), path="path", conversions="n")
    with pytest.raises(errors.InvalidRequest, match="a series of credits needs the dates"):
        credit_series(paths, "linear")


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("settings", "date", "expected"),
    [
        # The last order is on 2 February, so that February may be longer than the data.
        ({}, "event", {"2025-01": False, "2025-02": True}),
        ({"until": "2025-02-28T23:59:59.999000Z"}, "event", {"2025-01": False, "2025-02": False}),
        ({"since": "2025-01-01T00:00:00Z", "until": "2025-03-05T12:00:00Z"}, "event", {"2025-01": False}),
        ({"since": "2025-01-02T00:00:00Z"}, "event", {"2025-01": True, "2025-02": True}),
        # Touchpoints of January have led to conversions before February, too.
        ({"since": "2025-02-01T00:00:00Z"}, "touch", {"2025-01": True, "2025-02": True}),
    ],
)
def test_a_period_that_is_counted_in_part_is_marked(settings, date, expected):
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    rows = credit_series(replace(paths, settings=settings), "linear", interval="month", date=date)
    marked = dict(zip(rows["month"], rows["is_partial"], strict=True))
    assert {month: marked[month] for month in expected} == expected


def test_spend_after_the_last_credit_says_that_the_data_go_on():
    later = pd.DataFrame({"node_id": ["search"], "date": ["2025-02-28"], "spend": [1.0], "currency": "EUR"})
    rows = credit_series(Paths.from_frames(TOUCHPOINTS, ORDERS), "linear", interval="month", spend=later)
    assert not rows["is_partial"].any()


@pytest.fixture(scope="module")
def weeks():
    """Return touchpoints and orders of four weeks in January and February."""
    world = simulate("random", users=1_500, seed=3)
    start = pd.Timestamp("2025-01-15", tz="UTC") - world.touchpoints["date"].min().normalize()
    orders = world.conversions.assign(date=world.conversions["date"] + start)
    return world.touchpoints.assign(date=world.touchpoints["date"] + start), orders


def bounded(rows, *columns):
    rows = rows.assign(node=rows["node_id"].fillna("")).sort_values(["model", "node"])
    return rows[["model", "node", "conversions", *columns]].reset_index(drop=True)


BOUNDS = ("low", "high", "value_low", "value_high")


@pytest.mark.large
@pytest.mark.slow
def test_the_intervals_of_a_month_are_those_of_its_conversions_alone(weeks):
    touchpoints, orders = weeks
    models = ["linear", "time_decay"]
    rows = credit_series(Paths.from_frames(touchpoints, orders), models, interval="month", confidence=0.9)
    assert rows.attrs["confidence"] == "0.9"
    assert sorted(set(rows["month"])) == ["2025-01", "2025-02"]
    for month in ("2025-01", "2025-02"):
        own = Paths.from_frames(touchpoints, orders[orders["date"].dt.strftime("%Y-%m") == month])
        alone = bounded(attribute(own, models, confidence=0.9), *BOUNDS)
        pd.testing.assert_frame_equal(bounded(rows[rows["month"] == month], *BOUNDS), alone)


@pytest.mark.slow
def test_each_month_has_a_markov_chain_of_its_own(weeks):
    touchpoints, orders = weeks
    paths = Paths.from_frames(touchpoints, orders)
    rows = credit_series(paths, "markov", interval="month", confidence=0.9)
    last = touchpoints.groupby("user_id")["date"].max().dt.strftime("%Y-%m")
    never = set(touchpoints["user_id"]) - set(orders["user_id"])
    for month in ("2025-01", "2025-02"):
        converted = orders[orders["date"].dt.strftime("%Y-%m") == month]
        users = set(converted["user_id"]) | {user for user in never if last[user] == month}
        own = Paths.from_frames(touchpoints[touchpoints["user_id"].isin(users)], converted)
        alone = bounded(attribute(own, "markov", confidence=0.9), *BOUNDS)
        pd.testing.assert_frame_equal(bounded(rows[rows["month"] == month], *BOUNDS), alone)
    without = credit_series(paths, "markov", interval="month")
    pd.testing.assert_frame_equal(without, rows.drop(columns=list(BOUNDS)))


@pytest.mark.large
@pytest.mark.slow
def test_intervals_of_models_that_are_fitted_once_are_jackknifed(weeks):
    paths = Paths.from_frames(*weeks)
    rows = bounded(credit_series(paths, "fractribution", interval="year", confidence=0.9), "low", "high")
    whole = bounded(attribute(paths, "fractribution", confidence=0.9), "low", "high")
    pd.testing.assert_frame_equal(rows, whole)


def test_spend_has_a_cost_with_bounds():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(SPEND)
    rows = credit_series(paths, "linear", interval="month", confidence=0.9)
    whole = attribute(Paths.from_frames(TOUCHPOINTS, ORDERS[:2]), "linear", confidence=0.9)
    high = whole.set_index("node_id").loc["search", "high"]
    spent = rows[rows["spend"].notna()].set_index("node_id")
    january = spent[spent["month"] == "2025-01"]
    assert january.loc["search", "cpa_low"] == pytest.approx(4.0 / high)
    # Spend without a touchpoint has bought nothing for certain.
    assert spent.loc["radio", ["low", "high", "roas_high"]].tolist() == [0.0, 0.0, 0.0]
