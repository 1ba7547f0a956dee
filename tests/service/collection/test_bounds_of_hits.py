"""What a stranger's hit can cost and leave behind: texts, time, nodes and campaigns (G-237, G-238, G-246)."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from urllib.parse import urlencode

import pytest
from support.campaign_texts import APART
from support.service_records import send, table, uuid

from attrib_ds.contract.identifiers import slug_of
from attrib_ds.contract.interactions import read_hit
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.service import Service
from attrib_ds.service.collection import hits, traffic_sources
from attrib_ds.service.collection.hits import HitIntake, pending_hit
from attrib_ds.service.consistency_check import RULES
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.settings import change_settings
from attrib_ds.service.store.store import Store
from attrib_ds.traffic import agents, sources
from attrib_ds.traffic.channel_rules import known_site

SECONDS = 30
SHOP = "https://shop.example/"


def record(number, page=SHOP, **members):
    hit = read_hit({"projectId": "shop", "pageUrl": page, **members})
    return pending_hit(hit, id=uuid(number), tracker_id=f"t-{number}", user_agent="Firefox/130.0")


def collect(store, *records):
    """Store hits in one transaction, as they come from pages."""
    intake = HitIntake(store)
    prepared = intake._prepare(records)
    store.write(lambda connection: intake._write(connection, prepared))


@pytest.fixture
def store():
    with closing(Store.open(":memory:", "shop")) as store:
        yield store


def read(store, query):
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def assert_consistent(store):
    assert {rule.problem: read(store, rule.broken) for rule in RULES if read(store, rule.broken)} == {}


# -- texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["ab", "a", "abc", ""])
@pytest.mark.parametrize("ending", ["", ".google.com"])
def test_the_cost_of_a_host_does_not_grow_with_its_labels(label, ending):
    def cost(labels):
        hosts = [".".join([label] * labels) + f".n{number}{ending}" for number in range(40)]
        began = time.process_time()
        assert [known_site(f"https://{host}/") for host in hosts] == [None] * len(hosts)
        return time.process_time() - began

    cost(8)
    # The text is cut before it is read, and of what is left the last labels alone are tried.
    assert min(cost(3_000) for _ in range(3)) < 0.05 * 40
    assert min(cost(120) for _ in range(3)) < 10 * min(cost(8) for _ in range(3))


def test_g237_texts_are_cut_and_the_hit_is_marked(store):
    long = "x" * 300
    host = ".".join(["ab"] * 200)
    collect(
        store,
        record(1, f"{SHOP}?utm_source={long}&utm_medium={long}&utm_campaign={long}&utm_content={long}"),
        record(2, referrer=f"https://{host}/"),
        record(3, SHOP + "y" * 3_000, referrer="https://news.example/" + "z" * 3_000),
        record(
            4,
            f"{SHOP}?utm_source={long[:255]}&utm_medium=cpc",
            referrer="https://news.example/" + "z" * 2_027,
        ),
        record(5, f"https://{host}/"),
    )
    rows = read(store, 'SELECT truncated, len(referrer), len("pageUrl.pathname") FROM hits ORDER BY id')
    assert rows == [
        (True, None, 1),
        (True, 608, 1),
        (True, 2_048, 2_048 - len(SHOP) + 1),
        (False, 2_048, 1),
        (True, None, 1),
    ]
    longest = max(
        len(name) for (name,) in read(store, "SELECT unnest([name, source, medium]) FROM nodes") if name
    )
    assert longest == len(" / ".join([long[:255]] * 2))
    assert read(store, "SELECT max(len(source)), max(len(medium)) FROM nodes") == [(255, 255)]
    assert read(store, "SELECT name FROM nodes WHERE type = 'referrer' ORDER BY 1")[0] == (
        host[-253:].lstrip("."),
    )
    assert read(store, 'SELECT max(len("pageUrl.hostname")) FROM hits') == [(253,)]


def test_g237_accepted_hits_of_an_earlier_version_are_cut_likewise(store):
    """It bounded nothing, and kept no mark."""
    page, referrer = SHOP + "y" * 3_000, "https://news.example/" + "z" * 3_000
    cases = [(page, None, None), (SHOP, referrer, False), (SHOP, None, True), (SHOP, None, None)]
    collect(
        store,
        *(
            record(number) | dict(zip(("pageUrl", "referrer", "truncated"), case, strict=True))
            for number, case in enumerate(cases)
        ),
    )
    lengths = 'truncated, len("pageUrl.pathname"), len(referrer)'
    assert read(store, f"SELECT {lengths} FROM hits ORDER BY id") == [
        (True, 2_048 - len(SHOP) + 1, None),
        (True, 1, 2_048),
        (True, 1, None),
        (False, 1, None),
    ]


def test_g237_loaded_hits_are_cut_likewise(store):
    usual = {"trackerId": "t", "date": "2025-01-31T12:00:00Z", "pageUrl": SHOP}
    cases = [
        {"pageUrl": SHOP + "y" * 3_000},
        {"referrer": "https://news.example/" + "z" * 3_000},
        {"userAgent": "a" * 2_000},
        {},
    ]
    rows = [usual | case | {"hitId": uuid(number)} for number, case in enumerate(cases)]
    counts, rejected = load_records(store, "hits", table(*rows))
    assert (counts["hits"], rejected.num_rows) == (4, 0)
    lengths = 'truncated, len("pageUrl.pathname"), len(referrer), len(userAgent)'
    assert read(store, f"SELECT {lengths} FROM hits ORDER BY id") == [
        (True, 2_048 - len(SHOP) + 1, None, None),
        (True, 1, 2_048, None),
        (True, 1, None, 1_024),
        (False, 1, None, None),
    ]


def test_g237_hits_loaded_with_their_session_are_cut_likewise(store):
    visit = {"_id": "0" * 24, "userId": "1" * 24, "nodeId": "ads", "startDate": "2025-01-31T12:00:00Z"}
    load_records(store, "interactions", table(visit))
    usual = {"sessionId": "0" * 24, "serverDate": "2025-01-31T12:00:00Z"}
    cases = [
        {"userAgent": "a" * 2_000, "pageUrl.search": "?" + "a" * 3_000, "pageUrl.hostname": "a" * 300},
        {"userAgent": "a", "pageUrl.hostname": "b" * 253},
    ]
    load_records(store, "hits", table(*(usual | case | {"id": uuid(n)} for n, case in enumerate(cases))))
    lengths = 'truncated, len(userAgent), len("pageUrl.search"), len("pageUrl.hostname")'
    assert read(store, f"SELECT {lengths} FROM hits ORDER BY id") == [
        (True, 1_024, 2_048, 253),
        (False, 1, None, 253),
    ]


def test_g237_hits_of_access_logs_are_cut_likewise(store, tmp_path):
    line = '203.0.113.7 - - [31/Jan/2025:12:00:00 +0000] "GET /{} HTTP/1.1" 200 5 "{}" "Firefox"\n'
    file = tmp_path / "access.log"
    file.write_text(line.format("y" * 3_000, "https://news.example/" + "z" * 3_000))
    load_records(store, "hits", AccessLog(file, site="https://shop.example"))
    assert read(store, 'SELECT truncated, len("pageUrl.pathname"), len(referrer) FROM hits') == [
        (True, 2_048 - len(SHOP) + 1, 2_048)
    ]


# -- time -------------------------------------------------------------------------------------------


def test_what_takes_too_long_or_fails_does_not_hold_up_the_others():
    ended = threading.Event()

    def work(key):
        if key == "slow":
            while not ended.is_set():
                pass
        if key == "wrong":
            raise ValueError("no")
        return key

    results = sources.resolve_in_time(work, ["a", "slow", "b", "wrong", "c"], seconds=0.1)
    ended.set()
    late = sources.Unresolved("took more than 0.1 s to read")
    assert results == ["a", late, "b", sources.Unresolved("cannot be read: no"), "c"]


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="threads have no clock of their own")
def test_what_other_threads_do_takes_no_time_of_a_text():
    is_busy = threading.Event()

    def burn():
        while time.thread_time() < 0.4:
            pass
        is_busy.set()

    def work(key):
        # The processors are busy meanwhile.
        assert is_busy.wait(60)
        return key

    threading.Thread(target=burn).start()
    assert sources.resolve_in_time(work, ["a"], seconds=0.1) == ["a"]


def test_loading_the_rules_takes_no_time_of_the_first_text():
    loaded = []

    def work(key):
        if not loaded:
            loaded.append(key)
            while time.thread_time() < began + 0.3:
                pass
        return key

    began = time.thread_time()
    assert sources.resolve_in_time(work, ["a"], example="b", seconds=0.1) == ["a"]
    assert loaded == ["b"]


def test_g237_a_hit_that_cannot_be_read_goes_to_the_trash_for_good(tmp_path, monkeypatch):
    resolve = traffic_sources.resolve_source
    asked = []

    def fail_on_two(search, referrer, **more):
        asked.append(search)
        if "two" in search:
            raise ValueError("two")
        return resolve(search, referrer, **more)

    monkeypatch.setattr(traffic_sources, "resolve_source", fail_on_two)
    path = tmp_path / "shop.duckdb"
    with closing(Store.open(path, "shop")) as store:
        intake = HitIntake(store)
        for number, source in enumerate(("one", "two", "three")):
            intake.submit(record(number, f"{SHOP}?utm_source={source}")).result(SECONDS)
        intake.close(timeout=SECONDS)
        assert read(store, "SELECT nodeId FROM hits ORDER BY id") == [("one",), ("three",)]
        found = read(store, "SELECT id, trackerId, pageUrl, reason FROM trashed_hits")
        assert found == [(uuid(1), "t-1", f"{SHOP}?utm_source=two", "cannot be read: two")]
        assert read(store, "SELECT count(*) FROM pending_hits") == [(0,)]
    asked.clear()
    with closing(Service.open("shop", path)) as service:
        findings = send(service, "check_project").read().to_pylist()
        assert [(finding["check"], finding["examples"]) for finding in findings] == [
            ("trash", ["cannot be read: two"])
        ]
    assert asked == []


def test_no_text_of_a_visitor_is_read_inside_the_transaction(store, monkeypatch):
    collect(store, record(1, f"{SHOP}?utm_source=a", referrer="https://news.example/"))
    intake = HitIntake(store)
    prepared = intake._prepare([record(2, f"{SHOP}?utm_source=b&utm_campaign=c"), record(3)])

    def refuse(*_, **__):
        raise AssertionError("read inside of the transaction")

    for module, name in (
        (traffic_sources, "resolve_source"),
        (sources, "parse_qsl"),
        *((agents, name) for name in ("describe", "is_bot", "resolve_in_time")),
        *((traffic_sources, name) for name in ("parse_address", "resolve_in_time")),
    ):
        monkeypatch.setattr(module, name, refuse)
    store.write(lambda connection: intake._write(connection, prepared))
    assert read(store, "SELECT count(*) FROM hits") == [(3,)]


# -- campaigns and nodes ----------------------------------------------------------------------------


@pytest.fixture
def flyers(store):
    send(Service(store, ":memory:"), "create_integration", vendor_id="flyers", name="Flyers")
    return store


def test_campaigns_of_a_batch_are_inserted_at_once(flyers, monkeypatch):
    statements = []
    insert = hits.traffic_sources.campaigns.tables.insert_records

    def count(connection, into, records):
        statements.append((into, len(records)))
        insert(connection, into, records)

    monkeypatch.setattr(hits.traffic_sources.campaigns.tables, "insert_records", count)
    page = f"{SHOP}?utm_source=flyers&utm_campaign=Spring+Sale+"
    collect(flyers, *(record(number, f"{page}{number}") for number in range(300)), record(300, f"{page}7%20"))
    assert statements == [("campaigns", 300), ("nodes", 300)]
    found = read(flyers, "SELECT id, name, explicit FROM campaigns WHERE campaignSlug = 'spring-sale-7'")
    assert [row[1:] for row in found] == [("Spring Sale 7", False)]
    assert read(flyers, f"SELECT count(*) FROM hits WHERE nodeId = '{found[0][0]}'") == [(2,)]
    assert_consistent(flyers)


def test_g246_traffic_creation_and_spend_meet(flyers):
    service = Service(flyers, ":memory:")
    collect(flyers, record(1, f"{SHOP}?utm_source=flyers&utm_campaign=Spring+Sale"))
    ((node,),) = read(flyers, "SELECT nodeId FROM hits")
    arguments = {
        "vendorId": "flyers",
        "amount": 5,
        "startDate": "2025-01-01T00:00:00Z",
        "endDate": "2025-01-02T00:00:00Z",
    }
    send(service, "create_outlay", parentCampaignId="SPRING sale", **arguments)
    send(service, "create_outlay", parentCampaignId=node, **arguments)
    ((integration,),) = read(flyers, "SELECT _id FROM integrations")
    loaded = [
        {
            "campaignId": text,
            "integrationId": integration,
            "amount.amount": 7.0,
            "amount.currency": "EUR",
            "startDate": "2025-01-01T00:00:00Z",
            "endDate": "2025-01-02T00:00:00Z",
        }
        for text in ("spring_sale", "Autumn", "AUTUMN", node)
    ]
    counts, rejected = load_records(flyers, "spend", table(*loaded))
    assert (counts, rejected.num_rows) == ({"spend": 4, "implicit_nodes": 0}, 0)
    spent = dict(read(flyers, "SELECT campaignId, count(*) FROM outlays GROUP BY ALL"))
    ((autumn,),) = read(flyers, "SELECT id FROM campaigns WHERE campaignSlug = 'autumn'")
    assert spent == {node: 4, autumn: 2}
    listed = send(service, "list_outlays", vendorId="flyers", parentCampaignId="spring-sale")
    assert listed.total == 4
    assert_consistent(flyers)


@pytest.mark.few(3)
@pytest.mark.parametrize("pair", APART, ids=ascii)
def test_g246_texts_that_share_what_is_readable_are_two_campaigns(flyers, pair):
    """In collected and loaded hits, in whatever order they come, and in loaded spend."""
    pages = [f"{SHOP}?{urlencode({'utm_source': 'flyers', 'utm_campaign': text})}" for text in pair]
    collect(flyers, record(1, pages[0]))
    usual = {"trackerId": "t", "date": "2025-01-31T12:00:00Z"}
    load_records(flyers, "hits", table(*(usual | {"pageUrl": page} for page in reversed(pages))))
    ((integration,),) = read(flyers, "SELECT _id FROM integrations")
    amount = {"amount.amount": 7.0, "amount.currency": "EUR"}
    period = {"startDate": "2025-01-01T00:00:00Z", "endDate": "2025-01-02T00:00:00Z"}
    spend = [{"campaignId": text, "integrationId": integration, **amount, **period} for text in pair]
    load_records(flyers, "spend", table(*spend))
    found = read(
        flyers,
        "SELECT name, campaignSlug, count(DISTINCT hits.id), count(DISTINCT outlays._id) FROM campaigns "
        "JOIN hits ON hits.nodeId = campaigns.id JOIN outlays ON campaignId = campaigns.id GROUP BY ALL",
    )
    texts = [(text, slug_of(text)) for text in pair]
    assert sorted(found) == sorted((*texts[number], 2 - number, 1) for number in (0, 1))
    assert_consistent(flyers)


@pytest.mark.parametrize("text", ["Spring\u200bsale", "spring\u00a0\u2003sale", "a +b", "  x_ "])
def test_g246_the_slug_of_traffic_is_that_of_the_api(flyers, text):
    service = Service(flyers, ":memory:")
    made = send(service, "create_campaign", vendorId="flyers", campaignSlug=text, name="Spring").value
    collect(flyers, record(1, f"{SHOP}?{urlencode({'utm_source': 'flyers', 'utm_campaign': text})}"))
    assert read(flyers, "SELECT nodeId FROM hits") == [(made,)]


def test_the_name_of_a_campaign_in_loaded_spend_is_the_first_text(flyers):
    ((integration,),) = read(flyers, "SELECT _id FROM integrations")
    amount = {"amount.amount": 7.0, "amount.currency": "EUR"}
    period = {"startDate": "2025-01-01T00:00:00Z", "endDate": "2025-01-02T00:00:00Z"}
    texts = ("autumn", "AUTUMN", "Autumn")
    spend = [{"campaignId": text, "integrationId": integration, **amount, **period} for text in texts]
    load_records(flyers, "spend", table(*spend))
    assert read(flyers, "SELECT name, campaignSlug FROM campaigns") == [("autumn", "autumn")]


def test_g238_nodes_beyond_the_cap_are_other(flyers, monkeypatch):
    flyers.write(lambda connection: change_settings(connection, {"anonymousNodesPerDay": 4}))
    collect(
        flyers,
        record(1, f"{SHOP}?utm_source=a&utm_medium=cpc&utm_campaign=b&utm_content=c"),
        record(2, referrer="https://news.example/"),
    )
    assert read(flyers, "SELECT count(*) FROM nodes WHERE name = '(other)'") == [(1,)]
    collect(
        flyers,
        record(3, f"{SHOP}?utm_source=a&utm_medium=cpc&utm_campaign=b&utm_content=d&utm_term=e"),
        record(4, f"{SHOP}?utm_source=a&utm_medium=cpc&utm_campaign=x&utm_content=d"),
        record(5, f"{SHOP}?utm_source=q&utm_campaign=x"),
        record(6, referrer="https://other.example/"),
        record(7, f"{SHOP}?utm_source=flyers&utm_campaign=new"),
        record(8, f"{SHOP}?utm_source=a&utm_medium=cpc&utm_campaign=b&utm_content=c"),
    )
    nodes = dict(read(flyers, "SELECT id, nodeId FROM hits"))
    ((root,),) = read(flyers, "SELECT _id FROM nodes WHERE vendorId = 'flyers'")
    assert [nodes[uuid(number)] for number in range(3, 9)] == [
        "a/cpc/b/(other)",
        "a/cpc/(other)",
        "(other)",
        "referral/(other)",
        f"{root}/(other)",
        "a/cpc/b/(other)",
    ]
    assert_consistent(flyers)
    # Loaded hits are not anonymous, and another day has its own cap.
    usual = {"trackerId": "t", "date": "2025-01-31T12:00:00Z"}
    load_records(flyers, "hits", table(usual | {"pageUrl": f"{SHOP}?utm_source=loaded"}))
    assert read(flyers, "SELECT count(*) FROM nodes WHERE _id = 'loaded'") == [(1,)]
    flyers.write(
        lambda c: c.execute("UPDATE settings SET value = '[\"2020-01-01\", 9]' WHERE name = 'anonymousNodes'")
    )
    collect(flyers, record(9, f"{SHOP}?utm_source=next"))
    assert read(flyers, f"SELECT nodeId FROM hits WHERE id = '{uuid(9)}'") == [("next",)]
    assert_consistent(flyers)


def test_paths_of_new_nodes_follow_the_stored_tree(store):
    """Below a loaded node that has a parent, and below one that was only an id of loaded rows."""
    nodes = [
        {"_id": "Paid", "type": "channel", "name": "Paid"},
        {
            "_id": "google/cpc",
            "parentId": "Paid",
            "type": "integration",
            "name": "Google",
            "vendorId": "google-ads",
        },
    ]
    load_records(store, "nodes", table(*nodes))
    visit = {"_id": "0" * 24, "userId": "1" * 24, "nodeId": "bing/cpc", "startDate": "2025-01-31T12:00:00Z"}
    load_records(store, "interactions", table(visit))
    ads = "&utm_medium=cpc&utm_campaign=spring&utm_content=boots"
    collect(store, record(1, f"{SHOP}?utm_source=google{ads}"), record(2, f"{SHOP}?utm_source=bing{ads}"))
    paths = dict(read(store, "SELECT _id, path FROM nodes"))
    assert paths["google/cpc/spring//boots"] == ["Paid", "google/cpc", "google/cpc/spring"]
    assert paths["bing/cpc/spring//boots"] == ["bing/cpc", "bing/cpc/spring"]
    assert read(store, "SELECT id, campaignSlug, explicit FROM campaigns") == [
        ("google/cpc/spring", "spring", False)
    ]
    assert_consistent(store)


@pytest.mark.large
@pytest.mark.slow
def test_a_full_tree_does_not_hold_up_a_hit(store):
    """20,000 nodes, and one hit more: the tree is updated where it changed."""
    ads = f"{SHOP}?utm_source=s{{}}&utm_medium=cpc&utm_campaign=c"
    rows = [
        {"trackerId": f"t{n}", "date": "2025-01-31T12:00:00Z", "pageUrl": ads.format(n)}
        for n in range(10_000)
    ]
    load_records(store, "hits", table(*rows))
    collect(store, record(1, ads.format("new")))
    began = time.process_time()
    collect(store, record(2, ads.format("newer")))
    assert time.process_time() - began < 2
    assert read(store, "SELECT count(*) FROM nodes") == [(20_004,)]
    assert_consistent(store)
