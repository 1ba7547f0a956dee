"""Whatever raw hits and access logs hold, they are loaded or rejected, and the tables stay consistent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import TEXTS

from attrib_ds.records.export_tables import AccessLog
from attrib_ds.service.consistency_check import RULES
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store

WORDS = st.one_of(
    st.none(),
    st.sampled_from([text for text in TEXTS if "\ud800" not in text]),
    st.text(st.characters(codec="utf-8"), max_size=40),
)
SOURCES = st.sampled_from(["utm_source", "utm_medium", "utm_campaign", "utm_term", "gclid", "fbclid"])
URLS = st.one_of(
    WORDS,
    st.builds("https://shop.example/?{}={}&{}={}".format, SOURCES, WORDS, SOURCES, WORDS),
    st.builds("https://{}/".format, WORDS),
)


def load(source):
    store = Store.open(":memory:", "shop")
    try:
        counts, rejected = load_records(store, "hits", source)
        with store.cursor() as cursor:
            broken = [rule.problem for rule in RULES if cursor.execute(rule.broken).fetchall()]
        assert broken == []
        return counts["hits"] + rejected.num_rows
    finally:
        store.close()


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.tuples(URLS, URLS, WORDS, WORDS), min_size=1, max_size=5))
def test_any_text_is_loaded_or_rejected(rows):
    columns = dict(zip(("pageUrl", "referrer", "userAgent", "ip"), zip(*rows, strict=True), strict=True))
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    ids = pa.array([f"t{number}" for number in range(len(rows))])
    dates = pa.array(["2025-01-31T12:00:00Z"] * len(rows))
    assert load(pa.table({"trackerId": ids, "date": dates, **texts})) == len(rows)


LINE = '203.0.113.7 - {} [31/Jan/2025:12:00:00 +0000] "GET {} HTTP/1.1" 200 5 "{}" "{}"'.format


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(st.binary(max_size=60) | st.builds(LINE, WORDS, URLS, URLS, WORDS).map(str.encode), min_size=1)
)
def test_any_bytes_are_a_log(tmp_path_factory, lines):
    file = tmp_path_factory.mktemp("logs") / "access.log"
    file.write_bytes(b"\n".join(lines))
    load(AccessLog(file, site="https://shop.example"))
