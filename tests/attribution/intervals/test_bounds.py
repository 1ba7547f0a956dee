"""Bounds of sums, shares and signed effects, against published tables, exact distributions and simulation."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from attrib_ds.attribution.intervals import Bounds

Z = 1.959963984540054
#: Of Student's distribution with 19 degrees of freedom.
T = 2.093024054408263
FORM = Bounds(0.95)


def one(method, *numbers, **more):
    arrays = [np.array([each], dtype=float) for each in numbers]
    low, high = method(*arrays, **{name: np.array([each], float) for name, each in more.items()})
    return float(low[0]), float(high[0])


def share(*numbers, users, form=FORM):
    low, high = form.of_share(*(np.array([each], float) for each in numbers), users=users)
    return float(low[0]), float(high[0])


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Exact limits of a Poisson number at 95 %: Garwood (1936), as reprinted in tables of epidemiology.
    [
        (0, 0, 3.6889),
        (1, 0.02532, 5.57164),
        (4, 1.0899, 10.2416),
        (8, 3.4538, 15.7632),
        (50, 37.1110, 65.9188),
    ],
)
@pytest.mark.parametrize("part", [1.0, 0.25, 30.0])
def test_sums_of_equal_parts_have_exact_poisson_bounds(count, low, high, part):
    found = one(FORM.of_sum, count * part, count * part**2, weight=part)
    assert found == pytest.approx((low * part, high * part), rel=1e-4, abs=1e-4)


def test_sums_of_many_parts_have_normal_bounds():
    assert one(FORM.of_sum, 1e6, 5e5, weight=0.5) == pytest.approx(
        (1e6 - Z * 5e5**0.5, 1e6 + Z * 5e5**0.5), abs=2.0
    )
    assert one(FORM.around, 3.0, 4.0) == pytest.approx((3 - 2 * Z, 3 + 2 * Z))


@pytest.mark.parametrize("parts", [(1.0, 0.5, 1 / 3, 0.25, 0.1), (1.0, 0.01), (5.0, 1.0, 0.2)])
@pytest.mark.parametrize("users", [2, 5, 10, 30, 100])
def test_bounds_of_sums_of_few_unequal_parts_cover(parts, users):
    weights = np.array(parts)
    chance = 1 / np.arange(1, len(parts) + 1)[::-1]
    chance /= chance.sum()
    counts = np.random.default_rng(users).poisson(chance * users, (20_000, len(parts)))
    truth = users * chance @ weights
    usual = np.full(len(counts), chance @ weights**2 / (chance @ weights))
    low, high = FORM.of_sum(counts @ weights, counts @ weights**2, weight=usual)
    assert (truth < low).mean() < 0.03
    assert (truth > high).mean() < 0.06
    assert ((low <= truth) & (truth <= high)).mean() > 0.925


def test_a_variance_larger_than_any_sum_has_is_noise():
    # 0.1 conversions with a standard deviation of 1: both 0 and 2 are inside the interval.
    low, high = one(FORM.of_sum, 0.1, 1.0, weight=0.2)
    assert low == 0
    assert high == pytest.approx(0.1 + Z)


def test_zero_variances_are_certain_and_missing_ones_stay_missing():
    assert one(FORM.of_sum, 7.0, 0.0, weight=1.0) == (7.0, 7.0)
    assert one(FORM.of_sum, 0.0, 0.0, weight=0.0) == (0.0, 0.0)
    assert np.isnan(one(FORM.of_sum, np.nan, np.nan, weight=1.0)).all()
    assert share(1.0, 0.0, users=4) == (1.0, 1.0)
    assert share(0.5, 0.0, users=4) == (0.5, 0.5)


@pytest.mark.parametrize(("has", "users"), [(0, 10), (1, 10), (5, 10), (3, 200), (199, 200)])
def test_shares_of_equal_users_have_clopper_pearson_bounds(has, users):
    part = has / users
    low, high = share(part, part * (1 - part) / users, users=users)
    assert high == pytest.approx(beta.ppf(0.975, has + 1, users - has))
    assert low == pytest.approx(beta.ppf(0.025, has, users - has + 1) if has else 0.0)


@pytest.mark.parametrize(("users", "part"), [(20, 0.3), (200, 0.03), (1000, 0.3)])
def test_bounds_of_shares_of_unequal_users_cover(users, part):
    random = np.random.default_rng(users)
    weights, chance = np.array([1.0, 0.3, 0.01]), np.array([0.3, 0.4, 0.3])
    mine, others = (
        random.poisson(users * part * chance, (3_000, 3)),
        random.poisson(users * (1 - part), 3_000),
    )
    total = mine.sum(axis=1) + others
    found = mine @ weights / total
    spread = ((mine * (weights - found[:, None]) ** 2).sum(axis=1) + others * found**2) / total**2
    squares = mine @ (weights**2 + (1 - weights) ** 2) + others
    truth, held = part * weights @ chance, 0
    for number in range(len(found)):
        low, high = share(found[number], spread[number], users=total[number] ** 2 / squares[number])
        held += low <= truth <= high
    assert 0.94 < held / len(found) < 0.998


def test_variances_of_few_samples_use_students_t():
    few = Bounds(0.95, freedom=19)
    assert few.reach == pytest.approx(T)
    assert one(few.around, 3.0, 4.0) == pytest.approx((3 - 2 * T, 3 + 2 * T))
    wide = one(FORM.of_sum, 100.0, 60.0 * (T / Z) ** 2, weight=0.6 * (T / Z) ** 2)
    assert one(few.of_sum, 100.0, 60.0, weight=0.6) == pytest.approx(wide)
    wide = share(0.3, 0.01 * (T / Z) ** 2, users=21 / (T / Z) ** 2)
    assert share(0.3, 0.01, users=21, form=few) == pytest.approx(wide)


amounts = st.floats(0, 1e9)


@settings(max_examples=60, deadline=None)
@given(amounts, amounts, amounts, st.floats(0.01, 0.999))
@example(0.0, 0.0, 0.0, 0.95)
@example(0.0, 1.0, 1.0, 0.95)
@example(1e-300, 1e-300, 1.0, 0.95)
@example(1e9, 1e-9, 1e9, 0.5)
def test_bounds_enclose_the_estimate_and_are_never_negative(estimate, variance, weight, confidence):
    form = Bounds(confidence)
    low, high = one(form.of_sum, estimate, variance, weight=weight)
    assert low >= 0
    assert low <= estimate * (1 + 1e-9) or confidence < 0.5
    assert estimate * (1 - 1e-9) <= high
    part = min(estimate / 1e9, 1.0)
    low, high = share(part, min(variance, 1.0), users=max(weight, 0.0), form=form)
    assert 0 <= low <= high <= 1
