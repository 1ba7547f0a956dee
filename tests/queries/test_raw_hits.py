"""Raw hits in an engine have the sessions, sources and users that an embedded project stores, row by row."""

from __future__ import annotations

import random
import sys
from datetime import datetime, timedelta

import ibis
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from ibis.backends.sql import SQLBackend, compilers
from support import hit_streams, sequential_sessions
from support.export_schemas import GA4, SNOWPLOW, arrow

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.queries import raw_hits
from attrib_ds.traffic import sessions

NOON = datetime(2025, 1, 31, 12)


@pytest.mark.large
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")
@pytest.mark.parametrize(
    ("seeds", "sizes"),
    [
        ((1,), {"hits": 20, "visitors": 2, "orders": 1}),
        pytest.param(tuple(range(1, 11)), {}, marks=pytest.mark.slow),
    ],
)
def test_every_row_is_the_one_that_loading_stores(seeds, sizes):
    hits, events = hit_streams.streams(seeds, **sizes)
    engine = ibis.duckdb.connect()
    tables = engine.create_table("hits", hits), engine.create_table("events", events)
    found = hit_streams.computed(engine, *tables)
    hit_streams.check(found, hit_streams.loaded(seeds, **sizes))


@pytest.mark.few(6)
@pytest.mark.parametrize("limits", [(60, 3), (24 * 60, 4), (30, 1), (45, 10_000), (24 * 60, 10_000)])
@pytest.mark.parametrize("seed", [7, 8, 9])
def test_limits_of_length_agree_with_the_sequential_reference(limits, seed, monkeypatch):
    chosen = random.Random(seed)
    rows = [
        {
            "id": f"{number:03}",
            "trackerId": chosen.choice("tu"),
            "serverDate": NOON + timedelta(minutes=chosen.randrange(300)),
            "nodeId": chosen.choice(["direct", "ads", "mail"]),
            "isBot": False,
            "isCampaign": chosen.random() < 0.3,
            "referrerType": chosen.choice(["direct", "internal", "campaign", "search", "referral"]),
        }
        for number in range(80)
    ]
    longest, most = limits
    monkeypatch.setattr(sequential_sessions, "LONGEST", timedelta(minutes=longest))
    monkeypatch.setattr(sequential_sessions, "MOST_HITS", most)
    monkeypatch.setattr(sessions, "LONGEST", longest * 60_000)
    monkeypatch.setattr(sessions, "MOST_HITS", most)
    hits = ibis.duckdb.connect().create_table("hits", pa.Table.from_pylist(rows))
    found = raw_hits.split_long_blocks(sessions.split_into_sessions(hits)).to_pyarrow()
    assert hit_streams.first_hits(found) == sequential_sessions.split(rows)


def test_rows_that_break_a_rule_are_left_out_with_a_warning():
    engine = ibis.duckdb.connect()
    hits, _ = hit_streams.stream(1, hits=2, visitors=1, orders=1)
    table = engine.create_table("hits", hit_streams.broken(hits.slice(0, 3)))
    with (
        pytest.warns(errors.InputWarning, match="hits: 1 row with a placeholder in 'trackerId'"),
        pytest.warns(errors.RejectedRows) as warned,
    ):
        shop = at.open_hits(engine, hits=table)
    (text,) = (str(each.message) for each in warned if each.category is errors.RejectedRows)
    assert text.startswith("hits: left out 10 of 13 rows: trackerId is missing (1); trackerId is not text")
    assert "date is before 1990 or more than 24 hours in the future (2)" in text
    assert "pageUrl is missing or no URL, such as https://shop.example/ (2)" in text
    assert int(at.interaction_insights(shop)["hitCount"].sum()) == 3
    with pytest.raises(errors.NotSupported, match="conversion_page: needs hits that are loaded"):
        at.conversion_paths(shop, conversion_page="/")


def test_g250_trackers_who_stand_for_nobody_are_not_one_browser():
    engine = ibis.duckdb.connect()
    rows = {"trackerId": ["t", "undefined", "undefined"], "date": [NOON] * 3, "pageUrl": "https://a.example/"}
    engine.create_table("hits", pa.Table.from_pandas(pd.DataFrame(rows), preserve_index=False))
    with (
        pytest.warns(errors.InputWarning, match="hits: 2 rows with a placeholder in 'trackerId'"),
        pytest.warns(errors.RejectedRows, match="trackerId is missing"),
    ):
        shop = at.open_hits(engine, hits="hits")
    assert int(at.interaction_insights(shop)["hitCount"].sum()) == 1


def test_what_no_engine_does_is_refused(tmp_path):
    engine = ibis.duckdb.connect()
    hits, events = hit_streams.stream(1, hits=2, visitors=1, orders=1)
    engine.create_table("hits", hits.slice(0, 3))
    engine.create_table("events", events.append_column("user.email", events["userId"]))
    with pytest.raises(errors.NotSupported, match=r"events: user\.email are identities"):
        at.open_hits(engine, hits="hits", events="events")
    log = tmp_path / "access.log"
    log.touch()
    with pytest.raises(errors.InvalidRequest, match=r"hits: AccessLog is not allowed; .*load\(…\) files"):
        at.open_hits(engine, hits=at.hits.AccessLog(log, site="https://shop.example"))
    with pytest.raises(errors.InvalidRequest, match="hits: there is no table 'hit' .*did you mean 'hits'"):
        at.open_hits(engine, hits="hit")


