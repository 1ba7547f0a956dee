"""Page views of GA4 and Snowplow exports make the same sessions together as one by one."""

import json
import random
from datetime import UTC

import pytest
from support.export_rows import ga4_rows, snowplow_rows
from support.export_schemas import GA4, SNOWPLOW, arrow
from support.reference_exports import ga4_hits, snowplow_hits
from support.service_records import reasons, table

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.ga4_events import GA4Hits
from attrib_ds.records.snowplow_events import SnowplowHits
from attrib_ds.service.consistency_check import RULES
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store

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
        sessions = read(other, SESSIONS)
        assert len(sessions) > 5
        assert read(memory_store, SESSIONS) == sessions
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
