"""Times whose zone stands in the name of their column or beside them."""

import pytest
from support.own_files import read_files

from attrib_ds.errors import InputWarning, InvalidRequest

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")


@pytest.fixture
def read(write):
    """Read two orders with a column of times; return their instants in UTC."""

    def read_orders(name, times, amounts=("15.50", "9.25"), **options):
        visits = write("visits.csv", "email,visited_at,channel\nann@x.example,2025-08-20T08:00:00Z,Search\n")
        rows = [f"{at},{time},ann@x.example,{amounts[at]}" for at, time in enumerate(times)]
        orders = write("orders.csv", "\n".join([f"order_id,{name},email,amount", *rows]))
        events = read_files(visits, orders, **options).events
        return [f"{at:%d %H:%M}" for at in sorted(events["eventDate"])]

    return read_orders


LOCAL = ("2025-09-03 08:15:00", "2025-12-24 20:00:00")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Tanggal (WIB)", ["03 01:15", "24 13:00"]),
        ("created (GMT+5:30)", ["03 02:45", "24 14:30"]),
        ("created UTC-3", ["03 11:15", "24 23:00"]),
        ("Created at [Europe/Paris]", ["03 06:15", "24 19:00"]),
        ("Order date (Eastern Time US & Canada)", ["03 12:15", "25 01:00"]),
        ("created_at_aest", ["02 22:15", "24 10:00"]),
        ("createdAtMSK", ["03 05:15", "24 17:00"]),
        ("created at (UTC)", ["03 08:15", "24 20:00"]),
    ],
)
def test_the_name_of_a_column_tells_its_zone(read, name, expected):
    assert read(name, LOCAL) == expected


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2025/09/03 08:15 JST", "2025/12/24 20:00 JST"], ["02 23:15", "24 11:00"]),
        (["2025-09-03 8:15 AM ET", "2025-12-24 8:00 PM ET"], ["03 12:15", "25 01:00"]),
        (
            ["2025-09-03T08:15:00+02:00[Europe/Paris]", "2025-12-24T20:00:00+01:00[Europe/Paris]"],
            ["03 06:15", "24 19:00"],
        ),
        (["2025-09-03 08:15:00 (WIB)", "2025-12-24 20:00:00 (WIB)"], ["03 01:15", "24 13:00"]),
    ],
)
def test_words_behind_times_tell_their_zone(read, times, expected):
    assert read("created", times) == expected


@pytest.mark.parametrize(
    ("name", "times", "amounts", "expected", "said"),
    [
        (
            "created (IST)",
            LOCAL,
            ("₹15.50", "₹9.25"),
            ["03 02:45", "24 14:30"],
            "IST is Asia/Kolkata, as INR shows",
        ),
        ("created (IST)", LOCAL, ("₪15.50", "₪9.25"), ["03 05:15", "24 18:00"], "Asia/Jerusalem, as ILS"),
        (
            "created",
            [f"{at} CST" for at in LOCAL],
            ("CNY 15.50", "CNY 9.25"),
            ["03 00:15", "24 12:00"],
            "Asia/Shanghai",
        ),
        ("created EST", LOCAL, ("AUD 15.50", "AUD 9.25"), ["02 22:15", "24 10:00"], "10:00, as AUD"),
    ],
)
def test_the_currency_tells_which_of_several_places_a_zone_is(read, name, times, amounts, expected, said):
    with pytest.warns(InputWarning, match=said):
        assert read(name, times, amounts) == expected


@pytest.mark.parametrize(
    ("name", "times"), [("created (IST)", LOCAL), ("created", [f"{at} IST" for at in LOCAL])]
)
def test_a_zone_of_several_places_is_refused_until_the_user_says_which(read, name, times):
    with pytest.raises(InvalidRequest, match=r"timezone='Asia/Kolkata'\) or reading=Reading.*Jerusalem"):
        read(name, times)
    assert read(name, times, timezone="Asia/Kolkata") == ["03 02:45", "24 14:30"]


def test_a_currency_and_a_country_of_two_places_tell_none(read):
    with pytest.raises(InvalidRequest, match="IST is the time of several places"):
        read("created (IST),country", [f"{at},IL" for at in LOCAL], ("₹15.50", "₹9.25"))


def test_local_times_of_an_unknown_place_are_said(read):
    with pytest.warns(InputWarning, match=r"local times of an unknown place.*timezone='Europe/Paris'"):
        assert read("created (local time)", LOCAL) == ["03 08:15", "24 20:00"]


@pytest.mark.parametrize(
    ("name", "times", "expected"),
    [
        ("date (CET)", ["2025-09-03", "2025-12-24"], ["03 23:59", "24 23:59"]),
        (
            "created (CET)",
            ["2025-09-03T08:15:00+02:00", "2025-12-24T20:00:00+01:00"],
            ["03 06:15", "24 19:00"],
        ),
        ("created (PKT)", ["1756887322", "1766606400"], ["03 08:15", "24 20:00"]),
    ],
)
def test_days_counts_and_times_with_an_offset_keep_theirs(read, name, times, expected):
    assert read(name, times) == expected


def test_days_are_those_of_the_zone_that_the_user_gives(write):
    """An order of a day in Chicago counts at its end there, so a visit of that evening comes before it."""
    orders = "order_id,day,email,amount\n1,2025-07-01,ann@x.example,9.5\n2,2025-12-01,ann@x.example,9.5\n"
    seen = "email,day,channel\nann@x.example,2025-06-30,Search\n"
    journeys = read_files(write("v.csv", seen), write("o.csv", orders), timezone="America/Chicago")
    assert [f"{at:%m-%d %H:%M}" for at in sorted(journeys.events["eventDate"])] == [
        "07-02 04:59",
        "12-02 05:59",
    ]
    assert [f"{at:%m-%d %H:%M}" for at in journeys.interactions["startDate"]] == ["06-30 05:00"]


def test_an_unknown_word_behind_a_time_is_no_zone(read):
    with pytest.raises(InvalidRequest, match="is not a date"):
        read("created", [f"{at} (QQQQ)" for at in LOCAL])


def test_a_zone_that_nobody_knows_is_refused(read):
    with pytest.raises(InvalidRequest, match="timezone: 'IST' is not allowed; allowed: an offset or a place"):
        read("created", LOCAL, timezone="IST")


@pytest.mark.parametrize(("zone", "expected"), [("CDT", "13:15"), ("CET", "07:15"), ("IST", None)])
def test_abbreviations_to_the_right_of_times_are_their_zones(write, zone, expected):
    """IST is in Israel, India or Ireland, and nothing here says which."""
    visits = write("visits.csv", "email,visited_at,channel\nann@x.example,2025-08-20T08:00:00Z,Search\n")
    rows = f"order_id,Created Datetime,Created Timezone,email,amount\n7,2025-09-03 08:15:00,{zone},ann@x.example,5.50\n"
    orders = write("orders.csv", rows)
    if expected is None:
        with pytest.warns(InputWarning, match="Created Timezone"):
            events = read_files(visits, orders).events
        expected = "08:15"
    else:
        events = read_files(visits, orders).events
    assert f"{events['eventDate'][0]:%H:%M}" == expected
