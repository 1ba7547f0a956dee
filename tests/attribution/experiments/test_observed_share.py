"""Effects scaled from observed to all users: by hand, and with users removed at random."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, incremental_effects, simulate
from attrib_ds.attribution.experiments.observed_share import (
    check_observed_share,
    scale_levels,
    sum_segments,
)
from attrib_ds.errors import InvalidRequest
from attrib_ds.simulation import Channel, Scenario

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
    "given",
    [
        *(0, 1.1, -0.5, True, "0.7", (0.7,), (0.7, -0.1), (0.7, 0.8), float("nan"), None),
        *({}, {"country": 0.7}, {"country": {}}, {"country": {"FR": 0}}, {1: {"FR": 0.5}}),
        {"country": {"FR": 0.5}, "trait": {True: 0.5}},
    ],
)
def test_what_is_no_share_is_refused(given):
    with pytest.raises(InvalidRequest, match="observed_share: .* is not allowed"):
        check_observed_share(given)


def test_segments_are_scaled_by_their_own_shares_and_added_up():
    """Checked by hand: segment A with a share of 0.5 (standard error 0.02), segment B with 0.8."""
    shares = check_observed_share({"country": {"A": (0.5, 0.02), "B": 0.8}})
    reach = 1.959964
    rows = pd.DataFrame(
        {
            "node_id": ["radio", "radio", None],
            "country": ["A", "B", "A"],
            "caused": [50.0, 40.0, 5.0],
            "low": [50 - 3 * reach, 40 - 4 * reach, 5.0],
            "high": [50 + 3 * reach, 40 + 4 * reach, 5.0],
            "credited": [20.0, 16.0, 1.0],
        }
    )
    share, error = shares.of_rows(rows)
    assert (share.tolist(), error.tolist()) == ([0.5, 0.8, 0.5], [0.02, 0.0, 0.02])
    scaled = scale_levels(rows, (share, error), LEVELS, confidence=0.95)
    assert scaled["caused"].tolist() == pytest.approx([100, 50, 10])
    found = sum_segments(scaled.assign(credited=rows["credited"] / share), ["node_id"])
    radio, other = found.to_dict("records")
    assert (radio["caused"], radio["credited"], other["credited"]) == pytest.approx((150, 60, 2))
    # Variances: (3 / 0.5)^2 + (50 * 0.02 / 0.25)^2 = 52 in A, (4 / 0.8)^2 = 25 in B.
    assert radio["high"] - 150 == pytest.approx(reach * np.sqrt(52 + 25))
    assert 150 - radio["low"] == pytest.approx(reach * np.sqrt(52 + 25))


@pytest.fixture(scope="module")
def paths():
    world = simulate("random", users=600, seed=1)
    return Paths.from_frames(world.touchpoints, world.conversions, users=world.users)


BY_TRAIT = {"trait": {True: 0.5, False: (0.8, 0.02)}}


@pytest.mark.slow
def test_effects_by_segment_are_divided_by_its_share(paths):
    plain, scaled = (incremental_effects(paths, by="trait", observed_share=share) for share in (1, BY_TRAIT))
    share = np.where(plain["trait"], 0.5, 0.8)
    for column in ("credited", "caused"):
        assert (scaled[column] * share).tolist() == pytest.approx(plain[column].tolist())
    of_trait = plain["trait"].to_numpy(dtype=bool)
    assert (scaled["low"] * share)[of_trait].tolist() == pytest.approx(plain["low"][of_trait].tolist())
    assert (scaled["high"] - scaled["low"] > (plain["high"] - plain["low"]) / share)[~of_trait].all()
    # Without by=, they are added up, and their errors are independent.
    total = incremental_effects(paths, observed_share=BY_TRAIT).set_index("node_id")
    summed = scaled.groupby("node_id", dropna=False)[["credited", "caused"]].sum()
    for column in ("credited", "caused"):
        assert total[column].to_dict() == pytest.approx(summed[column].to_dict(), nan_ok=True)
    squares = ((scaled["high"] - scaled["caused"]) ** 2).groupby(scaled["node_id"], dropna=False).sum()
    reach = total["high"] - total["caused"]
    assert (reach**2).to_dict() == pytest.approx(squares.to_dict(), nan_ok=True)
    assert total.index[-1] is pd.NA or pd.isna(total.index[-1])
    assert total["caused"].iloc[:-1].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observed_share": {"train": {True: 0.5}}}, "observed_share: 'train' is not .*did you mean 'trait'"),
        ({"observed_share": {"trait": {True: 0.5}}}, "no share is given for trait False; allowed: one share"),
        (
            {"observed_share": {"trait": {True: 0.5, False: 0.5, "x": 0.1}}},
            "observed_share: no user has trait 'x'",
        ),
        ({"observed_share": BY_TRAIT, "by": "month"}, r"by: \['month'\] is not allowed with observed_share="),
        (
            {"observed_share": BY_TRAIT, "mediators": {"display": ["email"]}},
            "observed_share by segment: not available together with mediators=",
        ),
    ],
)
def test_shares_by_segment_that_cannot_be_used_are_refused(paths, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        incremental_effects(paths, **arguments)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_with_consent_that_differs_by_segment_its_shares_give_the_level_of_all():
    """Users with the trait, who get most e-mails and buy more, consent in 3 of 10 cases, others in 9 of 10."""
    channel = Channel("email", 4, 0.05, "subscribers", direct=1.5)
    world = simulate(Scenario((channel,), follows_intent=True), users=150_000, seed=5)
    has_trait = world.users["trait"].to_numpy(dtype=bool)
    kept = world.users[np.random.default_rng(3).random(len(has_trait)) < np.where(has_trait, 0.3, 0.9)]
    frames = [
        frame[frame["user_id"].isin(kept["user_id"])] for frame in (world.touchpoints, world.conversions)
    ]
    observed = Paths.from_frames(*frames, users=kept)
    caused = world.truth().set_index("node_id").loc["email", "removal"]
    credited = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    whole = incremental_effects(credited).set_index("node_id").loc["email"]
    one, by_segment = (
        incremental_effects(observed, observed_share=share).set_index("node_id").loc["email"]
        for share in (len(kept) / len(world.users), {"trait": {True: 0.3, False: 0.9}})
    )
    assert by_segment["credited"] / whole["credited"] == pytest.approx(1, abs=0.05)
    assert one["credited"] / whole["credited"] < 0.85
    assert one["high"] < caused
    assert by_segment["low"] < caused < by_segment["high"]


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
