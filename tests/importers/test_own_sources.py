"""Orders that carry their own source: a shop's order attribution, UTM parameters, a landing page."""

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InputWarning, InvalidRequest

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")

SHOP = "https://shop.example"
TOUCHES = pd.DataFrame(
    {
        "email": ["a@x.example", "b@x.example"],
        "date": ["2025-08-30", "2025-08-31"],
        "channel": ["seo", "post"],
    }
)
BING = "https://www.bing.com/"


def orders(**columns):
    """Two orders of a, the last one without a source of its own in some tables, and one of b."""
    return pd.DataFrame(
        {
            "order_id": [1, 2, 3],
            "customer_email": ["a@x.example", "b@x.example", "a@x.example"],
            "date": ["2025-09-01 10:00", "2025-09-02 11:00", "2025-09-03 10:00"],
            "total": [50.0, 60.0, 70.0],
        }
        | columns
    )


UTM = {
    "utm_source": ["google", None, "News"],
    "utm_medium": ["cpc", None, "email"],
    "utm_campaign": ["c1", None, None],
}


def last(paths, model="last_touch"):
    """Value by node, with that of the unattributed conversions as None."""
    credits = at.attribute(paths, model)
    names = [None if pd.isna(name) else name for name in credits["node_id"]]
    return {name: value for name, value in zip(names, credits["value"], strict=True) if value}


def woocommerce(**more):
    names = {
        "Order ID": [1, 2, 3],
        "Order Status": ["completed", "processing", "cancelled"],
        "Billing Email": ["a@x.example", "b@x.example", "c@x.example"],
        "Order Date": ["2025-09-01 10:00", "2025-09-02 11:00", "2025-09-03 10:00"],
        "Order Total": [50.0, 60.0, 70.0],
        "Currency": ["EUR"] * 3,
    }
    return pd.DataFrame(names | more)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (orders(**UTM), {"google/cpc/c1": 50.0, "News/email": 70.0, None: 60.0}),
        (orders(**{name.removeprefix("utm_"): cells for name, cells in UTM.items()}),
         {"google/cpc/c1": 50.0, "News/email": 70.0, None: 60.0}),
        # A point of sale is not a traffic source.
        (orders(source=["web", "pos", "web"], **UTM), {"google/cpc/c1": 50.0, "News/email": 70.0, None: 60.0}),
        (orders(**{"source / medium": ["google / cpc", "(direct) / (none)", "news / email"]}),
         {"google/cpc": 50.0, "direct": 60.0, "news/email": 70.0}),
        (orders(landing_site=["/?utm_source=google&utm_medium=cpc", "/boots", None],
                referring_site=[None, BING, None], source_name=["web", "web", "pos"]),
         {"google/cpc": 120.0, "organic-search/bing": 60.0}),
        (orders(landing_site=["/?utm_source=google&utm_medium=cpc", "/boots", "/"],
                referring_site=["https://www.google.com/", BING, BING]),
         {"google/cpc": 50.0, "organic-search/bing": 130.0}),
        (orders(gclid=["x1", None, None], **{"lastVisit.landingPage": [f"{SHOP}/", f"{SHOP}/boots", None]}),
         {"google/cpc": 120.0, "direct": 60.0}),
        (woocommerce(**{
            "meta:_wc_order_attribution_source_type": ["organic", "typein", "utm"],
            "meta:_wc_order_attribution_utm_source": ["google", "(direct)", "x"],
            "meta:_wc_order_attribution_utm_medium": ["organic", None, "y"],
            "meta:_wc_order_attribution_session_entry": [f"{SHOP}/?gclid=x1", f"{SHOP}/", f"{SHOP}/"],
        }), {"google/cpc": 50.0, "direct": 60.0}),
        (woocommerce(Origin=["Source: Newsletter", "Organic: Google", "Direct"]),
         {"Newsletter": 50.0, "organic-search/Google": 60.0}),
    ],
    ids=["utm", "words", "point of sale", "pair", "shopify", "landing site", "click id", "woocommerce", "origin"],
)  # fmt: skip
def test_orders_alone_have_their_source_as_the_last_touch(table, expected):
    assert last(at.read_journeys(table, currency="EUR").paths()) == expected


def test_an_earlier_order_is_an_earlier_touch_of_its_person():
    paths = at.read_journeys(orders(**UTM), currency="EUR").paths()
    assert last(paths, "first_touch") == {"google/cpc/c1": 120.0, None: 60.0}


def test_orders_without_people_keep_their_source():
    table = orders(**UTM).drop(columns="customer_email")
    expected = {"google/cpc/c1": 50.0, "News/email": 70.0, None: 60.0}
    assert last(at.read_journeys(table, currency="EUR").paths()) == expected
    guests = orders(**UTM, customer_email=[None, "b@x.example", "a@x.example"])
    assert last(at.read_journeys(guests, currency="EUR").paths()) == expected


def test_beside_touchpoints_the_user_chooses():
    table = orders(**UTM)
    with pytest.warns(
        InputWarning, match=r"2 of 3 rows with a source.*reading=Reading\(order_sources=True\)"
    ):
        plain = at.read_journeys(TOUCHES, table, currency="EUR")
    assert last(plain.paths()) == {"seo": 120.0, "post": 60.0}
    chosen = at.read_journeys(TOUCHES, table, currency="EUR", reading=at.Reading(order_sources=True))
    assert last(chosen.paths()) == {"google/cpc/c1": 50.0, "News/email": 70.0, "post": 60.0}
    again = at.read_journeys(
        TOUCHES, table, currency="EUR", reading=at.Reading.from_json(chosen.reading.to_json())
    )
    assert last(again.paths()) == last(chosen.paths())