@pytest.mark.slow
def test_rows_in_memory_have_sessions_too():
    page = "https://shop.example/?gclid=Cj0KCQ"
    hits = pa.table({"trackerId": ["t", "u"], "date": [NOON, NOON], "pageUrl": [page, page]})
    later = NOON + timedelta(hours=1)
    orders = pa.table({"_id": ["a"], "trackerId": ["t"], "eventType": ["order"], "eventDate": [later]})
    tables = {"hits": ibis.memtable(hits), "events": ibis.memtable(orders)}
    shop = at.open_hits(ibis.duckdb.connect(), **tables)
    assert int(at.interaction_insights(shop)["hitCount"].sum()) == 2
    paths = at.conversion_paths(shop, event_type="order")
    assert at.attribute(paths, "linear")["node_id"].tolist() == ["google/cpc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"traffic_filters": ["host:google.com"]}, "traffic_filters/0: 'host:google.com' is not allowed"),
        ({"traffic_filters": ["address:foo"]}, "traffic_filters/0: 'address:foo' is not allowed"),
        ({"excluded_referrers": "google.com"}, "excluded_referrers: 'google.com' .*; expected a list"),
        ({"excluded_referrers": ["https://a.example"]}, "excluded_referrers/0: .*; expected a host"),
        ({"domains": "s.example"}, "domains: 's.example' is not allowed; expected a list"),
        ({"timezone": "Mars"}, "timezone: 'Mars' is not allowed; expected an IANA time zone"),
        ({"currency": "euro"}, "currency: 'euro' is not allowed; expected a currency of ISO 4217"),
    ],
)
def test_settings_are_those_that_a_project_can_have(arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        at.open_hits(ibis.duckdb.connect(), hits="not read", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "duckdb"}, "backend: str is not allowed; allowed: a connection of Ibis"),
        ({"hits": "h.csv"}, "hits: there is no table 'h.csv'; .* a file, as an Ibis table"),
        ({"events": pd.DataFrame()}, "events: DataFrame is not allowed; .* such as ibis.memtable"),
        ({"events": "orders"}, "events: one of the columns trackerId, userId is needed; the table has: _id,"),
        ({"columns": {"hit": {}}}, r"columns: 'hit' is not allowed \(did you mean 'hits'"),
    ],
)
def test_arguments_of_another_kind_are_named(arguments, message):
    engine = ibis.duckdb.connect()
    engine.create_table("hits", hit_streams.stream(1, hits=2, visitors=1, orders=1)[0].slice(0, 1))
    kinds = {"_id": "string", "eventType": "string", "eventDate": "timestamp"}
    engine.create_table("orders", schema=ibis.schema(kinds))
    given = {"backend": engine, "hits": "hits"} | arguments
    with pytest.raises(errors.InvalidRequest, match=message):
        at.open_hits(given.pop("backend"), **given)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "compiler", "source", "columns"),
    [
        ("bigquery", compilers.BigQueryCompiler, at.hits.GA4, GA4),
        ("snowflake", compilers.SnowflakeCompiler, at.hits.Snowplow, SNOWPLOW),
    ],
)
def test_the_sql_of_warehouses_is_generated_and_parsed(engine, compiler, source, columns, recursion):
    backend = recording(engine, compiler())
    table = backend.bound("events", ibis.Schema.from_pyarrow(arrow([], columns).schema))
    shop = at.open_hits(backend, hits=source(table), unchecked=True)
    at.interaction_insights(shop)
    assert len(backend.statements) > 8
    for sql in backend.statements:
        assert sqlglot.parse_one(sql, dialect=engine).find(sqlglot.exp.Select)
        # Snowflake has neither groups that do not capture nor flags in patterns.
        assert "(?" not in sql


@pytest.fixture
def recursion():
    """The parser recurses once for each part of a sum of texts."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(limit)


def recording(engine, compiler_of_engine):
    """A backend that keeps the SQL of its queries, and answers with no rows."""

    class Recording(SQLBackend):
        name, compiler, statements = engine, compiler_of_engine, []

        def bound(self, name, schema):
            return ibis.expr.operations.DatabaseTable(name=name, schema=schema, source=self).to_expr()

        def to_pyarrow(self, expr, /, **settings):
            table = expr.as_table()
            self.statements.append(self.compile(table))
            return expr.__pyarrow_result__(table.schema().to_pyarrow().empty_table())

        def to_pyarrow_batches(self, expr, /, **settings):
            return self.to_pyarrow(expr).to_batches()

        def _create_cached_table(self, name, expr):
            self.to_pyarrow(expr)
            return self.bound(name, expr.schema())

        def _drop_cached_table(self, name):
            pass

    Recording.__abstractmethods__ = frozenset()
    return Recording()
