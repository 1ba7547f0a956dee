"""Page views in users' files: the visits, and where they came from."""

from __future__ import annotations

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import errors

SHOP = "https://shop.example"
AGENT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"
pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")


def visits(journeys):
    """Nodes of the visits, by time."""
    return journeys.interactions["nodeId"].tolist()


def orders(**columns):
    return pd.DataFrame({"order_id": [1], "date": ["2025-09-02"], "value": [50.0]} | columns)


def log_line(clock, target, referrer="-"):
    return (
        f'203.0.113.5 - - [01/Sep/2025:{clock} +0000] "GET {target} HTTP/1.1" 200 12 "{referrer}" "{AGENT}"\n'
    )


def test_views_within_the_site_are_no_visits(tmp_path):
    file = tmp_path / "views.csv"
    file.write_text(
        "ts,person,page,came_from\n"
        f"2025-09-01 10:00,u1,{SHOP}/?fbclid=1&utm_source=fb&utm_medium=paid,https://l.facebook.com/\n"
        f"2025-09-01 10:20,u1,{SHOP}/boots,{SHOP}/\n"
    )
    journeys = at.read_journeys(file, orders(person=["u1"]))
    assert visits(journeys) == ["fb/paid"]
    assert journeys.interactions["endDate"].tolist() == [pd.Timestamp("2025-09-01 10:20", tz="UTC")]
    assert journeys.notes[0] == "views.csv: 1 visit from 2 page views"


def pages(**more):
    """Pages of a customer data platform: a campaign, and a view within the site."""
    columns = {
        "anonymous_id": ["a", "a"],
        "timestamp": ["2025-09-01 10:00", "2025-09-01 10:05"],
        "context_page_url": [f"{SHOP}/", f"{SHOP}/boots"],
        "context_page_referrer": ["https://www.google.com/", f"{SHOP}/"],
    }
    return pd.DataFrame(columns | more)


CAMPAIGN = {
    "context_campaign_source": ["google", None],
    "context_campaign_medium": ["cpc", None],
    "context_campaign_name": ["c1", None],
}


def test_pages_of_a_platform_credit_the_campaign_and_not_the_site():
    paths = at.read_journeys(pages(**CAMPAIGN), orders(anonymous_id=["a"]), currency="EUR").paths()
    credits = at.attribute(paths, ["first_touch", "last_touch", "linear"])
    assert set(credits["node_id"]) == {"google/cpc/c1"}
    assert credits["value"].tolist() == [50.0] * 3


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # A column without any value has no type.
        ({name: [None, None] for name in CAMPAIGN}, "organic-search/google"),
        ({"gclid": ["x1", None]}, "google/cpc"),
        ({"msclkid": ["x1", None], "context_page_referrer": [None, None]}, "bing/cpc"),
        ({"context_page_referrer": ["https://checkout.stripe.com/c", None]}, "direct"),
        ({"context_page_referrer": [f"{SHOP}/", None]}, "direct"),
    ],
)
def test_sources_of_pages(more, expected):
    assert visits(at.read_journeys(pages(**more), orders(anonymous_id=["a"]))) == [expected]


def test_events_of_the_same_table_are_conversions():
    events = pages(event=["page_view", "Order Completed"], order_id=[None, "o1"], value=[None, 50.0])
    journeys = at.read_journeys(events, currency="EUR")
    assert visits(journeys) == ["organic-search/google"]
    assert journeys.events["event.sourceId"].tolist() == ["o1"]
    with pytest.raises(errors.InvalidRequest, match="no event named purchase.*names of events: click, page"):
        at.read_journeys(pages(event=["page", "click"]))


def test_who_signs_in_during_a_visit_is_its_user():
    signed_in = pages(user_id=[None, "u"])
    journeys = at.read_journeys(signed_in, orders(user_id=["u"]))
    credits = at.attribute(journeys.paths(), "last_touch")
    assert credits["node_id"].tolist() == ["organic-search/google"]


