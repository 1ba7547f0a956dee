"""The discrete hazard against a likelihood maximised by other means, and its invariances."""

from __future__ import annotations

import itertools
import math
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from support.observed_worlds import DAY, at, paths_of

from attrib_ds import Paths, attribute, simulate
from attrib_ds.attribution.credits.path_credits import touch_shares
from attrib_ds.attribution.incremental.discrete_hazard import (
    HazardSample,
    derivatives,
    fit_logistic,
    probabilities,
)
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.person_periods import activity_at
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest, TruncatedUsers
from attrib_ds.records.frames import TEXT
from attrib_ds.simulation.scenarios import scenario_named

#: Time of day at which users of small examples convert, and at which their other days are evaluated.
BOUGHT = 0.75


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=8_000, seed=3)


def credited(paths, model, **options):
    return attribute(paths, model, **options).set_index("node_id")["conversions"]


def small_frames():
    """Return 60 users over 6 days, some observed late, with two nodes; all convert at the same time of day."""
    random = np.random.default_rng(5)
    users, touches, orders = [], [], []
    for number in range(60):
        name, since = f"u{number:02d}", float(random.integers(0, 2))
        touched = np.sort(random.uniform(0, 6, random.integers(0, 4)))
        nodes = random.choice(["a", "b"], len(touched))
        until = 6.0
        if random.random() < 0.5:
            until = float(random.integers(since, 6)) + BOUGHT
            orders.append((f"e{number}", name, until, float(random.integers(1, 50)), "EUR"))
        touches += [(name, node, when) for node, when in zip(nodes, touched, strict=True) if when <= until]
        users.append((name, since, until, bool(random.random() < 0.5)))
    return users, touches, orders


def frames(users, touches, orders):
    touchpoints = pd.DataFrame(touches, columns=["user_id", "node_id", "date"])
    conversions = pd.DataFrame(orders, columns=["event_id", "user_id", "date", "value", "currency"])
    observed = pd.DataFrame(users, columns=["user_id", "since", "until", "member"])
    for frame, columns in ((touchpoints, ["date"]), (conversions, ["date"]), (observed, ["since", "until"])):
        frame[columns] = frame[columns].apply(at)
    return Paths.from_frames(touchpoints, conversions, users=observed)


