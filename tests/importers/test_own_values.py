"""Values, currencies and instants in users' own files."""

import pandas as pd
import pytest

from attrib_ds import Reading, attribute, errors, read_journeys
from attrib_ds.importers.own_paths import read_sequences
from attrib_ds.importers.own_spend import read_spend

CLICKS = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-01-01"]})


def orders(**columns):
    length = max(map(len, columns.values()))
    return pd.DataFrame({"user": ["u"] * length, "date": ["2025-01-02"] * length} | columns)


def amounts(*texts):
    frame = orders(order_id=list(range(len(texts))), revenue=list(texts))
    return read_journeys(CLICKS, frame).events.sort_values("event.sourceId")["statistics.revenue"].tolist()


@pytest.mark.parametrize("column", ["cost_currency", "account_currency", "spend_currency_code"])
def test_amounts_of_two_currencies_are_kept_apart(write, column):
    spend, _ = read_spend(write("spend.csv", f"channel,cost,{column}\ntv,100,EUR\ntv,50,USD\n"))
    assert spend[["spend", "currency"]].to_numpy().tolist() == [[100.0, "EUR"], [50.0, "USD"]]


@pytest.mark.large
@pytest.mark.slow
def test_the_currency_named_after_the_amount_is_preferred():
    frame = orders(revenue=["10"], currency=["USD"], revenue_currency=["EUR"], fees_in_currency=["7"])
    journeys = read_journeys(CLICKS, frame)
    assert journeys.events["statistics.revenue.currency"].tolist() == ["EUR"]
    # A column of amounts is no column of currencies.
    journeys = read_journeys(CLICKS, orders(revenue=["10"], fees_in_currency=["7"]))
    assert journeys.columns["conversions"].get("currency") is None


@pytest.mark.slow
@pytest.mark.parametrize("currency", [None, "EUR"])
def test_an_empty_value_is_a_conversion_without_a_value(currency):
    frame = orders(order_id=["1", "2"], revenue=["10", ""])
    if currency is not None:
        frame["currency"] = [currency, None]
    journeys = read_journeys(CLICKS, frame)
    assert journeys.rejected.empty
    credits = attribute(journeys.paths(), "linear")
    assert credits["conversions"].sum() == 2
    assert credits["value"].sum() == 10


def test_marks_for_none_among_numbers_are_missing_values():
    marks = [".", "-", "–", "NA", "n/a", "#N/A", "NaN"]
    journeys = read_journeys(CLICKS, orders(order_id=[*"123456789"], revenue=["10.50", *marks, "20"]))
    assert journeys.rejected.empty
    events = journeys.events.sort_values("event.sourceId")
    assert events["statistics.revenue"].fillna(-1).tolist() == [10.5, *[-1] * 7, 20]


def test_text_that_is_no_number_is_refused():
    with pytest.warns(errors.RejectedRows, match="revenue is not a number: 'much'"):
        journeys = read_journeys(CLICKS, orders(revenue=["10", "much"]))
    assert len(journeys.events) == 1


def test_an_empty_value_of_a_path_that_does_not_convert_is_zero(write):
    wide = "T_1,T_2,conv_flag,conversion_value\na,b,1,10\na,,0,\nb,,1,\n"
    sequences = read_sequences(write("wide.csv", wide))
    assert sequences.rejected["reason"].tolist() == ["conversion_value is missing"]
    credits = attribute(sequences.paths, "last_touch")
    assert credits[["conversions", "value"]].sum().tolist() == [1.0, 10.0]
    assert sequences.counts == {"paths": 2}


@pytest.mark.parametrize(("more", "expected"), [({}, {"NOK"}), ({"currency": ["SEK"]}, {"SEK"})])
def test_the_value_of_a_path_has_the_currency_of_its_column_or_the_one_named(more, expected):
    frame = pd.DataFrame({"path": ["a > b"], "conversions": [2], "value": [10.0]} | more)
    paths = read_sequences(frame, currency="NOK").paths
    assert set(attribute(paths, "linear")["currency"]) == expected


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("1.234,50", "1.000"), [1234.5, 1000.0]),
        (("99,9", "1.000", "7-"), [99.9, 993.0]),
        (("0,500", "2"), [0.5, 2.0]),
        (("1.234.567", "12"), [1234567.0, 12.0]),
        (("1,234.50", "1,000"), [1234.5, 1000.0]),
        (("99.9", "1.000", "1e3"), [99.9, 1.0, 1000.0]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*1 refund subtracted")
def test_decimal_commas_hold_for_the_whole_column(texts, expected):
    assert amounts(*texts) == expected


def test_decimal_commas_and_points_in_one_column_are_refused():
    with pytest.raises(errors.InvalidRequest, match=r"'99,9' has a decimal comma and '5\.5' a decimal point"):
        amounts("99,9", "5.5")


@pytest.mark.parametrize("written", ["03/01/2025", "3-1-2025 10:00"])
def test_a_refused_date_is_shown_with_advice(written):
    expected = f"row 0: date is not a date: '{written}'; .*pass reading=Reading.dayfirst=True. or reading=Reading.dayfirst=False"
    with pytest.raises(errors.InvalidRequest, match=expected):
        read_journeys(CLICKS.assign(date=written), orders(revenue=["1"]))


def test_a_refused_instant_is_shown():
    expected = r"row 0: date is not a date: 'soon'; write dates as '2025-01-31' or '2025-01-31T12:00:00Z'\)"
    with pytest.raises(errors.InvalidRequest, match=expected):
        read_journeys(CLICKS.assign(date="soon"), orders(revenue=["1"]))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2025/2/1", "2025-02-01"),
        ("2025.02.01 15:04", "2025-02-01 15:04"),
        ("2025/02/01 03:04:05 PM", "2025-02-01 15:04:05"),
        ("2025-02-01 12:30 am", "2025-02-01 00:30"),
        ("1 Feb 2025", "2025-02-01"),
        ("01-FEB-2025 9:05", "2025-02-01 09:05"),
        ("February 1, 2025", "2025-02-01"),
        ("Feb 1, 2025 9:05 PM", "2025-02-01 21:05"),
        ("1 de febrero de 2025 21:05 hs.", "2025-02-01 21:05"),
        ("1 février 2025 21:05 heures", "2025-02-01 21:05"),
        ("2025-02-01 21:05 ч.", "2025-02-01 21:05"),
    ],
)
@pytest.mark.few(4)
@pytest.mark.slow
def test_dates_whose_order_is_clear_are_read(written, expected):
    journeys = read_journeys(CLICKS.assign(date=written), orders(date=["2025-03-02"]))
    assert journeys.interactions["startDate"].tolist() == [pd.Timestamp(expected, tz="UTC")]


