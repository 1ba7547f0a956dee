"""Days and times of day in two columns, in frames, files and on the command line."""

import datetime
from contextlib import nullcontext

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InputWarning, InvalidRequest, RejectedRows
from attrib_ds.importers.own_journeys import find_columns

ORDERS = pd.DataFrame({"user": ["u"], "date": ["2025-01-09"]})


def starts(columns=None, **touchpoints):
    frame = pd.DataFrame({"user": "u", "channel": "Ads"} | touchpoints)
    journeys = at.read_journeys(frame, ORDERS, reading=at.Reading(columns=columns))
    return [f"{start:%Y-%m-%d %H:%M:%S}" for start in journeys.interactions["startDate"]]


def test_a_time_of_day_belongs_to_the_day_beside_it():
    clocks = ["00:05", "9:05", "10:05:07", "2:05 PM", "3:05pm", "18:05:00+02:00"]
    read = ["00:05:00", "09:05:00", "10:05:07", "14:05:00", "15:05:00", "16:05:00"]
    assert starts(date=["2025-01-01"] * 6, time=clocks) == [f"2025-01-01 {clock}" for clock in read]


def test_a_time_of_day_may_have_a_zone():
    assert starts(day_sent=["2025-01-01"] * 2, time_sent=["9:05 AM UTC", "02:05 PM UTC"]) == [
        "2025-01-01 09:05:00",
        "2025-01-01 14:05:00",
    ]


def test_days_of_any_form_take_a_time():
    days = ["2025-01-01", "2025-01-02 00:00:00", "Jan 3, 2025"]
    assert starts(date=days, time=["14:05"] * 3) == [f"2025-01-0{day} 14:05:00" for day in (1, 2, 3)]


@pytest.mark.parametrize("first", [0, 1])
def test_a_clock_of_twelve_hours_without_am_and_pm_is_told(first):
    """The hours 1 to 12 twice; with an hour of 0 they are those of a whole day."""
    times = [f"2025-01-02 {first + number % 12:02d}:{number + 10}" for number in range(24)]
    expected = pytest.warns(InputWarning, match="hours 1 to 12 only and neither AM nor PM")
    with expected if first else nullcontext():
        starts(date=times)
    halves = [f"{time} {half}" for time, half in zip(times, ["AM", "PM"] * 12, strict=True)]
    assert not first or len(starts(date=halves)) == 24


@pytest.mark.slow
@pytest.mark.parametrize("clock", [datetime.time(14, 5), pd.Timedelta(hours=14, minutes=5)])
@pytest.mark.parametrize("day", [datetime.date(2025, 1, 1), pd.Timestamp(2025, 1, 1)])
def test_typed_days_and_times(day, clock):
    assert starts(date=[day], time=[clock]) == ["2025-01-01 14:05:00"]


@pytest.mark.large
@pytest.mark.slow
def test_other_names_of_days_and_times():
    assert starts(order_date=["2025-01-01"], time=["14:05"]) == ["2025-01-01 14:05:00"]
    named = {"date": ["day", "clock"], "conversion_date": "date"}
    assert starts(named, day=["2025-01-01"], clock=["14:05"]) == ["2025-01-01 14:05:00"]
    assert starts({"date": "date"}, date=["2025-01-01"], time=["14:05"]) == ["2025-01-01 00:00:00"]


def test_instants_need_no_time():
    assert starts(date=["2025-01-01 08:00:00"], time=["14:05"]) == ["2025-01-01 08:00:00"]
    assert starts(date=["2025-01-01"], time=["2025-01-01 14:05:00"]) == ["2025-01-01 14:05:00"]


def test_a_missing_time_is_midnight_and_a_wrong_one_is_rejected():
    with pytest.warns(RejectedRows, match=r"row 2 of touchpoints \(time is not a time of day: '25:61'"):
        read = starts(date=["2025-01-01"] * 4, time=["14:05", None, "25:61", "16:00"])
    assert read == ["2025-01-01 00:00:00", "2025-01-01 14:05:00", "2025-01-01 16:00:00"]


def test_times_that_cannot_be_read_are_not_left_out_in_silence():
    with pytest.warns(InputWarning, match="the column 'time' of touchpoints is not used.*such as 'noon'"):
        assert starts(date=["2025-01-01"], time=["noon"]) == ["2025-01-01 00:00:00"]