def written_out(users, touches, orders, *, half_lives, shrinkage, interactions):
    """Maximise the penalised likelihood over all user-days, then remove the touchpoints of each node."""
    converted = {name: (when, value) for _, name, when, value, _ in orders}
    rows, cases, values = [], [], []
    for name, since, until, member in users:
        for day in range(math.floor(since), math.ceil(until)):
            moment = day + BOUGHT
            if not since <= moment <= until:
                continue
            levels = []
            for node in ("a", "b"):
                for half_life in half_lives:
                    level = sum(
                        2 ** (-(moment - when) / half_life)
                        for user, touched, when in touches
                        if user == name and touched == node and when <= moment
                    )
                    levels.append(math.log1p(level))
            is_case = name in converted and converted[name][0] == moment
            rows.append([float(member), float(day), float(day) ** 2, *levels])
            cases.append(is_case)
            values.append(converted[name][1] if is_case else 0.0)
    matrix, cases, values = np.array(rows), np.array(cases), np.array(values)
    lives = len(half_lives)
    if interactions:
        mean = [matrix[:, 3 + node * lives : 3 + (node + 1) * lives].mean(axis=1) for node in (0, 1)]
        matrix = np.column_stack([matrix, mean[0] * mean[1]])
    spread = matrix[:, :3].std(axis=0)
    plain = (matrix[:, :3] - matrix[:, :3].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    scale = matrix[:, 3:].std(axis=0)
    strength = shrinkage * cases.sum()

    days = matrix[:, 1].astype(int)
    is_day = (days[:, None] == np.arange(days.min(), days.max() + 1)).astype(float)
    end = 4 + is_day.shape[1]

    def chances(beta, effects):
        return 1 / (1 + np.exp(-(beta[0] + plain @ beta[1:4] + is_day @ beta[4:end] + effects @ beta[end:])))

    def loss(beta):
        chance = chances(beta, matrix[:, 3:] / scale)
        likelihood = np.where(cases, np.log(chance), np.log1p(-chance)).sum()
        return -likelihood + strength / 2 * (beta[4:] ** 2).sum()

    beta = minimize(loss, np.zeros(end + matrix.shape[1] - 3), method="BFGS", options={"gtol": 1e-9}).x
    found = {}
    for node, name in enumerate("ab"):
        without = matrix[:, 3:].copy()
        without[:, node * lives : (node + 1) * lives] = 0
        if interactions:
            without[:, -1] = 0
        lost = 1 - chances(beta, without / scale) / chances(beta, matrix[:, 3:] / scale)
        found[name] = (lost[cases].sum(), (lost * values)[cases].sum())
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("interactions", [False, True])
@pytest.mark.parametrize("half_lives", [("2D",), ("1D", "4D")])
def test_credits_equal_those_of_an_explicit_likelihood(half_lives, interactions):
    users, touches, orders = small_frames()
    model = DiscreteHazard(
        half_lives=half_lives, shrinkage=0.05, interactions=interactions, comparisons=10_000
    )
    expected = written_out(
        users,
        touches,
        orders,
        half_lives=[float(each[:-1]) for each in half_lives],
        shrinkage=0.05,
        interactions=interactions,
    )
    credits = attribute(frames(users, touches, orders), model).set_index("node_id")
    for node, (conversions, value) in expected.items():
        assert credits.loc[node, "conversions"] == pytest.approx(conversions, abs=2e-4)
        assert credits.loc[node, "value"] == pytest.approx(value, abs=5e-3)


def test_credits_and_baseline_sum_to_the_conversions(world):
    credits = attribute(
        paths_of(world), ["discrete_hazard", DiscreteHazard(interactions=True, comparisons=5)]
    )
    for _, rows in credits.groupby("model"):
        assert rows["conversions"].sum() == pytest.approx(len(world.conversions), rel=1e-9)
        assert rows["value"].sum() == pytest.approx(world.conversions["value"].sum(), rel=1e-9)
        assert rows["node_id"].isna().sum() == 1


@pytest.mark.large
@pytest.mark.slow
def test_intervals_contain_the_effects_of_channels():
    """Of 32 intervals at 95 % two are expected to miss the true effect, and more than six almost never do."""
    missed = 0
    for seed in range(4):
        world = simulate("random", users=20_000, seed=seed)
        truth = world.truth().set_index("node_id")["removal"]
        rows = attribute(paths_of(world), "discrete_hazard", confidence=0.95).set_index("node_id")
        rows = rows.loc[truth.index]
        missed += int(((truth < rows["low"]) | (truth > rows["high"])).sum())
    assert missed <= 6


@pytest.mark.large
@pytest.mark.slow
def test_permuted_touchpoints_earn_nothing(world):
    """Touchpoints are reassigned to random users, so that they cannot have an effect."""
    missed = 0
    until = world.users.set_index("user_id")["until"]
    for seed in range(4):
        permuted = np.random.default_rng(seed).permutation(world.users["user_id"].to_numpy())
        owner = dict(zip(world.users["user_id"], permuted, strict=True))
        touchpoints = world.touchpoints.assign(user_id=world.touchpoints["user_id"].map(owner))
        touchpoints = touchpoints[touchpoints["date"] < touchpoints["user_id"].map(until)]
        rows = attribute(paths_of(world, touchpoints=touchpoints), "discrete_hazard", confidence=0.95)
        nodes = rows[rows["node_id"].notna()]
        missed += int(((nodes["low"] > 0) | (nodes["high"] < 0)).sum())
        assert abs(nodes["conversions"].sum()) < 0.2 * len(world.conversions)
    assert missed <= 6


@pytest.mark.large
@pytest.mark.slow
def test_the_order_of_rows_does_not_matter(world):
    shuffled = {
        "touchpoints": world.touchpoints.sample(frac=1, random_state=1),
        "conversions": world.conversions.sample(frac=1, random_state=2),
        "users": world.users.sample(frac=1, random_state=3),
    }
    first, second = (
        credited(each, "discrete_hazard") for each in (paths_of(world), paths_of(world, **shuffled))
    )
    pd.testing.assert_series_equal(first.sort_index(), second.sort_index(), rtol=1e-9)


@pytest.mark.large
@pytest.mark.slow
def test_the_seed_determines_the_sampled_periods(world):
    model = {seed: DiscreteHazard(comparisons=2, seed=seed) for seed in (0, 1)}
    first, again, other = (credited(paths_of(world), model[seed]) for seed in (0, 0, 1))
    assert first.to_dict() == pytest.approx(again.to_dict(), abs=0, nan_ok=True)
    assert not np.allclose(first.sort_index(), other.sort_index())


@pytest.mark.large
@pytest.mark.slow
def test_touchpoints_after_the_observation_are_ignored(world):
    last = world.users["until"].max()
    late = pd.DataFrame({"user_id": ["u00000001"], "node_id": ["email"], "date": [last + DAY]})
    more = pd.concat([world.touchpoints, late], ignore_index=True)
    plain, with_late = (
        credited(each, "discrete_hazard") for each in (paths_of(world), paths_of(world, touchpoints=more))
    )
    pd.testing.assert_series_equal(plain, with_late, rtol=1e-9)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:clocks")  # half of the orders come hours before the first touchpoint
def test_touchpoints_after_a_conversion_on_the_same_day_are_ignored():
    users, touches, orders = small_frames()
    late = [(name, "a", when + 0.1) for _, name, when, _, _ in orders]
    # All users are observed to the end of the day, so these touchpoints are inside the observation.
    whole_days = [(name, since, math.ceil(until), member) for name, since, until, member in users]
    plain, with_late = (
        credited(frames(whole_days, each, orders), DiscreteHazard(half_lives=("1h",), comparisons=10_000))
        for each in (touches, touches + late)
    )
    pd.testing.assert_series_equal(plain, with_late, rtol=1e-9)


@pytest.mark.large
@pytest.mark.slow
def test_duplicating_all_users_doubles_the_credit():
    users, touches, orders = small_frames()
    twice = (
        [*users, *((f"x{name}", *rest) for name, *rest in users)],
        [*touches, *((f"x{name}", *rest) for name, *rest in touches)],
        [*orders, *((f"x{event}", f"x{name}", *rest) for event, name, *rest in orders)],
    )
    model = DiscreteHazard(comparisons=10_000)
    once, doubled = (credited(frames(*each), model) for each in ((users, touches, orders), twice))
    pd.testing.assert_series_equal(doubled[once.index], 2 * once, rtol=1e-6)


@pytest.mark.slow
def test_values_times_ten_are_credits_times_ten():
    users, touches, orders = small_frames()
    tenfold = [(*row, 10 * value, currency) for *row, value, currency in orders]
    model = DiscreteHazard(comparisons=10_000)
    plain, larger = (
        attribute(frames(users, touches, each), model).set_index("node_id") for each in (orders, tenfold)
    )
    pd.testing.assert_series_equal(larger["value"], 10 * plain["value"], rtol=1e-9)
    pd.testing.assert_series_equal(larger["conversions"], plain["conversions"])


def test_all_users_convert_in_their_first_period():
    users = [(f"u{number}", 0.0, BOUGHT, True) for number in range(30)]
    orders = [(f"e{number}", f"u{number}", BOUGHT, 1.0, "EUR") for number in range(30)]
    touches = [(f"u{number}", "a", 0.25) for number in range(15)]
    rows = attribute(frames(users, touches, orders), "discrete_hazard", confidence=0.95)
    assert rows["conversions"].sum() == pytest.approx(30)
    assert rows["conversions"].abs().max() == pytest.approx(30, abs=1e-6)


@pytest.mark.large
@pytest.mark.slow
def test_the_block_size_does_not_matter(monkeypatch):
    world = simulate("random", users=2_000, seed=3)
    model = DiscreteHazard(comparisons=10_000)
    whole = credited(paths_of(world), model)
    monkeypatch.setattr("attrib_ds.attribution.incremental.person_periods._MOST_PAIRS", 300)
    monkeypatch.setattr("attrib_ds.attribution.incremental.discrete_hazard._TOGETHER", 100)
    pd.testing.assert_series_equal(credited(paths_of(world), model), whole, rtol=1e-6)


@pytest.mark.large
@pytest.mark.slow
def test_names_of_nodes_do_not_matter(world):
    names = {name: f"{number} > {name}'" for number, name in enumerate(world.touchpoints["node_id"].unique())}
    renamed = world.touchpoints.assign(node_id=world.touchpoints["node_id"].map(names))
    plain, other = (
        credited(each, "discrete_hazard") for each in (paths_of(world), paths_of(world, touchpoints=renamed))
    )
    for name, new in names.items():
        assert other[new] == pytest.approx(plain[name], rel=1e-6)


def without_table(touches, orders):
    touchpoints = pd.DataFrame(touches, columns=["user_id", "node_id", "date"])
    conversions = pd.DataFrame(orders, columns=["event_id", "user_id", "date", "value", "currency"])
    return Paths.from_frames(
        touchpoints.assign(date=at(touchpoints["date"])), conversions.assign(date=at(conversions["date"]))
    )


def test_without_users_everybody_is_observed_from_the_first_touchpoint_to_the_last_date():
    _, touches, orders = small_frames()
    touches = [(name, node, math.floor(when) + 0.5) for name, node, when in touches]
    first = {name: min(when for user, _, when in touches if user == name) for name, _, _ in touches}
    last = max([when for _, _, when in touches] + [when for _, _, when, _, _ in orders])
    is_explained = [name in first and first[name] <= when for _, name, when, _, _ in orders]
    assert 5 < sum(is_explained) < len(orders) - 5
    explained = [order for order, is_kept in zip(orders, is_explained, strict=True) if is_kept]
    observed = [(name, since, last, False) for name, since in first.items()]
    model = DiscreteHazard(half_lives=("2D",), shrinkage=0.05, comparisons=10_000)
    expected = written_out(observed, touches, explained, half_lives=[2.0], shrinkage=0.05, interactions=False)
    rows = attribute(without_table(touches, orders), model).set_index("node_id")
    for node, (conversions, value) in expected.items():
        assert rows.loc[node, "conversions"] == pytest.approx(conversions, abs=2e-4)
        assert rows.loc[node, "value"] == pytest.approx(value, abs=5e-3)
    assert rows["conversions"].sum() == pytest.approx(len(orders))
    assert rows["value"].sum() == pytest.approx(sum(value for *_, value, _ in orders))


def test_conversions_that_no_touchpoint_precedes_are_baseline():
    touches = [("a", "x", 3.0), ("b", "y", 1.0)]
    orders = [("e1", "a", 2.0, 5.0, "EUR"), ("e2", "c", 2.0, 7.0, "EUR"), ("e3", "d", 2.0, 9.0, "USD")]
    rows = attribute(without_table(touches, orders), "discrete_hazard", confidence=0.95)
    assert rows["conversions"].sum() == pytest.approx(3)
    baseline = rows[rows["node_id"].isna()].set_index("currency")
    assert baseline["conversions"].to_dict() == {"EUR": 2.0, "USD": 1.0}
    assert baseline["value"].to_dict() == {"EUR": 12.0, "USD": 9.0}
    assert (rows.loc[rows["node_id"].notna(), ["conversions", "low", "high"]] == 0).all(axis=None)
    one = without_table([("a", "x", 1.0)], [("e", "a", 2.0, 5.0, "EUR"), ("f", "b", 2.0, 7.0, "EUR")])
    assert attribute(one, "discrete_hazard", confidence=0.95)["conversions"].sum() == pytest.approx(2)


def sparse_world(seed, users):
    """Return a world with random exposure in which many users are never touched."""
    scenario = scenario_named("random")
    channels = tuple(
        replace(channel, rate=0.3 * channel.rate, direct=2 * channel.direct) for channel in scenario.channels
    )
    return simulate(replace(scenario, channels=channels), users=users, seed=seed)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("has_table", [False, True], ids=["no table", "truncated table"])
def test_effects_are_right_without_the_users_who_were_never_touched(has_table):
    """Everybody observed from the first date gives -8 % of the truth: the untouched are only buyers."""
    world = sparse_world(11, 60_000)
    truth = world.truth().set_index("node_id")["removal"].iloc[:6].sum()
    seen = world.users["user_id"].isin([*world.touchpoints["user_id"], *world.conversions["user_id"]])
    warned = (
        pytest.warns(TruncatedUsers, match="one row for everybody who could have been reached")
        if has_table
        else nullcontext()
    )
    with warned:
        paths = paths_of(world, users=world.users[seen] if has_table else None)
        found = credited(paths, "discrete_hazard")
    assert found[world.truth()["node_id"].iloc[:6]].sum() == pytest.approx(truth, rel=0.25)
    assert found.sum() == pytest.approx(len(world.conversions))


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_a_truncated_table_is_named_at_the_call(world):
    touched = world.users["user_id"].isin(world.touchpoints["user_id"])
    bought = world.users["user_id"].isin(world.conversions["user_id"])
    model = DiscreteHazard(comparisons=2)
    for users in (world.users[touched], world.users[touched | bought]):
        conversions = world.conversions[world.conversions["user_id"].isin(users["user_id"])]
        with pytest.warns(TruncatedUsers) as caught:
            attribute(paths_of(world, users=users, conversions=conversions), model)
        assert [each.filename for each in caught if each.category is TruncatedUsers] == [__file__]
    # No warning: the table is complete, or begins with the first touchpoints by itself.
    attribute(paths_of(world), model)
    first = world.touchpoints.groupby("user_id")["date"].min()
    since_first = world.users[touched].assign(since=lambda users: users["user_id"].map(first))
    later = world.conversions[world.conversions["user_id"].isin(since_first["user_id"])]
    later = later[later["date"] >= later["user_id"].map(first)]
    attribute(paths_of(world, users=since_first, conversions=later), model)


def test_covariates_are_chosen_by_name_and_categories_split(world):
    cities = pd.Series(list(itertools.islice(itertools.cycle(["Oslo", "Paris", "Rome"]), len(world.users))))
    users = world.users.assign(city=cities.astype(TEXT))
    paths = paths_of(world, users=users)
    assert not np.allclose(
        credited(paths, DiscreteHazard(covariates=("city",))), credited(paths, DiscreteHazard(covariates=()))
    )
    with pytest.raises(InvalidRequest, match="covariates: 'ctiy' is not allowed .did you mean 'city'"):
        attribute(paths, DiscreteHazard(covariates=("ctiy",)))


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", ["number", "fold", "Number", "code"])
def test_a_covariate_may_have_any_name(world, name):
    ages = world.users.assign(age=np.arange(len(world.users)) * 7919 % 50)
    named = ages.rename(columns={"age": name})
    first, second = (
        credited(paths_of(world, users=users), DiscreteHazard(comparisons=2)) for users in (ages, named)
    )
    pd.testing.assert_series_equal(first, second, rtol=1e-9)


@pytest.mark.large
@pytest.mark.slow
def test_gaps_in_text_are_a_category_and_decimals_are_numbers(world):
    few = (np.arange(len(world.users)) % 7).astype(float)
    users = world.users[["user_id", "since", "until"]]
    variants = [
        users.assign(group=pd.Series(few).map({1.0: "a", 2.0: None}).fillna("b").where(few != 2)),
        users.assign(group=pd.Series(few).map({1.0: "a", 2.0: "c"}).fillna("b")),
        users.assign(amount=[Decimal(int(each)) for each in few]),
        users.assign(amount=few),
    ]
    found = [credited(paths_of(world, users=each), DiscreteHazard(comparisons=2)) for each in variants]
    pd.testing.assert_series_equal(found[0], found[1], rtol=1e-6)
    pd.testing.assert_series_equal(found[2], found[3], rtol=1e-9)


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": lambda users: users.iloc[:100]}, "users: .* conversions are of users who are not among"),
        (
            {"users": lambda users: users.assign(until=users["since"] - DAY)},
            "users: 8,000 observations end before they begin, for example 'u0",
        ),
        (
            {"users": lambda users: users.assign(mail=users["user_id"])},
            "users: the covariate 'mail' has 8,000 different values; allowed: up to 100",
        ),
        (
            {"users": lambda users: users.assign(joined=users["since"])},
            "users: the covariate 'joined' is of the type timestamp.*allowed: numbers, flags and text",
        ),
        (
            {"users": lambda users: users.assign(until=users["since"] + DAY / 100)},
            "lie outside the observation",
        ),
        ({"users": lambda users: users.assign(age=np.nan)}, "the covariate 'age' has missing"),
        ({"conversions": lambda rows: rows.iloc[:0]}, "paths: no conversions; an incremental"),
    ],
)
def test_inconsistent_observations_are_refused(world, change, message):
    given = {name: make(getattr(world, name)) for name, make in change.items()}
    with pytest.raises(InvalidRequest, match=message):
        attribute(paths_of(world, **given), "discrete_hazard")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"half_lives": ()}, "half_lives"),
        ({"half_lives": "3D"}, "half_lives: '3D' is not allowed"),
        ({"half_lives": ("x",)}, "half_lives"),
        ({"step": "-1D"}, "step"),
        ({"shrinkage": -1}, "shrinkage"),
        ({"comparisons": 0}, "comparisons"),
    ],
)
def test_parameters_have_bounds(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        DiscreteHazard(**arguments)


def test_aggregated_paths_are_refused():
    sequences = pd.DataFrame({"path": ["a > b"], "n": [3]})
    with pytest.raises(InvalidRequest, match="needs the dates of touchpoints"):
        attribute(Paths.from_sequences(sequences, path="path", conversions="n"), "discrete_hazard")


def test_too_many_pairs_are_refused():
    names = [f"n{number}" for number in range(21)]
    touchpoints = pd.DataFrame({"user_id": ["u"] * 21, "node_id": names, "date": at(pd.Series(range(21)))})
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [at(22)], "value": [1.0]})
    with pytest.raises(InvalidRequest, match="interactions: 21 nodes have 210 pairs; allowed: up to 20"):
        attribute(Paths.from_frames(touchpoints, conversions), DiscreteHazard(interactions=True))


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_the_gradient_vanishes_and_expected_conversions_equal_observed_ones(left_out):
    """With a few hundred conversions and uneven exposure, full Newton steps diverge for the first fold."""
    world = simulate("intent", users=6_000, seed=7)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    model = DiscreteHazard(half_lives=("3D",))
    sequences = Sequences.of(paths, folds=3)
    sample = HazardSample.of(model, sequences)
    periods, design = sample.periods, sample.design
    rows = np.flatnonzero(sample.histories.fold[periods.user] != left_out)
    outcome, weight = periods.is_case[rows], periods.weight[rows]
    penalty = design.penalty(model.shrinkage * outcome.sum())
    found, _ = fit_logistic(design.at(rows), outcome, weight, penalty=penalty)
    _, gradient, _ = derivatives(design.at(rows), outcome, weight, found, np.arange(len(rows)))
    assert np.abs(gradient - penalty * found).max() < 1e-3
    # The intercept is not penalised, so at the maximum expected and observed numbers are equal.
    assert probabilities(design.rows(rows) @ found) @ weight == pytest.approx(outcome.sum(), rel=1e-4)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        DiscreteHazard(),
        DiscreteHazard(interactions=True, comparisons=5),
    ],
)
def test_credits_of_touchpoints_sum_to_those_of_their_nodes(world, model):
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    shares = touch_shares(model, Sequences.of(paths)).to_pandas()
    valued = shares.merge(world.conversions[["event_id", "value"]], on="event_id")
    valued["value"] *= valued["share"]
    summed = valued.groupby("node_id")[["share", "value"]].sum()
    credits = attribute(paths, model).set_index("node_id")
    for node in world.touchpoints["node_id"].unique():
        found = summed.loc[node] if node in summed.index else pd.Series({"share": 0.0, "value": 0.0})
        assert found["share"] == pytest.approx(credits.loc[node, "conversions"], rel=1e-9, abs=1e-9)
        assert found["value"] == pytest.approx(credits.loc[node, "value"], rel=1e-9, abs=1e-7)


