"""The latent intent model on worlds at the limits: no warning of NumPy, and credit that adds up."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attrib_ds import Paths, attribute
from attrib_ds.attribution.incremental.categories import standardised
from attrib_ds.attribution.incremental.latent_intent.sampling import _inclusion_probabilities
from attrib_ds.attribution.models.incremental import DiscreteHazard, LatentIntent
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT

# A short search describes no data.
pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.MisfitWarning")

START = pd.Timestamp("2025-01-01", tz="UTC")
QUICK = {"activities": 2, "propensities": 2, "evaluations": 12, "users": 100, "interactions": True}


def paths_of(touches, orders, *, users=None, days=10.0, **columns):
    """Paths of touchpoints (user, node, day) and orders (user, day, value)."""
    points = pd.DataFrame(
        {
            "user_id": pd.Series([f"u{user}" for user, _, _ in touches], dtype=TEXT),
            "node_id": pd.Series([f"n{node}" for _, node, _ in touches], dtype=TEXT),
            "date": START + pd.to_timedelta([float(day) for _, _, day in touches], unit="D"),
        }
    )
    conversions = pd.DataFrame(
        {
            "event_id": [f"e{number}" for number in range(len(orders))],
            "user_id": [f"u{user}" for user, _, _ in orders],
            "date": START + pd.to_timedelta([float(day) for _, day, _ in orders], unit="D"),
            "value": [float(value) for _, _, value in orders],
            "currency": "EUR",
        }
    )
    observed = None
    if users is not None:
        names = [f"u{user}" for user in range(users)]
        observed = pd.DataFrame(
            {"user_id": names, "since": START, "until": START + pd.Timedelta(days=days), **columns}
        )
    return Paths.from_frames(points, conversions, users=observed)


def credited(paths, model, confidence=None):
    """Credit with warnings of NumPy as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        rows = attribute(paths, model, confidence=confidence)
    assert np.isfinite(rows["conversions"]).all()
    assert np.isfinite(rows["value"]).all()
    return rows


def drawn_world(seed):
    """A world whose sizes, rates, dates, values and covariates are drawn from their extremes."""
    random = np.random.default_rng(seed)
    users, days = int(random.choice([1, 2, 10, 60])), float(random.choice([0, 1, 10, 40]))
    nodes, often = int(random.choice([1, 2, 12])), float(random.choice([0, 0.1, 5, 60]))
    owner = np.repeat(np.arange(users), random.poisson(often, users))
    when = random.random(len(owner)) * days * random.choice([1, 2]) - random.choice([0, days / 2])
    touches = zip(owner, random.integers(nodes, size=len(owner)), when, strict=True)
    buyer = np.append(np.repeat(np.arange(users), random.poisson(random.choice([0, 0.5, 10]), users)), 0)
    orders = zip(
        buyer, random.random(len(buyer)) * days, random.choice([0, 1e12, -5, 1e250], len(buyer)), strict=True
    )
    columns = {}
    if random.random() < 0.7:
        columns["x"] = random.normal(size=users) * random.choice([1, 1e-200, 1e9, 1e300])
    model = LatentIntent(
        intents=int(random.integers(1, 6)),
        activities=int(random.choice([1, 3])),
        propensities=int(random.choice([1, 2, 20])),
        evaluations=int(random.choice([1, 12, 40])),
        users=100,
        shrinkage=float(random.choice([0, 10, 1e6])),
        tolerance=float(random.choice([0, 1e-9])),
        memory=str(random.choice(["7D", "1s", "3650D"])),
        half_lives=[("2D", "7D"), ("1s",), ("36500D", "1D")][int(random.integers(3))],
        interactions=bool(random.random() < 0.7),
    )
    known = users if random.random() < 0.7 else None
    return paths_of(list(touches), list(orders), users=known, days=days, **columns), model


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_worlds_drawn_from_the_extremes_give_finite_credit_without_a_warning(seed):
    paths, model = drawn_world(seed)
    rows = credited(paths, model, confidence=0.95 if seed % 2 else None)
    total = sum(paths.touches.filter(paths.touches.position == paths.touches.length).conversions.to_list())
    assert rows["conversions"].sum() == pytest.approx(total)


@pytest.mark.slow
@given(st.integers(30, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_worlds_drawn_by_hypothesis_give_finite_credit_without_a_warning(seed):
    paths, model = drawn_world(seed)
    rows = credited(paths, model)
    total = sum(paths.touches.filter(paths.touches.position == paths.touches.length).conversions.to_list())
    assert rows["conversions"].sum() == pytest.approx(total)


@pytest.mark.slow
def test_touchpoints_all_day_long_do_not_overflow():
    """Touchpoints in every period drive rates to their bound, where their approximation exceeds 1."""
    touches = [(user, 0, day + 0.5) for user in range(60) for day in range(60)]
    orders = [(0, 30.2, 1.0)]
    model = LatentIntent(**{**QUICK, "activities": 1, "propensities": 1, "evaluations": 40}, shrinkage=0.0)
    credited(paths_of(touches, orders, users=60, days=60.0), model)


@pytest.mark.slow
@pytest.mark.parametrize("model", [LatentIntent(**QUICK), DiscreteHazard()], ids=["latent", "hazard"])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_unit_of_a_covariate_does_not_matter(model, scale):
    random = np.random.default_rng(2)
    trait = random.normal(size=60)
    touches = [(user, user % 2, 2.5) for user in range(0, 60, 3)]
    orders = [(user, 5.2, 1.0) for user in range(60) if trait[user] > 0.5]
    expected, found = (
        credited(paths_of(touches, orders, users=60, x=trait * unit), model) for unit in (1.0, scale)
    )
    assert found["conversions"].tolist() == pytest.approx(
        expected["conversions"].tolist(), rel=1e-3, abs=1e-3
    )


def test_columns_are_standardised_at_any_size():
    columns = np.array([[1.0, 3e300, 7.0], [2.0, 6e300, 7.0], [3.0, 9e300, 7.0]])
    one = np.sqrt(1.5)  # The deviation of 1, 2, 3 is the root of 2/3.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = standardised(columns)
    assert found == pytest.approx(np.array([[-one, -one, 0], [0, 0, 0], [one, one, 0]]))


def test_all_histories_are_drawn_if_rounding_leaves_slightly_less_than_their_number():
    sizes = np.arange(1.0, 101.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = _inclusion_probabilities(sizes, 100 - 1e-13)
    assert found == pytest.approx(np.ones(100))


@pytest.mark.parametrize("model", [LatentIntent(**QUICK), DiscreteHazard()], ids=["latent", "hazard"])
def test_values_whose_sum_is_infinite_are_refused(model):
    paths = paths_of([(0, 0, 1.0)], [(0, 2.0, 1.5e308), (1, 3.0, 1.5e308)], users=4)
    with pytest.raises(InvalidRequest, match=r"value of up to 1.5e\+308 sum to infinity"):
        credited(paths, model)
