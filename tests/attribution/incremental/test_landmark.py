"""The landmark estimate against differences of shares computed by hand, and its laws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.observed_worlds import at, paths_of

from attrib_ds import Landmark, Paths, attribute, simulate
from attrib_ds.errors import InvalidRequest


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=4_000, seed=3)


def frames(users, touches, orders):
    touchpoints = pd.DataFrame(touches, columns=["user_id", "node_id", "date"])
    conversions = pd.DataFrame(orders, columns=["event_id", "user_id", "date", "value", "currency"])
    observed = pd.DataFrame(users, columns=["user_id", "since", "until", "member"])
    for frame, columns in ((touchpoints, ["date"]), (conversions, ["date"]), (observed, ["since", "until"])):
        frame[columns] = frame[columns].apply(at)
    return Paths.from_frames(touchpoints, conversions, users=observed)


def credited(paths, model, column="conversions"):
    return attribute(paths, model).set_index("node_id")[column]


#: Members and others, touched and not: how many users, and how many of them convert within the day.
COUNTS = {
    (True, True): (10, 6),
    (True, False): (10, 3),
    (False, True): (10, 2),
    (False, False): (30, 3),
}


def one_day():
    users, touches, orders = [], [], []
    for (member, is_touched), (count, buyers) in COUNTS.items():
        for number in range(count):
            name = f"{member}-{is_touched}-{number:02d}"
            users.append((name, 0.0, 1.0, member))
            if is_touched:
                touches.append((name, "a", 0.125))
            if number < buyers:
                orders.append((f"e-{name}", name, 0.5, 20.0, "EUR" if member else "USD"))
    return users, touches, orders


def test_like_is_compared_with_like():
    """Of 20 touched 8 convert, of 40 others 6: 20 (8/20 - 6/40) = 5 more.

    Members convert more often and are touched more often. Among them 10 (6/10 - 3/10) = 3 more, among the
    others 10 (2/10 - 3/30) = 1 more: 4 in all. The regressions have a parameter for each of the two groups,
    so they give these shares. Expected conversions are divided among currencies by the shares of those who
    were not touched, half and half here, and what the touched and those compared with differ by is zero.
    """
    paths = frames(*one_day())
    blind = attribute(paths, Landmark(shrinkage=0, covariates=()))
    known = attribute(paths, Landmark(shrinkage=0))
    of_blind, of_known = (rows[rows["node_id"] == "a"] for rows in (blind, known))
    assert of_blind["conversions"].sum() == pytest.approx(5, abs=1e-6)
    assert of_known["conversions"].sum() == pytest.approx(4, abs=1e-6)
    assert of_known.set_index("currency")["conversions"].to_dict() == pytest.approx(
        {"EUR": 3, "USD": 1}, abs=1e-6
    )
    assert of_known.set_index("currency")["value"].to_dict() == pytest.approx(
        {"EUR": 60, "USD": 20}, abs=1e-5
    )
    assert known["conversions"].sum() == pytest.approx(14)


def test_one_right_regression_is_enough(monkeypatch):
    """With equal odds for all, expected conversions alone tell members from others: 4 as before, not 5."""
    monkeypatch.setattr("attrib_ds.attribution.incremental.landmark._GREATEST_ODDS", 1e-3)
    rows = attribute(frames(*one_day()), Landmark(shrinkage=0))
    assert rows.loc[rows["node_id"] == "a", "conversions"].sum() == pytest.approx(4, abs=1e-6)


def test_a_touchpoint_after_the_conversion_of_its_day_changes_nothing():
    users, touches, orders = one_day()
    late = [(name, "a", 0.75) for name, _, _, _ in users if f"e-{name}" in {order[0] for order in orders}]
    plain, more = (credited(frames(users, each, orders), "landmark") for each in (touches, touches + late))
    assert more["a"].tolist() == pytest.approx(plain["a"].tolist(), abs=1e-9)


def test_conversions_after_the_window_do_not_count():
    users = [(f"u{number}", 0.0, 6.0, False) for number in range(60)]
    touches = [(f"u{number}", "a", 0.125) for number in range(0, 60, 2)]
    orders = [
        (f"e{number}", f"u{number}", 3.5, 1.0, "EUR") for number in (*range(0, 60, 3), *range(0, 60, 4))
    ]
    orders = list({order[0]: order for order in orders}.values())
    short, long = (
        credited(frames(users, touches, orders), Landmark(window=each))["a"] for each in ("2D", "4D")
    )
    # Of 30 touched 20 convert, of 30 others 10.
    assert short == pytest.approx(0, abs=1e-3)
    assert long == pytest.approx(10, abs=1)


def test_credits_and_what_is_nobodys_add_up_to_the_conversions(world):
    rows = attribute(paths_of(world), "landmark", confidence=0.9)
    assert rows["conversions"].sum() == pytest.approx(len(world.conversions), rel=1e-9)
    assert rows["value"].sum() == pytest.approx(world.conversions["value"].sum(), rel=1e-9)
    assert rows[["low", "high", "value_low", "value_high"]].notna().all().all()


def test_what_channels_caused_is_within_the_intervals():
    missed = 0
    for seed in range(2):
        world = simulate("random", users=15_000, seed=seed)
        truth = world.truth().set_index("node_id")["removal"]
        rows = attribute(paths_of(world), "landmark", confidence=0.95).set_index("node_id").loc[truth.index]
        missed += int(((truth < rows["low"]) | (truth > rows["high"])).sum())
    assert missed <= 4


def test_labels_given_at_random_earn_nothing():
    world = simulate("random", users=15_000, seed=5)
    dealt = np.random.default_rng(1).permutation(world.users["user_id"].to_numpy())
    owner = dict(zip(world.users["user_id"], dealt, strict=True))
    touchpoints = world.touchpoints.assign(user_id=world.touchpoints["user_id"].map(owner))
    touchpoints = touchpoints[
        touchpoints["date"] < touchpoints["user_id"].map(world.users.set_index("user_id")["until"])
    ]
    nodes = attribute(paths_of(world, touchpoints=touchpoints), "landmark", confidence=0.95).dropna(
        subset="node_id"
    )
    assert ((nodes["low"] > 0) | (nodes["high"] < 0)).sum() <= 2


def test_everything_twice_is_twice_the_credit():
    users, touches, orders = one_day()
    twice = (
        [*users, *((f"x{name}", *rest) for name, *rest in users)],
        [*touches, *((f"x{name}", *rest) for name, *rest in touches)],
        [*orders, *((f"x{event}", f"x{name}", *rest) for event, name, *rest in orders)],
    )
    once, doubled = (credited(frames(*each), "landmark") for each in ((users, touches, orders), twice))
    assert doubled["a"].tolist() == pytest.approx((2 * once["a"]).tolist(), rel=1e-6)


def test_names_and_the_order_of_rows_change_nothing(world):
    names = {
        name: f"{9 - number}" for number, name in enumerate(sorted(world.touchpoints["node_id"].unique()))
    }
    changed = {
        "touchpoints": world.touchpoints.sample(frac=1, random_state=1).assign(
            node_id=lambda rows: rows["node_id"].map(names)
        ),
        "conversions": world.conversions.sample(frac=1, random_state=2),
    }
    plain, other = credited(paths_of(world), "landmark"), credited(paths_of(world, **changed), "landmark")
    for name, new in names.items():
        assert other[new] == pytest.approx(plain[name], rel=1e-4, abs=1e-4)


def test_a_node_that_reached_everybody_or_nobody_has_no_credit():
    users, _, orders = one_day()
    everybody = [(name, "a", 0.125) for name, _, _, _ in users]
    rows = attribute(frames(users, everybody, orders), "landmark", confidence=0.95)
    assert rows.loc[rows["node_id"] == "a", "conversions"].tolist() == [0, 0]
    before = [(users[0][0], "b", -3.0)]
    assert (credited(frames(users, before, orders), "landmark")["b"] == 0).all()


def test_paths_without_a_conversion_are_refused(world):
    with pytest.raises(InvalidRequest, match="paths: there is no conversion"):
        attribute(paths_of(world, conversions=world.conversions.iloc[:0]), "landmark")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"window": "0D"}, "window"),
        ({"half_lives": ()}, "half_lives"),
        ({"step": "x"}, "step"),
        ({"covariates": "member"}, "covariates: 'member' is not allowed"),
        ({"comparisons": 0}, "comparisons"),
        ({"shrinkage": -1}, "shrinkage"),
    ],
)
def test_parameters_have_bounds(arguments, told):
    with pytest.raises(InvalidRequest, match=told):
        Landmark(**arguments)