def test_days_of_orders_are_after_the_touchpoints_of_that_day():
    table = orders(**UTM, date=["2025-08-30"] * 3)
    touches = TOUCHES.assign(date="2025-08-30 15:00")
    chosen = at.read_journeys(touches, table, currency="EUR", reading=at.Reading(order_sources=True))
    assert last(chosen.paths())["post"] == 60.0
    assert last(chosen.paths()).keys() <= {"google/cpc/c1", "News/email", "post"}


def test_the_command_credits_orders_alone_and_beside_touchpoints(tmp_path, capsys):
    orders(**UTM).to_csv(tmp_path / "orders.csv", index=False)
    TOUCHES.to_csv(tmp_path / "touches.csv", index=False)
    bought = ["--conversions", str(tmp_path / "orders.csv"), "--models", "last_touch"]
    assert main(["attribute", "--touchpoints", *bought[1:]]) == 0
    assert "News / email" in capsys.readouterr().out
    touched = ["attribute", "--touchpoints", str(tmp_path / "touches.csv"), *bought]
    assert main(touched) == 0
    shown = capsys.readouterr()
    assert "News / email" not in shown.out
    assert "add it with --order-sources" in shown.err
    assert main([*touched, "--order-sources"]) == 0
    assert "News / email" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more",
    [
        {"converted": [1, 0, 1], "channel": ["seo", "tv", "seo"]},
        # Visits, of which one has bought.
        {
            "landing_site": [f"{SHOP}/?utm_source=a&utm_medium=b"] * 3,
            "total": [0, 0, 9.5],
            "order_id": ["v1", "v2", "v3"],
            "event": ["page", "page", "purchase"],
        },
        {"event": ["page", "page", "purchase"], "page_url": [f"{SHOP}/?utm_source=a&utm_medium=b"] * 3},
    ],
)
def test_touchpoints_with_flags_or_pages_are_no_orders(more):
    journeys = at.read_journeys(orders(**more), currency="EUR")
    assert "own_source" not in journeys.columns["conversions"]
    assert "touchpoints" in journeys.columns


def test_events_with_properties_are_visits_and_purchases(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(
        "event_id,event_type,event_time,user_id,event_properties\n"
        '1,Visit Started,2025-09-01 08:15:22.120000,q-1,"{""utm_source"": ""google"", ""utm_medium"": ""cpc""}"\n'
        '2,Visit Started,2025-09-01 12:00:00.000000,q-2,"{""utm_source"": ""post"", ""utm_medium"": ""email""}"\n'
        '3,Visit Started,2025-09-02 09:30:00.500000,q-2,"{""utm_source"": ""google"", ""utm_medium"": ""cpc""}"\n'
        '4,Purchase,2025-09-03 10:00:00.000000,q-2,"{""order_id"": ""O-7"", ""revenue"": 49.9, ""currency"": ""EUR""}"\n',
        encoding="utf-8",
    )
    journeys = at.read_journeys(path)
    assert len(journeys.interactions) == 3
    assert last(journeys.paths()) == {"google/cpc": 49.9}


@pytest.mark.parametrize(
    "name",
    ["Canal", "Channel", "Partner", "Booking source", "渠道", "מקור הגעה", "How did you hear about us?"],
)
def test_a_channel_or_a_partner_is_the_source_of_orders_alone(name):
    journeys = at.read_journeys(orders(**{name: ["DealHub", "Expedia", "DealHub"]}))
    assert last(journeys.paths()) == {"DealHub": 120, "Expedia": 60}


def test_points_of_sale_are_not_the_source_of_orders_unless_they_are_named():
    shops = orders(Source=["web", "pos", "web"])
    with pytest.raises(
        InvalidRequest, match=r"name the source of these orders with .*columns=\{'node': COLUMN"
    ):
        at.read_journeys(shops)
    journeys = at.read_journeys(shops, reading=at.Reading(columns={"node": "Source"}))
    assert last(journeys.paths()) == {"web": 120, "pos": 60}


def test_the_name_of_a_buyer_is_no_campaign():
    named = orders(**{"Referral tag": ["Bing", None, "Bing"], "Name": ["Ann", "Bob", "Ann"]})
    interactions = at.read_journeys(named).interactions
    assert [*interactions["nodeId"]] == ["organic-search/Bing"] * 2


def test_leads_without_an_amount_are_conversions_and_visits_are_not():
    leads = orders(**UTM).drop(columns=["total", "order_id"]).assign(customer_email=list("abc"))
    leads["customer_email"] += "@x.example"
    with pytest.raises(InvalidRequest, match="pass the conversions in a file of their own"):
        at.read_journeys(leads)
    journeys = at.read_journeys(leads.assign(message="a quote, please", transaction_id=None))
    credits = at.attribute(journeys.paths(), "last_touch")
    assert credits["conversions"].sum() == 3
    assert "google/cpc/c1" in {*credits["node_id"]}
