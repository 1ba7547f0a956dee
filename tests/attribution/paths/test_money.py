"""Value of conversions with later amounts and in several currencies."""

import warnings
from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attrib_ds import Paths, attribute, errors
from attrib_ds.attribution.paths.money import local_days_of, read_dates

#: One of the later amounts below is of no conversion.
pytestmark = pytest.mark.filterwarnings("ignore:adjustments.* of .* rows:attrib_ds.errors.InputWarning")


def days(*dates):
    return pd.to_datetime([f"2025-{date}" for date in dates], utc=True, format="ISO8601")


TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": ["u", "u", "v", "v", "w"],
        "node_id": ["search", "email", "email", "social", "social"],
        "date": days("01-01", "01-02", "01-01", "01-02", "01-01"),
    }
)
ORDERS = pd.DataFrame(
    {
        "event_id": ["first", "second", "third"],
        "user_id": ["u", "v", "w"],
        "date": days("01-05", "01-06", "01-07"),
        "value": [100.0, 60.0, 40.0],
        "currency": ["EUR", "EUR", "EUR"],
    }
)
#: The first order comes back whole, a third of the second does, and the third is topped up.
LATER = pd.DataFrame(
    {
        "event_id": ["first", "second", "third", "unknown"],
        "date": days("02-10", "02-11", "02-12", "02-13"),
        "value": [-100.0, -20.0, 10.0, 999.0],
    }
)


def values(paths, model="linear"):
    credits = attribute(paths, model)
    assert credits.groupby("model")["conversions"].sum().tolist() == pytest.approx([3])
    return credits.set_index("node_id")["value"].to_dict()


def paths_of(**options):
    return Paths.from_frames(TOUCHPOINTS, ORDERS, **options)


def test_later_amounts_have_the_weights_of_their_conversion():
    paths = paths_of(adjustments=LATER)
    assert values(paths.with_original_values()) == {"search": 50.0, "email": 80.0, "social": 70.0}
    assert values(paths.with_later_values()) == {"search": -50.0, "email": -60.0, "social": 0.0}
    assert values(paths) == {"search": 0.0, "email": 20.0, "social": 70.0}
    rows = paths.to_pandas().drop_duplicates("event_id")
    assert rows.set_index("event_id")["value"].to_dict() == {"first": 0.0, "second": 40.0, "third": 50.0}


def test_refunds_above_the_value_are_named():
    """60 less 40 and 50 is -30; 100 less 100 is 0, which is no excess."""
    refunds = pd.DataFrame({"event_id": ["first", "second", "second"], "date": days("02-10", "02-11", "02-12"),
                            "value": [-100.0, -40.0, -50.0]})  # fmt: skip
    with pytest.warns(errors.InputWarning, match="1 conversion with refunds .* 'second' has -30.00 of 60"):
        paths_of(adjustments=refunds)


@pytest.mark.filterwarnings("ignore:lookback:attrib_ds.errors.InputWarning")
def test_another_lookback_keeps_the_choice_of_values():
    paths = paths_of(adjustments=LATER)
    shorter = paths.with_lookback("4D")
    # Only the touchpoint of the 2nd is within four days of the orders of the 5th; none of the others is.
    assert values(shorter.with_original_values())["email"] == 100.0
    assert values(paths.with_original_values().with_lookback("4D"))["email"] == 100.0
    assert values(paths.with_later_values().with_lookback("4D"))["email"] == -100.0


def test_several_amounts_of_one_conversion_add_up():
    halves = pd.concat([LATER.assign(value=LATER["value"] / 2)] * 2)
    assert values(paths_of(adjustments=halves)) == {"search": 0.0, "email": 20.0, "social": 70.0}


@pytest.mark.large
@pytest.mark.slow
def test_without_amounts_nothing_changes():
    assert values(paths_of(adjustments=LATER.iloc[:0])) == values(paths_of())
    assert values(paths_of().with_original_values()) == values(paths_of())
    assert set(values(paths_of().with_later_values()).values()) == {0.0}
    assert values(paths_of(adjustments=LATER).with_later_values().with_later_values())["search"] == -50.0


def test_conversions_without_a_value_are_worth_their_later_amounts():
    leads = ORDERS.drop(columns=["value", "currency"])
    assert values(Paths.from_frames(TOUCHPOINTS, leads, adjustments=LATER)) == {
        "search": -50.0,
        "email": -60.0,
        "social": 0.0,
    }