@pytest.mark.slow
def test_credit_of_a_node_is_divided_by_decay():
    """With a half-life of a day, touchpoints 1, 2 and 4 days old weigh 1/2, 1/4 and 1/16."""
    days = pd.Series([0.0, 2.0, 3.0, 1.0])
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u", "u", "u", "v"],
            "node_id": ["a", "a", "a", "a"],
            "touch_id": ["t4", "t2", "t1", "other"],
            "date": at(0) + pd.to_timedelta(days, unit="D"),
        }
    )
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [at(0) + pd.Timedelta(days=4)]})
    users = pd.DataFrame({"user_id": ["u", "v", "w"], "since": at(0), "until": at(0) + pd.Timedelta(days=4)})
    paths = Paths.from_frames(touchpoints, conversions, users=users, columns={"touch": "touch_id"})
    model = DiscreteHazard(half_lives=("1D",), covariates=())
    shares = touch_shares(model, Sequences.of(paths)).to_pandas().set_index("touch_id")["share"]
    whole = attribute(paths, model).set_index("node_id").loc["a", "conversions"]
    assert whole != 0
    expected = {"t1": 8 / 13, "t2": 4 / 13, "t4": 1 / 13}
    assert (shares / whole).to_dict() == pytest.approx(expected, rel=1e-9)


