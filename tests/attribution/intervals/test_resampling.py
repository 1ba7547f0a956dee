"""Weights of users in replicates, against the Poisson distribution and a loop in plain Python."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, poisson
from support.law_examples import examples

from attrib_ds.attribution.intervals import Units, poisson_weights, random_bits

KEYS = np.arange(40_000, dtype=np.uint64)
WORD = (1 << 64) - 1


def mixed(number):
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & WORD
    return number ^ (number >> 31)


def weight(key, seed, replicate):
    """The definition, one user at a time."""
    golden = 0x9E3779B97F4A7C15
    start = mixed(key ^ mixed((seed + golden) & WORD))
    draw = (mixed((start + (replicate + 1) * golden) & WORD) >> 11) / 2**53
    return int(poisson.ppf(draw, 1.0)) if draw else 0


def test_bits_equal_the_published_test_vectors():
    # The first outputs of splitmix64 started at 1234567, as in the test vectors of other implementations.
    start = np.uint64(1234567)
    steps = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [mixed(int(start + step) & WORD) for step in steps] == expected
    drawn = random_bits(np.array([5], np.uint64), seed=7, replicates=range(2, 4))
    golden = 0x9E3779B97F4A7C15
    base = mixed(5 ^ mixed(7 + golden))
    assert drawn.tolist() == [[mixed((base + number * golden) & WORD) >> 11 for number in (3, 4)]]


def test_weights_are_poisson_quantiles():
    draws = np.array([0.0, 0.36787, 0.36788, 0.73575, 0.73576, 0.9999, 0.99999, 1 - 1e-9, 1 - 2**-53])
    found = poisson_weights((draws * 2**53).astype(np.uint64)).tolist()
    assert found == [0, *poisson.ppf(draws[1:-1], 1.0).astype(int).tolist(), found[-1]]
    # The last draw has the probability 2 ** -53.
    assert 16 <= found[-1] <= 18


def test_weights_have_a_poisson_distribution():
    weights = poisson_weights(random_bits(KEYS, seed=3, replicates=range(20)))
    counts = np.bincount(np.minimum(weights, 5).ravel(), minlength=6)
    chances = [*poisson.pmf(range(5), 1.0), poisson.sf(4, 1.0)]
    assert chisquare(counts, np.array(chances) * weights.size).pvalue > 1e-4
    # Neighbouring replicates, users and seeds are uncorrelated.
    other = poisson_weights(random_bits(KEYS, seed=4, replicates=range(20)))
    pairs = [(weights[:, 0], weights[:, 1]), (weights[1:, 0], weights[:-1, 0]), (weights[:, 0], other[:, 0])]
    for left, right in pairs:
        assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(len(left))


rows = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 3), st.floats(-5, 5), st.floats(0, 5)), max_size=40
)


@settings(max_examples=examples(30), deadline=None)
@given(rows, st.integers(0, 5), st.integers(1, 6))
@example([], 0, 2)
@example([(7, 0, 1.0, 1.0), (7, 0, 1.0, 1.0)], 0, 3)
def test_sums_equal_a_loop(given_rows, seed, replicates):
    keys = np.array([row[0] for row in given_rows], np.int64)
    cell = np.array([row[1] for row in given_rows], np.int64)
    amounts = np.array([row[2:] for row in given_rows], np.float64).reshape(-1, 2)
    found = Units.of(keys).sums(cell, amounts, cells=4, replicates=range(replicates), seed=seed)
    expected = np.zeros((replicates, 2, 4))
    for key, place, *pair in given_rows:
        for replicate in range(replicates):
            expected[replicate, :, place] += weight(key, seed, replicate) * np.array(pair)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_blocks_of_units_and_replicates_change_nothing():
    keys = np.random.default_rng(0).integers(0, 5_000, 20_000)
    units, cell, amounts = Units.of(keys), keys % 7, (keys % 3 + 1.0)[:, None]
    whole = units.sums(cell, amounts, cells=7, replicates=range(9), seed=1)
    parts = [
        units.sums(cell, amounts, cells=7, replicates=block, seed=1) for block in (range(4), range(4, 9))
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    blocks = list(units.blocks(1 << 23, 5))
    assert [len(block) for block in blocks] == [2, 2, 1]


def test_a_unit_of_many_users_has_the_mean_of_their_weights():
    units = Units.of(np.arange(2_000)).sized(np.full(2_000, 25.0))
    found = units.sums(np.arange(2_000), np.full((2_000, 1), 25.0), cells=2_000, replicates=range(5), seed=0)
    # The Poisson distribution with mean 25.
    np.testing.assert_allclose(found, found.round(), atol=1e-9)
    assert found.mean() == pytest.approx(25, abs=0.25)
    assert found.var() == pytest.approx(25, rel=0.08)
