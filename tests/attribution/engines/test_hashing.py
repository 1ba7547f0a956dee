"""Pseudo-random numbers of users: known values, and uniformity."""

import hashlib

import ibis
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from attrib_ds.attribution.engines.engine import PRIME, group_of, number_of

TEXTS = [f"user-{number}" for number in range(20_000)]


def column(values, **columns):
    table = ibis.memtable(pa.table({"text": pa.array(values, pa.string())})).mutate(
        ibis.row_number().name("row")
    )
    made = table.mutate(**{name: of(table.text) for name, of in columns.items()})
    return {name: made.order_by("row").to_pyarrow()[name].to_numpy() for name in columns}


@pytest.fixture(scope="module")
def numbers():
    return column(TEXTS, number=number_of)["number"]


def digits(text):
    return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)


@pytest.mark.parametrize("groups", [1, 2, 7, 20])
def test_numbers_and_groups_are_those_of_md5(groups):
    texts = ["", "a", "ünï'\"; DROP", "1", "x" * 500, *TEXTS[:200]]
    found = column(texts, number=number_of, group=lambda text: group_of(text, groups))
    assert found["number"].tolist() == [digits(text) % PRIME for text in texts]
    bounds = [2**32 * group // groups for group in range(1, groups)]
    assert found["group"].tolist() == [sum(digits(text) >= bound for bound in bounds) for text in texts]


def test_a_missing_text_is_in_the_first_group_and_has_no_number():
    found = ibis.memtable(pa.table({"text": pa.array([None], pa.string())}))
    row = found.select(number=number_of(found.text), group=group_of(found.text, 20)).to_pyarrow().to_pylist()
    assert row == [{"number": None, "group": 0}]


def test_groups_and_numbers_are_uniform(numbers):
    groups = column(TEXTS, group=lambda text: group_of(text, 20))["group"]
    assert stats.chisquare(np.bincount(groups, minlength=20)).pvalue > 1e-4
    assert stats.kstest(numbers / PRIME, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(
    ("engine", "digest"),
    [
        ("duckdb", 'MD5("t0"."text")'),
        ("snowflake", 'MD5("t0"."text")'),
        ("postgres", 'MD5("t0"."text")'),
        ("bigquery", "TO_HEX(MD5(`t0`.`text`))"),
        ("clickhouse", 'LOWER(HEX(MD5("t0"."text")))'),
        ("trino", 'LOWER(TO_HEX(MD5(TO_UTF8("t0"."text"))))'),
    ],
)
def test_the_digest_is_hexadecimal_on_every_engine(engine, digest, table_of_engine):
    table = table_of_engine(engine, "users", {"text": "string"})
    assert digest in ibis.to_sql(table.select(group=group_of(table.text, 2)), dialect=engine)
