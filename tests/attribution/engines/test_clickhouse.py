"""What ClickHouse does unlike other engines: columns without nulls, frames, instants in zones, its own types."""

import datetime
import math
from decimal import Decimal

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.clickhouse_server import served

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.attribution.engines.engine import double, portable, total

pytestmark = pytest.mark.clickhouse

TOUCHED = """
CREATE TABLE small_touched (user_id UInt32, node_id LowCardinality(String), date DateTime, touch_id UUID,
    type Enum8('click' = 1, 'view' = 2)) ENGINE = Memory
"""
CONVERTED = """
CREATE TABLE small_converted (event_id UInt64, user_id UInt32, date DateTime64(3, 'Europe/Paris'),
    value Decimal(9, 2), currency FixedString(3)) ENGINE = Memory
"""
TYPES = """
CREATE TABLE kinds (seconds DateTime, paris DateTime('Europe/Paris'), day Date, old Date32, id UUID,
    kind Enum8('a' = 1, 'b' = 2), code FixedString(3), name LowCardinality(String), word String,
    list Array(String), huge Int128, number Float64, whole Int64) ENGINE = Memory
"""


@pytest.fixture(scope="module")
def small(clickhouse):
    """Paths whose columns cannot be null: two conversions, and one without touchpoints."""
    clickhouse.con.command(TOUCHED)
    clickhouse.con.command(CONVERTED)
    touches = [(1, "search", 1), (1, "direct", 2), (2, "direct", 1), (2, "direct", 2), (4, "email", 1)]
    rows = ", ".join(
        f"({user}, '{node}', toDateTime('2025-01-0{day} 12:00:00', 'UTC'), generateUUIDv4(), 'click')"
        for user, node, day in touches
    )
    clickhouse.con.command(f"INSERT INTO small_touched VALUES {rows}")
    rows = ", ".join(
        f"({user}0, {user}, toDateTime64('2025-01-03 00:00:00', 3, 'UTC'), {user}.10, 'EUR')"
        for user in (1, 2, 3)
    )
    clickhouse.con.command(f"INSERT INTO small_converted VALUES {rows}")
    tables = [clickhouse.table(f"small_{name}") for name in ("touched", "converted")]
    return at.Paths.from_frames(*tables, columns={"touch": "touch_id"})


@pytest.fixture(scope="module")
def kinds(clickhouse):
    clickhouse.con.command(TYPES)
    clickhouse.con.command(
        "INSERT INTO kinds VALUES (toDateTime('2025-01-01 05:00:00', 'UTC'), '2025-07-01 01:00:00', "
        "'2025-01-02', '1931-05-06', '61f0c404-5cb3-11e7-907b-a6006ad3dba0', 'b', 'abc', 'low', 'Évry', "
        "['p', 'q'], 170141183460469231731687303715884105727, 1.5, 7)"
    )
    return portable(clickhouse).table("kinds")


def values_of(table, **columns):
    return table.select(**columns).to_pyarrow().to_pylist()[0]


# Conversions by search > direct and by direct > direct, one without touchpoints, and a null path of email. Without
# search, the chain converts 1/3 of paths instead of 2/3; without direct, none: shares of 1/3 and 2/3.
@pytest.mark.parametrize(
    ("model", "search", "direct"),
    [
        ("last_non_direct", 1, 1),
        ("shapley", 0.5, 1.5),
        ("linear", 0.5, 1.5),
        ("participation", 1, 2),
        ("markov", 2 / 3, 4 / 3),
    ],
)
def test_columns_without_nulls_lose_no_conversion(small, model, search, direct):
    credits = at.attribute(small, model)
    found = dict(zip(credits["node_id"].fillna("none"), credits["conversions"], strict=True))
    found.pop("email", None)
    assert found == pytest.approx({"search": search, "direct": direct, "none": 1})
    if model != "participation":
        assert credits["value"].sum() == pytest.approx(1.1 + 2.1 + 3.1)


def test_missing_partners_and_values_are_null(small, kinds):
    rows = small.to_pandas().set_index("event_id").loc["30"]
    assert rows[["node_id", "date"]].isna().all()
    assert rows[["position", "length"]].tolist() == [0, 0]
    window = ibis.window(order_by=kinds.whole)
    numbers = kinds.select(before=kinds.whole.lag(1).over(window), after=kinds.whole.lead(1).over(window))
    assert numbers.to_pyarrow().to_pylist() == [{"before": None, "after": None}]
    none = kinds.filter(kinds.whole > 9)
    sums = none.agg(sum=none.number.sum(), max=none.whole.max(), min=none.word.min(), rows=none.count())
    assert sums.to_pyarrow().to_pylist() == [{"sum": None, "max": None, "min": None, "rows": 0}]


def test_computed_columns_are_null_where_nothing_is_found(kinds):
    computed = kinds.select("word", "whole", one=ibis.literal(1), rank=ibis.row_number() + 1)
    words = ibis.memtable(pa.table({"wanted": ["Évry", "x"]}))
    joined = words.left_join(computed, words.wanted == computed.word).order_by("wanted")
    assert joined.select("one", "rank").to_pyarrow().to_pylist() == [
        {"one": None, "rank": None},
        {"one": 1, "rank": 1},
    ]
    none = computed.one.max(where=computed.whole > 9)
    assert computed.agg(rank=none).to_pyarrow()["rank"].to_pylist() == [None]
    of_all = computed.select(rank=none.over(ibis.window(group_by=computed.word)))
    assert of_all.to_pyarrow()["rank"].to_pylist() == [None]