def test_a_click_on_an_ad_in_a_log_beats_its_referrer(tmp_path):
    file = tmp_path / "access.log"
    file.write_text(
        log_line("10:00:00", "/?gclid=x1", "https://www.google.com/")
        + log_line("10:01:00", "/thanks", f"{SHOP}/?gclid=x1")
    )
    journeys = at.read_journeys(file, conversion_page="/thanks")
    assert visits(journeys) == ["google/cpc"]
    assert len(journeys.events) == 1
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=at.hits.AccessLog(file, site=SHOP))
        assert at.search_interactions(shop)["nodeId"].tolist() == ["google/cpc"]


def test_another_campaign_and_half_an_hour_begin_visits_in_a_log(tmp_path):
    file = tmp_path / "access.log"
    file.write_text(
        log_line("10:00:00", "/?utm_source=a")
        + log_line("10:05:00", "/?utm_source=b")
        + log_line("10:35:00", "/thanks", f"{SHOP}/?utm_source=b")
    )
    assert visits(at.read_journeys(file, conversion_page="/thanks")) == ["a", "b", "direct"]
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=at.hits.AccessLog(file, site=SHOP))
        assert at.search_interactions(shop, sort="startDate")["nodeId"].tolist() == ["a", "b", "direct"]


def test_the_query_of_a_page_may_stand_in_a_column_of_its_own(tmp_path):
    file = tmp_path / "web.log"
    lines = [
        "01 10:00:00 / utm_source=mail&utm_medium=email 7 -",
        "02 10:00:00 /boots - 7 -",
        "02 10:01:00 /hats - 7 https://shop.example/boots",
    ]
    header = "#Fields: date time cs-uri-stem cs-uri-query cs-username cs(Referer)\n"
    file.write_text(header + "".join(f"2025-08-{line}\n" for line in lines))
    assert visits(at.read_journeys(file, orders(person=["7"]))) == ["mail/email", "direct"]


@pytest.mark.parametrize("request_of", ["{}", "GET {} HTTP/1.1"])
def test_requests_are_pages_of_the_host_beside_them(request_of):
    """A later visit from the site itself is direct."""
    log = pd.DataFrame({
        "at": ["2025-08-01 10:00", "2025-08-02 10:00", "2025-08-03 10:00"], "uid": "p-7", "vhost": "shop.example",
        "request": [*map(request_of.format, ("/a?utm_source=mail&utm_medium=email", "/b", "/c"))],
        "http_referer": ["-", "https://shop.example/a", "https://www.bing.com/"],
    })  # fmt: skip
    journeys = at.read_journeys(log, orders(uid=["p-7"]))
    assert visits(journeys) == ["mail/email", "direct", "organic-search/bing"]
    journeys = at.read_journeys(log.assign(vhost="web-7.internal"), orders(uid=["p-7"]))
    assert visits(journeys) == ["mail/email", "direct", "organic-search/bing"]


def test_the_site_of_a_log_is_known_by_pages_that_it_has_with_campaigns_only(tmp_path):
    file = tmp_path / "access.log"
    file.write_text(
        log_line("10:00:00", "/boots?gclid=x1", "https://www.google.com/")
        + log_line("10:40:00", "/thanks", f"{SHOP}/boots")
    )
    assert visits(at.read_journeys(file, conversion_page="/thanks")) == ["google/cpc", "direct"]


def test_events_of_posthog_are_read_as_they_come():
    properties = '{"$current_url": "https://shop.example/?gclid=x1", "$referrer": "$direct"}'
    events = pd.DataFrame(
        {
            "uuid": ["1", "2"],
            "event": ["$pageview", "purchase"],
            "distinct_id": ["a", "a"],
            "timestamp": ["2025-09-01 10:00", "2025-09-01 10:05"],
            "properties": [properties, "{}"],
        }
    )
    journeys = at.read_journeys(events)
    assert (visits(journeys), len(journeys.events)) == (["google/cpc"], 1)


