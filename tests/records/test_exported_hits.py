"""Page views of exports become raw hits, with all columns of the published schemas and without each of them."""

import random
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa
import pytest
from support import reference_exports
from support.export_rows import ga4_rows, snowplow_rows
from support.export_schemas import GA4, SNOWPLOW, arrow, leaves, without

from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.records import ga4_events, snowplow_events
from attrib_ds.records.export_tables import AccessLog, open_access_log
from attrib_ds.records.ga4_events import GA4Hits, open_ga4_hits
from attrib_ds.records.snowplow_events import SnowplowHits, open_snowplow_hits

#: Ends of the URLs of landing pages.
ENDS = ("", "", "?size=42", "#top", "?utm_source=flyer&UTM_Medium=print#top", "?gclid=Own", "?msclkid=Own")


def read(opener, hits):
    """Return the raw hits of an export, and the number of skipped events."""
    with duckdb.connect() as connection:
        source, skipped = opener(connection, hits)
        names = ", ".join(f'"{name}"' for name in source.types)
        rows = connection.execute(f"SELECT {names} FROM {source.relation}").fetchall()
    assert len(rows) == source.rows
    return [dict(zip(source.types, row, strict=True)) for row in rows], skipped, source


def in_order(hits):
    return sorted(hits, key=lambda hit: [str(value) for value in hit.values()])


def read_in_place(module, rows, schema):
    """Return the distinct raw hits of a table in an engine."""
    table = DuckDB().connect().create_table("events", arrow(rows, schema))
    found = module.page_views(table).distinct().to_pyarrow().to_pylist()
    return sorted(map(comparable, found), key=str)


def comparable(hit):
    """A hit with its date in milliseconds, as they are kept."""
    date = hit["date"].replace(tzinfo=None)
    kept = hit | {"date": date.replace(microsecond=date.microsecond // 1_000 * 1_000)}
    numbers = {name: float(kept[name]) for name in ("geo.latitude", "geo.longitude") if kept.get(name)}
    return dict(sorted((kept | numbers).items()))


# GA4 ------------------------------------------------------------------------------------------------------


def ga4_views(seed):
    """Return rows of an export whose pages have parameters, some of the visitors far from Greenwich."""
    draw = random.Random(seed)
    rows = ga4_rows(seed)
    for row in rows[:-5]:
        for param in row["event_params"]:
            if param["key"] == "page_location":
                param["value"]["string_value"] += draw.choice(ENDS)
        row["device"]["time_zone_offset_seconds"] = draw.choice([None, 3_600, -12_600])
    return rows


def check_ga4(rows, schema):
    found, skipped, _ = read(open_ga4_hits, GA4Hits(arrow(rows, schema)))
    expected = reference_exports.ga4_hits(rows)
    assert in_order(found) == in_order(expected)
    return expected, skipped


def test_ga4_with_all_columns():
    hits = []
    for seed in range(3):
        found, skipped = check_ga4(ga4_views(seed), GA4)
        assert skipped > 10
        hits += found
    # The generated days contain what the columns are about.
    pages = " ".join(hit["pageUrl"] for hit in hits)
    for part in ("utm_campaign=spring", "?utm_", "&utm_", "gclid=Cj0K", "gclid=Own", "#top"):
        assert part in pages
    assert {hit["timezoneOffset"] for hit in hits} == {None, -60.0, 210.0}


OPTIONAL = [
    path
    for path in leaves(GA4)
    if path[-1] not in ("event_timestamp", "event_name", "event_params")
    and (len(path) == 1 or path[0] in ("collected_traffic_source", "geo"))
]


@pytest.mark.large
@pytest.mark.slow
def test_ga4_without_each_column():
    for path in OPTIONAL:
        check_ga4([without(row, path) for row in ga4_views(5)], without(GA4, path))


def ga4_view(second, page="https://shop.example/", *, device="a.1", **texts):
    params = {"page_location": page, **texts}
    return {
        "event_timestamp": (1_735_725_600 + second) * 10**6,
        "event_name": "page_view",
        "user_pseudo_id": device,
        "event_params": [{"key": key, "value": {"string_value": text}} for key, text in params.items()],
    }


def test_the_parameters_that_a_url_lost_are_added_to_it():
    rows = [
        ga4_view(0, source="google", medium="cpc", campaign="spring sale"),
        ga4_view(1, "https://shop.example/?utm_source=x#top", source="x", medium="e-mail", gclid="Cj"),
        # Google found the search engine by the referrer.
        ga4_view(2, source="google", medium="organic", page_referrer="https://www.google.com/"),
        ga4_view(3, source="google", medium="organic", campaign="(organic)"),
        ga4_view(4, source="(direct)", medium="(none)"),
        ga4_view(
            5,
            source="paypal.com",
            medium="referral",
            page_referrer="https://paypal.com/",
            ignore_referrer="true",
        ),
    ]
    hits, *_ = read(open_ga4_hits, GA4Hits(arrow(rows, GA4)))
    hits.sort(key=lambda hit: hit["date"])
    assert [(hit["pageUrl"].removeprefix("https://shop.example/"), hit["referrer"]) for hit in hits] == [
        ("?utm_source=google&utm_medium=cpc&utm_campaign=spring%20sale", None),
        ("?utm_source=x&utm_medium=e-mail&gclid=Cj#top", None),
        ("", "https://www.google.com/"),
        ("?utm_source=google&utm_medium=organic", None),
        ("", None),
        ("", None),
    ]


@pytest.mark.slow
def test_ga4_is_read_where_it_lies():
    rows = [row for row in ga4_views(1) if row.get("user_pseudo_id") and row.get("event_name")]
    expected = sorted(map(comparable, reference_exports.ga4_hits(rows)), key=str)
    assert read_in_place(ga4_events, rows, GA4) == expected


def test_marks_in_columns_of_one_family_are_added_to_the_url():
    """Fivetran has ``campaign_name`` and ``ad_content``; another family and the first session's are not read."""
    names = ("source", "medium", "campaign_name", "ad_content", "term")
    marks = {f"manual_{name}": f"my {name}" for name in names}
    others = {"utm_source": None, "session_source": "bing", "traffic_source_source": "first"}
    hit = ga4_view(0) | others | marks
    (hit,), *_ = read(open_ga4_hits, GA4Hits(pa.Table.from_pylist([hit])))
    query = parse_qs(urlsplit(hit["pageUrl"]).query)
    assert query == {
        f"utm_{name}": [f"my {own}"]
        for name, own in zip(("source", "medium", "campaign", "content", "term"), names, strict=True)
    }


def test_rows_of_several_exports_are_numbered_across_them(tmp_path):
    days = [[ga4_view(0), ga4_view(1) | {"event_name": None}], [ga4_view(2, device=None), ga4_view(3)]]
    *_, source = read(open_ga4_hits, GA4Hits([arrow(day, GA4) for day in days]))
    assert source.unreadable.to_pydict() == {
        "row": [1, 2],
        "reason": ["event_name is missing", "user_pseudo_id and user_id are missing"],
    }


# Snowplow -------------------------------------------------------------------------------------------------


def snowplow_views(seed):
    """Return rows of ``atomic.events`` whose pages have parameters, with addresses."""
    draw = random.Random(seed)
    rows = snowplow_rows(seed)
    for row in rows[:-4]:
        row["page_url"] += draw.choice(ENDS)
        row["user_ipaddress"] = draw.choice([None, "203.0.113.7"])
        row |= draw.choice([{}, {"geo_latitude": 59.9, "geo_longitude": 10.75, "geo_zipcode": "0150"}])
        row["mkt_network"] = draw.choice([row.get("mkt_network"), "Microsoft"])
    # The pipeline delivers at least once.
    return rows[:-4] + rows[:4]


def check_snowplow(rows, schema):
    found, skipped, _ = read(open_snowplow_hits, SnowplowHits(arrow(rows, schema)))
    expected = reference_exports.snowplow_hits(rows)
    assert in_order(found) == in_order(expected)
    return expected, skipped


def test_snowplow_with_all_columns():
    hits = []
    for seed in range(3):
        found, skipped = check_snowplow(snowplow_views(seed), SNOWPLOW)
        assert skipped > 10
        hits += found
    pages = " ".join(hit["pageUrl"] for hit in hits)
    for part in ("utm_campaign=", "gclid=Cj0K", "msclkid=Cj0K", "msclkid=Own", "#top"):
        assert part in pages
    assert {hit["isBot"] for hit in hits} == {True, False}


#: Beginnings of the names of columns that hits are read from.
READ = (
    "event",
    "true",
    "derived",
    "collector",
    "domain",
    "network",
    "user",
    "page",
    "mkt",
    "geo",
    "br_t",
    "con",
)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SNOWPLOW if name.startswith(READ) and name != "event_id"])
def test_snowplow_without_each_column(name):
    check_snowplow([without(row, (name,)) for row in snowplow_views(5)], without(SNOWPLOW, (name,)))


