"""Visits of browsers that keep no id: who is one visitor, and what consent joins. Expected by hand."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import duckdb
import pytest
from support.http_caller import Caller

import attrib_ds as at
from attrib_ds.contract import interactions
from attrib_ds.service.http import pages
from attrib_ds.service.http.limits import ServiceRequest
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.store.settings import ProjectSettings

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
SHOP = "https://shop.example"
CAMPAIGN = f"{SHOP}/?utm_source=google&utm_medium=cpc&utm_campaign=spring"
HOME, OFFICE = "203.0.113.7", "198.51.100.7"


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012}"


class Site:
    def __init__(self, url):
        self._call = Caller(url)

    def view(
        self,
        number,
        page,
        *,
        tracker,
        referrer="",
        address=HOME,
        agent=FIREFOX,
        keeps=False,
        more=None,
        **headers,
    ):
        body = {"projectId": "shop", "hitId": uuid(number), "trackerId": tracker, "isPersistent": keeps}
        body |= {"pageUrl": page if "://" in page else f"{SHOP}{page}", "referrer": referrer, **(more or {})}
        headers |= {"X_Forwarded_For": address, "User_Agent": agent}
        assert self._call("POST", "/c", json.dumps(body), **headers).status == 202

    def order(self, tracker):
        body = {"projectId": "shop", "eventType": "order", "nonce": f"n-{tracker}", "trackerId": tracker}
        assert self._call("POST", "/api/v1/events", json.dumps(body | {"data": {}})).status == 200

    def pixel(self, page, *, address=HOME):
        query = urlencode({"projectId": "shop", "pageUrl": f"{SHOP}{page}"})
        headers = {"X_Forwarded_For": address, "User_Agent": FIREFOX}
        assert self._call("GET", f"/c?{query}", None, **headers).status == 200


@pytest.fixture
def shop(tmp_path):
    with at.connect("shop", path=tmp_path / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
    return tmp_path


def visit(folder, act):
    with running(folder, options=ServerOptions(rate_limits=None, behind_proxy=("127.0.0.1",))) as url:
        act(Site(url))
    return folder


def rows(folder, query):
    with closing(duckdb.connect(folder / "shop.duckdb", read_only=True)) as connection:
        return connection.execute(query).fetchall()


SESSIONS = "SELECT nodeId, hitCount FROM interactions ORDER BY startDate, hitCount DESC"
USERS = "SELECT count(DISTINCT userId) FROM interactions"
#: Node of the first session of the user of each order.
ORDERS = (
    "SELECT nonce, (SELECT first(nodeId ORDER BY startDate) FROM interactions AS visit "
    "WHERE visit.userId = events.userId) FROM events JOIN raw_events USING (_id) ORDER BY nonce"
)


def three_pages(site, *, address=HOME, first=1, **headers):
    site.view(first, CAMPAIGN, tracker=f"p-{first}", address=address, **headers)
    site.view(first + 1, "/boots", tracker=f"p-{first + 1}", referrer=CAMPAIGN, address=address, **headers)
    site.view(
        first + 2, "/till", tracker=f"p-{first + 2}", referrer=f"{SHOP}/boots", address=address, **headers
    )


@pytest.mark.parametrize(
    ("keeps", "tracker", "visitor", "signal", "expected"),
    [
        (True, "cookie", "day.5f", "0", "cookie day.5f"),
        (True, "cookie", None, "0", "cookie"),
        (False, "p-1", "day.5f", "0", "day.5f p-1"),
        (False, "p-1", None, "0", "page.p-1 p-1"),
        (False, None, "day.5f", "0", "day.5f"),
        (True, None, None, "0", f"hit.{uuid(1)}"),
        # Against the signal no id lasts; that of the page does not.
        (True, "cookie", None, "1", f"hit.{uuid(1)}"),
        (False, "p-1", None, "1", "page.p-1 p-1"),
    ],
)
def test_g239_under_which_id_a_hit_is_accepted(keeps, tracker, visitor, signal, expected):
    hit = {
        "projectId": "shop",
        "hitId": uuid(1),
        "pageUrl": SHOP,
        "trackerId": tracker,
        "isPersistent": keeps,
    }
    request = ServiceRequest(
        {"type": "http", "headers": [(b"sec-gpc", signal.encode())], "client": (HOME, 1)}
    )
    given = {name: value for name, value in hit.items() if value is not None}
    record = pages._record(interactions.read_hit(given), request, ProjectSettings(), visitor)
    assert (record["id"], record["trackerId"], record["address"]) == (uuid(1), expected, None)


@pytest.mark.large
@pytest.mark.slow
def test_g239_three_pages_without_consent_are_one_session_with_its_order(shop):
    def act(site):
        # The order may be stored before the page view.
        site.order("p-3")
        three_pages(site)

    visit(shop, act)
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 3)]
    assert rows(shop, ORDERS) == [("n-p-3", "google/cpc/spring")]
    assert rows(shop, "SELECT count(*) FROM users") == [(1,)]


@pytest.mark.large
@pytest.mark.slow
def test_g239_the_page_after_a_lost_landing_page_has_its_campaign(shop):
    def act(site):
        # The landing pages of both were lost, and the second page of the second one.
        site.view(1, "/boots", tracker="p-1", referrer=CAMPAIGN)
        site.view(2, "/till", tracker="p-2", referrer=f"{SHOP}/boots")
        site.view(3, "/till", tracker="p-3", referrer=f"{SHOP}/boots", address=OFFICE)
        # A page of another site tells its own source, and so does a visitor whose id lasts.
        site.view(4, "/", tracker="p-4", referrer="https://blog.example/?utm_source=x", address="192.0.2.4")
        site.view(5, "/boots", tracker=uuid(5), referrer=CAMPAIGN, address="192.0.2.5", keeps=True)

    visit(shop, act)
    sessions = [("google/cpc/spring", 2), ("direct", 1), ("referral/blog.example", 1), ("direct", 1)]
    assert sorted(rows(shop, SESSIONS)) == sorted(sessions)


@pytest.mark.large
@pytest.mark.slow
def test_g239_a_visit_after_a_pause_has_a_source_of_its_own(shop):
    def land(site):
        now = datetime.now(UTC)
        sent = {"date": (now - timedelta(hours=1)).isoformat(), "sentAt": now.isoformat()}
        site.view(1, CAMPAIGN, tracker="p-1", more=sent)

    visit(shop, land)
    visit(shop, lambda site: site.view(2, "/boots", tracker="p-2", referrer=CAMPAIGN))
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 1), ("direct", 1)]


@pytest.mark.large
@pytest.mark.slow
def test_g239_addresses_user_agents_and_signals_tell_visitors_apart(shop):
    def act(site):
        three_pages(site)
        three_pages(site, address=OFFICE, first=11)
        three_pages(site, agent="Mozilla/5.0 (X11; Linux x86_64; rv:131.0)", first=21)
        three_pages(site, Sec_GPC="1", first=31)

    visit(shop, act)
    counts = [count for _, count in rows(shop, SESSIONS)]
    assert sorted(counts) == [1, 1, 1, 3, 3, 3]
    assert rows(shop, USERS) == [(6,)]


@pytest.mark.large
@pytest.mark.slow
def test_g239_the_setting_switches_it_off(shop):
    with at.connect("shop", path=shop / "shop.duckdb") as project:
        at.admin.update_settings(project, visitor_of_the_day=False)

    def act(site):
        three_pages(site)
        site.order("p-3")
        site.pixel("/")
        # A browser with a cookie agrees on the third page: what that page has seen is its visit.
        site.view(3, "/till", tracker="cookie", referrer=f"{SHOP}/boots", keeps=True)

    visit(shop, act)
    assert [count for _, count in rows(shop, SESSIONS)] == [1, 1, 1, 1]
    assert rows(shop, "SELECT trackerId FROM hits WHERE id = " + repr(uuid(3))) == [("cookie",)]
    assert rows(shop, ORDERS) == [("n-p-3", "direct")]
    assert rows(shop, "SELECT count(*) FROM settings WHERE name = 'visitorSalt'") == [(0,)]


@pytest.mark.large
@pytest.mark.slow
def test_g239_what_comes_after_withdrawal_is_of_somebody_else(shop):
    def act(site):
        site.view(1, CAMPAIGN, tracker="p-1")
        site.view(1, CAMPAIGN, tracker="cookie", keeps=True)
        # Consent was withdrawn on the first page; all three wait in one portion.
        site.view(2, "/boots", tracker="p-2", referrer=CAMPAIGN)

    visit(shop, act)
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 1), ("direct", 1)]
    assert rows(shop, USERS) == [(2,)]
    assert sorted(rows(shop, "SELECT trackerId LIKE 'day.%' FROM hits")) == [(False,), (True,)]


@pytest.mark.large
@pytest.mark.slow
def test_g239_views_of_the_pixel_are_one_session(shop):
    def act(site):
        for page in ("/", "/boots"):
            site.pixel(page)
        site.pixel("/", address=OFFICE)

    visit(shop, act)
    assert rows(shop, SESSIONS) == [("direct", 2), ("direct", 1)]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("tracker", ["p-2", "cookie of an earlier visit".replace(" ", "-")])
def test_g239_consent_on_the_second_page_joins_the_visit(shop, tracker):
    def act(site):
        site.view(1, CAMPAIGN, tracker="p-1")
        site.view(2, "/boots", tracker="p-2", referrer=CAMPAIGN)
        site.order("p-1")
        # Consent: the script sends the page view again.
        site.view(2, "/boots", tracker=tracker, referrer=CAMPAIGN, keeps=True)
        site.view(3, "/till", tracker=tracker, referrer=f"{SHOP}/boots", keeps=True)
        site.order(tracker)

    visit(shop, act)
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 3)]
    assert rows(shop, "SELECT DISTINCT trackerId FROM hits") == [(tracker,)]
    assert rows(shop, ORDERS) == sorted(
        [("n-p-1", "google/cpc/spring"), (f"n-{tracker}", "google/cpc/spring")]
    )
    assert rows(shop, "SELECT count(*) FROM users") == [(1,)]
    # Nothing leads from the address to the lasting id.
    assert rows(shop, "SELECT count(*) FROM identities WHERE starts_with(value, 'day.')") == [(0,)]
    # Somebody else at the same address, later.
    visit(shop, lambda site: three_pages(site, first=21))
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 3)] * 2
    assert rows(shop, USERS) == [(2,)]


@pytest.mark.large
@pytest.mark.slow
def test_g239_consent_that_a_page_is_loaded_with_joins_the_visit(shop):
    def act(site):
        site.view(1, CAMPAIGN, tracker="p-1")

    visit(shop, act)

    def agree(site):
        site.view(2, "/boots", tracker="new", referrer=f"{SHOP}/", keeps=True)
        # Others come from outside, or have been here before.
        site.view(11, "/boots", tracker="other", referrer="https://www.bing.com/", keeps=True)
        site.order("new")

    visit(shop, agree)
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 2), ("organic-search/bing", 1)]
    assert rows(shop, ORDERS) == [("n-new", "google/cpc/spring")]
    assert rows(shop, USERS) == [(2,)]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    ("referrer", "expected"),
    # Browsers tell another origin no path.
    [
        (f"{SHOP}/", [("google/cpc/spring", 3)]),
        (f"{SHOP}/other", [("google/cpc/spring", 2), ("direct", 1)]),
        ("https://other.shop.example/", [("google/cpc/spring", 2), ("direct", 1)]),
    ],
)
def test_g239_consent_on_another_domain_joins_the_visit(shop, referrer, expected):
    with at.connect("shop", path=shop / "shop.duckdb") as project:
        at.admin.update_settings(project, domains=["shop.example", "till.example"])
    landing = CAMPAIGN.replace("/?", "/landing?")

    def act(site):
        site.view(1, landing, tracker="p-1")
        site.view(2, "/boots", tracker="p-2", referrer=landing)

    visit(shop, act)
    visit(
        shop,
        lambda site: site.view(3, "https://till.example/pay", tracker="new", referrer=referrer, keeps=True),
    )
    assert rows(shop, SESSIONS) == expected


@pytest.mark.slow
def test_g239_consent_joins_nobody_else_at_a_shared_address(shop):
    def act(site):
        site.view(1, CAMPAIGN, tracker="p-1")
        site.view(2, "/", tracker="p-2", referrer="https://www.bing.com/")
        site.order("p-1")
        site.order("p-2")
        site.view(3, "/boots", tracker="p-3", referrer=f"{SHOP}/")
        # Whose page this was, the first one's or the second one's, nobody knows.
        site.view(3, "/boots", tracker="p-3", referrer=f"{SHOP}/", keeps=True)
        site.view(4, "/till", tracker="p-3", referrer=f"{SHOP}/boots", keeps=True)
        site.order("p-3")

    visit(shop, act)
    assert rows(shop, SESSIONS) == [("google/cpc/spring", 2), ("direct", 2)]
    assert rows(shop, "SELECT id FROM hits WHERE trackerId = 'p-3' ORDER BY id") == [(uuid(3),), (uuid(4),)]
    assert rows(shop, ORDERS) == [
        ("n-p-1", "google/cpc/spring"),
        ("n-p-2", "google/cpc/spring"),
        ("n-p-3", "direct"),
    ]
    assert rows(shop, USERS) == [(2,)]


@pytest.mark.slow
def test_g239_the_address_and_the_salt_leave_the_project_in_no_copy(shop):
    visit(shop, three_pages)
    assert rows(shop, "SELECT count(*) FROM settings WHERE name = 'visitorSalt'") == [(1,)]
    with at.connect("shop", path=shop / "shop.duckdb") as project:
        at.admin.back_up(project, shop / "copy.duckdb")
    with closing(duckdb.connect(shop / "copy.duckdb", read_only=True)) as copy:
        names = [name for (name,) in copy.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        texts = [str(row) for name in names for row in copy.execute(f"FROM {name}").fetchall()]
    assert len([text for text in texts if "'day." in text and "/till" in text]) > 0
    assert not [text for text in texts if "visitorSalt" in text or HOME in text]
