"""Plans of holdouts: by hand, by an independent search, and against simulated experiments."""

from math import sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths
from attrib_ds.attribution.experiments.plans import plan_holdout
from attrib_ds.errors import InvalidRequest

BEGIN = pd.Timestamp("2025-01-01", tz="UTC")
REACH, FOUND = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)


def share_that_detects(size, *, without):
    """Return by bisection which share of a million users to hold out, if 0.04 of them convert with the node."""
    low, high = 1e-6, 0.5
    for _ in range(60):
        share = (low + high) / 2
        error = sqrt(1e6 * (0.04 * 0.96 / (1 - share) + without * (1 - without) / share))
        low, high = (share, high) if (REACH + FOUND) * error > size else (low, share)
    return share


def test_a_given_share_determines_the_error():
    (row,) = plan_holdout(users=10_000, rate=0.1, share=0.1).to_dict("records")
    # The variance is 10,000 times 0.09/0.9 + 0.09/0.1.
    assert (row["share"], row["withheld"], row["error"]) == pytest.approx((0.1, 1_000, 100.0))
    assert row["precision"] == pytest.approx(195.9964)
    assert row["detectable"] == pytest.approx(195.9964 + 84.1621)
    assert pd.isna(row["power"])
    assert pd.isna(row["effect"])


def test_a_given_precision_determines_the_share():
    (row,) = plan_holdout(users=10_000, rate=0.1, precision=195.9964).to_dict("records")
    assert row["share"] == pytest.approx(0.1, rel=1e-6)
    assert row["error"] == pytest.approx(100.0, rel=1e-6)


def test_an_effect_is_detected_with_the_requested_power():
    (row,) = plan_holdout(users=1_000_000, rate=0.04, effect=3_000).to_dict("records")
    # Without the node 0.037 of the users convert.
    assert row["share"] == pytest.approx(share_that_detects(3_000, without=0.037), rel=1e-6)
    assert row["withheld"] == 32_188
    assert row["power"] == pytest.approx(0.8)
    assert row["detectable"] == pytest.approx(3_000)


def test_an_effect_that_half_of_the_users_cannot_detect_has_no_share():
    plan = plan_holdout(users=1_000_000, rate=0.04, effect={"radio": 1_000, "search": 3_000})
    assert plan["node_id"].tolist() == ["radio", "search"]
    assert plan["share"].isna().tolist() == [True, False]
    assert plan["withheld"].isna().tolist() == [True, False]
    assert plan["power"].isna().tolist() == [True, False]


def test_without_a_sufficient_share_the_precision_is_that_of_half_of_the_users():
    (row,) = plan_holdout(users=1_000_000, rate=0.04, effect=1_000).to_dict("records")
    # The variance is 1,000,000 times 0.04 * 0.96 / 0.5 + 0.039 * 0.961 / 0.5.
    error = sqrt(1e6 * (0.0768 + 0.074958))
    assert row["error"] == pytest.approx(error)
    assert row["precision"] == pytest.approx(REACH * error)
    assert row["detectable"] == pytest.approx((REACH + FOUND) * error)


def test_an_effect_below_zero_is_detected_by_its_size():
    (row,) = plan_holdout(users=1_000_000, rate=0.04, effect=-3_000).to_dict("records")
    # Without the node 0.043 of the users convert.
    assert row["share"] == pytest.approx(share_that_detects(3_000, without=0.043), rel=1e-6)
    assert row["effect"] == -3_000
    assert (row["detectable"], row["power"]) == pytest.approx((3_000, 0.8))


def test_effects_of_one_size_need_equal_shares_if_the_variance_is_that_of_paths():
    paths = paths_of([1, 2, 1, 3, *[1] * 56, *[0] * 40], users=True)
    plan = plan_holdout(paths, effect=[50, -50, -500])
    assert plan["share"].notna().all()
    assert plan["share"][0] == pytest.approx(plan["share"][1])
    assert plan["share"][2] < plan["share"][1]


def test_an_effect_of_zero_has_no_share_and_no_power_but_says_what_could_be_ruled_out():
    plan = plan_holdout(users=10_000, rate=0.1, effect={"tv": 0, "radio": -0.0, "ads": 900.0})
    assert plan["node_id"].tolist() == ["tv", "radio", "ads"]
    assert plan[["share", "withheld", "power"]].isna().all(axis=1).tolist() == [True, True, False]
    assert plan["effect"].tolist() == [0, 0, 900]
    # The variance is 10,000 times 0.09 / 0.5 twice.
    assert plan["error"][0] == pytest.approx(60.0)
    assert plan["detectable"][0] == pytest.approx(60.0 * (REACH + FOUND))


