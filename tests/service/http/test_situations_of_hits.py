"""Situations of a visitor that no browser has to show: pauses, late hits, shared addresses. Expected by hand.

Whose rule a result is stands beside it, as for the situations in a browser.
"""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import duckdb
import pytest
from support.http_caller import Caller
from support.service_records import uuid

import attrib_ds as at
from attrib_ds.service.http.server import ServerOptions, running

pytestmark = pytest.mark.slow

SHOP = "https://shop.example"
CAMPAIGN = "/?utm_source=google&utm_medium=cpc&utm_campaign=spring"
SPRING = "google/cpc/spring"
INTERNAL = f"{SHOP}/"
STRIPE = "https://checkout.stripe.com/"
BING = "https://www.bing.com/"


def view(
    minutes, page="/", referrer="", *, tracker="t", keeps=True, address="203.0.113.1", id=None, **headers
):
    """A page view some minutes ago that is sent now."""
    return {"minutes": minutes, "page": page, "referrer": referrer, "tracker": tracker, "keeps": keeps,
            "address": address, "id": id, "headers": headers}  # fmt: skip


def anonymous(minutes, page, tracker, **options):
    return view(minutes, page, tracker=tracker, keeps=False, **options)


SITUATIONS = {
    "a pause of 29 minutes": ("GA4: 30 minutes",
        [view(59, CAMPAIGN), view(30, "/a", INTERNAL)], [(SPRING, 2)], 1),
    "a pause of 30 minutes": ("GA4: 30 minutes",
        [view(60, CAMPAIGN), view(30, "/a", INTERNAL)], [(SPRING, 1), ("direct", 1)], 1),
    "the same campaign after a pause": ("GA4: 30 minutes",
        [view(60, CAMPAIGN), view(10, CAMPAIGN)], [(SPRING, 1), (SPRING, 1)], 1),
    "the same campaign again": ("Matomo: no new visit",
        [view(20, CAMPAIGN), view(10, CAMPAIGN)], [(SPRING, 2)], 1),
    "another keyword": ("G-190: another node",
        [view(20, CAMPAIGN), view(10, f"{CAMPAIGN}&utm_term=boots")],
        [(SPRING, 1), (f"{SPRING}///boots", 1)], 1),
    "a campaign on a link inside": ("G-190: ends no session",
        [view(20, CAMPAIGN), view(10, "/?utm_source=banner", INTERNAL)], [(SPRING, 2)], 1),
    "a search after a campaign": ("Matomo: referrers end no visit",
        [view(20, CAMPAIGN), view(10, "/", BING)], [(SPRING, 2)], 1),
    "a search after a pause": ("GA4: a session of its own",
        [view(60, CAMPAIGN), view(10, "/", BING)], [(SPRING, 1), ("organic-search/bing", 1)], 1),
    "direct after a search": ("Matomo: the visit goes on",
        [view(20, "/", BING), view(10, "/a")], [("organic-search/bing", 2)], 1),
    "a payment": ("GA4: list of unwanted referrals",
        [view(20, CAMPAIGN), view(10, "/thanks", STRIPE)], [(SPRING, 2)], 1),
    "a long payment": ("G-194: an internal referrer is direct",
        [view(60, CAMPAIGN), view(10, "/thanks", STRIPE)], [(SPRING, 1), ("direct", 1)], 1),
    "a landing page that arrives late": ("G-192: by the time of the view",
        [view(10, "/a", INTERNAL), view(20, CAMPAIGN)], [(SPRING, 2)], 1),
    "a late page between two sessions": ("G-192: they are one",
        [view(60, CAMPAIGN), view(10, "/b", INTERNAL), view(35, "/a", INTERNAL)], [(SPRING, 3)], 1),
    "a request again": ("G-189: by its id",
        [view(20, CAMPAIGN, id=1), view(20, CAMPAIGN, id=1)], [(SPRING, 1)], 1),
    "two people with cookies": ("GA4: by the cookie",
        [view(20, CAMPAIGN, tracker="a"), view(10, "/", BING, tracker="b")],
        [(SPRING, 1), ("organic-search/bing", 1)], 2),
    "two people without cookies": ("Plausible: one visitor at an address",
        [anonymous(20, CAMPAIGN, "a"), anonymous(10, "/b", "b")], [(SPRING, 2)], 1),
    "two addresses": ("Plausible: two visitors",
        [anonymous(20, CAMPAIGN, "a"), anonymous(10, "/b", "b", address="203.0.113.2")],
        [(SPRING, 1), ("direct", 1)], 2),
    "a page of the checkout": ("G-240: the setting domains",
        [view(20, CAMPAIGN), view(10, "https://till.example/pay", INTERNAL)], [(SPRING, 2)], 1),
    "back from the checkout": ("G-240: the setting domains",
        [view(20, CAMPAIGN), view(10, "/thanks?utm_source=till", "https://pay.till.example/")], [(SPRING, 2)], 1),
    "do not track": ("G-200: not respected by default",
        [view(20, CAMPAIGN, DNT="1"), view(10, "/a", INTERNAL, DNT="1")], [(SPRING, 2)], 1),
    "global privacy control": ("G-200: a visitor each",
        [view(20, CAMPAIGN, Sec_GPC="1"), view(10, "/a", INTERNAL, Sec_GPC="1")],
        [(SPRING, 1), ("direct", 1)], 2),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    home = tmp_path_factory.mktemp("situations")
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.admin.update_settings(shop, domains=["shop.example", "till.example"])
    now = datetime.now(UTC)
    with running(home, options=ServerOptions(rate_limits=None, behind_proxy=("127.0.0.1",))) as url:
        call = Caller(url)
        for number, (_, views, _, _) in enumerate(SITUATIONS.values()):
            for position, each in enumerate(views):
                page = each["page"] if "://" in each["page"] else f"{SHOP}{each['page']}"
                body = {"projectId": "shop", "pageUrl": page, "referrer": each["referrer"]}
                body |= {"trackerId": f"{each['tracker']}-{number}", "isPersistent": each["keeps"]}
                body |= {"hitId": uuid(number * 100 + (each["id"] or position + 10))}
                body |= {
                    "date": (now - timedelta(minutes=each["minutes"])).isoformat(),
                    "sentAt": now.isoformat(),
                }
                headers = {"User_Agent": f"Firefox Case/{number}", "X_Forwarded_For": each["address"]}
                assert call("POST", "/c", json.dumps(body), **headers | each["headers"]).status == 202
    with closing(duckdb.connect(home / "shop.duckdb", read_only=True)) as connection:
        return connection.execute(
            "SELECT CAST(regexp_extract(userAgent, 'Case/([0-9]+)', 1) AS INT), nodeId, hitCount, userId "
            "FROM interactions JOIN (SELECT id, userAgent FROM hits) AS hit ON hit.id = firstHitId "
            "ORDER BY startDate, firstHitId"
        ).fetchall()


@pytest.mark.parametrize("number", range(len(SITUATIONS)), ids=list(SITUATIONS))
def test_situation(results, number):
    rule, _, sessions, users = list(SITUATIONS.values())[number]
    found = [row for row in results if row[0] == number]
    assert ([row[1:3] for row in found], len({row[3] for row in found})) == (sessions, users), rule
