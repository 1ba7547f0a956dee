"""Lists of thousands of values, which are tables in the query instead of constants."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import ibis
import pyarrow as pa
import pytest

from attrib_ds.filters import interaction, node, user
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.schema import NODE

DAY = datetime(2025, 1, 1, tzinfo=UTC)
FILLING = [f"filling {number}" for number in range(1_000)]
ODD = ["it's", 'a "quote"', "", "\ue000", "a\ue001b", "\\", "ä,b", "$1", "|"]


def found(predicate, rows, **named):
    table = ibis.memtable(pa.table(rows)) if isinstance(rows, dict) else ibis.memtable(rows)
    return table.filter(to_ibis(predicate, table, **named))["_id"].to_pyarrow().to_pylist()


def test_texts_of_any_letters():
    rows = {"_id": ["a", "b", "c", "d"], "geo.city": ["it's", "\ue000", "missing", None]}
    assert found(interaction("geo.city").isin([*FILLING, *ODD]), rows) == ["a", "b"]
    assert found(interaction("geo.city").not_in([*FILLING, *ODD]), rows) == ["c", "d"]
    for text in ODD:
        assert found(interaction("geo.city").isin([*FILLING, *ODD]), {"_id": ["a"], "geo.city": [text]}) == [
            "a"
        ]


def test_numbers_stay_exact():
    largest = 2**53 + 1
    rows = {"_id": ["a", "b", "c"], "hitCount": pa.array([largest, largest - 1, None], pa.int64())}
    assert found(interaction("hitCount").isin([*range(1_000), largest]), rows) == ["a"]
    rows = {"_id": ["a", "b", "c"], "geo.latitude": [0.1, 500.0, 0.30000000000000004]}
    values = [*range(1_000), 0.1, 0.3]
    assert found(interaction("geo.latitude").isin(values), rows) == ["a", "b"]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_instants(zone):
    rows = {
        "_id": ["a", "b", "c"],
        "startDate": pa.array([DAY, DAY + timedelta(milliseconds=1), None], pa.timestamp("us", tz=zone)),
    }
    days = [DAY + timedelta(days=number) for number in range(1_000)]
    assert found(interaction("startDate").isin(days), rows) == ["a"]


def test_any_value_of_an_array():
    tags = pa.array([["x", "filling 7"], ["x", None], [None, "filling 7"], [], None], pa.list_(pa.string()))
    rows = {"_id": ["a", "b", "c", "d", "e"], "fields.tags": tags}
    assert sorted(found(user("fields.tags").isin(FILLING), rows)) == ["a", "c"]
    assert sorted(found(user("fields.tags").not_in(FILLING), rows)) == ["b", "d", "e"]


def test_emails_compare_in_normalised_form():
    rows = {"_id": ["a", "b"], "fields.email": [["Anna@Example.com "], ["other@example.com"]]}
    emails = [f"{number}@example.com" for number in range(1_000)]
    assert found(user("fields.email").isin([*emails, " anna@example.COM"]), rows) == ["a"]


def test_nodes_and_their_descendants():
    nodes = ibis.memtable(
        pa.Table.from_pylist(
            [
                {"_id": "root", "name": "filling 7", "path": []},
                {"_id": "leaf", "name": "x", "path": ["root"]},
            ],
            schema=NODE,
        )
    )
    rows = {"_id": ["a", "b"], "nodeId": ["leaf", "other"]}
    assert found(node("nodeName").isin(FILLING), rows, nodes=nodes) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("field", ["userId", "fields.email"])
def test_ten_thousand_values_cost_about_as_much_as_ten(field):
    kind = user if field.startswith("fields") else interaction
    texts = [f"u{number}" for number in range(50_000)]
    values = [[text] for text in texts] if kind is user else texts
    table = ibis.memtable(pa.table({"_id": texts, field: values}))

    def seconds(count):
        # Shortest of three, since other programs run too.
        return min(_timed(table, kind(field).isin(texts[:count]), count) for _ in range(3))

    # Constants took a hundred times as long.
    assert seconds(10_000) < 10 * seconds(10)


def _timed(table, predicate, expected):
    started_at = time.perf_counter()
    assert table.filter(to_ibis(predicate, table)).count().to_pyarrow().as_py() == expected
    return time.perf_counter() - started_at