def test_columns_do_not_depend_on_the_goal():
    plans = [plan_holdout(users=1_000, rate=0.5, **goal) for goal in ({"share": 0.5}, {"effect": [1, 90]})]
    assert plans[0].dtypes.to_dict() == plans[1].dtypes.to_dict()
    assert plans[0]["node_id"].isna().all()


def test_more_users_need_a_smaller_share_and_narrower_intervals_a_larger_one():
    shares = [plan_holdout(users=n, rate=0.05, effect=0.004 * n)["share"][0] for n in (10**5, 10**6, 10**7)]
    assert shares == sorted(shares, reverse=True)
    shares = plan_holdout(users=10**6, rate=0.05, precision=[2_000, 1_500, 1_000])["share"].tolist()
    assert shares == sorted(shares)


def paths_of(conversions, users):
    """Paths of users with the given numbers of conversions, of whom the first has a touchpoint."""
    rows = [
        (f"u{user}", f"e{user}-{number}") for user, count in enumerate(conversions) for number in range(count)
    ]
    buyers = pd.DataFrame(rows, columns=["user_id", "event_id"]).assign(date="2025-01-05")
    points = pd.DataFrame({"user_id": ["u0"], "node_id": ["ads"], "date": ["2025-01-02"]})
    observed = None
    if users:
        names = [f"u{user}" for user in range(len(conversions))]
        observed = pd.DataFrame({"user_id": names, "since": "2025-01-01", "until": "2025-02-01"})
    return Paths.from_frames(points, buyers, users=observed)


def test_users_and_conversions_are_counted_from_paths():
    # Ten users, 4 conversions: the mean is 0.4, the variance 6/10 - 0.16.
    (row,) = plan_holdout(paths_of([0, 1, 2, 1, *[0] * 6], users=True), share=0.5).to_dict("records")
    assert row["withheld"] == 5
    assert row["error"] == pytest.approx(sqrt(10 * 4 * 0.44))
    # Without users, only the 4 who were touched or converted count; their mean is 1.
    (row,) = plan_holdout(paths_of([0, 1, 2, 1, *[0] * 6], users=False), share=0.5).to_dict("records")
    assert row["withheld"] == 2
    assert row["error"] == pytest.approx(sqrt(4 * 4 * 0.5))


def test_simulated_experiments_detect_the_effect_as_often_as_planned():
    plan = plan_holdout(users=20_000, rate=0.1, effect=300)
    share, random = plan["share"][0], np.random.default_rng(3)
    withheld = random.binomial(20_000, share, 4_000)
    on = random.binomial(20_000 - withheld, 0.1) / (20_000 - withheld)
    off = random.binomial(withheld, 0.085) / withheld
    error = np.sqrt(on * (1 - on) / (20_000 - withheld) + off * (1 - off) / withheld)
    assert np.mean(on - off > REACH * error) == pytest.approx(0.8, abs=0.03)


