"""The additive hazard against a likelihood written out and maximised by other means, and its laws."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from support.observed_worlds import DAY, at, paths_of

from attrib_ds import AdditiveHazard, Paths, attribute, simulate
from attrib_ds.errors import InvalidRequest


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=8_000, seed=3)


def credited(paths, model="additive_hazard", column="conversions"):
    return attribute(paths, model).set_index("node_id")[column]


def small_frames():
    """Return 40 users over six days, with two nodes, touchpoints before observations and several orders."""
    random = np.random.default_rng(8)
    users, touches, orders = [], [], []
    for number in range(40):
        name = f"u{number:02d}"
        since = float(random.integers(0, 3)) + 0.25
        until = float(random.uniform(since + 1, 6))
        for node, when in zip(random.choice(["a", "b"], 4), np.sort(random.uniform(0, 6, 4)), strict=True):
            if random.random() < 0.6:
                touches.append((name, node, float(when)))
        after = [when for user, _, when in touches if user == name and since <= when < until - 0.5]
        for index in range(random.integers(0, 3)):
            # Most follow a touchpoint within hours.
            start, end = (after[-1], after[-1] + 0.5) if after and random.random() < 0.7 else (since, until)
            when = float(random.uniform(start, end))
            currency = "EUR" if random.random() < 0.7 else "USD"
            orders.append((f"e{number}-{index}", name, when, float(random.integers(1, 50)), currency))
        users.append((name, since, until, bool(random.random() < 0.5)))
    return users, touches, orders


def frames(users, touches, orders):
    touchpoints = pd.DataFrame(touches, columns=["user_id", "node_id", "date"])
    conversions = pd.DataFrame(orders, columns=["event_id", "user_id", "date", "value", "currency"])
    observed = pd.DataFrame(users, columns=["user_id", "since", "until", "member"])
    for frame, columns in ((touchpoints, ["date"]), (conversions, ["date"]), (observed, ["since", "until"])):
        frame[columns] = frame[columns].apply(at)
    return Paths.from_frames(touchpoints, conversions, users=observed)


def written_out(users, touches, orders, *, half_lives, periods, times_of_day, has_pair):
    """Maximise the likelihood with numerical integrals, one user at a time."""
    first, last = min(user[1] for user in users), max(user[2] for user in users)
    bounds = np.linspace(first, last, periods + 1)
    often = np.bincount(
        [int(when % 1 * times_of_day) for _, _, when, _, _ in orders], minlength=times_of_day
    ) * (times_of_day / len(orders))
    middle = sorted(half_lives)[len(half_lives) // 2]

    def left(name, node, half_life, moment):
        return sum(
            2 ** (-(moment - when) / half_life)
            for user, touched, when in touches
            if user == name and touched == node and when <= moment
        )

    def columns(name, moment):
        found = [left(name, node, half_life, moment) for node in "ab" for half_life in half_lives]
        if has_pair:
            found.append(left(name, "a", middle, moment) * left(name, "b", middle, moment))
        return found

    def cell(member, moment):
        return int(member) * periods + min(
            int(np.searchsorted(bounds[1:-1], moment, side="right")), periods - 1
        )

    width = 2 * len(half_lives) + has_pair
    integrals, days = np.zeros(width), np.zeros(2 * periods)
    steps = np.arange(math.ceil(last * times_of_day) + 1) / times_of_day
    for name, since, until, member in users:
        jumps = [when for user, _, when in touches if user == name]
        cuts = sorted({since, until, *(each for each in (*steps, *bounds, *jumps) if since < each < until)})
        for begin, end in pairwise(cuts):
            inside = (begin + end) / 2
            weight = often[int(inside % 1 * times_of_day)]
            days[cell(member, inside)] += weight * (end - begin)
            for column in range(width):
                integrals[column] += (
                    weight * quad(lambda s, c=column, u=name: columns(u, s)[c], begin, end)[0]
                )
    members = {name: member for name, _, _, member in users}
    at_orders = np.array([columns(name, when) for _, name, when, _, _ in orders])
    cells = np.array([cell(members[name], when) for _, name, when, _, _ in orders])

    def loss(rates):
        rate = rates[cells] + at_orders @ rates[2 * periods :]
        gradient = np.concatenate([days, integrals])
        gradient = gradient - np.concatenate(
            [np.bincount(cells, 1 / rate, minlength=2 * periods), at_orders.T @ (1 / rate)]
        )
        return rates[: 2 * periods] @ days + rates[2 * periods :] @ integrals - np.log(rate).sum(), gradient

    start = np.full(2 * periods + width, 0.1)
    best = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(1e-12, None)] * len(start),
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5_000, "maxfun": 50_000},
    ).x
    parts = at_orders * best[2 * periods :]
    parts /= (best[cells] + parts.sum(axis=1))[:, None]
    lives = len(half_lives)
    of_node = np.stack([parts[:, :lives].sum(axis=1), parts[:, lives : 2 * lives].sum(axis=1)], axis=1)
    if has_pair:
        of_node += parts[:, -1:] / 2
    return of_node


@pytest.mark.parametrize(
    ("half_lives", "periods", "times_of_day", "has_pair"),
    [
        (("2D",), 1, 1, False),
        (("1D", "4D"), 2, 4, False),
        (("1D", "2D", "4D"), 1, 3, True),
        (("2D",), 2, 1, True),
    ],
)
def test_credits_are_those_of_a_likelihood_written_out(half_lives, periods, times_of_day, has_pair):
    users, touches, orders = small_frames()
    expected = written_out(
        users,
        touches,
        orders,
        half_lives=[float(each[:-1]) for each in half_lives],
        periods=periods,
        times_of_day=times_of_day,
        has_pair=has_pair,
    )
    model = AdditiveHazard(
        half_lives=half_lives, periods=periods, times_of_day=times_of_day, interactions=has_pair
    )
    credits = attribute(frames(users, touches, orders), model).set_index(["node_id", "currency"])
    values = np.array([order[3] for order in orders])
    for number, node in enumerate("ab"):
        for currency in ("EUR", "USD"):
            here = np.array([order[4] == currency for order in orders])
            found = credits.loc[(node, currency)]
            assert found["conversions"] == pytest.approx(expected[here, number].sum(), abs=2e-5)
            assert found["value"] == pytest.approx((expected[:, number] * values)[here].sum(), abs=2e-3)
    assert expected.sum() > 1


def test_one_touchpoint_by_hand():
    """Two users for two days, one touched at the start, both buy at the end; a half-life of one day.

    At the end 1/4 of the touchpoint is left, and its integral is (1 - 1/4) / ln 2 = 1.0820. With the rate m
    of the baseline and b of the node, the likelihood is log(m + b / 4) + log(m) - 4 m - 1.0820 b. It falls
    with b at b = 0 and m = 1/2, because 1/4 / (1/2) < 1.0820: the node has nothing.
    """
    users = [("u", 0.0, 2.0, True), ("v", 0.0, 2.0, True)]
    orders = [("e", "u", 2.0, 10.0, "EUR"), ("f", "v", 2.0, 10.0, "EUR")]
    model = AdditiveHazard(half_lives=("1D",), periods=1, times_of_day=1)
    assert credited(frames(users, [("u", "a", 0.0)], orders), model)["a"] == pytest.approx(0, abs=1e-9)
    # Touched an hour before: 2 ** (-1/24) is left, and was at work for an hour. Then 1/(m + 0.9715 b) +
    # 1/m = 4 and 0.9715 / (m + 0.9715 b) = 0.041072: m + 0.9715 b = 23.654, so m = 1 / 3.95772 = 0.252671
    # and the node has 1 - 0.252671 / 23.654 = 0.989318.
    found = credited(frames(users, [("u", "a", 2 - 1 / 24)], orders), model)
    assert found["a"] == pytest.approx(0.989318, abs=2e-5)


def test_what_is_at_work_fades_by_the_time_of_day_at_which_people_convert():
    """Everybody is touched in the morning and buys in the evening, at random days: nothing was caused."""
    random = np.random.default_rng(2)
    users, touches, orders = [], [], []
    for number in range(1_500):
        name, until = f"u{number}", 20.0
        if random.random() < 0.6:
            until = float(random.integers(0, 20)) + 0.9
            orders.append((f"e{number}", name, until, 1.0, "EUR"))
        touches += [
            (name, "a", day + 0.85) for day in np.flatnonzero(random.random(20) < 0.3) if day + 0.85 < until
        ]
        users.append((name, 0.0, until, True))
    paths = frames(users, touches, orders)
    hourly, never = (
        credited(paths, AdditiveHazard(half_lives=("6h",), times_of_day=parts))["a"] for parts in (96, 1)
    )
    assert hourly < 0.05 * len(orders)
    assert never > 0.15 * len(orders)


def test_credits_and_the_baseline_add_up_and_none_is_negative(world):
    for model in (AdditiveHazard(), AdditiveHazard(interactions=True, half_lives=("2D",))):
        rows = attribute(paths_of(world), model, confidence=0.9)
        assert rows["conversions"].sum() == pytest.approx(len(world.conversions), rel=1e-9)
        assert rows["value"].sum() == pytest.approx(world.conversions["value"].sum(), rel=1e-9)
        assert rows["node_id"].isna().sum() == 1
        assert (rows["conversions"] >= 0).all()
        assert (rows["low"] <= rows["conversions"]).all()


def test_what_channels_caused_is_within_the_intervals():
    missed = 0
    for seed in range(3):
        world = simulate("random", users=20_000, seed=seed)
        truth = world.truth().set_index("node_id")["removal"]
        rows = (
            attribute(paths_of(world), "additive_hazard", confidence=0.95)
            .set_index("node_id")
            .loc[truth.index]
        )
        missed += int(((truth < rows["low"]) | (truth > rows["high"])).sum())
    assert missed <= 5


def test_a_node_at_zero_is_not_known_exactly():
    world = simulate("random", users=6_000, seed=3)
    rows = attribute(paths_of(world), "additive_hazard", confidence=0.95)
    nothing = rows[rows["conversions"] == 0]
    assert len(nothing)
    assert (nothing["low"] == 0).all()
    # None where none was seen: up to 3.69 at least, by the exact bound of a Poisson number.
    assert (nothing["high"] > 3.68).all()
    # What the baseline explains as well is less certain than that.
    assert nothing["high"].max() > 10
    assert (nothing["high"] < 0.5 * len(world.conversions)).all()
    assert (nothing["value_high"] > 3.68 * world.conversions["value"].mean()).all()


def test_what_was_never_at_work_at_a_conversion_has_the_bound_of_none():
    users = [(f"u{number}", 0.0, 20.0, True) for number in range(40)]
    touches = [(f"u{number}", "a", 1.0) for number in range(20)]
    orders = [(f"e{number}", f"u{number}", 5.0, 10.0, "EUR") for number in range(20, 40)]
    rows = attribute(frames(users, touches, orders), "additive_hazard", confidence=0.95)
    a = rows.set_index("node_id").loc["a"]
    assert (a["conversions"], a["low"]) == (0.0, 0.0)
    # -log(0.025), by a variance of twenty groups a little more: (2.093 / 1.96) ** 2.
    assert a["high"] == pytest.approx(3.6889 * (2.093024 / 1.959964) ** 2, rel=1e-4)
    assert a["value_high"] == pytest.approx(10 * a["high"])


def test_conversions_dealt_out_at_random_among_like_users_earn_hardly_anything():
    world = simulate("random", users=20_000, seed=5)
    dealt = world.users["user_id"].copy()
    for _, like in world.users.groupby("trait"):
        dealt[like.index] = np.random.default_rng(1).permutation(like["user_id"].to_numpy())
    owner = dict(zip(world.users["user_id"], dealt, strict=True))
    touchpoints = world.touchpoints.assign(user_id=world.touchpoints["user_id"].map(owner))
    until = world.users.set_index("user_id")["until"]
    touchpoints = touchpoints[touchpoints["date"] < touchpoints["user_id"].map(until)]
    rows = attribute(paths_of(world, touchpoints=touchpoints), "additive_hazard", confidence=0.95)
    nodes = rows[rows["node_id"].notna()]
    # Credits cannot be negative, so chance adds up to something.
    assert nodes["conversions"].sum() < 0.15 * len(world.conversions)
    assert (nodes["low"] > 0).sum() <= 1


def test_without_exposure_all_is_the_baseline():
    users = [("u", 0.0, 2.0, True), ("v", 0.0, 3.0, False)]
    late = [("v", "a", 5.0)]
    rows = attribute(frames(users, late, [("e", "u", 1.0, 7.0, "EUR")]), "additive_hazard", confidence=0.95)
    assert rows["node_id"].isna().all()
    assert rows["conversions"].tolist() == [1.0]
    assert rows["value"].tolist() == [7.0]


def test_a_single_user_who_converts_at_once():
    rows = attribute(
        frames([("u", 0.0, 0.0, True)], [("u", "a", 0.0)], [("e", "u", 0.0, 7.0, "EUR")]), "additive_hazard"
    )
    assert rows["conversions"].sum() == pytest.approx(1.0)
    assert (rows["conversions"] >= 0).all()


def test_everybody_converts_on_the_first_day():
    users = [(f"u{number}", 0.0, 0.5, True) for number in range(30)]
    orders = [(f"e{number}", f"u{number}", 0.5, 1.0, "EUR") for number in range(30)]
    touches = [(f"u{number}", "a", 0.25) for number in range(15)]
    rows = attribute(frames(users, touches, orders), "additive_hazard", confidence=0.95)
    assert rows["conversions"].sum() == pytest.approx(30)
    assert rows[["conversions", "low", "high"]].notna().all().all()


def test_everything_twice_is_twice_the_credit(world):
    twice = {
        "touchpoints": pd.concat(
            [world.touchpoints, world.touchpoints.assign(user_id="x" + world.touchpoints["user_id"])]
        ),
        "conversions": pd.concat(
            [
                world.conversions,
                world.conversions.assign(
                    user_id="x" + world.conversions["user_id"], event_id="x" + world.conversions["event_id"]
                ),
            ]
        ),
        "users": pd.concat([world.users, world.users.assign(user_id="x" + world.users["user_id"])]),
    }
    once, doubled = credited(paths_of(world)), credited(paths_of(world, **twice))
    pd.testing.assert_series_equal(doubled[once.index], 2 * once, rtol=1e-6, atol=1e-6)


def test_values_times_ten_are_credits_times_ten(world):
    dearer = world.conversions.assign(value=10 * world.conversions["value"])
    plain, other = (
        credited(each, column="value") for each in (paths_of(world), paths_of(world, conversions=dearer))
    )
    pd.testing.assert_series_equal(other[plain.index], 10 * plain, rtol=1e-9)


def test_names_and_the_order_of_rows_change_nothing(world):
    names = {
        name: f"{9 - number} {name}"
        for number, name in enumerate(sorted(world.touchpoints["node_id"].unique()))
    }
    changed = {
        "touchpoints": world.touchpoints.sample(frac=1, random_state=1).assign(
            node_id=lambda rows: rows["node_id"].map(names)
        ),
        "conversions": world.conversions.sample(frac=1, random_state=2),
        "users": world.users.sample(frac=1, random_state=3),
    }
    model = AdditiveHazard(interactions=(("display", "email"),))
    other_model = AdditiveHazard(interactions=((names["email"], names["display"]),))
    plain, other = credited(paths_of(world), model), credited(paths_of(world, **changed), other_model)
    for name, new in names.items():
        assert other[new] == pytest.approx(plain[name], rel=1e-6, abs=1e-6)


def test_touchpoints_after_the_observation_change_nothing(world):
    buyer = world.conversions.iloc[0]
    late = pd.DataFrame(
        {"user_id": [buyer["user_id"]], "node_id": ["email"], "date": [buyer["date"] + DAY / 24]}
    )
    more = pd.concat([world.touchpoints, late], ignore_index=True)
    plain, with_late = credited(paths_of(world)), credited(paths_of(world, touchpoints=more))
    pd.testing.assert_series_equal(plain, with_late, rtol=1e-9)


def test_strata_are_chosen_by_name(world):
    users = world.users.assign(city=["Oslo", "Paris"] * (len(world.users) // 2))
    paths = paths_of(world, users=users)
    by_city, plain = (
        credited(paths, AdditiveHazard(strata=("city",))),
        credited(paths, AdditiveHazard(strata=())),
    )
    assert not np.allclose(by_city, plain[by_city.index])
    with pytest.raises(InvalidRequest, match="strata: 'ctiy' is not allowed .did you mean 'city'"):
        attribute(paths, AdditiveHazard(strata=("ctiy",)))


def test_a_baseline_for_every_user_is_refused(world):
    paths = paths_of(world, users=world.users.assign(mail=world.users["user_id"]))
    with pytest.raises(InvalidRequest, match="strata: users are in .* strata .*; allowed: up to 100 with"):
        attribute(paths, "additive_hazard")
    assert credited(paths, AdditiveHazard(strata=())).sum() == pytest.approx(len(world.conversions))


def test_observations_that_end_before_they_begin_are_refused(world):
    paths = paths_of(world, users=world.users.assign(until=world.users["since"] - DAY))
    with pytest.raises(InvalidRequest, match="observations end before they begin, for example that of 'u0"):
        attribute(paths, "additive_hazard")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"users": lambda users: users.iloc[:100]}, "users: .* conversions are of users who are not among"),
        (
            {"users": lambda users: users.assign(until=users["since"] + DAY / 100)},
            "lie outside the observation",
        ),
        ({"conversions": lambda rows: rows.iloc[:0]}, "paths: there is no conversion"),
    ],
)
def test_observations_that_do_not_fit_are_told(world, change, told):
    given = {name: make(getattr(world, name)) for name, make in change.items()}
    with pytest.raises(InvalidRequest, match=told):
        attribute(paths_of(world, **given), "additive_hazard")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"half_lives": ()}, "half_lives"),
        ({"periods": 0}, "periods"),
        ({"times_of_day": 100}, "times_of_day: 100 is not allowed"),
        ({"interactions": "all"}, "interactions: 'all' is not allowed"),
        ({"interactions": (("a", "a"),)}, "pairs of two nodes"),
        ({"strata": "member"}, "strata: 'member' is not allowed"),
    ],
)
def test_parameters_have_bounds(arguments, told):
    with pytest.raises(InvalidRequest, match=told):
        AdditiveHazard(**arguments)


def test_pairs_of_unknown_nodes_and_too_many_pairs_are_refused(world):
    with pytest.raises(InvalidRequest, match="interactions: 'radio' is not allowed"):
        attribute(paths_of(world), AdditiveHazard(interactions=(("email", "radio"),)))
    names = [f"n{number}" for number in range(21)]
    touches = [("u", name, float(number)) for number, name in enumerate(names)]
    paths = frames([("u", 0.0, 30.0, True)], touches, [("e", "u", 22.0, 1.0, "EUR")])
    with pytest.raises(InvalidRequest, match="interactions: 21 nodes have 210 pairs; allowed: up to 190"):
        attribute(paths, AdditiveHazard(interactions=True))


def test_pairs_over_times_too_long_for_their_half_life_are_refused():
    touches = [("u", "a", 0.0), ("u", "b", 60.0)]
    paths = frames([("u", 0.0, 90.0, True)], touches, [("e", "u", 70.0, 1.0, "EUR")])
    with pytest.raises(InvalidRequest, match="half_lives: touchpoints of one user are 1440 times"):
        attribute(paths, AdditiveHazard(half_lives=("1h",), interactions=True))


def test_aggregated_paths_are_refused():
    sequences = pd.DataFrame({"path": ["a > b"], "n": [3]})
    with pytest.raises(InvalidRequest, match="needs the dates of touchpoints"):
        attribute(Paths.from_sequences(sequences, path="path", conversions="n"), "additive_hazard")
