"""Reproducible sums, against the exact ones of ``math.fsum``."""

import math

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.law_examples import examples

from attrib_ds import Paths, attribute
from attrib_ds.attribution.engines.engine import engine, total

amounts = st.lists(st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False), min_size=1, max_size=50)


@pytest.fixture(scope="module")
def backend():
    return engine()


def summed(backend, values):
    table = backend.create_table("amounts", pa.table({"x": values}), overwrite=True)
    return table.agg(sum=total(table.x)).to_pyarrow()["sum"][0].as_py()


@settings(max_examples=examples(60), deadline=None)
@given(values=amounts, random=st.randoms())
def test_sums_are_exact_and_rounded_once_in_any_order(backend, values, random):
    shuffled = random.sample(values, len(values))
    found = summed(backend, values)
    assert found == summed(backend, shuffled)
    # After cancellation only the remainders of the last grid are left.
    assert found == pytest.approx(math.fsum(values), rel=2**-52, abs=2.0**-80)


# The squares of a million orders in yen have a sum beyond 2**60.
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e5, 1e12])
def test_millions_of_parts_have_the_exact_sum(backend, scale):
    values = np.random.default_rng(5).gamma(0.7, scale / 3, 1_000_000)
    assert summed(backend, values) == math.fsum(values)
    assert summed(backend, values[::-1]) == math.fsum(values)


def test_amounts_beyond_the_grids_are_summed_as_doubles(backend):
    assert summed(backend, [1e300, 1.0, -1e300, 3e15, 0.25]) == pytest.approx(3e15, rel=1e-12)
    assert summed(backend, [4e14, 0.125, 7e-20]) == pytest.approx(4e14 + 0.125, rel=1e-15)


def test_missing_amounts_are_left_out_and_no_amounts_have_no_sum(backend):
    assert summed(backend, pa.array([None, 0.1, 0.2])) == math.fsum([0.1, 0.2])
    assert summed(backend, pa.array([None, None], pa.float64())) is None


def test_a_window_has_the_exact_sum_too(backend):
    table = backend.create_table(
        "amounts", pa.table({"of": ["a", "a", "b", "a"], "x": [0.1, 0.2, 5.0, 0.3]}), overwrite=True
    )
    rows = table.mutate(sum=total(table.x, over=ibis.window(group_by=table["of"]))).order_by("x")
    assert rows.to_pyarrow()["sum"].to_pylist() == [math.fsum([0.1, 0.2, 0.3])] * 3 + [5.0]


# Credits


def large(seed):
    """Return enough rows for engines to add them in parallel."""
    random = np.random.default_rng(seed)
    users, rows = 40_000, 260_000
    touchpoints = pa.table(
        {
            "user_id": random.integers(0, users, rows),
            "node_id": np.array(list("abcdefg"))[random.integers(0, 7, rows)],
            "date": np.datetime64("2025-03-01", "us")
            + random.integers(0, 25 * 86_400_000_000, rows).astype("m8[us]"),
        }
    )
    conversions = pa.table(
        {
            "event_id": np.arange(users // 8),
            "user_id": random.permutation(users)[: users // 8],
            "date": np.full(users // 8, np.datetime64("2025-03-27", "us")),
            "value": random.gamma(2.0, 17.123, users // 8),
        }
    )
    return touchpoints, conversions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "asked"),
    [
        (["linear", "time_decay", "position_based", "shapley"], {"confidence": 0.9}),
        (["last_touch", "markov", "markov_2", "conversion_rate_shapley", "fractribution"], {}),
        (["markov"], {"confidence": 0.9}),
        (["linear", "markov"], {"confidence": 0.9, "intervals": "bootstrap", "replicates": 10}),
    ],
)
def test_the_same_data_in_another_order_give_the_same_bytes(models, asked):
    touchpoints, conversions = large(seed=3)
    shuffled = [
        each.take(np.random.default_rng(4).permutation(len(each))) for each in (touchpoints, conversions)
    ]
    once, again = (
        attribute(Paths.from_frames(*tables), models, **asked)
        for tables in ((touchpoints, conversions), shuffled)
    )
    pd.testing.assert_frame_equal(once, again, check_exact=True)


@pytest.mark.parametrize("options", [{}, {"intervals": "bootstrap", "replicates": 10}])
def test_aggregated_paths_in_another_order_give_the_same_bytes(options):
    random = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "path": [" > ".join(random.choice(list("abcd"), random.integers(1, 5))) for _ in range(60)],
            "n": random.integers(1, 20, 60),
            "value": random.lognormal(3.0, 1.0, 60).round(2),
            "nulls": random.integers(0, 50, 60),
        }
    )
    once, again = (
        attribute(
            Paths.from_sequences(rows, path="path", conversions="n", value="value", nulls="nulls"),
            ["linear", "last_touch", "markov", "fractribution"],
            confidence=0.9,
            **options,
        )
        for rows in (frame, frame.sample(frac=1.0, random_state=1))
    )
    pd.testing.assert_frame_equal(once, again, check_exact=True)
