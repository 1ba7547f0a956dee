from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import TEXTS, json_values

from attrib_ds import instants
from attrib_ds.attribution.calendar import parse_duration
from attrib_ds.errors import InvalidRequest

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


def test_readable_instants():
    for value, expected in [
        ("2025-01-31T12:00:00Z", NOON),
        ("2025-01-31t12:00:00z", NOON),
        ("2025-01-31 12:00:00Z", NOON),
        ("2025-01-31T12:00:00", NOON),
        ("2025-01-31T14:00:00+02:00", NOON),
        ("2025-01-31T06:30:00-05:30", NOON),
        ("2025-01-31T12:00:00-00:00", NOON),
        ("2025-01-31T12:00:00.5Z", NOON.replace(microsecond=500_000)),
        ("2025-01-31T12:00:00.123456789Z", NOON.replace(microsecond=123_000)),
        ("2025-01-31T12:00:00.9999999Z", NOON.replace(microsecond=999_000)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        ("2016-12-31T15:59:60.25-08:00", datetime(2016, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:60Z", datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        (NOON, NOON),
        (datetime(2025, 1, 31, 12), NOON),
        (datetime(2025, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))), NOON),
        (pd.Timestamp("2025-01-31T12:00:00"), NOON),
        (pd.Timestamp("2025-01-31T13:00:00", tz="Europe/Paris"), NOON),
        (pd.Timestamp("2025-01-31T12:00:00.000000999Z"), NOON),
        (np.datetime64("2025-01-31T12"), NOON),
        (np.datetime64("2025-01-31T12:00:00.000000999"), NOON),
    ]:
        parsed = instants.parse(value, argument="since")
        assert parsed == expected, (value, expected)
        assert type(parsed) is datetime, (value, expected)
        assert parsed.tzinfo is UTC, (value, expected)


def test_repeated_hour_keeps_its_fold():
    second_time = pd.Timestamp("2025-10-26T01:30:00Z").tz_convert("Europe/Paris")
    assert instants.parse(second_time, argument="since") == datetime(2025, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2025-01-31", "a date without a time; write '2025-01-31T00:00:00Z'"),
        ("20250131", "a date without a time; write '2025-01-31T00:00:00Z'"),
        (date(2025, 1, 31), "a date without a time; write '2025-01-31T00:00:00Z'"),
        (np.datetime64("2025-01-31"), "a date without a time; write '2025-01-31T00:00:00Z'"),
        (np.datetime64("2025-01"), "a date without a time; write '2025-01-01T00:00:00Z'"),
        ("2025-01-31T24:00:00Z", "does not exist"),
        ("2025-01-31T12:60:00Z", "does not exist"),
        ("2025-01-31T12:00:61Z", "does not exist"),
        ("2025-02-29T00:00:00Z", "does not exist"),
        ("2025-13-01T00:00:00Z", "does not exist"),
        ("0000-01-01T00:00:00Z", "does not exist"),
        ("2025-01-31T12:00:00+24:00", "does not exist"),
        ("2025-01-31T12:00:00+01:60", "does not exist"),
        ("2025-01-31T12:00:00+02", "RFC 3339"),
        ("2025-01-31T12:00:00+0200", "RFC 3339"),
        ("2025-01-31T12:00Z", "RFC 3339"),
        ("2025-01-31T12:00:00.Z", "RFC 3339"),
        ("2025-01-31T12:00:00,5Z", "RFC 3339"),
        ("2025-01-31T12:00:00Z\n", "RFC 3339"),
        (" 2025-01-31T12:00:00Z", "RFC 3339"),
        ("2025-01-31_12:00:00Z", "RFC 3339"),
        ("٢٠٢٥-01-31T12:00:00Z", "RFC 3339"),
        ("yesterday", "RFC 3339"),
        ("", "RFC 3339"),
        ("0001-01-01T00:00:00+00:01", "years 0001 to 9999"),
        ("9999-12-31T23:59:59-00:01", "years 0001 to 9999"),
        (np.datetime64(2**62, "s"), "years 0001 to 9999"),
        (pd.NaT, "missing"),
        (np.datetime64("NaT", "us"), "missing"),
        (None, "NoneType"),
        (1738324800, "int"),
        (True, "bool"),
    ],
)
def test_refusals_name_the_argument(value, reason):
    with pytest.raises(InvalidRequest, match=r"^since: ") as caught:
        instants.parse(value, argument="since")
    assert reason in str(caught.value)
    assert caught.value.field == "since"


def test_format_needs_a_zone():
    with pytest.raises(ValueError, match="no time zone"):
        instants.format(datetime(2025, 1, 1))


def test_format():
    for instant, text in [
        (NOON, "2025-01-31T12:00:00.000Z"),
        (NOON.replace(microsecond=120_000), "2025-01-31T12:00:00.120Z"),
        (NOON.replace(microsecond=120_001), "2025-01-31T12:00:00.120001Z"),
        (NOON.astimezone(timezone(timedelta(hours=-3))), "2025-01-31T12:00:00.000Z"),
        (datetime(987, 6, 5, tzinfo=UTC), "0987-06-05T00:00:00.000Z"),
    ]:
        assert instants.format(instant) == text, (instant, text)


