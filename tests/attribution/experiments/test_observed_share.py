"""Effects scaled from observed to all users: by hand, and with users removed at random."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, incremental_effects, simulate
from attrib_ds.attribution.experiments.observed_share import check_observed_share, scale_levels
from attrib_ds.errors import InvalidRequest

LEVELS = [("caused", "low", "high")]


def test_a_known_share_scales_the_estimate_and_its_bounds():
    effects = pd.DataFrame({"caused": [70.0, -7.0], "low": [35.0, -14.0], "high": [140.0, 0.0]})
    found = scale_levels(effects, (0.7, 0.0), LEVELS, confidence=0.95)
    assert found["caused"].tolist() == pytest.approx([100, -10])
    assert found["low"].tolist() == pytest.approx([50, -20])
    assert found["high"].tolist() == pytest.approx([200, 0])
    assert effects["caused"].tolist() == [70, -7]


def test_the_error_of_the_share_widens_the_interval():
    effects = pd.DataFrame({"caused": [50.0], "low": [50 - 1.959964 * 3], "high": [50 + 1.959964 * 3]})
    found = scale_levels(effects, (0.5, 0.02), LEVELS, confidence=0.95)
    # Standard errors: 3 / 0.5 = 6 of the effect, 50 * 0.02 / 0.25 = 4 of the share.
    assert found["high"][0] - 100 == pytest.approx(1.959964 * np.sqrt(36 + 16))
    assert 100 - found["low"][0] == pytest.approx(1.959964 * np.sqrt(36 + 16))
    # The same as the spread of the ratio of two normal variables.
    random = np.random.default_rng(1)
    ratios = random.normal(50, 3, 100_000) / random.normal(0.5, 0.02, 100_000)
    assert np.std(ratios) == pytest.approx(np.sqrt(52), rel=0.02)


@pytest.mark.parametrize(
    "given", [0, 1.1, -0.5, True, "0.7", (0.7,), (0.7, -0.1), (0.7, 0.8), float("nan"), None]
)
def test_what_is_no_share_is_refused(given):
    with pytest.raises(InvalidRequest, match="observed_share: .* is not allowed"):
        check_observed_share(given)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_with_users_missing_at_random_the_scaled_level_is_that_of_all():
    world = simulate("random", users=60_000, seed=2)
    kept = world.users[np.random.default_rng(3).random(len(world.users)) < 0.7]
    frames = [
        frame[frame["user_id"].isin(kept["user_id"])] for frame in (world.touchpoints, world.conversions)
    ]
    effects = [
        incremental_effects(Paths.from_frames(*given, users=users), observed_share=share)
        for given, users, share in (
            ((world.touchpoints, world.conversions), world.users, 1.0),
            (frames, kept, 0.7),
        )
    ]
    whole, scaled = (each[each["node_id"].notna()][["credited", "caused"]].sum() for each in effects)
    assert scaled["credited"] / whole["credited"] == pytest.approx(1, abs=0.05)
    assert scaled["caused"] / whole["caused"] == pytest.approx(1, abs=0.2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_experiment_is_scaled_and_what_compares_it_with_the_model_is_not():
    world = simulate("random", users=5_000, seed=4, holdout=0.2)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    plain, scaled = (
        incremental_effects(paths, withheld=world.withheld, controls=["direct"], observed_share=share)
        for share in (1, 0.5)
    )
    changed = ["credited", "caused", "low", "high"]
    changed += [f"{name}{bound}" for name in ("experiment", "combined") for bound in ("", "_low", "_high")]
    pd.testing.assert_frame_equal(scaled[changed], 2 * plain[changed])
    pd.testing.assert_frame_equal(scaled.drop(columns=changed), plain.drop(columns=changed))
    assert scaled.attrs == plain.attrs