def test_the_warning_shows_a_value_that_cannot_be_read():
    with pytest.warns(InputWarning, match="such as '30:00:00'"):
        starts(date=["2025-01-01"] * 3, time=["06:00", "30:00:00", "31:00:00"])


def test_times_of_conversions_count():
    """The touchpoint of ten o'clock comes after the order of nine."""
    visits = pd.DataFrame(
        {"user": "u", "channel": ["Mail", "Ads"], "date": "2025-01-01", "time": ["08:00", "10:00"]}
    )
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-01-01"], "time": ["09:00"]})
    journeys = at.read_journeys(visits, orders)
    assert journeys.columns["conversions"]["date"] == ["date", "time"]
    assert at.attribute(journeys.paths(), "last_touch")["node_id"].tolist() == ["Mail"]


def test_at_most_two_columns_make_an_instant():
    with pytest.raises(InvalidRequest, match="date: .* is not allowed; allowed: one column, or those of the"):
        starts({"date": ["a", "b", "c"]}, date=["2025-01-01"])
    with pytest.raises(InvalidRequest, match="date: touchpoints has no column 'hour'"):
        starts({"date": ["date", "hour"]}, date=["2025-01-01"])


def test_the_command_reads_days_and_times(tmp_path, capsys):
    visits = pd.DataFrame(
        {"user": "u", "channel": ["Mail", "Ads"], "day": "2025-01-01", "clock": ["08:00", "10:00"]}
    )
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-01-01"], "time": ["09:00"]})
    visits.to_csv(tmp_path / "visits.csv", index=False)
    orders.to_csv(tmp_path / "orders.csv", index=False)
    files = ["--touchpoints", str(tmp_path / "visits.csv"), "--conversions", str(tmp_path / "orders.csv")]
    options = ["--date", "day,clock", "--conversion-date", "date,time", "--models", "last_touch"]
    assert main(["attribute", *files, *options]) == 0
    printed = capsys.readouterr().out
    assert "date = day, clock" in printed
    assert "Mail" in printed.split("Conversions Share")[1]
    assert "Ads" not in printed.split("Conversions Share")[1]
    assert find_columns(tmp_path / "orders.csv", "conversions", ("date",), at.Reading())[1] == {
        "date": ["date", "time"]
    }


def test_addresses_and_times_of_visits_are_found(tmp_path):
    rows = "email,visit_time,channel\nann@example.com,2025-01-01T10:00:00Z,tv\n"
    (tmp_path / "visits.csv").write_text(rows)
    found = find_columns(tmp_path / "visits.csv", "touchpoints", ("user", "date"), at.Reading())[1]
    assert found == {"user": ["email"], "date": ["visit_time"]}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("dates", "credited"),
    [
        (["2025-01-02", "2025-01-03T10:00:00Z"], ["ads", "ads"]),
        (["2025-01-02 00:00:00", "2025-01-03 00:00:00"], ["ads", "ads"]),
        (["02.01.2025", "03.01.2025 10:00"], ["ads", "ads"]),
        # A time of day, or an offset, makes an instant, which is before the visit of ten o'clock.
        (["2025-01-02 00:00:00", "2025-01-03 10:00:00"], [None, "ads"]),
        (["2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z"], [None, "ads"]),
        ([1735776000000000, 1735898400000000], [None, "ads"]),
    ],
)
@pytest.mark.filterwarnings("ignore:clocks", "ignore:conversions. all dates are midnights")
def test_g253_a_day_is_a_day_beside_instants_too(dates, credited):
    visits = pd.DataFrame({"user": ["u"], "channel": ["ads"], "date": ["2025-01-02T10:00:00Z"]})
    orders = pd.DataFrame({"order_id": ["1", "2"], "user": "u", "date": dates})
    paths = at.read_journeys(visits, orders, reading=at.Reading(dayfirst=True)).paths().to_pandas()
    nodes = [None if pd.isna(node) else node for node in paths.sort_values("event_id")["node_id"]]
    assert nodes == credited


def test_lines_of_an_order_keep_its_day():
    visits = pd.DataFrame({"user": ["u"], "channel": ["ads"], "date": ["2025-01-02T10:00:00Z"]})
    orders = pd.DataFrame({"order_id": "1", "user": "u", "date": "2025-01-02", "value": [1.0, 2.0]})
    paths = at.read_journeys(visits, orders, reading=at.Reading(aggregate=True)).paths().to_pandas()
    assert paths["node_id"].tolist() == ["ads"]
