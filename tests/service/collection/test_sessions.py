"""Raw hits become sessions: late hits, users, custom campaigns, and the same result in any order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import sequential_sessions
from support.service_records import hex_id, reasons, send, table, uuid

from attrib_ds.service.collection import hits
from attrib_ds.service.consistency_check import RULES
from attrib_ds.service.loading import load_records
from attrib_ds.service.service import Service
from attrib_ds.service.store.store import Store

PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.2 Mobile/15E148 Safari/604.1"
)
SHOP = "https://shop.example"
ADS = "?utm_source=google&utm_medium=cpc&utm_campaign=spring"
NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


def hit(number, minutes, page="/", *, tracker="t", **properties):
    usual = {
        "hitId": uuid(number),
        "trackerId": tracker,
        "date": (NOON + timedelta(minutes=minutes)).isoformat(),
        "pageUrl": f"{SHOP}{page}",
        "userAgent": PHONE,
    }
    return usual | properties


def load(store, *hits):
    counts, rejected = load_records(store, "hits", table(*hits))
    assert reasons(rejected) == {}
    return counts


def sessions(rows, columns="firstHitId, hitCount, nodeId"):
    found = rows(f"SELECT {columns} FROM interactions ORDER BY startDate, _id")
    return [(int(first[-4:], 16), *rest) for first, *rest in found]


def assert_consistent(rows):
    assert {rule.problem: rows(rule.broken) for rule in RULES if rows(rule.broken)} == {}


def test_a_session_has_the_properties_of_its_first_hit(memory_store, rows):
    counts = load(
        memory_store,
        hit(1, 0, f"/boots{ADS}#top", referrer="https://www.google.com/"),
        hit(2, 10.5, "/cart", referrer=f"{SHOP}/boots", userAgent=""),
    )
    assert counts == {"hits": 2, "interactions": 1, "implicit_nodes": 3}
    columns = (
        'firstHitId, hitCount, nodeId, duration, "userLifetimeIndex", isBot, referrer, referrerType, firstPage, '
        '"firstPageUrl.pathname", "firstPageUrl.hash", "userAgent.ua", "userAgent.browser.name", '
        '"userAgent.os.version", "userAgent.device.type", type'
    )
    assert sessions(rows, columns) == [
        (
            *(1, 2, "google/cpc/spring", 630.0, 1, False, "https://www.google.com/", "campaign"),
            *(
                f"{SHOP}/boots{ADS}#top",
                "/boots",
                "#top",
                PHONE,
                "Mobile Safari",
                "17.2",
                "mobile",
                "session",
            ),
        )
    ]
    hit_columns = 'referrerType, isBot, hitType, "pageUrl.pathname", userAgent'
    assert rows(f"SELECT {hit_columns} FROM hits ORDER BY serverDate") == [
        ("campaign", False, "pageview", "/boots", PHONE),
        # Without a user agent a hit is a bot's; the session is not, as another hit is not.
        ("internal", True, "pageview", "/cart", ""),
    ]
    assert_consistent(rows)


@pytest.mark.slow
def test_late_hits_join_open_and_merge_sessions(memory_store, rows):
    """G-192, one hit at a time."""
    load(memory_store, hit(1, 0), hit(2, 80))
    assert sessions(rows) == [(1, 1, "direct"), (2, 1, "direct")]
    load(memory_store, hit(3, 20))
    assert sessions(rows) == [(1, 2, "direct"), (2, 1, "direct")]
    load(memory_store, hit(4, -60, referrer="https://news.example/"))
    assert sessions(rows) == [(4, 1, "referral/news.example"), (1, 2, "direct"), (2, 1, "direct")]
    counts = load(memory_store, hit(5, 45), hit(6, 60))
    assert counts == {"hits": 2, "interactions": -1, "implicit_nodes": 0}
    assert sessions(rows) == [(4, 1, "referral/news.example"), (1, 5, "direct")]
    assert rows("SELECT userLifetimeIndex FROM interactions ORDER BY startDate") == [(1,), (2,)]
    assert rows("SELECT count(*) FROM users") == [(1,)]
    assert_consistent(rows)


def test_hits_and_sessions_are_stored_in_portions_without_loss_or_repeat(memory_store, rows, monkeypatch):
    monkeypatch.setattr(hits, "_LARGEST_INSERT", 2)
    load(memory_store, hit(1, 0, ADS), hit(2, 10))
    load(memory_store, *(hit(number, 60 * (number - 1)) for number in range(3, 8)), hit(8, 5), hit(9, -1))
    found = rows("SELECT firstHitId, hitCount, nodeId, firstPage FROM interactions ORDER BY startDate")
    assert [(int(first[-4:], 16), *rest) for first, *rest in found] == [
        (9, 1, "direct", f"{SHOP}/"),
        (1, 3, "google/cpc/spring", f"{SHOP}/{ADS}"),
        *((number, 1, "direct", f"{SHOP}/") for number in range(3, 8)),
    ]
    assert rows("SELECT count(*), count(DISTINCT id), sum(isOpening::INT) FROM hits") == [(9, 9, 7)]
    assert_consistent(rows)


def test_a_late_hit_before_the_first_one_gives_the_session_its_source(memory_store, rows):
    load(memory_store, hit(1, 10))
    ((before,),) = rows("SELECT userId FROM interactions")
    load(memory_store, hit(2, 0, ADS))
    assert sessions(rows) == [(2, 2, "google/cpc/spring")]
    assert rows("SELECT userId, updateDate IS NOT NULL FROM interactions") == [(before, True)]


def listed(store, number):
    """The numbers of the hits of the session that a hit opened."""
    answer = send(Service(store, ":memory:"), "list_hits", firstHitId=uuid(number))
    return [int(id[-4:], 16) for id in answer.read()["id"].to_pylist()]


def test_a_session_keeps_its_id_and_is_found_by_every_hit_that_opened_it(memory_store, rows):
    """G-242: an earlier hit that arrives late, and sessions that it joins; hits are in the order of arrival."""
    load(memory_store, hit(1, 10), hit(2, 15))
    ids = [rows("SELECT _id FROM interactions")]
    load(memory_store, hit(3, 0))
    ids.append(rows("SELECT _id FROM interactions"))
    assert sessions(rows) == [(3, 3, "direct")]
    assert listed(memory_store, 1) == listed(memory_store, 3) == [1, 2, 3]
    load(memory_store, hit(4, 60))
    load(memory_store, hit(6, 38), hit(5, 36))
    ids.append(rows("SELECT _id FROM interactions"))
    assert sessions(rows) == [(3, 6, "direct")]
    assert listed(memory_store, 1) == listed(memory_store, 3) == listed(memory_store, 4) == [1, 2, 3, 4, 5, 6]
    assert listed(memory_store, 2) == listed(memory_store, 5) == []
    assert ids[0] == ids[1] == ids[2]
    assert_consistent(rows)


def test_a_session_that_is_divided_keeps_the_id_where_the_hit_is_that_gave_it(memory_store, rows):
    """G-242: no two sessions ever have the same id."""
    load(memory_store, hit(1, 20, ADS))
    before = rows("SELECT _id FROM interactions")
    load(memory_store, hit(2, 0, ADS))
    load(memory_store, hit(3, 10, "/?utm_source=newsletter"))
    assert sessions(rows, "firstHitId, hitCount") == [(2, 1), (3, 1), (1, 1)]
    ids = rows("SELECT _id FROM interactions ORDER BY startDate")
    assert ids[2:] == before
    assert len(set(ids)) == 3
    assert [listed(memory_store, number) for number in (1, 2, 3)] == [[1], [2], [3]]
    load(memory_store, hit(4, 15, "/"), hit(5, 25, "/?utm_source=newsletter"), hit(6, 30, "/"))
    assert sessions(rows, "firstHitId, hitCount") == [(2, 1), (3, 2), (1, 1), (5, 2)]
    assert_consistent(rows)


def test_internal_and_payment_referrers_open_no_session(memory_store, rows):
    load(
        memory_store,
        hit(1, 0, ADS),
        hit(2, 5, "/cart?utm_source=banner", referrer=f"{SHOP}/"),
        hit(3, 10, "/thanks?utm_source=banner", referrer="https://www.paypal.com/checkout"),
        hit(4, 15, "/?utm_source=newsletter&utm_medium=email"),
    )
    assert sessions(rows) == [(1, 3, "google/cpc/spring"), (4, 1, "newsletter/email")]


def test_hits_of_one_tracker_are_of_one_user_and_of_its_events(memory_store, rows):
    """An event with the tracker finds the user of the sessions (G-146)."""
    load(memory_store, hit(1, 0), hit(2, 0, tracker="u"), hit(3, 120))
    users = dict(rows("SELECT value, userId FROM identities WHERE kind = 'trackerId'"))
    assert rows("SELECT userId, count(*) FROM interactions GROUP BY 1 ORDER BY 2") == [
        (users["u"], 1),
        (users["t"], 2),
    ]


def test_a_session_keeps_its_user_when_the_tracker_moves(memory_store, rows):
    """G-147: from then on the tracker is of another person; what was before stays."""
    load(memory_store, hit(1, 0))
    ((before,),) = rows("SELECT userId FROM interactions")
    other = hex_id(7)
    memory_store.write(
        lambda connection: connection.execute(
            f"UPDATE identities SET userId = '{other}' WHERE userId = '{before}' AND kind = 'trackerId'"
        )
    )
    load(memory_store, hit(2, 10), hit(3, 100))
    assert rows("SELECT userId, hitCount FROM interactions ORDER BY startDate") == [(before, 2), (other, 1)]


def test_a_hit_at_the_instant_of_another_session_leaves_it_alone(memory_store, rows):
    """The session that is open when hits arrive is found by time and id together."""
    load(memory_store, hit(1, 0), hit(2, 5, referrer="https://www.google.com/"), hit(3, 5, ADS))
    assert sessions(rows) == [(1, 2, "direct"), (3, 1, "google/cpc/spring")]
    load(memory_store, hit(4, 6))
    assert sessions(rows) == [(1, 2, "direct"), (3, 2, "google/cpc/spring")]


DAY_LONG = [hit(number, 20 * number) for number in range(1, 73)]


@pytest.mark.slow
def test_a_hit_continues_a_session_that_began_nearly_a_day_before(memory_store, rows):
    load(memory_store, *DAY_LONG)
    load(memory_store, hit(73, 20 + 1_439))
    assert sessions(rows) == [(1, 73, "direct")]
    # A day after the first hit, another session opens.
    load(memory_store, hit(74, 20 + 1_440))
    assert sessions(rows) == [(1, 73, "direct"), (74, 1, "direct")]


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("minutes", [24 * 60, 24 * 60 + 10, 24 * 60 + 29, 24 * 60 + 30])
def test_a_hit_leaves_a_session_alone_that_ended_about_a_day_before(memory_store, rows, minutes):
    load(memory_store, *DAY_LONG)
    before = rows("SELECT * EXCLUDE userLifetimeIndex FROM interactions")
    load(memory_store, hit(73, 20 * 72 + minutes))
    assert sessions(rows) == [(1, 72, "direct"), (73, 1, "direct")]
    assert rows("SELECT * EXCLUDE userLifetimeIndex FROM interactions ORDER BY startDate")[:1] == before
    assert_consistent(rows)


def test_traffic_that_names_an_integration_has_a_custom_campaign(memory_store, rows):
    """G-159, G-160, R097: an explicit one by its slug, an implicit one for an unknown or no slug."""
    service = Service(memory_store, ":memory:")
    send(service, "create_integration", vendor_id="flyers", name="Flyers")
    may = send(service, "create_campaign", vendor_id="flyers", campaign_slug="may", name="In May").value
    load(
        memory_store,
        hit(1, 0, "/?utm_source=Flyers&utm_campaign=may"),
        hit(2, 100, "/?utm_source=flyers&utm_campaign=june"),
        hit(3, 200, "/?utm_source=flyers"),
        hit(4, 300, "/?utm_source=flyers&utm_campaign=JUNE+"),
    )
    campaigns = "SELECT campaignSlug, explicit, id FROM campaigns ORDER BY campaignSlug"
    (default, june, explicit) = rows(campaigns)
    assert (default[:2], june[:2], explicit) == (("default", False), ("june", False), ("may", True, may))
    assert sessions(rows) == [(1, 1, may), (2, 1, june[2]), (3, 1, default[2]), (4, 1, june[2])]
    assert rows("SELECT count(*) FROM interactions WHERE integrationId IS NULL") == [(0,)]
    assert_consistent(rows)


def test_traffic_filters_mark_what_they_capture(memory_store, rows):
    """G-198: the first filter that matches, by address, referrer, host of the page and user agent."""
    filters = [
        *("address:203.0.113.0/24", "address:2001:db8::/32", "referrer:spam.example"),
        *("hostname:test.shop.example", "userAgent:IPHONE"),
    ]
    send(Service(memory_store, ":memory:"), "update_settings", traffic_filters=filters)
    load(
        memory_store,
        hit(1, 0, tracker="a", ip="203.0.113.9"),
        hit(2, 1, tracker="b", ip="::ffff:203.0.113.9", userAgent="Firefox"),
        hit(3, 2, tracker="c", ip="2001:db8:1::1", userAgent="Firefox"),
        hit(4, 3, tracker="d", referrer="https://www.buttons.spam.example/x", userAgent="Firefox"),
        hit(5, 4, tracker="e", pageUrl="https://test.shop.example/", userAgent="Firefox"),
        hit(6, 5, tracker="f"),
        hit(7, 6, tracker="g", ip="198.51.100.1", userAgent="Firefox"),
        hit(8, 7, tracker="h", ip="no address", userAgent="Firefox", referrer="https://notspam.example/"),
    )
    captured = [0, 0, 1, 2, 3, 4, None, None]
    expected = [(None if which is None else filters[which],) for which in captured]
    assert rows("SELECT trafficFilterId FROM interactions ORDER BY startDate") == expected
    assert rows("SELECT count(*) FROM hits WHERE trafficFilterId IS NULL") == [(2,)]


def test_excluded_referrers_open_no_session(memory_store, rows):
    excluded = {"excluded_referrers": ["www.pay.example"], "domains": ["www.till.example"]}
    send(Service(memory_store, ":memory:"), "update_settings", **excluded)
    load(
        memory_store,
        hit(1, 0, ADS),
        hit(2, 5, "/thanks?utm_source=bank", referrer="https://3ds.pay.example/"),
        hit(5, 6, "/?utm_source=till", referrer="https://eu.till.example/"),
        hit(3, 100, "/thanks", referrer="https://pay.example/"),
        hit(4, 200, "/thanks", referrer="https://notpay.example/"),
    )
    assert sessions(rows) == [
        (1, 3, "google/cpc/spring"),
        (3, 1, "direct"),
        (4, 1, "referral/notpay.example"),
    ]


def test_hits_are_stored_once(memory_store, rows):
    load(memory_store, hit(1, 0))
    _, rejected = load_records(memory_store, "hits", table(hit(1, 0), hit(2, 1), hit(2, 1)))
    assert reasons(rejected) == {
        0: f"hitId: '{uuid(1)}' is already loaded",
        2: f"hitId: '{uuid(2)}' is also the id of row 1",
    }
    counts, rejected = load_records(memory_store, "hits", table(hit(1, 0), hit(3, 2)), replace=True)
    assert (counts["hits"], rejected.num_rows) == (1, 0)
    assert sessions(rows) == [(1, 3, "direct")]


def test_hits_without_ids_are_identified_by_their_content(memory_store, rows):
    own = table(*({**hit(1, n), "hitId": None} for n in (0, 0, 1)))
    for expected in (2, 0):
        counts, rejected = load_records(memory_store, "hits", own.drop(["hitId"]))
        assert (counts["hits"], rejected.num_rows) == (expected, 0)


def test_rules_of_raw_hits(memory_store):
    _, rejected = load_records(
        memory_store,
        "hits",
        table(
            hit(1, 0, trackerId=None),
            hit(2, 0, trackerId="a b"),
            hit(3, 0, pageUrl="/boots"),
            hit(4, 0, date="2025-01-31"),
            hit(5, 0),
        ),
    )
    assert reasons(rejected) == {
        0: "trackerId: is missing",
        1: "trackerId: 'a b' is not text of 1 to 128 characters without spaces",
        2: "pageUrl: '/boots' is not a URL, such as https://shop.example/",
        3: "date: '2025-01-31' is not a date with a time, such as 2025-01-31T12:00:00Z",
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["anonymise", "delete"])
def test_hits_of_erased_people_do_not_return(memory_store, rows, mode):
    """G-209: earlier hits are rejected, later ones belong to a new user, and sessions stay apart."""
    service = Service(memory_store, ":memory:")
    load(memory_store, hit(1, 0))
    ((user,),) = rows("SELECT userId FROM interactions")
    send(service, "delete_user", id=user, mode=mode)
    later = datetime.now(UTC) + timedelta(hours=1)
    _, rejected = load_records(memory_store, "hits", table(hit(2, 5), hit(3, 5, date=later.isoformat())))
    assert reasons(rejected) == {0: "trackerId: belongs to a person who was erased after this date"}
    assert rows("SELECT trackerId FROM hits WHERE trackerId IS NOT NULL") == [("t",)]
    others = rows(f"SELECT count(*) FROM interactions WHERE userId <> '{user}'")
    assert others == [(1,)]
    assert_consistent(rows)


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [
        "?utm_source=organic-search&utm_medium=google",
        "?utm_medium=organic-search&utm_campaign=google",
        "?utm_source=google&utm_campaign=cpc",
        "?utm_medium=google&utm_campaign=cpc",
        "?utm_source=google",
        "?utm_source=direct&utm_campaign=spring",
        f"{ADS}&utm_term=banner",
        "?utm_source=platform-17",
    ],
)
def test_a_hit_never_changes_a_node(memory_store, rows, search):
    """Whatever its URL says, since anyone may request a page."""
    service = Service(memory_store, ":memory:")
    send(service, "create_integration", vendor_id="ads", name="Ads")
    node = {"vendorId": "ads", "campaignId": "platform-17"}
    user = {"email": "anna@example.com"}
    send(service, "create_offline_interaction", date=NOON, userData=user, nodeData=node, externalId=None)
    load(
        memory_store,
        hit(1, 0, "/", tracker="a"),
        hit(2, 0, "/?gclid=1", tracker="b"),
        hit(3, 0, f"/{ADS}&utm_content=banner", tracker="c"),
        hit(4, 0, referrer="https://www.google.com/", tracker="d"),
    )
    nodes = "SELECT * EXCLUDE updatedAt FROM nodes ORDER BY _id"
    before = rows(nodes)
    load(memory_store, hit(5, 100, f"/{search}", tracker="e"))
    after = rows(nodes)
    assert [node for node in before if node not in after] == []


def test_a_node_that_is_only_an_id_is_described_by_traffic(memory_store, rows):
    """In any order; a row of spend makes it a campaign."""
    outlay = {"_id": "1", "campaignId": "google/cpc", "amount.amount": "1"}
    outlay |= {
        "amount.currency": "EUR",
        "startDate": NOON.isoformat(),
        "endDate": (NOON + timedelta(days=1)).isoformat(),
    }
    _, rejected = load_records(memory_store, "spend", table(outlay))
    assert reasons(rejected) == {}
    load(memory_store, hit(1, 0, "/?gclid=1"))
    assert rows("SELECT _id, type, name, channel, source FROM nodes") == [
        ("google/cpc", "campaign", "google / cpc", "Paid Search", "google")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "referrer", "node"),
    [
        ("http://[2001:db8::1]:8080/", "http://[2001:db8::2]:8080/", "referral/[2001:db8::2]"),
        ("http://[2001:db8::1]:8080/", "http://[2001:db8::1]:8080/boots", "direct"),
        ("https://shop.example./", "https://shop.example/", "direct"),
        ("https://shop.example/", "https://shop.example./", "direct"),
        ("https://user:word@shop.example/", "https://shop.example/", "direct"),
        ("https://shop.example/?utm%5Fsource=flyer", None, "flyer"),
        ("http://[::1", None, "direct"),
    ],
)
def test_unusual_hosts_and_parameters(memory_store, rows, page, referrer, node):
    load(memory_store, hit(1, 0, pageUrl=page, referrer=referrer))
    assert sessions(rows) == [(1, 1, node)]


PAGES = ("/", "/cart", f"/{ADS}", "/?utm_source=google&utm_medium=organic&utm_campaign=spring", "/?gclid=1")
REFERRERS = (None, f"{SHOP}/", "https://www.google.com/", "https://paypal.com/", "https://news.example/")
HITS = st.lists(
    st.tuples(
        st.sampled_from([0, 10, 29, 30, 40, 59, 60, 90, 100, 1400, 1439, 1440, 1500]),
        st.sampled_from(PAGES),
        st.sampled_from(REFERRERS),
        st.sampled_from(["t", "u"]),
    ),
    min_size=1,
    max_size=12,
)


STORED = ("id", "trackerId", "serverDate", "nodeId", "isCampaign", "referrerType", "firstHitId")


def result(portions):
    """Return everything that hits make, without the ids of sessions and users and the dates of receipt."""
    store = Store.open(":memory:", "shop")
    try:
        for portion in portions:
            load(store, *portion)
        with store.cursor() as cursor:

            def query(text):
                return cursor.execute(text).fetchall()

            found = {
                "interactions": query(
                    "SELECT * EXCLUDE (_id, userId, userLifetimeIndex, ingestedAt, updateDate) FROM interactions "
                    "ORDER BY firstHitId"
                ),
                "hits": query("SELECT * EXCLUDE (sessionId, isOpening, ingestedAt) FROM hits ORDER BY id"),
                "stored": query(
                    f"SELECT hits.id, {', '.join(f'hits.{name}' for name in STORED[1:-1])}, firstHitId FROM hits "
                    "JOIN interactions AS session ON session._id = sessionId ORDER BY hits.id"
                ),
                "nodes": query("SELECT * EXCLUDE (createdAt, updatedAt) FROM nodes ORDER BY _id"),
                "users": query(
                    "SELECT value, list(firstHitId ORDER BY firstHitId) FROM identities JOIN interactions USING (userId) "
                    "GROUP BY value ORDER BY value"
                ),
            }
            assert_consistent(query)
        return found
    finally:
        store.close()


@pytest.mark.large
@pytest.mark.slow
@given(HITS, st.randoms(use_true_random=False), st.integers(1, 6))
@settings(max_examples=20)
def test_order_and_portions_of_arrival_do_not_matter(drawn, random, size):
    """And the sessions are those of one hit at a time, in the order of their dates."""
    hits = [
        hit(number, minutes, page, tracker=tracker, referrer=referrer)
        for number, (minutes, page, referrer, tracker) in enumerate(drawn, 1)
    ]
    shuffled = random.sample(hits, len(hits))
    portions = [shuffled[start : start + size] for start in range(0, len(hits), size)]
    at_once = result([hits])
    assert result(portions) == at_once
    stored = [dict(zip(STORED, row, strict=True)) for row in at_once["stored"]]
    assert {hit["id"]: hit["firstHitId"] for hit in stored} == sequential_sessions.split(stored)
