"""Raw hits on other engines have the rows that an embedded project stores."""

import pytest
from support import hit_streams

from attrib_ds.service import reading_of_hits

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
    hit_streams.check(hit_streams.computed(backend, *tables, reading_of_hits()), hit_streams.loaded(SEEDS))


@pytest.mark.spark
def test_spark(spark):
    check(spark, on_spark)


@pytest.mark.clickhouse
def test_clickhouse(clickhouse_database):
    check(clickhouse_database("hits"), on_clickhouse)
