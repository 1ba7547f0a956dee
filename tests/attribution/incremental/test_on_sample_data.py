"""The discrete hazard on the sample data: level and order of credits, compared with an explicit regression."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from attrib_ds import attribute, conversion_paths, estimate_effects
from attrib_ds.attribution.models import DiscreteHazard

DAY = pd.Timedelta("1D")
#: As the regression: one half-life, almost no shrinkage, periods, no adjustment for activity; many comparisons.
MODEL = DiscreteHazard(half_lives=("3D",), shrinkage=1e-6, comparisons=60, scale="periods", activity=False)


@pytest.fixture(scope="module")
def paths(sample):
    return conversion_paths(sample, event_type="order", level="channel")


@pytest.fixture(scope="module")
def credits(paths):
    return attribute(paths, MODEL, confidence=0.95).set_index("node_id")


def orders_of(paths):
    rows = paths.touches
    last = rows.filter(rows.position == rows.length)
    orders = last.select("user_id", "event_date").to_pyarrow().to_pandas()
    # In the same order in every run, since days are drawn by position.
    return orders.sort_values(["event_date", "user_id"], ignore_index=True)


def explicit_regression(paths, comparisons, seed):
    """Conversions that would be lost without each channel, by a logistic regression on days of users."""
    touches = paths.touchpoints.select("user_id", "node_id", "date").to_pyarrow().to_pandas()
    orders = orders_of(paths)
    touches = touches[touches["user_id"].notna() & touches["node_id"].notna()]
    dates = pd.concat([touches["date"], orders["event_date"]])
    touches["at"], orders["at"] = (
        (touches["date"] - dates.min()) / DAY,
        (orders["event_date"] - dates.min()) / DAY,
    )
    length = (dates.max() - dates.min()) / DAY
    # Users are observed from their first touchpoint.
    first = touches.groupby("user_id")["at"].min()
    orders = orders[orders["at"] >= orders["user_id"].map(first)]
    people = np.unique(touches["user_id"])
    random = np.random.default_rng(seed)
    count = comparisons * len(orders)
    moments = random.integers(int(np.ceil(length)), size=count) + random.choice(orders["at"] % 1, count)
    users = random.choice(people, count)
    had = set(zip(orders["user_id"], orders["at"].astype(int), strict=True))
    kept = np.array([(user, int(at)) not in had for user, at in zip(users, moments, strict=True)])
    kept &= (moments <= length) & (moments >= first.loc[users].to_numpy())
    user = np.concatenate([orders["user_id"], users[kept]])
    moment = np.concatenate([orders["at"], moments[kept]])
    is_order = np.arange(len(user)) < len(orders)
    weight = np.where(is_order, 1.0, len(people) * np.ceil(length) / count)
    channels = sorted(touches["node_id"].unique())
    of_user = {
        name: (rows["at"].to_numpy(), rows["node_id"].map(channels.index).to_numpy())
        for name, rows in touches.groupby("user_id")
    }
    levels = np.zeros((len(user), len(channels)))
    for row, (name, at) in enumerate(zip(user, moment, strict=True)):
        when, channel = of_user.get(name, (np.zeros(0), np.zeros(0, int)))
        before = when <= at
        np.add.at(levels[row], channel[before], 0.5 ** ((at - when[before]) / 3))
    effects = np.log1p(levels)
    time = np.floor(moment) / length
    matrix = np.column_stack([np.ones(len(user)), time, time**2, effects])

    def loss(coefficients):
        line = matrix @ coefficients
        return weight @ np.logaddexp(0, line) - line[is_order].sum(), matrix.T @ (
            weight * expit(line) - is_order
        )

    coefficients = minimize(loss, np.r_[-7.0, np.zeros(matrix.shape[1] - 1)], jac=True, method="L-BFGS-B",
                     options={"maxiter": 2_000, "ftol": 1e-14, "gtol": 1e-6}).x  # fmt: skip
    line = (matrix @ coefficients)[is_order]
    without = line[:, None] - effects[is_order] * coefficients[3:]
    return pd.Series((1 - expit(without) / expit(line)[:, None]).sum(axis=0), channels)


@pytest.mark.large
@pytest.mark.slow
def test_credits_equal_those_of_an_explicit_regression(paths, credits):
    # Each draw of days without an order moves the credits by up to 30 conversions.
    expected = sum(explicit_regression(paths, 30, seed) for seed in (1, 2, 3, 4)) / 4
    found = credits["conversions"][expected.index]
    assert (found - expected).abs().max() < 0.025 * len(orders_of(paths))
    inside = expected.between(credits["low"][expected.index], credits["high"][expected.index])
    assert inside.sum() >= len(expected) - 1


@pytest.mark.large
@pytest.mark.slow
def test_credits_sum_to_the_orders(paths, credits):
    assert credits["conversions"].sum() == pytest.approx(len(orders_of(paths)))
    # Several channels may each have been needed for the same order, so the channels' credits may sum to more
    # than all orders, with a negative baseline.
    assert credits["conversions"].drop(np.nan).sum() > len(orders_of(paths))
    assert credits["conversions"].idxmax() == "Paid Search"
    assert (credits["low"].drop(np.nan) > 0).all()


@pytest.mark.large
@pytest.mark.slow
def test_a_control_with_credit_causes_a_warning(paths):
    # Users who have decided to buy visit directly: here direct visits indicate intent and cause nothing.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        effects = estimate_effects(paths, MODEL, controls=["Direct"])
    assert any("Direct" in str(warning.message) for warning in caught)
    assert effects.table().set_index("node_id").loc["Direct", "low"] > 0
