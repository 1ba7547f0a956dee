"""What columns have to do with one another tells their roles, whatever their names are."""

import io
import sqlite3

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.errors import InputWarning, InvalidRequest
from attrib_ds.importers.content import amounts
from attrib_ds.importers.content.evidence import currency_at_end

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")

PEOPLE = ["ann@x.example", "bob@x.example", "cleo@x.example", "dan@x.example", "eve@x.example"]
VISITS = pd.DataFrame({"email": PEOPLE, "time": "2025-03-01T08:00:00Z", "channel": "Search"})


def orders_of(**columns):
    return pd.DataFrame({"order_id": [f"R{each}" for each in range(1, 6)], "email": PEOPLE, **columns})


def values_of(orders, visits=VISITS):
    events = at.read_journeys(visits, orders).events
    return dict(zip(events["event.sourceId"], events["statistics.revenue"], strict=True))


def total_of(**columns):
    return amounts.totals(columns, added=[], deducted=[]).outermost


@pytest.mark.parametrize(
    ("columns", "total"),
    [
        # A sum, whatever its place; shipping has few prices.
        ({"a": [12, 24, 36, 60], "b": [10, 20, 30, 50], "c": [2, 4, 6, 10]}, ["a"]),
        ({"a": [10, 20, 30, 55, 70], "b": [5, 5, 0, 5, 5], "c": [15, 25, 30, 60, 75]}, ["c"]),
        # A discount is missing in many rows, and has many amounts.
        (
            {
                "a": [100, 80, 60, 50, 30, 90, 70, 20, 10, 40],
                "b": [10, 0, 6.5, 0, 0, 9.3, 0, 2.2, 1.4, 4.8],
                "c": [90, 80, 53.5, 50, 30, 80.7, 70, 17.8, 8.6, 35.2],
            },
            ["c"],
        ),
        # One plus a rate of tax, and a price times a quantity.
        ({"a": [119, 238, 11.9, 23.8], "b": [100, 200, 10, 20]}, ["a"]),
        ({"a": [1, 2, 3, 1], "b": [10, 5, 7, 8], "c": [10, 10, 21, 8]}, ["c"]),
        # Too few rows have a discount to tell, and delivery is not a total.
        (
            {
                "a": [6164, 29425, 41811, 12942, 63075],
                "b": [0, 1290, 1290, 1290, 1290],
                "c": [0, 2942, 0, 1294, 6308],
                "d": [6164, 27773, 43101, 12938, 58057],
            },
            [],
        ),
        # No rate of tax, and too few rows.
        ({"a": [108.5, 217, 10.85, 21.7], "b": [100, 200, 10, 20]}, []),
        ({"a": [12, 24], "b": [10, 20], "c": [2, 4]}, []),
    ],
)
def test_the_total_is_what_the_others_add_up_to(columns, total):
    assert total_of(**columns) == total


def test_the_total_counts_under_any_name():
    net, tax = [100.0, 50.0, 20.0, 10.0, 5.0], [19.0, 9.5, 3.8, 1.9, 0.95]
    gross = [119.0, 59.5, 23.8, 11.9, 5.95]
    orders = orders_of(date="2025-03-05T08:00:00Z", netto=net, xa=tax, xb=gross)
    assert sorted(values_of(orders).values()) == sorted(gross)


def test_an_amount_paid_of_zero_is_that_of_an_order_still_to_be_paid():
    orders = orders_of(
        date="2025-03-05T08:00:00Z",
        price_agreed=[9.5, 8.5, 7.5, 6.5, 5.5],
        amount_paid=[9.5, 0, 7.5, 6.5, 5.5],
    )
    assert sorted(values_of(orders).values()) == [5.5, 6.5, 7.5, 8.5, 9.5]


def dates_of(orders):
    events = at.read_journeys(VISITS, orders).events
    return [f"{each:%d %H:%M}" for each in events["eventDate"].sort_values()]


def test_the_first_of_several_instants_is_when_an_order_was_made():
    made = [f"2025-03-0{day}T09:00:00Z" for day in range(2, 7)]
    paid = [f"2025-03-0{day}T10:30:00Z" for day in range(2, 7)]
    sent = ["2025-03-04T10:00:00Z", None, "2025-03-09T10:00:00Z", "2025-03-09T11:00:00Z", None]
    orders = orders_of(xc=sent, xb=paid, xa=made, value=[1.5] * 5, xd="2025-06-01T00:00:00Z")
    assert dates_of(orders) == ["02 09:00", "03 09:00", "04 09:00", "05 09:00", "06 09:00"]


