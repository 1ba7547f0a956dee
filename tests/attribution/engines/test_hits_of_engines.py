"""Raw hits on other engines have the rows that an embedded project stores."""

from datetime import datetime
from urllib.parse import urlencode

import ibis
import pyarrow as pa
import pytest
from support import hit_streams
from support.campaign_texts import APART

import attrib_ds as at

pytestmark = [
    pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows"),
    pytest.mark.timeout(1_200),
]


#: All in one table: each has its own browsers and people.
SEEDS = tuple(range(1, 11))


def on_spark(spark, name, table):
    spark._session.createDataFrame(table).createOrReplaceTempView(name)
    return spark.table(name)


def on_clickhouse(backend, name, table):
    kinds = {"double": "Float64", "bool": "Bool", "timestamp[us]": "DateTime64(6, 'UTC')"}
    types = {each.name: kinds.get(str(each.type), "String") for each in table.schema}
    types |= {name: f"Nullable({kind})" for name, kind in types.items() if table[name].null_count}
    columns = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
    backend.con.command(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
    backend.con.insert_arrow(name, table)
    return backend.table(name)


def check(backend, upload):
    tables = [
        upload(backend, *each)
        for each in zip(("raw_hits", "raw_events"), hit_streams.streams(SEEDS), strict=True)
    ]
    hit_streams.check(hit_streams.computed(backend, *tables), hit_streams.loaded(SEEDS))


@pytest.mark.large
@pytest.mark.spark
def test_spark(spark):
    check(spark, on_spark)


@pytest.mark.clickhouse
def test_clickhouse(clickhouse_database):
    check(clickhouse_database("hits"), on_clickhouse)


def check_campaigns(backend, upload):
    """G-246: texts that share what is readable are nodes of their own, those of an embedded project."""
    places = [{"utm_source": "flyers", "utm_campaign": text} for pair in APART for text in pair]
    pages = {
        "trackerId": [f"t{number}" for number in range(len(places))],
        "date": [datetime(2025, 1, 31, 12)] * len(places),
        "pageUrl": [f"https://shop.example/?{urlencode(place)}" for place in places],
    }
    events = {"_id": ["a"], "eventType": ["order"], "eventDate": pages["date"][:1], "trackerId": ["t0"]}
    tables = (("campaign_pages", pa.table(pages)), ("campaign_orders", pa.table(events | {"userId": ["u"]})))
    hits, orders = [upload(backend, *each) for each in tables]
    read = at.open_hits(backend, hits=hits, events=orders).tables().interactions
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=pa.table(pages))
        loaded = at.search_interactions(shop, columns=["nodeId"])["nodeId"]
    found = read.select("nodeId").to_pyarrow()["nodeId"].to_pylist()
    assert sorted(found) == sorted(loaded)
    assert len(set(found)) == 2 * len(APART)


def test_campaigns_of_texts_on_duckdb():
    check_campaigns(ibis.duckdb.connect(), lambda backend, *each: backend.create_table(*each))


@pytest.mark.spark
def test_campaigns_of_texts_on_spark(spark):
    check_campaigns(spark, on_spark)


@pytest.mark.clickhouse
def test_campaigns_of_texts_on_clickhouse(clickhouse_database):
    check_campaigns(clickhouse_database("campaigns"), on_clickhouse)