@pytest.mark.large
@pytest.mark.slow
def test_models_are_fitted_without_later_amounts():
    for model in ["markov", "markov_2", "fractribution", "conversion_rate_shapley", "shapley"]:
        paths = paths_of(adjustments=LATER)
        original, later, net = (
            values(each, model) for each in (paths.with_original_values(), paths.with_later_values(), paths)
        )
        assert original == pytest.approx(values(paths_of(), model)), model
        for node, value in net.items():
            assert value == pytest.approx(original[node] + later[node]), model
        whole = values(
            paths_of(adjustments=ORDERS.assign(value=-ORDERS["value"]).drop(columns="currency")), model
        )
        assert whole == pytest.approx(dict.fromkeys(whole, 0.0)), model


@pytest.mark.large
@pytest.mark.slow
def test_a_chain_divides_later_amounts_as_it_divides_values():
    # All of 200 EUR were worth 90 EUR in the end, whichever node they came by.
    paths = paths_of(adjustments=LATER)
    original = values(paths.with_original_values(), "markov")
    expected = {node: value * 90 / 200 for node, value in original.items()}
    assert values(paths, "markov") == pytest.approx(expected)
    # Without original values, later amounts are divided as conversions are.
    leads = Paths.from_frames(TOUCHPOINTS, ORDERS.assign(value=0.0), adjustments=LATER)
    credits = attribute(leads, "markov")
    assert credits["value"].tolist() == pytest.approx((credits["share"] * -110).tolist())


RATES = pd.DataFrame(
    {
        "currency": ["USD", "USD", "GBP", "EUR"],
        "date": ["2025-01-06", "2025-02-01", "2025-01-01", "2025-01-01"],
        "rate": [0.9, 0.5, 1.2, 1.0],
    }
)
MIXED = ORDERS.assign(currency=["GBP", "USD", "EUR"])


def test_values_are_converted_at_the_date_of_the_conversion():
    paths = Paths.from_frames(TOUCHPOINTS, MIXED, in_currency="EUR", rates=RATES)
    rows = paths.to_pandas().drop_duplicates("event_id").set_index("event_id")
    # 100 GBP at 1.2; 60 USD at the rate valid from that day; 40 EUR.
    assert rows["value"].to_dict() == pytest.approx({"first": 120.0, "second": 54.0, "third": 40.0})
    assert set(rows["currency"]) == {"EUR"}
    credits = attribute(paths, "linear")
    assert credits.set_index("node_id")["value"].to_dict() == pytest.approx(
        {"search": 60.0, "email": 87.0, "social": 67.0}
    )
    assert credits.attrs["in_currency"] == "EUR"


@pytest.mark.large
@pytest.mark.slow
def test_dates_of_rates_may_be_of_any_unit():
    for zone in [None, "UTC"]:
        for unit in ["s", "ms", "us", "ns"]:
            dates = pd.Series(pd.to_datetime(["2025-01-01", "2025-01-07"])).astype(f"datetime64[{unit}]")
            rates = pd.DataFrame({"currency": "USD", "date": dates.dt.tz_localize(zone), "rate": [0.5, 0.25]})
            abroad = ORDERS.assign(currency="USD")
            paths = Paths.from_frames(TOUCHPOINTS, abroad, in_currency="EUR", rates=rates)
            assert values(paths, "last_touch") == {"search": 0.0, "email": 50.0, "social": 40.0}, (unit, zone)


def test_currencies_stay_apart_without_one_to_convert_to():
    credits = attribute(Paths.from_frames(TOUCHPOINTS, MIXED), "linear")
    sums = credits.groupby("currency")["value"].sum().to_dict()
    assert sums == {"EUR": 40.0, "GBP": 100.0, "USD": 60.0}


def test_weights_do_not_depend_on_currency():
    apart = attribute(Paths.from_frames(TOUCHPOINTS, MIXED), "linear")
    together = attribute(Paths.from_frames(TOUCHPOINTS, MIXED, in_currency="EUR", rates=RATES), "linear")
    counts = apart.groupby("node_id")["conversions"].sum().to_dict()
    assert together.set_index("node_id")["conversions"].to_dict() == pytest.approx(counts)


def test_a_later_amount_has_the_rate_of_its_conversion_or_its_own():
    for later_rate, left in [("original", 0.0), ("own", 60 * 0.9 - 60 * 0.5)]:
        back = pd.DataFrame({"event_id": ["second"], "date": days("02-02"), "value": [-60.0]})
        paths = Paths.from_frames(
            TOUCHPOINTS, MIXED, adjustments=back, in_currency="EUR", rates=RATES, later_rate=later_rate
        )
        rows = paths.to_pandas().drop_duplicates("event_id").set_index("event_id")
        assert rows.loc["second", "value"] == pytest.approx(left), (later_rate, left)
        assert paths.settings["later_rate"] == later_rate, (later_rate, left)