@pytest.mark.parametrize("name", ["$current_url", "Shown"])
def test_a_page_is_an_address_on_the_site_of_referrers(name):
    events = pd.DataFrame(
        {
            "event": ["Page Viewed", "Page Viewed", "Order Completed"],
            "distinct_id": "a",
            "time": ["2025-09-01 10:00", "2025-09-01 10:02", "2025-09-03 10:05"],
            "$referrer": ["https://www.google.com/", f"{SHOP}/", None],
            name: [f"{SHOP}/?utm_source=google&utm_medium=cpc", "https://www.shop.example/boots", None],
            "utm_source": ["google", None, None],
            "utm_medium": ["cpc", None, None],
        }
    )
    journeys = at.read_journeys(events)
    assert (visits(journeys), len(journeys.events)) == (["google/cpc"], 1)


@pytest.mark.parametrize("domain", [None, "www.google.com", "shop.example"])
def test_an_export_of_umami_without_referrers(domain):
    rows = pd.DataFrame(
        {
            "website_id": ["w"] * 2, "session_id": ["s"] * 2, "visit_id": ["v"] * 2,
            "hostname": ["shop.example"] * 2, "referrer_domain": [domain, None],
            "url_path": ["/", "/boots"], "utm_source": [None, "news"], "utm_medium": [None, "email"],
            "utm_campaign": [None, None], "created_at": ["2025-09-01 10:00", "2025-09-01 10:05"],
        }
    )  # fmt: skip
    first = "organic-search/google" if domain == "www.google.com" else "direct"
    assert visits(at.read_journeys(rows, orders(session_id=["s"]))) == [first, "news/email"]


def test_an_export_of_matomo_has_the_same_nodes_beside_orders():
    rows = pd.DataFrame(
        {
            "idVisit": [1], "visitorId": ["a"], "referrerType": ["search"], "referrerName": ["Google"],
            "firstActionTimestamp": [1735725600], "lastActionTimestamp": [1735725900],
        }
    )  # fmt: skip
    assert visits(at.read_matomo(rows)) == visits(at.read_journeys(rows, orders(visitorId=["a"])))
    assert visits(at.read_matomo(rows)) == ["organic-search/Google"]


@pytest.mark.parametrize(
    ("fields", "mark", "agent"),
    [
        ("cs-method sc-status x-host-header", "\t", AGENT.replace(" ", "%20")),
        ("cs-method sc-status s-port", " ", AGENT.replace(" ", "+")),
    ],
)
def test_a_log_with_fields_of_requests_is_an_access_log(fields, mark, agent, tmp_path):
    """Style sheets, submitted forms, missing pages and crawlers do not count as page views."""
    lines = [
        ("10:00:00", "203.0.113.5", "/", "utm_source=mail&utm_medium=email", "GET 200"),
        ("10:00:01", "203.0.113.5", "/a.css", "-", "GET 200"),
        ("10:01:00", "203.0.113.5", "/thanks", "-", "POST 200"),
        ("10:02:00", "203.0.113.5", "/thanks", "-", "GET 404"),
        ("10:03:00", "203.0.113.5", "/thanks", "-", "GET 200"),
        ("11:00:00", "198.51.100.9", "/thanks", "-", "GET 200"),
    ]
    file = tmp_path / "site.log"
    text = f"#Version: 1.0\n#Fields: date time c-ip cs-uri-stem cs-uri-query cs(User-Agent) {fields}\n"
    for clock, address, path, query, rest in lines:
        browser = "Googlebot/2.1" if address.startswith("198") else agent
        text += (
            mark.join(["2025-09-01", clock, address, path, query, browser, *rest.split(), "shop.example"])
            + "\n"
        )
    file.write_text(text)
    journeys = at.read_journeys(file, conversion_page="/thanks")
    assert visits(journeys) == ["mail/email"]
    assert journeys.events["eventDate"].tolist() == [pd.Timestamp("2025-09-01 10:03", tz="UTC")]