def test_instants_of_which_neither_comes_first_are_refused():
    one = [f"2025-03-0{day}T09:00:00Z" for day in (2, 3, 4, 5, 6)]
    other = [f"2025-03-0{day}T09:00:00Z" for day in (3, 2, 5, 4, 6)]
    with pytest.raises(InvalidRequest, match="two columns that may be the date, 'xa' and 'xb'"):
        at.read_journeys(VISITS, orders_of(xa=one, xb=other, value=1.5))


def test_an_instant_of_the_same_day_beats_the_day():
    days = [f"2025030{day}" for day in range(2, 7)]
    times = [f"2025-03-0{day}T09:00:00Z" for day in range(2, 7)]
    orders = orders_of(event_date=days, event_timestamp=times, value=1.5)
    assert dates_of(orders)[0] == "02 09:00"


def test_other_columns_show_the_decimal_mark_and_the_order_of_days():
    text = (
        "order_id;email;paid;date;shown;fee\n1;ann@x.example;1.250;03/04/2025;25/04/2025;0,5\n"
        "2;bob@x.example;2.500;05/04/2025;06/04/2025;1,25\n"
    )
    assert values_of(pd.read_csv(io.StringIO(text), sep=";", dtype=str)) == {"1": 1250.0, "2": 2500.0}


def test_amounts_that_add_up_show_that_their_mark_is_of_thousands():
    goods, sent, total = (
        ["13,495", "8,157", "1,912", "940"],
        ["660"] * 4,
        ["14,155", "8,817", "2,572", "1,600"],
    )
    orders = pd.DataFrame(
        {
            "order_id": [*"abcd"], "email": PEOPLE[:4], "date": "2025-03-05T08:00:00Z", "goods": goods,
            "sent": sent, "total": total,
        }
    )  # fmt: skip
    assert values_of(orders) == {"a": 14155.0, "b": 8817.0, "c": 2572.0, "d": 1600.0}
    with pytest.raises(InvalidRequest, match="may be in thousands"):
        values_of(orders.drop(columns="sent"))


def test_a_negative_row_is_a_refund_of_the_same_person():
    orders = pd.DataFrame(
        {
            "order_id": ["a", "b", "c", "x", "y"],
            "email": ["ann@x.example", "ann@x.example", "bob@x.example", "ann@x.example", "dan@x.example"],
            "date": [f"2025-03-0{day}T08:00:00Z" for day in range(2, 7)],
            "value": [50.0, 30.0, 20.0, -30.0, -5.0],
        }
    )
    # It belongs to the sale of the same amount. A refund without a sale is not a conversion.
    assert values_of(orders) == {"a": 50.0, "b": 0.0, "c": 20.0}


def test_what_was_refunded_in_part_counts_with_the_rest():
    orders = orders_of(
        date="2025-03-05T08:00:00Z", value=[50.0, 30.0, 20.0, 10.0, 5.0], refunded=[10.0, 30.0, 0, 0, 0],
        status=["Terugbetaald", "Terugbetaald", "Betaald", "Betaald", "Geannuleerd"],
    )  # fmt: skip
    assert values_of(orders) == {"R1": 40.0, "R3": 20.0, "R4": 10.0}


def test_a_word_between_a_source_and_a_campaign_is_the_medium():
    visits = VISITS.drop(columns="channel").assign(
        Quelle=["google", "google", "post", "post", "google"],
        Dings=["klick", "klick", "brief", "brief", "anzeige"],
        Kampagne=["x", "y", "x", "x", "y"],
    )
    read = at.read_journeys(visits, orders_of(date="2025-03-05T08:00:00Z", value=1.5))
    assert {*read.interactions["nodeId"]} == {
        "google/klick/x", "google/klick/y", "post/brief/x", "google/anzeige/y",
    }  # fmt: skip


def test_a_database_of_sqlite_is_a_file(tmp_path):
    path = tmp_path / "orders.sqlite"
    connection = sqlite3.connect(path)
    orders_of(date="2025-03-05T08:00:00Z", value=1.5).to_sql("orders", connection, index=False)
    connection.close()
    assert len(at.read_journeys(VISITS, path).events) == 5


