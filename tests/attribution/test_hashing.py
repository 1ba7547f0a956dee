"""Random numbers of users: what they are, and how random."""

import hashlib

import ibis
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from attrib_ds.attribution.hashing import PRIME, drawn, group_of, number_of, poisson_weight, shifts

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


def test_draws_permute_all_numbers_and_follow_the_formula():
    for shift in shifts(3, seed=7):
        number = 123_456_789
        assert drawn(number, shift) == pow(number + shift, 5, PRIME)
    assert pow(pow(987_654_321, 5, PRIME), pow(5, -1, PRIME - 1), PRIME) == 987_654_321
    assert len(set(shifts(2000)) | set(shifts(2000, seed=1))) == 4000
    assert shifts(5) == shifts(2000)[:5]


def test_weights_are_the_quantiles_of_a_poisson_law_in_every_replicate(numbers):
    shift = ibis.memtable(pa.table({"replicate": range(30), "shift": shifts(30)}))
    users = ibis.memtable(pa.table({"number": numbers}))
    crossed = users.cross_join(shift)
    weighed = crossed.mutate(weight=poisson_weight(crossed.number, crossed["shift"]))
    table = weighed.order_by("replicate", "number").to_pyarrow()
    weights = table["weight"].to_numpy().reshape(30, -1)
    uniform = np.array(
        [[drawn(int(number), shift) for number in np.sort(numbers)[:300]] for shift in shifts(30)]
    )
    assert (weights[:, :300] == stats.poisson.ppf((uniform + 0.5) / PRIME, 1)).all()
    expected = stats.poisson.pmf(np.arange(6), 1) * len(TEXTS)
    expected = np.append(expected, len(TEXTS) - expected.sum())
    for replicate in weights:
        counted = np.bincount(np.minimum(replicate, 6), minlength=7)
        assert stats.chisquare(counted, expected).pvalue > 1e-5


def test_replicates_seeds_and_groups_are_independent(numbers):
    draws = [drawn(numbers, shift) / PRIME for seed in (0, 1) for shift in shifts(20, seed=seed)]
    groups = column(TEXTS, group=lambda text: group_of(text, 20))["group"]
    correlations = np.corrcoef([*draws, numbers / PRIME, groups])[:-1, :-1]
    off = correlations[np.triu_indices(len(correlations), 1)]
    # 820 pairs of independent numbers stay below this with a chance of more than 0.999.
    assert np.abs(off).max() < 5.2 / np.sqrt(len(numbers))
    cells = np.histogram2d(draws[0], draws[1], bins=10)[0].ravel()
    assert stats.chisquare(cells).pvalue > 1e-4
    by_group = [draws[0][groups == group].mean() for group in range(20)]
    assert np.abs(np.array(by_group) - 0.5).max() < 5 * np.sqrt(1 / 12 / 900)


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