def test_simulated_experiments_detect_harm_as_often_as_planned():
    plan = plan_holdout(users=20_000, rate=0.1, effect=-300)
    share, random = plan["share"][0], np.random.default_rng(4)
    withheld = random.binomial(20_000, share, 4_000)
    on = random.binomial(20_000 - withheld, 0.1) / (20_000 - withheld)
    off = random.binomial(withheld, 0.115) / withheld
    error = np.sqrt(on * (1 - on) / (20_000 - withheld) + off * (1 - off) / withheld)
    assert np.mean(off - on > REACH * error) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "effect: 0 of effect, precision and share are given"),
        ({"effect": 3, "share": 0.1}, "effect: 2 of effect, precision and share are given"),
        # Two users on either side of a hundred.
        ({"share": 1}, "share: 1 is not allowed; allowed: numbers above 0.02 and below 0.98"),
        ({"share": 1e-9}, "share: 1e-09 is not allowed; allowed: numbers above 0.02 and below 0.98"),
        ({"share": []}, "share is empty; allowed: at least one"),
        ({"precision": 0}, "precision: 0 is not allowed; allowed: numbers above 0 and below inf"),
        (
            {"effect": 10},
            "effect: 10 is not allowed; allowed: numbers above -90 and below 10",
        ),
        ({"effect": -90}, "effect: -90 is not allowed"),
        ({"effect": float("nan")}, "effect: nan is not allowed"),
        ({"effect": "much"}, "effect: 'm' is not allowed"),
        ({"effect": None, "share": {"ads": True}}, "share: True is not allowed"),
        ({"share": 0.1, "power": 1.0}, "power: 1.0 is not allowed"),
        (
            {"share": 0.1, "power": 0.02},
            "power: 0.02 is not allowed; allowed: above 0.025, the probability .* by chance",
        ),
        ({"share": 0.1, "confidence": 0}, "confidence: 0 is not allowed"),
        ({"share": 0.1, "users": None}, "paths: nothing to plan from"),
        ({"share": 0.1, "users": 3}, "users: 3 is not allowed"),
        ({"share": 0.1, "rate": 1.0}, "rate: 1.0 is not allowed"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        plan_holdout(**{"users": 100, "rate": 0.1} | arguments)


def test_at_least_two_users_are_withheld():
    (row,) = plan_holdout(users=1_000, rate=0.1, precision=1e6).to_dict("records")
    assert (row["share"], row["withheld"]) == (0.002, 2)


def test_the_number_of_users_may_be_a_numpy_integer():
    pd.testing.assert_frame_equal(
        plan_holdout(users=np.int64(10_000), rate=0.1, share=0.1),
        plan_holdout(users=10_000, rate=0.1, share=0.1),
    )


def test_paths_and_numbers_exclude_each_other():
    with pytest.raises(InvalidRequest, match="users and rate are counted from paths"):
        plan_holdout(paths_of([1, 0, 0, 0], users=True), users=10, share=0.5)
    sequences = Paths.from_sequences(pd.DataFrame({"path": ["ads"], "n": [3]}), path="path", conversions="n")
    with pytest.raises(InvalidRequest, match="aggregated paths have no users"):
        plan_holdout(sequences, share=0.5)


def test_clusters_are_planned_by_how_much_they_differ():
    """Four regions of ten users with 1, 2, 3 and 6 conversions: 2, 1, 0 and 3 from the 3 that users explain."""
    users = pd.DataFrame(
        {
            "user_id": [f"u{number:02d}" for number in range(40)],
            "since": BEGIN,
            "until": BEGIN + pd.Timedelta("30D"),
        }
    )
    users["region"] = np.repeat(["a", "b", "c", "d"], 10)
    buyers = [
        f"u{10 * region + user:02d}" for region, count in enumerate((1, 2, 3, 6)) for user in range(count)
    ]
    conversions = pd.DataFrame({"event_id": buyers, "user_id": buyers, "date": BEGIN})
    points = pd.DataFrame({"user_id": ["u00"], "node_id": "ads", "date": BEGIN})
    paths = Paths.from_frames(points, conversions, users=users)
    (row,) = plan_holdout(paths, share=0.5, cluster="region").to_dict("records")
    # A variance of (4 + 1 + 0 + 9) / 3, four times the difference of means of two and two: 2 degrees of freedom.
    error = 4 * np.sqrt(14 / 3 * (1 / 2 + 1 / 2))
    assert (row["share"], row["withheld"], row["error"]) == (0.5, 2, pytest.approx(error))
    assert row["precision"] == pytest.approx(4.302653 * error, rel=1e-6)
    assert row["detectable"] == pytest.approx((4.302653 + 1.060660) * error, rel=1e-6)
    (enough,) = plan_holdout(paths, precision=4.4 * error, cluster="region").to_dict("records")
    (little,) = plan_holdout(paths, effect=-5.0, cluster="region").to_dict("records")
    assert (enough["withheld"], enough["share"]) == (2, 0.5)
    assert little["detectable"] == pytest.approx(row["detectable"])
    assert pd.isna(little["withheld"])
    with pytest.raises(InvalidRequest, match="cluster: 'region' is not allowed here; allowed: a column of"):
        plan_holdout(users=40, rate=0.3, share=0.5, cluster="region")
    with pytest.raises(InvalidRequest, match="cluster: 'regoin' is not allowed"):
        plan_holdout(paths, share=0.5, cluster="regoin")