def test_touchpoints_that_have_decayed_to_zero_share_equally():
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u", "u"],
            "node_id": ["a", "a"],
            "touch_id": ["t1", "t2"],
            "date": [at(0), at(0) + pd.Timedelta(hours=1)],
        }
    )
    late = at(0) + pd.Timedelta(days=300)
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [late]})
    users = pd.DataFrame({"user_id": ["u", "v"], "since": at(0), "until": late})
    paths = Paths.from_frames(touchpoints, conversions, users=users, columns={"touch": "touch_id"})
    shares = touch_shares(DiscreteHazard(half_lives=("1h",), covariates=()), Sequences.of(paths)).to_pandas()
    assert shares["share"].nunique() <= 1


def test_activity_is_the_expected_rate_of_touchpoints_so_far():
    # Two users, ten days each: 8 and no touchpoints, so the rate is 0.4 a day. The second moment of counts is
    # 8 * 7 = 56, against 0.4 ** 2 * 200 = 32 if rates were equal: an excess variance of 0.75.
    touch_time = np.arange(1.0, 9.0)
    histories = Histories(
        since=np.zeros(2), until=np.full(2, 10.0), covariates=np.zeros((2, 0)), fold=np.zeros(2, int),
        touch_user=np.zeros(8, int), touch_node=np.arange(8) % 2, touch_time=touch_time,
        event_user=np.zeros(0, int), event_time=np.zeros(0), event_currency=np.zeros(0, int),
        event_number=np.zeros(0, int), conversions=np.zeros(0), value=np.zeros(0), currencies=["EUR"],
    )  # fmt: skip
    found = activity_at(histories, np.array([0, 0, 0, 1]), np.array([0.0, 4.0, 9.5, 4.0]))
    expected = [
        (1 + 0.75 * so_far) / (1 + 0.75 * 0.4 * day) for so_far, day in [(0, 0), (4, 4), (8, 9.5), (0, 4)]
    ]
    assert np.exp(found).tolist() == pytest.approx(expected)


