"""Access logs of web servers become hits: what is a page view, who is a visitor, what cannot be read."""

import gzip

import pytest
from support.service_records import reasons

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.service.consistency_check import RULES
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store

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


def test_what_is_a_page_view_can_be_chosen(load, rows):
    counts, _ = load(line("/guide.pdf"), line("/missing", status=404), statuses=(404, 200), static=("js",))
    assert (counts["hits"], counts["skipped_requests"]) == (2, 0)


def test_malformed_lines_are_counted_and_shown(load):
    counts, rejected = load(
        "", line(), "GET / HTTP/1.1", line().replace("Jan", "Foo"), line("/b", agent="caf\udce9")
    )
    assert counts["hits"] == 2
    shown = reasons(rejected)
    assert shown[0] == "'' is not a line of the combined log format"
    assert shown[2] == "'GET / HTTP/1.1' is not a line of the combined log format"
    assert shown[3].startswith("'203.0.113.7 - - [31/Foo/2025:12:00:00 +0100]")
    assert sorted(shown) == [0, 2, 3]


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
