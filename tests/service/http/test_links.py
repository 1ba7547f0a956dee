"""Links between the domains of a site (G-241), the cookie that the service sets, and who may not use them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from support.http_caller import Caller

import attrib_ds as at
from attrib_ds import instants
from attrib_ds.service.http.pages import Links
from attrib_ds.service.http.server import ServerOptions, running

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
SHOP, TILL, STRANGER = "https://www.shop.example", "https://pay.till.example", "https://stranger.example"
TRACKER = "6f1c9a52-0d0b-4c7e-9d55-0a4c54a3f6e1"


@pytest.fixture
def clock(monkeypatch):
    now = {"is": datetime(2025, 7, 1, tzinfo=UTC)}
    monkeypatch.setattr(instants, "now", lambda: now["is"])

    def pass_seconds(seconds):
        now["is"] += timedelta(seconds=seconds)

    return pass_seconds


def test_g241_a_link_is_read_once_within_two_minutes_by_the_same_browser(clock):
    links = Links()
    for seconds, project, agent, expected in [
        (0, "shop", FIREFOX, TRACKER),
        (120, "shop", FIREFOX, TRACKER),
        (121, "shop", FIREFOX, None),
        (0, "other", FIREFOX, None),
        (0, "shop", f"{FIREFOX} ", None),
    ]:
        link = links.sign("shop", TRACKER, FIREFOX)
        clock(seconds)
        assert links.read(link, project, agent) == expected, (seconds, project, agent)
        # Whoever follows it later is somebody else; a wrong attempt takes nothing away.
        again = TRACKER if expected is None and seconds == 0 else None
        assert links.read(link, "shop", FIREFOX) == again
    # The key ends with the process.
    assert Links().read(links.sign("shop", TRACKER, FIREFOX), "shop", FIREFOX) is None


def test_g241_a_link_tells_nobody_the_id_and_cannot_be_changed(clock):
    links = Links()
    first, second = (links.sign("shop", TRACKER, FIREFOX) for _ in range(2))
    assert first != second
    assert TRACKER not in first
    for position in range(0, len(first), 7):
        # Bits that the last letter does not use are no change.
        other = "A" if first[position] > "P" else "g"
        assert links.read(f"{first[:position]}{other}{first[position + 1 :]}", "shop", FIREFOX) is None
    # Other writings of the same bytes are no other link.
    writings = [first, f"{first}=", f"{first}====", first.rstrip("="), f"{first[:9]}\n{first[9:]}"]
    assert [links.read(text, "shop", FIREFOX) for text in writings].count(TRACKER) == 1


def test_g241_links_that_were_followed_take_bounded_memory(clock, monkeypatch):
    monkeypatch.setattr("attrib_ds.service.http.pages._MOST_FOLLOWED", 5)
    links = Links()

    def follow():
        return links.read(links.sign("shop", TRACKER, FIREFOX), "shop", FIREFOX)

    assert [follow() for _ in range(7)] == [TRACKER] * 5 + [None] * 2
    clock(121)
    assert [follow() for _ in range(5)] == [TRACKER] * 5
    assert len(links._followed) <= 5


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    home = tmp_path_factory.mktemp("links")
    for project, domains in [("shop", ["shop.example", "till.example"]), ("plain", None)]:
        with at.connect(project, path=home / f"{project}.duckdb") as opened:
            at.admin.update_settings(opened, domains=domains)
    with running(home, options=ServerOptions(rate_limits=None, behind_proxy=("127.0.0.1",))) as url:
        yield url


def asking(url, path="/link"):
    def ask(body, *, origin=SHOP, agent=FIREFOX, **headers):
        content = json.dumps({"projectId": "shop"} | body)
        return Caller(url)("POST", path, content, **{"Origin": origin, "User_Agent": agent} | headers)

    return ask


@pytest.mark.large
@pytest.mark.slow
def test_g241_an_id_goes_from_a_domain_of_the_site_to_another_one(url):
    ask = asking(url)

    def sign(**options):
        return ask({"trackerId": TRACKER}, **options)

    def follow(link, *, referrer=f"{SHOP}/", **options):
        reply = ask({"link": link, "referrer": referrer}, **{"origin": TILL} | options)
        return reply.status, json.loads(reply.content).get("trackerId")

    link = json.loads(sign().content)["link"]
    # On another browser, from a message, from another site, on another site; then by the visitor, and again.
    assert follow(link, agent="Safari") == (200, None)
    assert follow(link, referrer="") == (200, None)
    assert follow(link, referrer=f"{STRANGER}/?{SHOP}") == (200, None)
    assert follow(link, referrer="https://notshop.example/") == (200, None)
    assert follow(link, origin=STRANGER)[0] == 403
    assert follow(link, Sec_GPC="1") == (200, None)
    assert follow(link) == (200, TRACKER)
    assert follow(link) == (200, None)
    # Pages that are none of the site, or of a project with one domain, get none.
    for origin in (STRANGER, "null", "https://shop.example.stranger.example"):
        assert sign(origin=origin).status == 403
    assert ask({"projectId": "plain", "trackerId": TRACKER}).status == 403
    assert json.loads(sign(Sec_GPC="1").content) == {}
    for wrong in ({}, {"trackerId": TRACKER, "link": link}, {"link": "a b"}, {"link": "A" * 1_025}):
        assert ask(wrong).status == 400, wrong
    assert follow("gAAAAABm") == (200, None)


@pytest.mark.slow
def test_the_service_keeps_the_id_only_for_pages_of_its_own_origin(url):
    ask = asking(url, "/c")
    page = {"pageUrl": f"{SHOP}/", "trackerId": TRACKER, "cookieDomain": "shop.example", "hasConsent": True}

    def cookie(*, site="same-origin", forwarded="https", **members):
        headers = {"Sec_Fetch_Site": site, "X_Forwarded_Proto": forwarded}
        headers |= {name: members.pop(name) for name in ("Sec_GPC", "Cookie") if name in members}
        reply = ask(page | members, **{name: text for name, text in headers.items() if text})
        assert reply.status == 202
        return reply.headers.get("Set-Cookie")

    rest = "Max-Age=34128000; Path=/; SameSite=lax"
    assert cookie() == f"attrib-shop={TRACKER}; Domain=shop.example; {rest}; Secure"
    assert cookie(forwarded="http") == f"attrib-shop={TRACKER}; Domain=shop.example; {rest}"
    assert cookie(cookieDomain="") == f"attrib-shop={TRACKER}; {rest}; Secure"
    # Another site would choose who the visitor is; without consent there is nothing to keep.
    for site in ("cross-site", "same-site", "none", None):
        assert cookie(site=site) is None, site
    assert cookie(Sec_GPC="1") is None
    assert cookie(isPersistent=False) is None
    assert cookie(cookieDomain=None) is None
    # Consent may have been withdrawn on another page: the hit says that it stands, or brings the cookie.
    assert cookie(hasConsent=False) is None
    assert cookie(hasConsent=False, Cookie=f"attrib-shop={TRACKER}") is not None
    assert cookie(hasConsent=False, Cookie=f"attrib-shop={TRACKER[:-1]}0") is None
    for wrong in ("shop.example; Secure", "shop.example\r\nX: y", "Shop.example", "shop", ".shop.example"):
        assert cookie(cookieDomain=wrong) is None, wrong
    assert cookie(trackerId="chosen") is None
    assert cookie(trackerId=f"{TRACKER[:-1]};") is None
