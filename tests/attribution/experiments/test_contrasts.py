"""Balance of holdouts before the experiment: by hand, under random draws, and where the draw was not random."""

import warnings

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths
from attrib_ds.attribution.experiments.contrasts import balance
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.errors import HoldoutWarning

START = pd.Timestamp("2025-01-01", tz="UTC")
SINCE = pd.Timestamp("2025-02-01", tz="UTC")


def test_one_column_is_a_test_of_the_difference_of_means():
    # 20 of 100 withheld users and 20 of 300 others converted before.
    before = np.repeat([1.0, 0.0, 1.0, 0.0], [20, 80, 20, 280])
    found = balance(before[:, None], np.arange(400) < 100)
    held, others = 0.2 * 0.8 * 100 / 99, (1 / 15) * (14 / 15) * 300 / 299
    distance = 0.2 - 1 / 15
    assert found.difference.tolist() == pytest.approx([distance / np.sqrt((held + others) / 2)])
    # Twice the upper tail of the normal distribution at 3.122 standard errors.
    assert distance / np.sqrt(held / 100 + others / 300) == pytest.approx(3.1217, abs=0.0001)
    assert found.probability == pytest.approx(0.001798, rel=0.003)


def test_equal_columns_count_once():
    random = np.random.default_rng(1)
    one, is_withheld = random.poisson(0.5, 2_000)[:, None], random.random(2_000) < 0.3
    expected = balance(one * 1.0, is_withheld).probability
    assert balance(np.hstack([one, 3.0 * one]), is_withheld).probability == pytest.approx(expected)


@pytest.mark.parametrize("columns", [np.zeros((50, 0)), np.ones((50, 2)), np.eye(50)[:, :3]])
def test_nothing_is_tested_without_enough_users_who_differ(columns):
    assert balance(columns, np.arange(50) < 20).probability == 1.0


def test_random_draws_are_balanced_as_often_as_the_level_says():
    random = np.random.default_rng(7)
    below = []
    for _ in range(400):
        activity = random.lognormal(0, 1.5, 3_000)
        columns = np.log1p(np.stack([random.poisson(0.05 * activity), random.poisson(activity)], axis=1))
        below.append(balance(columns, random.random(3_000) < 0.1).probability < 0.05)
    assert np.mean(below) == pytest.approx(0.05, abs=0.03)


def world(is_random, *, seed=3, count=2_000):
    """Return paths and withheld users; if the draw is not random, active users are withheld more often."""
    random = np.random.default_rng(seed)
    activity = random.gamma(1.0, 1.0, count)
    names = np.array([f"u{number}" for number in range(count)])
    points = np.repeat(names, random.poisson(activity))
    buyers = np.repeat(names, random.poisson(0.3 * activity))
    frames = [
        pd.DataFrame({"user_id": users, "date": START + pd.to_timedelta(random.random(len(users)) * 60, "D")})
        for users in (points, buyers)
    ]
    held = random.random(count) < (0.3 if is_random else np.where(activity > 1, 0.5, 0.15))
    paths = Paths.from_frames(
        frames[0].assign(node_id="ads"),
        frames[1].assign(event_id=[f"e{number}" for number in range(len(buyers))]),
        users=pd.DataFrame({"user_id": names, "since": START, "until": START + pd.Timedelta("60D")}),
    )
    return paths, pd.DataFrame({"user_id": names[held], "node_id": "ads"})


def measured(paths, withheld, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "withheld users have touchpoints")
        return holdout_effects(paths, withheld, **options)


def test_a_draw_that_follows_activity_is_reported_at_the_call():
    paths, withheld = world(is_random=False)
    with pytest.warns(HoldoutWarning, match=r"ads \((conversions|touchpoints) before: \+0\.") as caught:
        measured(paths, withheld.assign(since=SINCE))
    assert [each.filename for each in caught if each.category is HoldoutWarning] == [__file__]


def test_covariates_are_compared_too():
    paths, withheld = world(is_random=True)
    observed = paths.observed.to_pyarrow().to_pandas()
    tall = np.random.default_rng(5).random(len(observed)) < 0.4 + 0.2 * observed["user_id"].isin(
        withheld["user_id"]
    )
    points = paths.touchpoints.select("user_id", "node_id", "date").to_pyarrow().to_pandas()
    buyers = pd.DataFrame({"event_id": ["e0"], "user_id": ["u0"], "date": START})
    paths = Paths.from_frames(points, buyers, users=observed.assign(tall=tall))
    with pytest.warns(HoldoutWarning, match=r"ads \(covariates tall: \+0\."):
        measured(paths, withheld, covariates=["tall"])


@pytest.mark.parametrize("is_random", [True, False])
def test_random_draws_and_those_without_a_time_before_cause_no_warning(is_random):
    paths, withheld = world(is_random=is_random)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldoutWarning)
        measured(paths, withheld.assign(since=SINCE) if is_random else withheld)
