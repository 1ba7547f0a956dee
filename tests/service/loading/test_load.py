"""Loading files of every kind: records that take the place of stored ones, access logs, raw and exported hits, anything at all."""

import gzip
import json
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.address_databases import IN_PARIS, OF_ORANGE, write_asn, write_geo
from support.export_rows import ga4_rows, snowplow_rows
from support.export_schemas import GA4, SNOWPLOW, arrow
from support.json_values import NUMBERS, TEXTS
from support.reference_exports import ga4_hits, snowplow_hits
from support.service_records import hex_id, order, reasons, send, table, uuid, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.records.ga4_events import GA4Hits
from attrib_ds.records.snowplow_events import SnowplowHits
from attrib_ds.service import Service
from attrib_ds.service.collection.visitors import AddressLookup
from attrib_ds.service.consistency_check import RULES
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store

ANNA, BEN = hex_id(901), hex_id(902)
FEBRUARY, MARCH = "2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z"


def put(service, resource, *records, replace=True):
    """Load records and return how many were written, and why others were not."""
    answer = send(service, "load_records", resource=resource, source=table(*records), replace=replace)
    return answer.value[resource], answer.read()["reason"].to_pylist()


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    yield opened
    opened.close()


@pytest.fixture
def filled(service):
    nodes = [{"_id": "ads", "type": "channel", "name": "Ads", "updatedAt": FEBRUARY}]
    nodes += [{"_id": "brand", "type": "campaign", "name": "Brand", "parentId": "ads", "updatedAt": FEBRUARY}]
    put(service, "nodes", *nodes)
    visits = [
        visit(1, userId=ANNA, userData='{"email":"anna@example.com"}', updateDate=FEBRUARY, hitCount=2, firstHitId=uuid(50)),
        visit(2, userId=ANNA, startDate="2025-01-30T12:00:00Z", updateDate=FEBRUARY, userData=None),
    ]  # fmt: skip
    put(service, "interactions", *visits)
    hits = [{"id": uuid(n), "sessionId": hex_id(1), "serverDate": f"2025-01-31T12:00:{n}Z"} for n in (50, 51)]
    put(service, "hits", *hits)
    put(service, "events", order(1, userId=ANNA, updatedAt=FEBRUARY, **{"states.won": 1}))
    return service