@pytest.mark.large
@pytest.mark.slow
def test_a_later_amount_may_be_in_another_currency_if_there_is_one_to_convert_to():
    back = LATER.iloc[:1].assign(value=-10.0, currency="GBP")
    with pytest.raises(
        errors.InvalidRequest, match="adjustments: the amount of 'first' is in GBP, its .* in EUR"
    ):
        paths_of(adjustments=back)
    paths = paths_of(adjustments=back, in_currency="EUR", rates=RATES)
    assert values(paths)["search"] == pytest.approx((100 - 12) / 2)
    # The default is the same.
    assert values(paths_of(adjustments=LATER.assign(currency="EUR"))) == values(paths_of(adjustments=LATER))


def test_the_state_does_not_decide_the_rate():
    won = MIXED.assign(won=days("03-01", "03-01", "03-01"))
    paths = Paths.from_frames(
        TOUCHPOINTS,
        won,
        columns={"state": "won"},
        anchor="state",
        lookback="90D",
        in_currency="EUR",
        rates=RATES,
    )
    assert values(paths)["social"] == pytest.approx((60 * 0.9) / 2 + 40)


def test_later_amounts_of_a_conversion_that_has_not_reached_its_state_are_not_unknown():
    won = MIXED.assign(won=[pd.NaT, *days("03-01", "03-01")])
    later = pd.DataFrame({"event_id": MIXED["event_id"].iloc[:1], "date": days("02-01"), "value": -1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.InputWarning)
        Paths.from_frames(
            TOUCHPOINTS, won, adjustments=later, columns={"state": "won"}, in_currency="EUR", rates=RATES
        )


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (RATES.iloc[1:], "there is no rate of USD to EUR on 2025-01-06, which conversions need"),
        (RATES[RATES["currency"] != "GBP"], "there is no rate of GBP to EUR on 2025-01-05"),
        (None, "there is no rate of GBP to EUR on 2025-01-05"),
        (RATES.drop(columns="date"), "rates: no column 'date'"),
        (RATES.assign(rate=[0.9, 0.0, 1.2, 1.0]), "the column 'rate' is not a rate.*row 1"),
        (RATES.assign(rate=["0.9", "x", "1", "1"]), "the column 'rate' is not a rate.*row 1"),
        (RATES.assign(date=["2025-01-06", "2025-01-06", "2025-01-01", "2025-01-01"]), "twice.*row 1"),
        (RATES.assign(date="soon"), "the column 'date' is not a date.*row 0"),
        (RATES.assign(currency=["USD", None, "GBP", "EUR"]), "the column 'currency' is missing.*row 1"),
        (RATES.assign(date=20250101), r"the column 'date' is not a date.*row 0 \(20250101\)"),
        (RATES.assign(rate=[0.9, -1.0, 1.2, 1.0]), r"the column 'rate' is not a rate.*row 1 \(-1.0\)"),
        ([1], "rates: must be a DataFrame, got list"),
    ],
)
def test_missing_and_wrong_rates_are_refused_by_name(rates, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        Paths.from_frames(TOUCHPOINTS, MIXED, in_currency="EUR", rates=rates)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": RATES}, "rates: in_currency is required with rates"),
        ({"in_currency": 978}, "in_currency: 978 is not allowed; expected a currency of ISO 4217"),
        ({"later_rate": "cash"}, "later_rate: 'cash' is not allowed.*original, own"),
        ({"adjustments": LATER.drop(columns="value")}, "adjustments: there is no column 'value'"),
        ({"adjustments": LATER.assign(value="x")}, "adjustments: the column 'value' holds string"),
        ({"adjustments": LATER.assign(event_id=None)}, "adjustments: .*'event_id' is missing"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        paths_of(**options)


def test_an_amount_without_a_currency_cannot_be_converted():
    with pytest.raises(errors.InvalidRequest, match="an amount of conversions on 2025-01-05 has no currency"):
        Paths.from_frames(TOUCHPOINTS, ORDERS.drop(columns="currency"), in_currency="EUR", rates=RATES)


# Dates of frames have one reading, whatever the rows beside them.


def test_what_is_no_date_is_missing():
    for beside in [[], ["13.02.2025"], ["2025-02-13"], [date(2025, 2, 13)]]:
        for value in [
            *("01.02.2025", "1/2/2025", "2025/02/01", "25-02-01", "2025-02-30", "2025-2-1"),
            *("2025", "2025-02", "202502", "45689", "now", "today", "soon", "", None, True),
            *(45689, 45689.0, 1_738_368_000_000, np.int64(20250201), np.nan, pd.Period("2025-02")),
        ]:
            for values in ([value, *beside], [*beside, value]):
                read = read_dates(pd.Series(values, dtype=object))
                assert pd.isna(read.iloc[values.index(value)]), (value, beside)


def test_columns_of_numbers_are_no_dates():
    for column in (pd.Series([45689]), pd.Series([45689.0]), pd.Series([45689], dtype="Int64")):
        assert read_dates(column).isna().all()


def test_dates_and_timestamps_of_all_kinds_are_read_together():
    values = [
        *(" 2025-02-01 ", "20250201", "2025-02-01T00:00:00Z", "2025-02-01 02:00+02:00"),
        *(date(2025, 2, 1), datetime(2025, 2, 1), pd.Timestamp("2025-02-01T01:00", tz="Europe/Paris")),
        np.datetime64("2025-02-01"),
    ]
    assert set(read_dates(pd.Series(values, dtype=object))) == {pd.Timestamp("2025-02-01", tz="UTC")}


def test_a_date_without_a_time_is_a_local_day():
    for values, day in [
        (["2025-02-01"], 1),
        (["20250201"], 1),
        ([date(2025, 2, 1)], 1),
        (["2025-02-01T00:00:00"], 31),
        (["2025-02-01T06:00:00Z"], 1),
        (pd.to_datetime(["2025-02-01"]), 1),
        (pd.to_datetime(["2025-02-01", "2025-02-01T10:00"], format="ISO8601"), 31),
        (pd.to_datetime(["2025-02-01"], utc=True), 31),
        (pd.array([date(2025, 2, 1)], dtype=pd.ArrowDtype(pa.date32())), 1),
        (pd.array([datetime(2025, 2, 1)], dtype=pd.ArrowDtype(pa.timestamp("us"))), 1),
        (pd.array([datetime(2025, 2, 1)], dtype=pd.ArrowDtype(pa.timestamp("us", "UTC"))), 31),
    ]:
        # In New York the day begins at 05:00 UTC.
        days = local_days_of(pd.Series(values), ZoneInfo("America/New_York"))
        assert days[0].day == day, (values, day)
        assert days.dt.tz is None, (values, day)


def test_g255_currencies_are_compared_without_regard_to_case():
    """100 and 60 are in EUR, which is written in two ways, and 40 in USD."""
    orders = ORDERS.assign(currency=["eur", " € ", "USD"])
    spend = pd.DataFrame({"node_id": ["email"], "spend": [10.0], "currency": ["eur"]})
    credits = attribute(Paths.from_frames(TOUCHPOINTS, orders), "linear", spend=spend)
    assert credits.groupby("currency")["value"].sum().to_dict() == {"EUR": 160.0, "USD": 40.0}
    # Email has half of each order in EUR, 80 for 10.
    assert credits.set_index("node_id").loc["email", ["currency", "roas"]].tolist() == ["EUR", 8.0]
    rates = pd.DataFrame({"currency": ["usd"], "date": ["2025-01-01"], "rate": [0.5]})
    converted = Paths.from_frames(TOUCHPOINTS, orders, in_currency="eur", rates=rates)
    assert attribute(converted, "linear").groupby("currency")["value"].sum().to_dict() == {"EUR": 180.0}
    later = LATER.assign(currency=["Eur", "EUR", "usd", "GBP"])
    net = Paths.from_frames(TOUCHPOINTS, orders, adjustments=later)
    assert attribute(net, "linear").groupby("currency")["value"].sum().to_dict() == {"EUR": 40.0, "USD": 50.0}
    by_code = Paths.from_frames(TOUCHPOINTS, ORDERS.drop(columns="currency"), currency="eur")
    assert attribute(by_code, "linear")["currency"].unique().tolist() == ["EUR"]


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (["EUR", "Euro", "EUR"], {}, r"'currency' is not a currency of ISO 4217.*first in row 1 \('Euro'\)"),
        (["EUR", "EUR", "$"], {}, r"\$, ¥ and kr mean several, first in row 2"),
        ("EUR", {"currency": "Euro"}, "no column 'Euro' for the currency.*or pass a code such as 'EUR'"),
        ("EUR", {"in_currency": "Euro"}, "in_currency: 'Euro' is not allowed; expected a currency"),
    ],
)
def test_g255_what_is_no_currency_is_refused(column, options, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        Paths.from_frames(TOUCHPOINTS, ORDERS.assign(currency=column), **options)
    with pytest.raises(errors.InvalidRequest, match="spend: 'Euro' is not allowed"):
        spend = pd.DataFrame({"node_id": ["email"], "spend": [10.0], "currency": ["Euro"]})
        attribute(paths_of(), "linear", spend=spend)