def test_pages_without_a_referrer_do_not_hide_words_that_may_tell_the_source():
    visits = VISITS.drop(columns="channel").assign(
        url="https://shop.example/", xs=["ad", "ad", "post", "post", "ad"]
    )
    orders = orders_of(date="2025-03-05T08:00:00Z", value=1.5)
    assert {*at.read_journeys(visits, orders).nodes["_id"]} >= {"ad", "post"}


def test_page_views_of_events_are_touchpoints_beside_orders():
    views = pd.DataFrame(
        {
            "event_id": [*"abcde"],
            "domain_userid": PEOPLE,
            "collector_tstamp": "2025-03-01T08:00:00Z",
            "v_tracker": "js-3",
            "page_url": "https://shop.example/?utm_source=google&utm_medium=cpc&utm_campaign=x",
            "page_referrer": "https://www.google.com/",
        }
    )
    orders = orders_of(date="2025-03-05T08:00:00Z", value=1.5).rename(columns={"email": "domain_userid"})
    assert {*at.read_journeys(views, orders).interactions["nodeId"]} == {"google/cpc/x"}
    with pytest.raises(InvalidRequest, match="read_snowplow"):
        at.read_journeys(views)


def test_numbers_of_orders_may_begin_with_a_day():
    orders = orders_of(
        date=[f"2025-03-0{day}T08:00:00Z" for day in range(2, 7)], total=[10.0, 20.0, 30.5, 40.0, 50.0]
    )
    orders["code"] = [f"202503{number}" for number in range(10, 15)]
    items = (
        pd.concat([orders, orders])
        .drop(columns="order_id")
        .assign(item_price=[1.5 * each for each in range(10)])
    )
    assert sorted(values_of(items)) == [f"202503{number}" for number in range(10, 15)]


def test_thousands_of_india_have_groups_of_two_digits():
    orders = orders_of(
        date="2025-03-02T09:00:00Z", total=["1,25,300.50", "12,450.00", "99.00", "3,00,000", "7"]
    )
    assert sorted(values_of(orders).values()) == [7, 99, 12450, 125300.5, 300000]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Brutto €", "EUR"),
        ("Итого, руб.", "RUB"),
        ("金額（円）", "JPY"),
        ("Total (CHF)", "CHF"),
        ("Total pcs", None),
    ],
)
def test_a_currency_in_the_name_of_an_amount(name, code):
    assert currency_at_end(name)[1] == code


def test_flags_and_fees_are_not_people():
    """Two columns of 0 and another value meet in every row, but tell nobody."""
    visits = pd.DataFrame(
        {"ClientID": range(101, 113), "isNew": [0, 1] * 6, "time": "2025-03-01", "channel": "Ads"}
    )
    orders = pd.DataFrame(
        {"client": range(112, 100, -1), "date": "2025-03-02", "sum": 9.5, "postage": [0, 1] * 6}
    )
    journeys = at.read_journeys(visits, orders)
    assert journeys.columns["conversions"]["user"] == "client"


def test_addresses_with_campaigns_tell_more_than_the_referrers_beside_them():
    page = "https://shop.example/sale?utm_source=news&utm_medium=email&utm_campaign=may"
    visits = pd.DataFrame(
        {"email": PEOPLE, "visit_at": "2025-03-01 08:00", "landing_url": page, "referrer": None}
    )
    visits.loc[1:2, "referrer"] = "https://www.google.com/"
    orders = orders_of(date="2025-03-02T09:00:00Z", total=10.0)
    assert set(at.read_journeys(visits, orders).interactions["nodeId"]) == {"news/email/may"}


#: Visits of three people, of whom two come twice.
TOUCHES = pd.DataFrame(
    {
        "clicked_at": [f"2025-03-0{day}T08:00:00Z" for day in range(1, 6)],
        "email": [PEOPLE[each] for each in (0, 1, 1, 2, 2)],
        "x": ["Spring", "Spring", "Course", "Spring", "Course"],
    }
)


# A log of mails has a kind of its messages, or their name.
@pytest.mark.parametrize("name", ["x", "category", "message_name"])
def test_the_only_other_column_of_words_is_the_node(name):
    orders = orders_of(date="2025-03-10", total=[1.5, 2.5, 3.5, 4.5, 5.5])
    with pytest.warns(InputWarning, match=f"the node is {name}, the only other column of words"):
        journeys = at.read_journeys(TOUCHES.rename(columns={"x": name}), orders)
    assert [*journeys.interactions["nodeId"]] == [*TOUCHES["x"]]