def test_snowplow_is_read_where_it_lies():
    rows = [
        row | dict.fromkeys((reference_exports.ROBOT, reference_exports.CLIENT)) for row in snowplow_views(1)
    ]
    expected = sorted(map(comparable, reference_exports.snowplow_hits(rows)), key=str)
    assert read_in_place(snowplow_events, rows, SNOWPLOW) == expected


def test_page_views_of_an_access_log(tmp_path):
    line = '203.0.113.7 - - [31/Jan/2025:12:00:{:02} +0100] "{}" 200 5 "{}" "Firefox"\n'
    file = tmp_path / "access.log"
    requests = [
        ("GET /boots HTTP/1.1", "https://news.example/"),
        ("POST /c HTTP/1.1", "-"),
        ("GET / HTTP/1.1", "-"),
    ]
    lines = [line.format(second, *request) for second, request in enumerate(requests)]
    file.write_text("".join([lines[0], "no request\n", *lines[1:]]), encoding="utf-8")
    log = AccessLog(file, site="https://shop.example")
    hits, skipped, source = read(lambda connection, log: open_access_log(connection, log, secret="s"), log)
    assert (skipped, source.unreadable["row"].to_pylist()) == (1, [1])
    shown = [(hit["pageUrl"], hit["referrer"], hit["userAgent"], str(hit["date"])) for hit in hits]
    assert shown == [
        ("https://shop.example/boots", "https://news.example/", "Firefox", "2025-01-31 11:00:00"),
        ("https://shop.example/", None, "Firefox", "2025-01-31 11:00:02"),
    ]
    # One visitor: the same network and the same user agent on one day.
    assert len({hit["trackerId"] for hit in hits}) == 1