@pytest.mark.slow
def test_a_later_change_takes_the_place(filled):
    assert put(filled, "interactions", visit(1, userId=BEN, referrer="b", updateDate=MARCH)) == (1, [])
    assert put(filled, "events", order(1, userId=BEN, updatedAt=MARCH, **{"states.won": 0})) == (1, [])
    assert rows_of(filled, "SELECT _id, userId, referrer FROM interactions ORDER BY 1") == [
        (hex_id(1), BEN, "b"),
        (hex_id(2), ANNA, None),
    ]
    assert rows_of(filled, "SELECT userId FROM events") == [(BEN,)]
    assert rows_of(filled, "SELECT key, number FROM metrics ORDER BY 1") == [("event-count", 1), ("won", 0)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_an_earlier_one_does_not(filled):
    early = "2025-01-31T23:59:59Z"
    assert put(filled, "interactions", visit(1, userId=BEN, updateDate=early)) == (0, [])
    assert put(filled, "events", order(1, userId=BEN, updatedAt=early)) == (0, [])
    assert put(filled, "nodes", {"_id": "ads", "type": "channel", "name": "x", "updatedAt": early}) == (0, [])
    assert rows_of(filled, "SELECT DISTINCT userId FROM interactions UNION SELECT userId FROM events") == [
        (ANNA,)
    ]
    assert rows_of(filled, "SELECT name FROM nodes WHERE _id = 'ads'") == [("Ads",)]


@pytest.mark.slow
def test_of_two_changes_at_the_same_moment_the_loaded_one_counts(filled):
    assert put(filled, "interactions", visit(2, userId=ANNA, referrer="b", updateDate=FEBRUARY)) == (1, [])
    assert put(filled, "interactions", visit(1, userId=BEN)) == (1, [])
    assert_users_agree(filled)


@pytest.mark.slow
def test_users_without_records_are_removed_with_their_identities(filled):
    moved = [visit(n, userId=BEN, userData='{"email":"anna@example.com"}', updateDate=MARCH) for n in (1, 2)]
    put(filled, "interactions", *moved)
    assert rows_of(filled, "SELECT _id FROM users ORDER BY 1") == [(ANNA,), (BEN,)]
    put(filled, "events", order(1, userId=BEN, updatedAt=MARCH))
    assert rows_of(filled, "SELECT _id FROM users") == [(BEN,)]
    assert rows_of(filled, "SELECT * FROM merged_users") == []
    # What identified them is learnt again with the next record that carries it.
    put(filled, "interactions", moved[0] | {"referrer": "again"})
    assert rows_of(filled, "SELECT value, userId FROM identities") == [("anna@example.com", BEN)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_hits_of_a_session_that_counts_others_are_forgotten(filled):
    same = visit(1, userId=ANNA, referrer="b", updateDate=MARCH, hitCount=2, firstHitId=uuid(50))
    put(filled, "interactions", same)
    assert rows_of(filled, "SELECT count(*) FROM hits") == [(2,)]
    put(filled, "interactions", same | {"hitCount": 3})
    assert rows_of(filled, "SELECT count(*) FROM hits") == [(0,)]
    assert rows_of(filled, "SELECT hitCount FROM interactions WHERE hitCount > 0") == [(3,)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_a_hit_moves_to_another_session(filled):
    moved = {"id": uuid(50), "sessionId": hex_id(2), "serverDate": "2025-01-30T12:00:00Z"}
    assert put(filled, "hits", moved) == (1, [])
    assert rows_of(filled, "SELECT firstHitId, hitCount FROM interactions ORDER BY _id") == [
        (uuid(51), 1),
        (uuid(50), 1),
    ]
    assert_users_agree(filled)


@pytest.mark.slow
def test_a_node_moves_with_those_below_it(filled):
    put(filled, "nodes", {"_id": "paid", "type": "channel", "name": "Paid"})
    put(
        filled,
        "nodes",
        {"_id": "ads", "type": "integration", "name": "Ads", "parentId": "paid", "updatedAt": MARCH},
    )
    assert rows_of(filled, "SELECT path FROM nodes WHERE _id = 'brand'") == [(["paid", "ads"],)]
    assert_users_agree(filled)


def test_an_outlay_changes(filled):
    period = {"startDate": FEBRUARY, "endDate": MARCH, "amount.currency": "EUR", "campaignId": "brand"}
    put(filled, "spend", {"_id": "o", "amount.amount": "10", "updatedAt": FEBRUARY, **period})
    put(
        filled, "spend", {"_id": "o", "amount.amount": "20", "updatedAt": MARCH, "deletedAt": MARCH, **period}
    )
    query = 'SELECT CAST("amount.amount" AS INTEGER), deletedAt IS NULL FROM outlays'
    assert rows_of(filled, query) == [(20, False)]


def test_unchanged_records_are_not_written(filled):
    before = rows_of(filled, "SELECT * FROM metrics")
    same = order(1, userId=ANNA, updatedAt=FEBRUARY, **{"states.won": 1})
    assert put(filled, "events", same) == (0, [])
    assert rows_of(filled, "SELECT * FROM metrics") == before


@pytest.mark.parametrize("corrected", [{"statistics.revenue": 11}, {}])
def test_a_corrected_amount_takes_the_place(service, corrected):
    # The date of an imported order does not change with its amount.
    put(service, "events", order(1, userId=ANNA, updatedAt=FEBRUARY, **{"statistics.revenue": 10}))
    again = order(1, userId=ANNA, updatedAt=FEBRUARY, **corrected)
    assert put(service, "events", again) == (1, [])
    assert put(service, "events", again) == (0, [])
    amounts = rows_of(service, "SELECT number FROM metrics WHERE key = 'revenue'")
    assert amounts == [(amount,) for amount in corrected.values()]
    assert_users_agree(service)


def test_an_amount_updated_since_stays(service):
    first = order(1, userId=ANNA, updatedAt=FEBRUARY, **{"statistics.revenue": 10})
    put(service, "events", first)
    send(service, "update_event_statistic", id=uuid(1), storage_key="revenue", value=4)
    assert put(service, "events", first) == (0, [])
    assert rows_of(service, "SELECT number FROM metrics WHERE key = 'revenue'") == [(4,)]


@pytest.mark.slow
def test_erased_users_stay_erased_and_their_counts_stay(filled):
    send(filled, "delete_user", id=ANNA, mode="anonymise")
    before = rows_of(filled, "SELECT * FROM interactions ORDER BY _id")
    erased = "userId: belongs to a person who was erased after this date"
    later = visit(1, userId=ANNA, userData='{"email":"anna@example.com"}', updateDate="2100-01-01T00:00:00Z")
    assert put(filled, "interactions", later) == (0, [erased])
    assert rows_of(filled, "SELECT * FROM interactions ORDER BY _id") == before


@pytest.mark.slow
def test_users_stay_apart_whatever_identifies_them(filled):
    ben = '{"email":"ben@example.com"}'
    put(filled, "interactions", visit(3, userId=BEN, type="offline", rawUserData="{}", userData=ben))
    put(filled, "events", order(2, userId=hex_id(903), user=ben))
    assert rows_of(filled, "SELECT count(*) FROM merged_users") == [(0,)]
    assert_users_agree(filled)


@pytest.mark.slow
def test_who_had_only_interactions_is_forgotten_with_the_last(filled):
    put(filled, "interactions", visit(3, userId=BEN))
    put(filled, "interactions", visit(3, userId=ANNA))
    assert rows_of(filled, "SELECT _id FROM users") == [(ANNA,)]
    assert_users_agree(filled)


def test_unless_asked_stored_records_stay(filled):
    reason = [f"_id: '{hex_id(1)}' is already loaded"]
    assert put(filled, "interactions", visit(1, updateDate=MARCH), replace=False) == (0, reason)


@pytest.mark.slow
def test_metrics_keep_their_ids_and_deleted_delays(filled):
    send(filled, "update_event_state", id=uuid(1), storage_key="won", value=0)
    (event,) = send(filled, "get_event", id=uuid(1)).read().to_pylist()
    filled._store.write(
        lambda connection: connection.execute("UPDATE events SET updatedAt = TIMESTAMP '2025-02-01'")
    )
    before = rows_of(filled, "SELECT * FROM metrics ORDER BY key")
    assert put(filled, "events", event) == (1, [])
    assert rows_of(filled, "SELECT * FROM metrics ORDER BY key") == before
    assert_users_agree(filled)


FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
SITE = "https://shop.example"


def line(
    target="/",
    *,
    time="12:00:00",
    address="203.0.113.7",
    method="GET",
    status=200,
    referrer="-",
    agent=FIREFOX,
    host="",
):
    request = f"{method} {target} HTTP/1.1"
    return f'{host}{address} - - [31/Jan/2025:{time} +0100] "{request}" {status} 512 "{referrer}" "{agent}"'


@pytest.fixture
def load(memory_store, tmp_path):
    def write(*lines, name="access.log", **options):
        file = tmp_path / name
        data = "".join(f"{text}\n" for text in lines).encode("utf-8", "surrogateescape")
        file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return load_records(memory_store, "hits", AccessLog(file, site=SITE, **options))

    return write


def test_page_views_become_sessions_with_sources(load, rows):
    counts, rejected = load(
        line("/?gclid=x", referrer="https://www.google.com/"),
        line("/boots", time="12:20:00", referrer=f"{SITE}/?gclid=x"),
        line("/", address="198.51.100.1", referrer="https://duckduckgo.com/"),
        name="access.log.gz",
    )
    assert rejected.num_rows == 0
    assert (counts["hits"], counts["interactions"], counts["skipped_requests"]) == (3, 2, 0)
    # The log is in local time, an hour ahead of UTC.
    columns = 'startDate::VARCHAR, hitCount, nodeId, isBot, "userAgent.browser.name"'
    assert rows(f"SELECT {columns} FROM interactions ORDER BY nodeId") == [
        ("2025-01-31 11:00:00", 2, "google/cpc", False, "Firefox"),
        ("2025-01-31 11:00:00", 1, "organic-search/duckduckgo", False, "Firefox"),
    ]
    assert {rule.problem: rows(rule.broken) for rule in RULES if rows(rule.broken)} == {}


def test_other_requests_are_no_page_views(load, rows):
    counts, rejected = load(
        line("/logo.PNG?v=2"),
        line("/app.js"),
        line("/cart", method="POST"),
        line("/old", status=301),
        line("/missing", status=404),
        line("/cached", status=304),
        line("/downloads.zipper"),
    )
    assert (counts["hits"], counts["skipped_requests"], rejected.num_rows) == (2, 5, 0)
    assert rows('SELECT "pageUrl.pathname" FROM hits ORDER BY 1') == [("/cached",), ("/downloads.zipper",)]


@pytest.mark.slow
def test_what_is_a_page_view_can_be_chosen(load, rows):
    counts, _ = load(line("/guide.pdf"), line("/missing", status=404), statuses=(404, 200), static=("js",))
    assert (counts["hits"], counts["skipped_requests"]) == (2, 0)


def test_malformed_lines_are_counted_and_shown(load):
    counts, rejected = load(
        "", line(), "GET / HTTP/1.1", line().replace("Jan", "Foo"), line("/b", agent="caf\udce9")
    )
    assert counts["hits"] == 2
    shown = reasons(rejected)
    assert shown[1] == "'' is not a line of the combined log format"
    assert shown[3] == "'GET / HTTP/1.1' is not a line of the combined log format"
    assert shown[4].startswith("'203.0.113.7 - - [31/Foo/2025:12:00:00 +0100]")
    assert sorted(shown) == [1, 3, 4]


@pytest.mark.slow
def test_a_visitor_is_a_truncated_address_and_a_user_agent(load, rows):
    load(
        line("/1", address="203.0.113.7"),
        line("/2", address="203.0.113.200"),
        line("/3", address="203.0.114.7"),
        line("/4", address="2001:db8:1::1"),
        line("/5", address="2001:db8:1:2::9"),
        line("/6", agent="Mozilla/5.0 (iPhone)"),
    )
    pages = 'list_sort(list("pageUrl.pathname"))'
    assert rows(f"SELECT {pages} FROM hits GROUP BY trackerId ORDER BY 1") == [
        (["/1", "/2"],),
        (["/3"],),
        (["/4", "/5"],),
        (["/6"],),
    ]
    assert rows("SELECT count(*) FROM hits WHERE trackerId LIKE '%203.0%'") == [(0,)]


def test_of_page_views_within_a_second_those_from_outside_come_first(load, rows):
    """Ids, which are hashes of the content, do not decide which page of the second is the first."""
    views = [
        ("/?gclid=Cj0KCQabcd", "https://www.google.com/"),
        ("/welcome", f"{SITE}/?gclid=Cj0KCQabcd"),
        ("/offer", "https://duckduckgo.com/"),
        ("/offer/boots", f"{SITE}/offer"),
        ("/home", "-"),
        ("/home/boots", f"{SITE}/home"),
    ]
    # Inner pages first, half of them in a file of their own.
    lines = [
        line(
            target,
            address=f"203.0.{visitor}.{number // 2 * 2}",
            referrer=referrer,
            agent=f"{FIREFOX} {number // 2}",
        )
        for visitor in range(40)
        for number, (target, referrer) in reversed(list(enumerate(views)))
    ]
    load(*lines[::4], name="one.log")
    load(*lines)
    assert rows(
        'SELECT nodeId, hitCount, "firstPageUrl.pathname", count(*) FROM interactions GROUP BY ALL ORDER BY ALL'
    ) == [
        ("direct", 2, "/home", 40),
        ("google/cpc", 2, "/", 40),
        ("organic-search/duckduckgo", 2, "/offer", 40),
    ]


@pytest.mark.slow
def test_a_visitor_is_the_same_in_the_next_file_and_another_one_in_another_project(load, rows, tmp_path):
    load(line("/1"), name="one.log")
    load(line("/2", time="12:10:00"), name="two.log")
    assert rows("SELECT hitCount FROM interactions") == [(2,)]
    ((tracker,),) = rows("SELECT DISTINCT trackerId FROM hits")
    other = Store.open(":memory:", "shop")
    try:
        load_records(other, "hits", AccessLog(tmp_path / "one.log", site=SITE))
        with other.cursor() as cursor:
            assert cursor.execute("SELECT trackerId FROM hits").fetchall() != [(tracker,)]
    finally:
        other.close()


@pytest.mark.slow
def test_a_line_that_was_loaded_is_not_counted_again(load, rows):
    first = [line("/1"), line("/2", time="12:01:00")]
    load(*first)
    counts, rejected = load(*first, line("/2", time="12:01:00"), line("/3", time="12:02:00"))
    assert (counts["hits"], rejected.num_rows) == (1, 0)
    assert rows("SELECT hitCount FROM interactions") == [(3,)]


def test_a_virtual_host_is_the_host_of_the_page(load, rows):
    load(line("/1", host="Blog.Example:443 "), line("/2"), line("https://proxied.example/3"))
    assert rows('SELECT "pageUrl.origin" FROM hits ORDER BY "pageUrl.pathname"') == [
        ("https://blog.example",),
        ("https://shop.example",),
        ("https://proxied.example",),
    ]


def test_bots_are_marked(load, rows):
    load(line("/1", agent="Mozilla/5.0 (compatible; bingbot/2.0)"), line("/2", agent="-"), line("/3"))
    assert rows('SELECT "pageUrl.pathname", isBot FROM hits ORDER BY 1') == [
        ("/1", True),
        ("/2", True),
        ("/3", False),
    ]


def test_quotation_marks_in_a_line_are_read(load, rows):
    load(line("/1", agent='a \\"b\\" c', referrer='https://news.example/\\"x'))
    assert rows("SELECT userAgent, referrer FROM hits") == [('a "b" c', 'https://news.example/"x')]


@pytest.mark.parametrize(
    ("files", "site", "message"),
    [
        ([], SITE, "there is no file"),
        ("a.log", "shop.example", "expected an origin, such as 'https://shop.example'"),
    ],
)
def test_rules_of_the_arguments(files, site, message):
    with pytest.raises(InvalidRequest, match=message):
        AccessLog(files, site=site)


def test_a_missing_file_is_refused(memory_store, tmp_path):
    with pytest.raises(InvalidRequest, match="does not exist"):
        load_records(memory_store, "hits", AccessLog(tmp_path / "no.log", site=SITE))


SESSIONS = (
    "SELECT _id, firstHitId, trackerId, startDate, endDate, hitCount, nodeId, isBot, firstPage, referrer, "
    'referrerType, "geo.state", "geo.city", "geo.countryCode", "userAgent.ua" FROM ("interactions" AS session '
    "JOIN (SELECT id, trackerId FROM hits) AS hit ON hit.id = firstHitId) ORDER BY _id"
)


EXPORTS = {
    "ga4": (lambda rows: GA4Hits(arrow(rows, GA4)), ga4_rows, ga4_hits),
    "snowplow": (lambda rows: SnowplowHits(arrow(rows, SNOWPLOW)), snowplow_rows, snowplow_hits),
}


def given_to(store, hits):
    """Return the counts of a load, after which the project is consistent."""
    counts, rejected = load_records(store, "hits", hits)
    with store.cursor() as cursor:
        broken = {rule.problem for rule in RULES if cursor.execute(rule.broken).fetchall()}
    assert (reasons(rejected), broken) == ({}, set())
    return counts


def read(store, query):
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_makes_the_sessions_that_its_hits_make_one_by_one(memory_store, name):
    export, generated, plain = EXPORTS[name]
    rows = [row for row in generated(1) if row.get("user_pseudo_id") or name == "snowplow"][:70]
    hits = [hit | {"date": hit["date"].replace(tzinfo=UTC)} for hit in plain(rows)]
    counts = given_to(memory_store, export(rows))
    assert counts["hits"] == len(hits)
    assert counts["skipped_events"] > 0
    # Days overlap.
    assert given_to(memory_store, export(rows[:30]))["hits"] == 0
    random.Random(1).shuffle(hits)
    other = Store.open(":memory:", "shop")
    try:
        for hit in hits:
            given_to(other, table(hit))
        # A session keeps the id that it had first, so that ids depend on the order of arrival (G-242).
        sessions = sorted((row[2:] for row in read(other, SESSIONS)), key=repr)
        assert len(sessions) > 5
        assert sorted((row[2:] for row in read(memory_store, SESSIONS)), key=repr) == sessions
    finally:
        other.close()


def test_rows_that_are_no_hits_are_rejected_with_their_place(memory_store, tmp_path):
    view = {"event_timestamp": 1_735_725_600_000_000, "event_name": "page_view", "user_pseudo_id": "a.1"}
    page = [{"key": "page_location", "value": {"string_value": "https://shop.example/"}}]
    days = [
        [view | {"event_params": page}, view | {"event_timestamp": 1, "event_params": page}],
        [
            view | {"event_timestamp": 1_735_725_601_000_000, "event_params": []},
            view | {"user_pseudo_id": None, "user_id": "anna", "event_params": page},
        ],
    ]
    files = [tmp_path / f"events_{number}.jsonl" for number in range(2)]
    for file, day in zip(files, days, strict=True):
        file.write_text("".join(f"{json.dumps(row)}\n" for row in day), encoding="utf-8")
    counts, rejected = load_records(memory_store, "hits", GA4Hits(files))
    assert counts["hits"] == 1
    assert reasons(rejected) == {
        1: "event_timestamp is not a number of microseconds",
        2: "pageUrl: is missing",
        3: "trackerId: is missing",
    }


def test_exports_of_hits_are_no_other_records(memory_store):
    with pytest.raises(InvalidRequest, match="interactions"):
        load_records(memory_store, "interactions", GA4Hits([]))


def test_an_export_that_is_none_is_refused(memory_store, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match="has no column event_timestamp"):
        load_records(memory_store, "hits", GA4Hits(tmp_path / "x.csv"))
    with pytest.raises(InvalidRequest, match="has no column event_id"):
        load_records(memory_store, "hits", SnowplowHits(tmp_path / "x.csv"))


PLACE = ", ".join(f'"{name}"' for name in IN_PARIS | OF_ORANGE)
PARIS = (*IN_PARIS.values(), *OF_ORANGE.values())
NOWHERE = (None,) * len(PARIS)


LINE = (
    '%s - - [31/Jan/2025:12:00:00 +0100] "GET / HTTP/1.1" 200 512 "-" '
    '"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"\n'
)


@pytest.fixture
def databases(tmp_path):
    return {"geo": write_geo(tmp_path / "geo.mmdb"), "asn": write_asn(tmp_path / "asn.mmdb")}


def hit(number, **properties):
    usual = {"hitId": uuid(number), "trackerId": f"t{number}", "date": "2025-01-31T12:00:00Z"}
    return usual | {"pageUrl": "https://shop.example/", "ip": "203.0.113.7"} | properties


def test_hits_get_the_place_of_their_address(memory_store, rows, databases):
    hits = table(hit(1), hit(2, ip="192.0.2.1"), hit(3, ip=None), hit(4, ip="203.0.113.99"))
    counts, rejected = load_records(memory_store, "hits", hits, **databases)
    assert (counts["hits"], reasons(rejected)) == (4, {})
    for name, key in (("hits", "id"), ("interactions", "firstHitId")):
        expected = [(uuid(1), *PARIS), (uuid(2), *NOWHERE), (uuid(3), *NOWHERE), (uuid(4), *PARIS)]
        assert rows(f"SELECT {key}, {PLACE} FROM {name} ORDER BY 1") == expected


def test_a_place_that_a_hit_has_is_kept_whole(memory_store, rows, databases):
    hits = table(hit(1, **{"geo.city": "Lyon"}), hit(2, **{"asn.asnName": "Home"}))
    load_records(memory_store, "hits", hits, **databases)
    (lyon, home) = rows(f"SELECT {PLACE} FROM hits ORDER BY id")
    assert lyon == (None, None, "Lyon", None, None, None, *OF_ORANGE.values())
    assert home == (*IN_PARIS.values(), None, "Home")


def test_each_address_is_looked_up_once(memory_store, databases, monkeypatch):
    found = []
    find = AddressLookup.find
    monkeypatch.setattr(
        AddressLookup, "find", lambda self, address: found.append(address) or find(self, address)
    )
    load_records(memory_store, "hits", table(*(hit(number) for number in range(9))), **databases)
    assert found == ["203.0.113.7"]


def test_access_logs_have_addresses(memory_store, rows, databases, tmp_path):
    log = tmp_path / "access.log"
    log.write_text(LINE % "203.0.113.7" + LINE % "192.0.2.1", encoding="utf-8")
    load_records(memory_store, "hits", AccessLog(log, site="https://shop.example"), **databases)
    assert sorted(rows(f"SELECT {PLACE} FROM hits"), key=str) == sorted([PARIS, NOWHERE], key=str)


def test_records_without_addresses_are_refused(memory_store, databases):
    without = table({name: value for name, value in hit(1).items() if name != "ip"})
    with pytest.raises(InvalidRequest, match="hits: the column 'ip' is missing"):
        load_records(memory_store, "hits", without, **databases)
    visits = table({"userId": hex_id(1), "nodeId": "ads", "startDate": "2025-01-31T12:00:00Z"})
    with pytest.raises(InvalidRequest, match="geo and asn: they look up the addresses of raw hits"):
        load_records(memory_store, "interactions", visits, **databases)
    with pytest.raises(InvalidRequest, match=r"geo: .* does not exist"):
        load_records(memory_store, "hits", table(hit(1)), geo="no.mmdb")


def test_times_and_offsets_have_the_limits_of_collected_hits(memory_store):
    hits = table(
        hit(1, date="2099-01-01T00:00:00Z", timezoneOffset=0),
        hit(2, timezoneOffset=99_999),
        hit(3, timezoneOffset=-1_441),
        hit(4, timezoneOffset=1_440),
        hit(5, timezoneOffset=-1_440),
    )
    counts, rejected = load_records(memory_store, "hits", hits.drop_columns("ip"))
    assert counts["hits"] == 2
    assert reasons(rejected) == {
        0: "date: '2099-01-01T00:00:00Z' is more than 24 hours in the future",
        1: "timezoneOffset: '99999' is not from -1440 to 1440",
        2: "timezoneOffset: '-1441' is not from -1440 to 1440",
    }


def test_clocks_that_are_a_little_fast_are_no_reason_to_lose_hits(memory_store):
    now = datetime.now(UTC)
    hits = table(*(hit(hours, date=(now + timedelta(hours=hours)).isoformat()) for hours in (23, 25)))
    assert list(reasons(load_records(memory_store, "hits", hits)[1])) == [1]


NAMES = {
    "interactions": [
        "_id",
        "userId",
        "startDate",
        "hitCount",
        "duration",
        "geo.city",
        "isBot",
        "nodeId",
        "userData",
    ],
    "hits": ["id", "sessionId", "serverDate", "pageUrl", "type"],
    "events": ["_id", "userId", "eventDate", "eventTypeId", "metrics", "data", "createdAt", "userMap"],
    "nodes": ["_id", "parentId", "type", "name", "slug", "explicit", "medium"],
    "spend": ["_id", "campaignId", "amount.amount", "amount.currency", "startDate", "endDate"],
}


TYPES = [
    pa.string(), pa.large_string(), pa.binary(), pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.null(),
    pa.decimal128(38, 10), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.date32(), pa.duration("us"),
    pa.list_(pa.string()), pa.struct([("amount", pa.string()), ("currency", pa.string())]),
    pa.dictionary(pa.int32(), pa.string()), pa.map_(pa.string(), pa.string()), pa.time64("us"),
]  # fmt: skip


#: JSON texts are read by the database, too.
JSON = [f'[{{"key": "turnover", "value": {number}}}]' for number in NUMBERS] + [
    f'{{"email": {number}}}' for number in NUMBERS
]


WORDS = [text for text in TEXTS if "\ud800" not in text] + [*NUMBERS, *JSON, "[" * 5_000, '{"a":' * 2_000]


@st.composite
def columns(draw, rows):
    kind = draw(st.sampled_from(TYPES))
    texts = st.lists(st.none() | st.sampled_from(WORDS), min_size=rows, max_size=rows)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        column = pa.array(draw(texts), pa.string())
        return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    if pa.types.is_binary(kind):
        return pa.array(draw(st.lists(st.none() | st.binary(max_size=9), min_size=rows, max_size=rows)), kind)
    if pa.types.is_floating(kind):
        return pa.array(draw(st.lists(st.none() | st.floats(), min_size=rows, max_size=rows)), kind)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [pa.array(draw(texts), pa.string()) for _ in range(2)], ["amount", "currency"]
        )
    if pa.types.is_list(kind):
        return pa.array([None if text is None else [text] for text in draw(texts)], kind)
    if pa.types.is_map(kind):
        return pa.array([None if text is None else [("a", text)] for text in draw(texts)], kind)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        return (
            pa.array(draw(st.lists(st.none() | st.booleans(), min_size=rows, max_size=rows))).cast(
                kind, safe=False
            )
            if (pa.types.is_boolean(kind))
            else pa.nulls(rows)
        )
    # Any eight (or sixteen) bytes are a value of these types.
    width = kind.bit_width // 8
    content = draw(st.binary(min_size=rows * width, max_size=rows * width))
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content)])


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("resource", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_any_arrow_table_is_loaded_or_refused(resource, data):
    rows = data.draw(st.integers(0, 3))
    names = data.draw(st.lists(st.sampled_from(NAMES[resource]), unique=True, min_size=1))
    table = pa.table({name: data.draw(columns(rows)) for name in names})
    store = Store.open(":memory:", "shop")
    try:
        with suppress(InvalidRequest):
            counts, rejected = load_records(store, resource, table)
            assert rejected.num_rows <= rows
            assert all(count >= 0 for count in counts.values())
    finally:
        store.close()