def test_a_long_name_that_ends_in_a_level_is_one():
    visits = TOUCHES.rename(columns={"x": "last_touch_data_main_channel"}).assign(y=["a", "b", "a", "a", "b"])
    journeys = at.read_journeys(visits, orders_of(date="2025-03-10", total=1.5))
    assert [*journeys.interactions["nodeId"]] == [*TOUCHES["x"]]


@pytest.mark.parametrize(
    "other",
    [
        {"x": ["Ann", "Bob", "Bob", "Cleo", "Cleo"]},
        {"x": ["gold", "free", "free", "gold", "gold"]},
        {"x": ["S1", "S2", "C3", "S4", "C5"]},
        {"y": ["a", "b", "a", "a", "b"]},
        {"x": ["yes", "no", "no", "no", "yes"]},
        {"x": [None, None, None, "Spring", "Course"]},
    ],
)
def test_names_traits_ids_flags_and_two_columns_of_words_are_not_the_node(other):
    with pytest.raises(InvalidRequest, match="no column that looks like the node"):
        at.read_journeys(TOUCHES.assign(**other), orders_of(date="2025-03-10", total=1.5))


@pytest.mark.parametrize("name", ["媒体", "채널", "القناة", "Κανάλι", "ช่องทาง", "Kontaktart", "चैनल"])
def test_channels_are_known_in_many_languages(name):
    journeys = at.read_journeys(
        TOUCHES.rename(columns={"x": name}).assign(y=["a", "b", "a", "a", "b"]), orders_of(date="2025-03-10")
    )
    assert [*journeys.interactions["nodeId"]] == [*TOUCHES["x"]]


@pytest.mark.parametrize("parts", ["traffic_source.{}", "utm.{}", "traffic_source_{}"])
def test_a_name_beside_a_source_and_a_medium_is_the_campaign(parts):
    named = {parts.format(part): [f"{part[0]}1"] * 5 for part in ("name", "medium", "source")}
    journeys = at.read_journeys(TOUCHES.drop(columns="x").assign(**named), orders_of(date="2025-03-10"))
    assert {*journeys.interactions["nodeId"]} == {"s1/m1/n1"}


@pytest.mark.parametrize("name", ["ym:s:{}", "ym:s:last{}", "ga:{}", "{}"])
def test_visits_without_parameters_have_the_source_beside_them(name):
    visits = TOUCHES.drop(columns="x").assign(
        **{
            name.format("TrafficSource"): ["ad", "social", "organic", "direct", "organic"],
            name.format("UTMSource"): ["bing", "vk", None, None, None],
            name.format("UTMMedium"): ["cpc", "social", None, None, None],
            "referrer": [None, None, None, None, "https://duckduckgo.com/"],
        }
    )
    nodes = ["bing/cpc", "organic-social/vk", "organic", "direct", "organic-search/duckduckgo"]
    journeys = at.read_journeys(visits, orders_of(date="2025-03-10"))
    assert [*journeys.interactions["nodeId"]] == nodes
    first = visits.assign(**{"First Source": "organic"}).drop(columns=name.format("TrafficSource"))
    journeys = at.read_journeys(first, orders_of(date="2025-03-10"))
    assert [*journeys.interactions["nodeId"]] == [*nodes[:2], "direct", "direct", nodes[4]]


def test_modes_that_all_rows_share_are_not_people():
    touches = pd.DataFrame(
        {
            "kind": "event",
            "env": ["production", "sandbox", "production"],
            "k": ["u1a", "u2b", "u3c"],
            "at": "2025-03-01",
        }
    ).assign(channel=["Search", "Mail", "Mail"])
    orders = touches.drop(columns="channel").assign(
        order_id=[1, 2, 3], total=[1.5, 2.5, 3.5], at="2025-03-02"
    )
    journeys = at.read_journeys(touches, orders)
    assert journeys.columns["touchpoints"]["user"] == "k"


def test_amounts_of_the_east_have_a_decimal_point():
    orders = pd.DataFrame(
        {
            "주문번호": ["1", "2"],
            "이메일": PEOPLE[:2],
            "주문일시": "2025-03-10",
            "결제금액": ["45,000", "22,000"],
        }
    )
    assert values_of(orders) == {"1": 45_000, "2": 22_000}
