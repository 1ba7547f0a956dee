"""Models judged by users whom they have not seen, against scikit-like computations by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from attrib_ds import AdditiveHazard, Paths, compare_calibration, compare_held_out, simulate
from attrib_ds.attribution.chances import Chances, held_out_chances
from attrib_ds.attribution.held_out import _measured
from attrib_ds.attribution.models.named import model_named
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

START = pd.Timestamp("2025-01-01", tz="UTC")
HOUR = pd.Timedelta(hours=1)
MODELS = ["markov", "markov_2", "conversion_rate_shapley", "fractribution"]


def paths_of(journeys):
    touched = [
        (f"u{user}", node, START + place * HOUR)
        for user, (nodes, _) in enumerate(journeys)
        for place, node in enumerate(nodes)
    ]
    converted = [
        (f"e{user}", f"u{user}", START + 99 * HOUR) for user, (_, converts) in enumerate(journeys) if converts
    ]
    return Paths.from_frames(
        pd.DataFrame(touched, columns=["user_id", "node_id", "date"]),
        pd.DataFrame(converted, columns=["event_id", "user_id", "date"]),
    )


def drawn(users, seed, rates=None):
    """Journeys whose chance to convert depends on the last node."""
    random = np.random.default_rng(seed)
    rates = rates or {"a": 0.05, "b": 0.2, "c": 0.6}
    rows = ["".join(random.choice(list("abc"), min(random.geometric(0.4), 4))) for _ in range(users)]
    return [(nodes, random.random() < rates[nodes[-1]]) for nodes in rows]


def chance_of(name, nodes, others):
    """The documented chance of a path by a model made from other journeys."""
    overall = np.mean([converts for _, converts in others])

    def rate(key, prior):
        same = [converts for each, converts in others if key(each) == key(nodes)]
        return (sum(same) + prior) / (len(same) + 1)

    if name == "conversion_rate_shapley":
        return rate(lambda each: frozenset(each), overall)
    if name == "fractribution":
        return rate(lambda each: each, overall)
    first = rate(lambda each: each[-1], overall)
    return first if name == "markov" else rate(lambda each: each[-2:], first)


@pytest.mark.parametrize("name", MODELS)
def test_chances_are_those_of_the_definition(name):
    journeys = drawn(60, seed=1)
    paths = paths_of(journeys)
    sequences = Sequences.of(paths, folds=3)
    users = paths.touchpoints.select("user_id").distinct()
    table = users.mutate(fold=sequences.fold(users.user_id)).to_pyarrow()
    fold = dict(zip(table["user_id"].to_pylist(), table["fold"].to_pylist(), strict=True))
    for group, found in enumerate(held_out_chances(model_named(name), sequences)):
        left = [row for user, row in enumerate(journeys) if fold[f"u{user}"] == group]
        others = [row for user, row in enumerate(journeys) if fold[f"u{user}"] != group]
        expected = sorted((chance_of(name, nodes, others), converts) for nodes, converts in left)
        mine = [
            (c, True) for c, n in zip(found.chance, found.conversions, strict=True) for _ in range(int(n))
        ]
        mine += [(c, False) for c, n in zip(found.chance, found.nulls, strict=True) for _ in range(int(n))]
        np.testing.assert_allclose(sorted(mine), expected, atol=1e-12)
        assert found.overall == pytest.approx(np.mean([converts for _, converts in others]))


outcomes = st.lists(
    st.tuples(
        st.floats(0.01, 0.99).map(lambda chance: round(chance, 2)), st.integers(0, 5), st.integers(0, 5)
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(outcomes)
@example([(0.5, 1, 1)])
@example([(0.5, 3, 0), (0.2, 1, 0)])
@example([(0.3, 1, 2), (0.3, 2, 1)])
@example([(0.1, 0, 4), (0.9, 4, 0)])
def test_measures_are_those_of_a_loop(rows):
    chance, conversions, nulls = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    found = _measured(Chances(chance, conversions, nulls, 0.3))
    people = [(c, 1) for c, n, _ in rows for _ in range(n)] + [(c, 0) for c, _, n in rows for _ in range(n)]
    if not people:
        assert math.isnan(found["log_loss"])
        return
    loss = -np.mean([math.log(c if y else 1 - c) for c, y in people])
    plain = -np.mean([math.log(0.3 if y else 0.7) for _, y in people])
    assert found["log_loss"] == pytest.approx(loss)
    assert found["skill"] == pytest.approx(1 - loss / plain)
    yes, no = ([c for c, y in people if y == kind] for kind in (1, 0))
    if not yes or not no:
        assert math.isnan(found["auc"])
        return
    wins = [(a > b) + (a == b) / 2 for a in yes for b in no]
    assert found["auc"] == pytest.approx(np.mean(wins))
    # At the intercept, expected and observed conversions are equal.
    shifted = 1 / (1 + np.exp(-(np.log(chance / (1 - chance)) + found["calibration_intercept"])))
    assert (conversions + nulls) @ shifted == pytest.approx(conversions.sum(), abs=1e-6)


def test_a_slope_is_that_of_a_logistic_regression():
    random = np.random.default_rng(2)
    chance = np.linspace(0.05, 0.9, 12)
    conversions, nulls = random.integers(1, 9, 12).astype(float), random.integers(1, 9, 12).astype(float)
    odds = np.log(chance / (1 - chance))

    def loss(known):
        line = known[0] + known[1] * odds
        return (conversions + nulls) @ np.logaddexp(0, line) - conversions @ line

    expected = minimize(loss, [0.0, 0.0], tol=1e-12).x[1]
    found = _measured(Chances(chance, conversions, nulls, 0.5))
    assert found["calibration_slope"] == pytest.approx(expected, abs=1e-5)


def test_what_tells_who_converts_has_skill_and_noise_has_none():
    compared = compare_held_out(paths_of(drawn(2_000, seed=3)), MODELS)
    means = compared[compared["fold"].isna()].set_index("model")
    assert (means["skill"] > 0.1).all()
    # Only the last node matters: nothing is gained by the one before it, or lost by much.
    assert means.loc["markov", "skill"] > means.loc["conversion_rate_shapley", "skill"]
    assert means.loc["markov", "calibration_slope"] == pytest.approx(1, abs=0.15)
    assert means.loc["markov", "calibration_intercept"] == pytest.approx(0, abs=0.15)
    noise = compare_held_out(paths_of(drawn(2_000, seed=3, rates=dict.fromkeys("abc", 0.3))), "markov")
    mean = noise[noise["fold"].isna()].iloc[0]
    assert abs(mean["auc"] - 0.5) < 3 * mean["auc_error"] + 0.02
    assert abs(mean["skill"]) < 0.01


def test_a_hazard_tells_the_chance_of_each_period():
    # Who is about to buy is reached more often, so what reached users tells well who converts.
    world = simulate("intent", users=6_000, seed=7)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    compared = compare_held_out(paths, ["discrete_hazard", "markov"], folds=3)
    means = compared[compared["fold"].isna()].set_index("model")
    assert means["unit"].tolist() == ["period", "path"]
    hazard = means.loc["discrete_hazard"]
    # Days at risk of all users, of which a sample stands for all.
    days = (world.users["until"] - world.users["since"]).dt.total_seconds().sum() / 86_400
    rows = compared[(compared["model"] == "discrete_hazard") & compared["fold"].notna()]
    assert rows["conversions"].sum() == len(world.conversions)
    assert rows["trials"].sum() == pytest.approx(days, rel=0.05)
    assert hazard["skill"] > 0.03
    assert hazard["auc"] > 0.7
    assert hazard["calibration_slope"] == pytest.approx(0.9, abs=0.2)
    assert abs(hazard["calibration_intercept"]) < 0.3


def test_an_additive_hazard_tells_the_chance_of_the_same_periods():
    world = simulate("intent", users=6_000, seed=7)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    compared = compare_held_out(paths, ["additive_hazard", "discrete_hazard"], folds=3)
    rows = compared[compared["fold"].notna()].set_index(["model", "fold"])
    for column in ("trials", "conversions"):
        one, other = (rows.loc[name, column] for name in ("additive_hazard", "discrete_hazard"))
        pd.testing.assert_series_equal(one, other, check_names=False)
    mean = compared[compared["fold"].isna()].set_index("model").loc["additive_hazard"]
    assert mean["unit"] == "period"
    assert mean["skill"] > 0.03
    assert mean["auc"] > 0.7
    assert mean["calibration_slope"] == pytest.approx(0.95, abs=0.2)
    assert abs(mean["calibration_intercept"]) < 0.3


def test_without_anything_at_work_a_chance_is_the_rate_of_the_others():
    # Observed for ten days each, some to convert in the middle; touched at the very end, when nothing follows.
    users = pd.DataFrame({"user_id": [f"u{number}" for number in range(60)]})
    users = users.assign(since=START, until=START + 240 * HOUR)
    touched = users.assign(node_id="a", date=START + 240 * HOUR)[["user_id", "node_id", "date"]]
    converted = users.iloc[::4].assign(date=START + 77 * HOUR)[["user_id", "date"]]
    converted = converted.assign(event_id=converted["user_id"])
    paths = Paths.from_frames(touched, converted, users=users)
    sequences = Sequences.of(paths, folds=3)
    known = paths.touchpoints.select("user_id")
    fold = known.mutate(fold=sequences.fold(known.user_id)).to_pyarrow().to_pandas()
    fold = fold.set_index("user_id")["fold"]
    model = AdditiveHazard(periods=1, times_of_day=1)
    for group, found in enumerate(held_out_chances(model, sequences)):
        others = fold[fold != group].index
        rate = converted["user_id"].isin(others).sum() / (10 * len(others))
        np.testing.assert_allclose(found.chance, 1 - math.exp(-rate), rtol=1e-9)
        assert found.trials.sum() == pytest.approx(10 * (len(fold) - len(others)), rel=0.1)
        assert found.conversions.sum() == len(converted) - converted["user_id"].isin(others).sum()


def test_pairs_and_strata_raise_the_chances_of_their_users():
    # Only who has both, and belongs to the stratum, converts: on the day after.
    random = np.random.default_rng(3)
    count = 3_000
    users = pd.DataFrame({"user_id": [f"u{number:04}" for number in range(count)]})
    users = users.assign(since=START, until=START + 480 * HOUR, is_member=random.random(count) < 0.5)
    holds = {node: random.random(count) < 0.5 for node in "ab"}
    touched = pd.concat(
        users[["user_id"]][holds[node]].assign(node_id=node, date=START + 100 * HOUR) for node in "ab"
    )
    is_likely = (holds["a"] & holds["b"] & (random.random(count) < 0.4)) | (random.random(count) < 0.01)
    is_likely &= users["is_member"].to_numpy() | (random.random(count) < 0.1)
    converted = users[is_likely].assign(date=START + 120 * HOUR, event_id=users["user_id"])
    paths = Paths.from_frames(touched, converted[["event_id", "user_id", "date"]], users=users)
    models = {
        "both": AdditiveHazard(interactions=True, periods=1, times_of_day=1),
        "alone": AdditiveHazard(periods=1, times_of_day=1),
        "no_strata": AdditiveHazard(interactions=True, periods=1, times_of_day=1, strata=()),
    }
    compared = compare_held_out(paths, models, folds=3)
    loss = compared[compared["fold"].isna()].set_index("model")["log_loss"]
    assert loss["both"] < loss["alone"]
    assert loss["both"] < loss["no_strata"]


def test_one_row_per_group_and_their_means():
    compared = compare_held_out(
        paths_of(drawn(200, seed=4)), {"one": "markov", "sets": "conversion_rate_shapley"}, folds=4
    )
    assert compared["model"].tolist() == ["one"] * 5 + ["sets"] * 5
    assert compared["fold"].fillna(0).tolist() == [1, 2, 3, 4, 0] * 2
    rows, mean = compared.iloc[:4], compared.iloc[4]
    assert rows["trials"].sum() == 200
    for name in ("log_loss", "skill", "auc", "calibration_intercept", "calibration_slope"):
        assert mean[name] == pytest.approx(rows[name].mean())
        assert mean[f"{name}_error"] == pytest.approx(rows[name].std() / 2)
        assert rows[f"{name}_error"].isna().all()
    assert compared.dtypes.astype(str).tolist() == ["str", "Int64", "str", *["float64"] * 12]


def test_calibration_has_parts_of_about_equally_many_paths():
    compared = compare_calibration(paths_of(drawn(900, seed=5)), ["markov", "fractribution"], bins=3)
    for _, rows in compared.groupby("model"):
        assert rows["trials"].sum() == 900
        assert rows["bin"].tolist() == list(range(1, len(rows) + 1))
        assert rows["expected"].is_monotonic_increasing
        assert (rows["observed"] == rows["conversions"] / rows["trials"]).all()
        assert (rows["observed_low"] <= rows["observed"]).all()
        assert (rows["observed"] <= rows["observed_high"]).all()
    markov = compared[compared["model"] == "markov"]
    assert markov["trials"].between(200, 400).all()
    assert (markov["expected"] - markov["observed"]).abs().max() < 0.05


def test_bounds_of_a_share_are_clopper_and_pearsons():
    # 0 of 10: up to 0.3085; published tables of exact binomial intervals.
    compared = compare_calibration(paths_of([("a", False)] * 10 + [("b", True)] * 10), "markov", bins=2)
    assert compared["observed_low"].tolist() == pytest.approx([0, 0.6915], abs=1e-4)
    assert compared["observed_high"].tolist() == pytest.approx([0.3085, 1], abs=1e-4)


@pytest.mark.parametrize(
    ("models", "arguments", "message"),
    [
        ("linear", {}, "linear says nothing of the chance"),
        ("ordered_shapley", {}, "ordered_shapley says nothing of the chance"),
        ("latent_intent", {}, "latent_intent says nothing of the chance .*discrete_hazard, additive_hazard"),
        ("landmark", {}, "landmark estimates effects .* no model of the chance .*allowed: markov"),
        ("markov", {"folds": 101}, "folds"),
        ("markov", {"seed": 0.5}, "seed"),
    ],
)
def test_what_is_not_allowed_is_refused(models, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        compare_held_out(paths_of(drawn(50, seed=6)), models, **arguments)


@pytest.mark.parametrize("converts", [True, False])
def test_without_both_kinds_of_paths_there_is_nothing_to_tell(converts):
    with pytest.raises(InvalidRequest, match=f"no path with{'out' if converts else ''} a conversion"):
        compare_held_out(paths_of([("a", converts)] * 20), "markov")


def test_bins_are_checked():
    with pytest.raises(InvalidRequest, match="bins"):
        compare_calibration(paths_of(drawn(50, seed=6)), "markov", bins=1)
