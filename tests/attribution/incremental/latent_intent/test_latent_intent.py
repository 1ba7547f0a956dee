"""The latent intent model: special cases, invariances and degenerate data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from attrib_ds import Channel, Paths, Scenario, attribute, simulate
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.fitting import Objective, fit
from attrib_ds.attribution.incremental.latent_intent.parameters import class_grid, initial_parameters
from attrib_ds.attribution.incremental.latent_intent.prefix_tree import (
    EncodedHistories,
    TreeSettings,
    build_tree,
)
from attrib_ds.attribution.incremental.latent_intent.sampling import sample_users
from attrib_ds.attribution.models.incremental import LatentIntent
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

# A short search describes no data.
pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.MisfitWarning")

DAY = pd.Timedelta(days=1)
START = pd.Timestamp("2025-01-01", tz="UTC")
QUICK = {"activities": 2, "propensities": 2, "evaluations": 12, "users": 1_500}


@pytest.fixture(scope="module")
def world():
    return simulate("intent_synergy", users=1_500, seed=3)


def paths_of(world, **changes):
    frames = {"touchpoints": world.touchpoints, "conversions": world.conversions, "users": world.users}
    frames |= changes
    return Paths.from_frames(frames["touchpoints"], frames["conversions"], users=frames["users"])


def credited(paths, model, **options):
    return attribute(paths, model, **options).set_index("node_id")["conversions"]


@pytest.fixture(scope="module")
def journeys(world):
    sequences = Sequences.of(paths_of(world))
    histories = Histories.of(sequences, covariates=None)
    pairs = np.stack(np.triu_indices(8, 1), axis=1)
    days = EncodedHistories.of(histories, nodes=8, step=1.0)
    cut = TreeSettings(8, range(8), (), [2.0, 7.0], 1.0, 7.0, pairs)
    return build_tree(histories, days, cut, *sample_users(histories, days, users=1_500, seed=0))


@pytest.mark.slow
def test_no_step_lowers_the_likelihood(journeys):
    classes = class_grid(2, 2)
    guess = initial_parameters(journeys, classes, intents=3)
    objective = Objective(journeys, classes, guess, 10.0)
    values = [objective(guess)[0]]
    for evaluations in (3, 6, 12, 24):
        found = fit(
            [(journeys, evaluations)],
            classes,
            intents=3,
            shrinkage=10.0,
            tolerance=0.0,
            advance=lambda _: None,
        )
        values.append(objective(found.parameters)[0])
    assert (np.diff(values) >= 0).all()
    assert values[-1] > values[0] + 100


@pytest.mark.slow
def test_with_one_class_and_one_intent_it_is_a_hazard():
    """Compare with a proportional hazard without a funnel, maximised by other means."""
    random = np.random.default_rng(1)
    users, days, effect = 400, 10, 1.5
    touched = random.random((users, days)) < 0.15
    level = np.zeros(users)
    levels, converted = np.zeros((users, days)), np.full(users, -1)
    for day in range(days):
        level = level / 2 ** (1 / 3) + touched[:, day]
        levels[:, day] = np.log1p(level)
        buys = random.random(users) < -np.expm1(-0.06 * (1 + effect * levels[:, day]))
        converted = np.where((converted < 0) & buys, day, converted)
    last = np.where(converted < 0, days - 1, converted)
    at_risk = np.arange(days) <= last[:, None]
    is_case = np.arange(days) == converted[:, None]

    def loss(row):
        rate = np.exp(row[0]) * (1 + np.exp(row[1]) * levels)
        return -(np.where(is_case, np.log(-np.expm1(-rate)), -rate) * at_risk).sum()

    best = minimize(loss, [-3.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8}).x
    rate = np.exp(best[0]) * (1 + np.exp(best[1]) * levels)[is_case]
    later = -np.expm1(-np.exp(best[0]) * (1 + np.exp(best[1]) * levels))[at_risk].sum() / at_risk.sum()
    part = 1 - np.expm1(-np.exp(best[0])) / np.expm1(-rate)
    # A lost conversion may still happen on one of the remaining days.
    part = part * (1 - later) ** (days - 1 - converted[converted >= 0])
    rows, columns = np.nonzero(touched & at_risk)
    ids = np.array([f"u{number:03d}" for number in range(users)])
    paths = Paths.from_frames(
        pd.DataFrame({"user_id": ids[rows], "node_id": "radio", "date": START + (columns + 0.3) * DAY}),
        pd.DataFrame(
            {
                "event_id": ids[converted >= 0],
                "user_id": ids[converted >= 0],
                "date": START + (converted[converted >= 0] + 0.9) * DAY,
                "value": 1.0,
            }
        ),
        users=pd.DataFrame(
            {
                "user_id": ids,
                "since": START,
                "until": START + np.where(converted >= 0, converted + 0.9, days) * DAY,
            }
        ),
    )
    model = LatentIntent(
        intents=1, activities=1, propensities=1, half_lives=("3D",), shrinkage=0.0, interactions=False
    )
    assert credited(paths, model)["radio"] == pytest.approx(part.sum(), rel=0.03)


@pytest.mark.slow
def test_credits_and_the_unattributed_add_up_to_the_conversions(world):
    credits = attribute(paths_of(world), LatentIntent(**QUICK))
    assert credits["conversions"].sum() == pytest.approx(len(world.conversions), rel=1e-9)
    assert credits["value"].sum() == pytest.approx(world.conversions["value"].sum(), rel=1e-9)
    assert (credits.loc[credits["node_id"].notna(), "conversions"] >= 0).all()


@pytest.mark.slow
def test_intervals_contain_the_estimate_and_widen_with_confidence(world):
    model = LatentIntent(controls=("organic", "direct"), interactions=False, **QUICK)
    narrow, wide = (attribute(paths_of(world), model, confidence=each) for each in (0.5, 0.95))
    paid = ~narrow["node_id"].isin(["organic", "direct"])
    for credits in (narrow, wide):
        assert (credits["low"] <= credits["conversions"]).all()
        assert (credits["conversions"] <= credits["high"]).all()
        assert (credits.loc[credits["node_id"].notna(), "low"] >= 0).all()
    assert (narrow["high"] - narrow["low"] < wide["high"] - wide["low"])[paid].all()
    assert (wide.loc[~paid, ["low", "high"]] == 0).all(axis=None)


@pytest.mark.slow
def test_controls_earn_nothing(world):
    credits = credited(paths_of(world), LatentIntent(controls=("organic", "direct"), **QUICK))
    assert credits[["organic", "direct"]].tolist() == [0.0, 0.0]
    assert credits.drop(["organic", "direct"]).dropna().gt(0).any()


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter(world):
    shuffled = {
        "touchpoints": world.touchpoints.sample(frac=1, random_state=1),
        "conversions": world.conversions.sample(frac=1, random_state=2),
        "users": world.users.sample(frac=1, random_state=3),
    }
    model = LatentIntent(**QUICK)
    first, second = (credited(each, model) for each in (paths_of(world), paths_of(world, **shuffled)))
    pd.testing.assert_series_equal(first.sort_index(), second.sort_index(), rtol=1e-9)


@pytest.mark.slow
def test_names_of_nodes_do_not_matter(world):
    names = {name: f"{name}'s" for name in world.touchpoints["node_id"].unique()}
    renamed = world.touchpoints.assign(node_id=world.touchpoints["node_id"].map(names))
    model = LatentIntent(**QUICK)
    plain, other = (credited(each, model) for each in (paths_of(world), paths_of(world, touchpoints=renamed)))
    for name, new in names.items():
        assert other[new] == pytest.approx(plain[name], rel=1e-9)


@pytest.mark.slow
def test_the_seed_determines_the_sampled_users(world):
    model = {seed: LatentIntent(**(QUICK | {"users": 600, "seed": seed})) for seed in (0, 1)}
    first, again, other = (credited(paths_of(world), model[seed]) for seed in (0, 0, 1))
    assert first.to_dict() == pytest.approx(again.to_dict(), abs=0, nan_ok=True)
    assert not np.allclose(first.sort_index(), other.sort_index())


@pytest.mark.slow
def test_touchpoints_after_the_observation_are_ignored(world):
    late = pd.DataFrame(
        {"user_id": ["u00000001"], "node_id": ["email"], "date": [world.users["until"].max() + DAY]}
    )
    more = pd.concat([world.touchpoints, late], ignore_index=True)
    model = LatentIntent(**QUICK)
    plain, with_late = (
        credited(each, model) for each in (paths_of(world), paths_of(world, touchpoints=more))
    )
    pd.testing.assert_series_equal(plain, with_late, rtol=1e-9)


@pytest.mark.slow
def test_permuted_touchpoints_earn_almost_nothing():
    """Touchpoints are reassigned to random users, so that they cannot have an effect."""
    channels = (Channel("radio", 5, 0.15, direct=1.5), Channel("leaflet", 3, 0.1, direct=1.0))
    world = simulate(Scenario(channels), users=12_000, seed=5)
    until = world.users.set_index("user_id")["until"]
    permuted = np.random.default_rng(1).permutation(world.users["user_id"].to_numpy())
    owner = dict(zip(world.users["user_id"], permuted, strict=True))
    touchpoints = world.touchpoints.assign(user_id=world.touchpoints["user_id"].map(owner))
    touchpoints = touchpoints[touchpoints["date"] < touchpoints["user_id"].map(until)]
    model = LatentIntent(controls=("organic", "direct"), activities=2, propensities=2, evaluations=40)
    plain, by_chance = (
        attribute(paths_of(world, **change), model).dropna(subset=["node_id"])["conversions"].sum()
        for change in ({}, {"touchpoints": touchpoints})
    )
    assert plain > 0.05 * len(world.conversions)
    assert by_chance < 0.02 * len(world.conversions)


@pytest.mark.slow
def test_nodes_that_follow_intent_get_little_credit():
    """A hazard without intent has level 2.4 in this world, and gives brand search 27 % and display 1 %."""
    world = simulate("intent", users=30_000, seed=1)
    truth = world.truth().set_index("node_id")["removal"]
    small = {"activities": 4, "interactions": False, "users": 5_000, "evaluations": 60}
    model = LatentIntent(controls=("organic", "direct"), **small)
    found = credited(paths_of(world), model).reindex(truth.index)
    assert 0.4 < found.sum() / truth.sum() < 1.6
    share = found / found.sum()
    assert share["brand_search"] < 0.12
    assert share["display"] + share["social"] > 0.45
    # They cause 31 %, display and social 61 %.
    assert share["generic_search"] + share["retargeting"] < 0.51


@pytest.mark.parametrize("node_ids", [["a"], ["a", "b", "c"]])
def test_a_handful_of_users_is_enough(node_ids):
    ids = [f"u{number}" for number in range(4)]
    touchpoints = pd.DataFrame(
        {"user_id": ids[: len(node_ids)], "node_id": node_ids, "date": START + DAY / 2}
    )
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u0"], "date": [START + DAY], "value": [9.0]})
    observed = pd.DataFrame({"user_id": ids, "since": START, "until": START + 2 * DAY})
    credits = attribute(Paths.from_frames(touchpoints, conversions, users=observed), "latent_intent")
    assert credits["conversions"].sum() == pytest.approx(1)
    assert credits["conversions"].between(0, 1).all()


def test_nothing_is_credited_if_all_convert_at_once_without_touchpoints():
    ids = ["u0", "u1"]
    touchpoints = pd.DataFrame({"user_id": ["u9"], "node_id": ["a"], "date": [START + DAY / 2]})
    conversions = pd.DataFrame({"event_id": ids, "user_id": ids, "date": START + DAY / 2, "value": 1.0})
    observed = pd.DataFrame({"user_id": [*ids, "u9"], "since": START, "until": START + DAY})
    credits = credited(Paths.from_frames(touchpoints, conversions, users=observed), "latent_intent")
    assert credits.to_dict() == pytest.approx({"a": 0.0, np.nan: 2.0}, nan_ok=True)


@pytest.mark.slow
def test_invalid_nodes_and_missing_conversions_are_refused(world):
    with pytest.raises(InvalidRequest, match="controls: 'organc' is not allowed .did you mean 'organic'"):
        attribute(paths_of(world), LatentIntent(controls=("organc",)))
    with pytest.raises(InvalidRequest, match="followers: 'emial' is not allowed .did you mean 'email'"):
        attribute(paths_of(world), LatentIntent(followers=("emial",)))
    with pytest.raises(InvalidRequest, match="paths: no conversions; an incremental"):
        attribute(paths_of(world, conversions=world.conversions.iloc[:0]), "latent_intent")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"controls": "direct"}, "controls: 'direct' is not allowed"),
        ({"intents": 0}, "intents"),
        ({"activities": 0}, "activities"),
        ({"propensities": 21}, "propensities"),
        ({"half_lives": ()}, "half_lives"),
        ({"memory": "-1D"}, "memory"),
        ({"followers": "retargeting"}, "followers: 'retargeting' is not allowed"),
        ({"shrinkage": -1}, "shrinkage"),
        ({"users": 10}, "users"),
        ({"evaluations": 0}, "evaluations"),
    ],
)
def test_parameters_have_bounds(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        LatentIntent(**arguments)