@given(
    st.datetimes(
        timezones=st.timezones() | st.just(UTC), min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)
    )
)
def test_format_and_parse_are_inverse(instant):
    parsed = instants.parse_exact(instant, argument="since")
    # Both sides in UTC: Python calls an instant in a repeated hour unequal to any in another zone.
    assert parsed == instant.astimezone(UTC)
    assert instants.parse_exact(instants.format(parsed), argument="since") == parsed
    assert instants.parse(instant, argument="since") == instants.truncate(parsed)


def test_days_and_other_values():
    for value, day in [
        ("2025-04-01", date(2025, 4, 1)),
        (date(2025, 4, 1), date(2025, 4, 1)),
        (np.datetime64("2025-04-01"), date(2025, 4, 1)),
        ("2025-04-01T00:00:00Z", None),
        ("20250401", None),
        ("2025-04", None),
        (datetime(2025, 4, 1), None),
        (pd.Timestamp("2025-04-01"), None),
        (pd.NaT, None),
        (np.datetime64("2025-04"), None),
        (None, None),
        (20250401, None),
    ]:
        assert instants.parse_day(value, argument="since") == day, (value, day)


def test_a_day_that_does_not_exist():
    with pytest.raises(InvalidRequest, match=r"^since: '2025-02-29' does not exist \(day") as caught:
        instants.parse_day("2025-02-29", argument="since")
    assert caught.value.field == "since"


def test_first_and_last_instant_of_a_day():
    for day, zone, first, after in [
        # Winter and summer time: UTC+1 and UTC+2.
        (date(2025, 1, 15), "Europe/Paris", datetime(2025, 1, 14, 23), datetime(2025, 1, 15, 23)),
        (date(2025, 7, 15), "Europe/Paris", datetime(2025, 7, 14, 22), datetime(2025, 7, 15, 22)),
        # Clocks go forward, then back: days of 23 and 25 hours.
        (date(2025, 3, 30), "Europe/Paris", datetime(2025, 3, 29, 23), datetime(2025, 3, 30, 22)),
        (date(2025, 10, 26), "Europe/Paris", datetime(2025, 10, 25, 22), datetime(2025, 10, 26, 23)),
        # The clocks of São Paulo went from 00:00 to 01:00 on 4 November 2018 (UTC-3 to UTC-2).
        (date(2018, 11, 4), "America/Sao_Paulo", datetime(2018, 11, 4, 3), datetime(2018, 11, 5, 2)),
        # Those of Havana go from 01:00 back to 00:00 on 2 November 2025 (UTC-4 to UTC-5): two midnights.
        (date(2025, 11, 2), "America/Havana", datetime(2025, 11, 2, 4), datetime(2025, 11, 3, 5)),
        # Apia left out 30 December 2011, from UTC-10 to UTC+14.
        (date(2011, 12, 29), "Pacific/Apia", datetime(2011, 12, 29, 10), datetime(2011, 12, 30, 10)),
        (date(2011, 12, 31), "Pacific/Apia", datetime(2011, 12, 30, 10), datetime(2011, 12, 31, 10)),
        (date(2025, 4, 1), "UTC", datetime(2025, 4, 1), datetime(2025, 4, 2)),
    ]:
        zone = ZoneInfo(zone)
        assert instants.first_instant(day, zone, argument="since") == first.replace(tzinfo=UTC), (day, zone)
        last = instants.last_instant(day, zone, argument="until")
        assert last + instants.RESOLUTION == after.replace(tzinfo=UTC), (day, zone)


@pytest.mark.parametrize(
    ("bound", "day", "zone"),
    [
        (instants.first_instant, date(1, 1, 1), "Europe/Paris"),
        (instants.last_instant, date(9999, 12, 31), "UTC"),
    ],
)
def test_days_beyond_the_calendar(bound, day, zone):
    with pytest.raises(InvalidRequest, match="^until: .* is outside the years 0001 to 9999"):
        bound(day, ZoneInfo(zone), argument="until")


DIGITS = st.text("0123456789-+:.TZtz /WPDHM ١d", max_size=40)


@pytest.mark.slow
@pytest.mark.timeout(60)
@settings(deadline=2_000)
@given(
    DIGITS
    | st.sampled_from(TEXTS)
    | json_values()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.dates()
)
def test_any_value_is_an_instant_or_refused(value):
    with suppress(InvalidRequest):
        instant = instants.parse(value, argument="value")
        assert instant.utcoffset() == timedelta(0)
        assert instants.parse(instants.format(instant), argument="value") <= instant
    with suppress(InvalidRequest):
        instants.parse_day(value, argument="value")


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:.*is deprecated")
@settings(deadline=2_000)
@given(
    DIGITS | st.text("0123456789.e+- dayshourminutew", max_size=20) | st.sampled_from(TEXTS) | st.timedeltas()
)
def test_any_value_is_a_duration_or_refused(value):
    with suppress(InvalidRequest):
        assert parse_duration(value, argument="value") >= timedelta(0)


@pytest.mark.parametrize(("told", "seconds"), [(None, 5.0), (4_200, 4.2), (64_000, 64.0), (66_000, 5.0)])
def test_g264_a_page_keeps_the_difference_of_clocks_that_it_was_told(told, seconds):
    sent = datetime(2025, 1, 31, 12, tzinfo=UTC)
    difference = instants.difference_of_clocks(sent, told=told, now=sent + timedelta(seconds=5))
    assert difference == timedelta(seconds=seconds)