def test_counts_and_ranks_are_signed(kinds):
    counted = kinds.agg(rows=kinds.count())
    ranked = kinds.select(type=ibis.row_number().over(ibis.window(order_by=kinds.whole)).typeof())
    types = [counted.select(type=counted.rows.typeof()), ranked]
    assert ["Int64" in table.to_pyarrow()["type"][0].as_py() for table in types] == [True, True]
    assert not any("UInt64" in table.to_pyarrow()["type"][0].as_py() for table in types)


def test_types_are_read(kinds):
    columns = ["seconds", "paris", "day", "old", "id", "kind", "code", "name", "list"]
    (row,) = kinds.select(columns).to_pyarrow().to_pylist()
    utc = datetime.UTC
    assert row == {
        "seconds": datetime.datetime(2025, 1, 1, 5, tzinfo=utc),
        "paris": datetime.datetime(2025, 6, 30, 23, tzinfo=utc),
        "day": datetime.date(2025, 1, 2),
        "old": datetime.date(1931, 5, 6),
        "id": "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
        "kind": "b",
        "code": "abc",
        "name": "low",
        "list": ["p", "q"],
    }
    assert kinds.filter(kinds.kind == "unheard of").count().to_pyarrow().as_py() == 0
    batches = kinds.select("whole", "seconds").to_pyarrow_batches()
    assert [batch.num_rows for batch in batches] == [1]


def test_instants_do_not_depend_on_the_zone_of_the_session(kinds):
    # The session is in New York.
    found = values_of(
        kinds,
        hour=kinds.seconds.hour(),
        day=kinds.seconds.date(),
        midnight=kinds.day.cast("timestamp(6)"),
        constant=ibis.timestamp("2025-01-01 00:00:00"),
        later=kinds.seconds + ibis.interval(microseconds=1),
        elapsed=kinds.paris.delta(kinds.seconds, unit="microsecond"),
    )
    assert found["hour"] == 5
    assert found["day"] == datetime.date(2025, 1, 1)
    assert found["midnight"] == datetime.datetime(2025, 1, 2)
    assert found["constant"] == datetime.datetime(2025, 1, 1)
    assert found["later"].microsecond == 1
    assert found["elapsed"] == (180 * 24 + 18) * 3600 * 10**6


def test_numbers_are_those_of_other_engines(kinds):
    found = values_of(
        kinds,
        # Halves are rounded away from zero, and decimals are not cut off.
        up=(kinds.number + 1).round(),
        down=(kinds.number * -1).round(),
        below=(kinds.number * 0 + 0.49999999999999994).round(),
        money=(kinds.number * 0 + 0.289999999).cast("decimal(24, 6)"),
        debt=(kinds.number * 0 - 123456789.4999999).cast("decimal(24, 6)"),
        tenth=double(0.1) + 0 * kinds.number,
        tiny=double(1e-300) + 0 * kinds.number,
        signed=ibis.ifelse(kinds.whole > 9, ibis.row_number(), -1),
    )
    assert found["money"] == Decimal("0.29")
    assert found["debt"] == Decimal("-123456789.5")
    numbers = [found[name] for name in ("up", "down", "below", "tenth", "tiny", "signed")]
    assert numbers == [3, -2, 0, 0.1, 1e-300, -1]


def test_text_is_characters(kinds):
    found = values_of(
        kinds, lower=kinds.word.lower(), length=kinds.word.length(), first=kinds.word.substr(0, 1)
    )
    assert found == {"lower": "évry", "length": 4, "first": "É"}


def test_uploaded_columns_have_any_name_and_may_be_empty(kinds):
    uploaded = ibis.memtable(pa.table({"a b": ["Évry", "x"], "geo.city": pa.nulls(2), "l": [["a"], []]}))
    joined = kinds.left_join(uploaded, kinds.word == uploaded["a b"]).select("word", "geo.city", "l")
    assert joined.to_pyarrow().to_pylist() == [{"word": "Évry", "geo.city": None, "l": ["a"]}]


def test_sums_are_reproducible(clickhouse):
    values = np.random.default_rng(5).gamma(0.7, 1 / 3, 200_000)
    backend = portable(clickhouse)
    clickhouse.con.command("CREATE TABLE amounts (x Float64) ENGINE = MergeTree ORDER BY tuple()")
    clickhouse.con.insert_arrow("amounts", pa.table({"x": values}))
    table = backend.table("amounts")
    assert table.agg(sum=total(table.x)).to_pyarrow()["sum"][0].as_py() == math.fsum(values)


def test_clients_over_http_upload_tables_and_stream_rows(clickhouse):
    with served(clickhouse.con) as port:
        backend = ibis.clickhouse.connect(host="127.0.0.1", port=port, compression=False)
        tables = [backend.table(name) for name in ("touched", "converted")]
        local = [clickhouse.table(name) for name in ("touched", "converted")]
        for models, settings in (
            (["linear", "markov", "discrete_hazard"], {}),
            (["linear", "markov"], {"confidence": 0.9, "intervals": "bootstrap", "replicates": 10}),
        ):
            found, expected = (
                at.attribute(at.Paths.from_frames(*each, columns={"touch": "touch_id"}), models, **settings)
                for each in (tables, local)
            )
            pd.testing.assert_frame_equal(found, expected, rtol=1e-9)
        backend.disconnect()


def test_missing_tables_are_named(clickhouse):
    with pytest.raises(errors.InvalidRequest, match=r"there is no table 'event' \(did you mean 'events'\?\)"):
        at.open_tables(clickhouse, interactions="interactions", events="event")
