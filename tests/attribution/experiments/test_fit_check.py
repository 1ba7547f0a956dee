"""A model of intent that does not describe the data says so."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, incremental_effects, simulate
from attrib_ds.attribution.experiments.fit_check import check_fit
from attrib_ds.attribution.models.incremental import DiscreteHazard, LatentIntent
from attrib_ds.errors import InvalidRequest, MisfitWarning

START = pd.Timestamp("2025-01-01", tz="UTC")
DAY = pd.Timedelta(days=1)
TINY = LatentIntent(
    intents=1, activities=1, propensities=1, half_lives=("3D",), interactions=False, evaluations=20
)
LAG = "lag from the first touchpoint to the conversion"


def paths_of(delay: np.ndarray, users: int = 1_500) -> Paths:
    """Half of the users are reached on one of the first days of twenty; a third of these convert after a delay."""
    random = np.random.default_rng(4)
    ids = np.array([f"u{number:04d}" for number in range(2 * users)])
    everybody, ids = ids, ids[:users]
    touched = random.integers(5, size=users)
    buys = np.arange(users) % 3 == 0
    bought = touched + delay
    until = np.where(buys, np.minimum(bought + 0.6, 20), 20)
    buys &= bought < 20
    return Paths.from_frames(
        pd.DataFrame(
            {
                "user_id": np.repeat(ids, 2),
                "node_id": "radio",
                "date": START + (np.repeat(touched, 2) + np.tile([0.4, 0.5], users)) * DAY,
            }
        ),
        pd.DataFrame(
            {"event_id": ids[buys], "user_id": ids[buys], "date": START + (bought[buys] + 0.6) * DAY}
        ),
        users=pd.DataFrame(
            {
                "user_id": everybody,
                "since": START,
                "until": START + np.append(until, np.full(users, 20)) * DAY,
            }
        ),
    )


def test_conversions_after_exactly_a_week_are_a_misfit():
    """A hazard whose adstock decays expects most conversions soon after the touchpoint."""
    paths = paths_of(np.full(1_500, 7))
    with pytest.warns(MisfitWarning, match="does not describe these data"):
        check = check_fit(paths, TINY)
    lag = check[check["statistic"] == LAG].set_index("value")
    assert lag["is_misfit"].all()
    assert lag.loc["6-8", "observed"] == 1
    assert lag["users"].iloc[0] == 500
    # All observed users are in one class, so the distance is the share that the model puts elsewhere.
    assert lag["distance"].iloc[0] == pytest.approx(1 - lag.loc["6-8", "replicated"])
    assert (lag.loc["6-8", "high"] - lag.loc["6-8", "low"]) == pytest.approx(
        2 * 1.96 * np.sqrt(lag.loc["6-8", "replicated"] * (1 - lag.loc["6-8", "replicated"]) / 500), abs=0.005
    )


@pytest.mark.slow
def test_effects_of_a_model_that_misses_the_data_are_not_called_estimates():
    paths = paths_of(np.full(1_500, 7))
    with pytest.warns(MisfitWarning, match=r"^latent_intent\("):
        effects = incremental_effects(paths, {"week": TINY, "hazard": DiscreteHazard()})
    by_model = effects.groupby("model").first()
    assert by_model.loc["week", "misfit"] > 0.3
    assert not by_model.loc["week", "describes_data"]
    assert effects.loc[effects["model"] == "hazard", ["misfit", "describes_data"]].isna().all(axis=None)
    assert "week does not describe the data" in effects.attrs["identified"]


def test_only_a_model_of_histories_can_be_checked():
    with pytest.raises(InvalidRequest, match="model: DiscreteHazard"):
        check_fit(paths_of(np.full(1_500, 7)), DiscreteHazard())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "fits"), [("considered", False), ("intent", True), ("intent_synergy", True)]
)
def test_the_verdict_in_worlds_within_the_funnel_and_outside(scenario, fits):
    world = simulate(scenario, users=30_000, seed=77)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    model = LatentIntent(
        controls=("organic", "direct"), activities=4, propensities=1, users=8_000, evaluations=60
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MisfitWarning)
        check = check_fit(paths, model)
    assert check["is_misfit"].any() != fits
    assert any(issubclass(each.category, MisfitWarning) for each in caught) != fits