def test_users_with_equal_rates_are_equally_active():
    # One touchpoint each: less variance than chance gives.
    users = np.arange(50)
    histories = Histories(
        since=np.zeros(50), until=np.full(50, 10.0), covariates=np.zeros((50, 0)), fold=np.zeros(50, int),
        touch_user=users, touch_node=np.zeros(50, int), touch_time=np.linspace(1, 9, 50),
        event_user=np.zeros(0, int), event_time=np.zeros(0), event_currency=np.zeros(0, int),
        event_number=np.zeros(0, int), conversions=np.zeros(0), value=np.zeros(0), currencies=["EUR"],
    )  # fmt: skip
    assert not activity_at(histories, users, np.full(50, 9.5)).any()


@pytest.mark.large
@pytest.mark.slow
def test_active_users_who_buy_more_are_no_effect_of_what_they_meet():
    # Activity, which differs much, raises touchpoints and conversions alike; touchpoints cause nothing.
    random = np.random.default_rng(8)
    users, days = 12_000, 30
    activity = random.gamma(0.7, 1 / 0.7, users)
    touches, orders = [], []
    bought = np.full(users, np.inf)
    for day in range(days):
        buys = (random.random(users) < 0.004 * np.sqrt(activity)) & np.isinf(bought)
        bought[buys] = day + 0.9
        for node in ("ad", "mail", "direct"):
            reached = np.flatnonzero((random.random(users) < 0.06 * activity) & (bought > day))
            touches += [(f"u{user}", node, day + 0.8 * random.random()) for user in reached]
    orders = [(f"e{user}", f"u{user}", bought[user], 1.0, "EUR") for user in np.flatnonzero(bought < days)]
    listed = [(f"u{user}", 0.0, min(bought[user], 30.0), False) for user in range(users)]
    paths = frames(listed, touches, orders)
    sums = [
        credited(paths, DiscreteHazard(activity=is_on))[["ad", "mail", "direct"]].sum()
        for is_on in (True, False)
    ]
    assert abs(sums[0]) < 0.15 * len(orders)
    assert sums[1] > 0.25 * len(orders)