_NO_DATES = ["Feb 1, 25", "2025/02/30", "2025/02/01 15:04 PM", "Feb 2025", "2025/02"]
#: 14 March 2025 in the calendar of Iran, and in that of Taiwan as nobody writes it.
_OTHER_YEARS = ["1403/12/24", "1403-12-24T10:22:00Z", "0114-03-14"]


@pytest.mark.parametrize("written", [*_NO_DATES, *_OTHER_YEARS])
def test_dates_that_do_not_exist_are_refused(written):
    with pytest.raises(errors.InvalidRequest, match="date is not a date"):
        read_journeys(CLICKS.assign(date=written), orders(revenue=["1"]))


def test_a_twelve_hour_clock_follows_a_local_date():
    journeys = read_journeys(
        CLICKS.assign(date="1/2/2025 1:05 PM"), orders(revenue=["1"]), reading=Reading(dayfirst=False)
    )
    assert journeys.interactions["startDate"].tolist() == [pd.Timestamp("2025-01-02 13:05", tz="UTC")]


@pytest.mark.parametrize("written", ["01.02.25", "1/2/25 10:00", "01-02-25"])
def test_a_year_of_two_digits_is_refused_unless_its_place_is_known(written):
    expected = f"date is not a date: '{written}'; .*write the year with four digits"
    with pytest.raises(errors.InvalidRequest, match=expected):
        read_journeys(CLICKS.assign(date=written), orders(revenue=["1"]))
    journeys = read_journeys(
        CLICKS.assign(date=written), orders(date=["2025-03-02"]), reading=Reading(dayfirst=True)
    )
    assert journeys.interactions["startDate"].dt.strftime("%Y-%m-%d").tolist() == ["2025-02-01"]


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dates", "attributed"),
    [
        (["2025-01-02", "2025-01-09"], True),
        (pd.to_datetime(["2025-01-02", "2025-01-09"]), True),
        (["2025-01-02", "2025-01-09T10:00:00Z"], True),
        (["2025-01-02 00:00:00", "2025-01-09 00:00:00"], True),
        (["2025-01-02 00:00:00", "2025-01-09 10:00:00"], False),
    ],
)
def test_g253_a_day_counts_until_its_end(dates, attributed):
    clicks = CLICKS.assign(date="2025-01-02T15:00:00Z")
    frame = pd.DataFrame({"user": ["u", "v"], "date": dates, "order_id": [1, 2]})
    credits = attribute(read_journeys(clicks, frame).paths(), "linear")
    assert credits.loc[credits["node_id"] == "tv", "conversions"].sum() == attributed


def test_g253_lines_of_an_order_and_missing_times_are_days_too():
    lines = pd.DataFrame({"user": "u", "order_id": [1, 1, 2], "date": ["2025-01-02"] * 3, "value": 5.0})
    lines["time"] = [None, "20:00", None]
    dates = read_journeys(CLICKS, lines, reading=Reading(aggregate=True)).events["eventDate"]
    assert dates.dt.strftime("%H:%M:%S.%f").tolist() == ["20:00:00.000000", "23:59:59.999999"]


@pytest.mark.parametrize("node_columns", ["utm_source,utm_medium,utm_campaign", "source,medium,campaign"])
def test_spend_has_the_nodes_of_the_touchpoints(write, node_columns):
    rows = "google,cpc,spring{0}\nnewsletter,email,{0}\nbing,organic,{0}\n"
    spend, _ = read_spend(write("spend.csv", f"{node_columns},cost\n{rows.format(',5')}"))
    clicks = write("clicks.csv", f"{node_columns},user,date\n{rows.format(',u,2025-01-01')}")
    journeys = read_journeys(clicks, orders(revenue=["1"]))
    assert spend["node_id"].tolist() == ["google/cpc/spring", "newsletter/email", "organic-search/bing"]
    assert set(spend["node_id"]) == set(journeys.interactions["nodeId"])


@pytest.mark.slow
def test_spend_follows_the_nodes_of_the_touchpoints(write):
    file = write("spend.csv", "utm_source,utm_medium,utm_campaign,cost\ngoogle,cpc,spring,5\n,,,7\n")
    for nodes in [
        {"google": "channel"},
        {"google/cpc": "integration"},
        {"google/cpc": "integration", "google/cpc/spring": "campaign"},
    ]:
        spend, rejected = read_spend(file, nodes=nodes)
        assert spend["node_id"].tolist() == list(nodes)[-1:]
        assert len(rejected) == 1
