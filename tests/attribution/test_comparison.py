"""Orders of Markov chains, against simulated chains and a likelihood computed step by step."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.dtype_names import dtype_names
from support.law_examples import examples

from attrib_ds import Paths, attribute, compare_lookbacks, compare_orders, simulate
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

START = pd.Timestamp("2025-01-01", tz="UTC")
HOUR = pd.Timedelta(hours=1)


def paths_of(journeys):
    """Paths of users ``u0``, ``u1`` …, each a text of nodes and whether it converted."""
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


def drawn(order, users, seed):
    """Journeys of a chain of an order: the next node depends on the node ``order`` steps before."""
    random = np.random.default_rng(seed)
    journeys = []
    for _ in range(users):
        nodes = ""
        while not nodes or random.random() < 0.85:
            known = len(nodes) >= order and random.random() < 0.75
            nodes += "abc"[("abc".index(nodes[-order]) + 1) % 3 if known else random.integers(3)]
        journeys.append((nodes, random.random() < 0.3))
    return journeys


def groups(paths, folds):
    sequences = Sequences.of(paths, folds=folds)
    users = paths.touchpoints.select("user_id").distinct()
    table = users.mutate(fold=sequences.fold(users.user_id)).to_pyarrow()
    return dict(zip(table["user_id"].to_pylist(), table["fold"].to_pylist(), strict=True))


def likelihood(journeys, order, others, smoothing):
    """Log-likelihood of journeys under a chain estimated from others, one step at a time."""

    def steps(nodes, converts):
        padded = [None] * order + list(nodes)
        ends = [*padded[order:], "CONVERSION" if converts else "NULL"]
        return [(tuple(padded[at : at + order]), outcome) for at, outcome in enumerate(ends)]

    nodes = {node for each, _ in [*journeys, *others] for node in each}
    counts, totals = Counter(), Counter()
    for journey in others:
        for before, outcome in steps(*journey):
            for length in range(order + 1):
                history = before[order - length :]
                counts[history, outcome] += 1
                totals[history] += 1

    def chance(history, outcome):
        shorter = chance(history[1:], outcome) if history else 1 / (len(nodes) + 2)
        return (counts[history, outcome] + smoothing * shorter) / (totals[history] + smoothing)

    return sum(math.log(chance(*step)) for journey in journeys for step in steps(*journey))


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_order_of_a_simulated_chain_is_found(order):
    compared = compare_orders(paths_of(drawn(order, 1_500, seed=order)))
    assert compared["order"].tolist() == [1, 2, 3, 4]
    assert compared.loc[compared["is_best"], "order"].tolist() == [order]
    assert compared.loc[compared["is_parsimonious"], "order"].tolist() == [order]
    assert compared.loc[compared["bic"].idxmin(), "order"] == order
    assert compared["log_likelihood"].is_monotonic_increasing
    best = compared[compared["is_best"]].iloc[0]
    assert (best["behind"], best["behind_error"]) == (0, 0)


def test_independent_steps_have_order_one():
    random = np.random.default_rng(0)
    journeys = [
        ("".join(random.choice(list("abc"), random.geometric(0.3))), random.random() < 0.3)
        for _ in range(600)
    ]
    compared = compare_orders(paths_of(journeys), [3, 1, 2])
    assert compared["order"].tolist() == [1, 2, 3]
    assert compared.loc[compared["is_parsimonious"], "order"].tolist() == [1]


journeys = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=5), st.booleans()), min_size=14, max_size=25
)


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=examples(10))
@given(journeys, st.sampled_from([0.1, 1.0, 5.0]))
@example([("a", False)] * 14, 1.0)
@example([("a", True)] * 14, 1.0)
@example([("abcab", False)] * 13 + [("cc", True)], 0.5)
def test_likelihoods_equal_a_loop(rows, smoothing):
    paths = paths_of(rows)
    fold = groups(paths, 2)
    if len(set(fold.values())) < 2:
        return
    compared = compare_orders(paths, [1, 2, 3], folds=2, smoothing=smoothing).set_index("order")
    for order in (1, 2, 3):
        means = []
        for group in (0, 1):
            left, others = (
                [row for user, row in enumerate(rows) if (fold[f"u{user}"] == group) == is_left]
                for is_left in (True, False)
            )
            means.append(likelihood(left, order, others, smoothing) / len(left))
        assert compared.loc[order, "held_out"] == pytest.approx(np.mean(means), rel=1e-9)
        assert compared.loc[order, "held_out_error"] == pytest.approx(abs(means[0] - means[1]) / 2, abs=1e-9)


def test_likelihood_and_information_criteria_by_hand():
    # ab twice and converts once; b once and converts: from the start 2/3 a, 1/3 b; a leads to b; b to the end.
    compared = compare_orders(paths_of([("ab", True), ("ab", False), ("b", True)] * 4), [1]).iloc[0]
    expected = 4 * (2 * math.log(2 / 3) + math.log(1 / 3) + 2 * math.log(2 / 3) + math.log(1 / 3))
    assert compared["log_likelihood"] == pytest.approx(expected)
    # The start, a and b; after each of them a, b, a conversion or none.
    assert (compared["states"], compared["parameters"]) == (3, 9)
    assert compared["aic"] == pytest.approx(18 - 2 * expected)
    assert compared["bic"] == pytest.approx(9 * math.log(4 * 8) - 2 * expected)


@pytest.mark.slow
def test_the_seed_changes_the_groups():
    paths = paths_of(drawn(1, 200, seed=0))
    found = [compare_orders(paths, [1, 2], seed=seed)["held_out"].tolist() for seed in (0, 0, 1)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0] != pytest.approx(found[2], rel=1e-6)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"orders": []}, "orders"),
        ({"orders": [0]}, "order"),
        ({"orders": 2.5}, "orders: 2.5 is not a list of orders"),
        ({"orders": None}, "orders: None is not a list of orders"),
        ({"folds": 1}, "folds"),
        ({"seed": -1}, "seed"),
        ({"smoothing": 0.0}, "smoothing"),
        ({"folds": 100}, "groups have no path"),
        ({"transform": "last"}, "transform"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        compare_orders(paths_of([("ab", True), ("b", False)] * 6), **arguments)


def test_aggregated_paths_are_refused():
    frame = pd.DataFrame({"path": ["a"], "n": [4]})
    with pytest.raises(InvalidRequest, match="aggregated paths have no users"):
        compare_orders(Paths.from_sequences(frame, path="path", conversions="n"))


# Credits by lookback, against paths made with each lookback.

NOON = pd.Timestamp("2025-03-10T12:00:00Z")
DAY = pd.Timedelta(days=1)


@pytest.fixture
def frames():
    """Two conversions: a 20 and b 5 days before the first, c 40 days before the second."""
    touched = pd.DataFrame(
        {
            "user_id": ["u", "u", "v"],
            "node_id": ["a", "b", "c"],
            "date": [NOON - 20 * DAY, NOON - 5 * DAY, NOON - 40 * DAY],
        }
    )
    converted = pd.DataFrame(
        {"event_id": ["e", "f"], "user_id": ["u", "v"], "date": NOON, "value": [10.0, 30.0]}
    )
    return touched, converted


def test_by_hand(frames):
    compared = compare_lookbacks(Paths.from_frames(*frames, lookback="1D"), ["90D", "7D", "30D"])
    assert compared["lookback_days"].tolist() == [7.0] * 4 + [30.0] * 4 + [90.0] * 4
    table = compared.fillna({"node_id": "nobody"}).pivot(index="node_id", columns="lookback_days")
    expected = {"a": [0, 0.5, 0.5], "b": [1, 0.5, 0.5], "c": [0, 0, 1], "nobody": [1, 1, 0]}
    assert table["conversions"].T.to_dict("list") == expected
    assert table["value"].T.to_dict("list") == {
        "a": [0, 5, 5],
        "b": [10, 5, 5],
        "c": [0, 0, 30],
        "nobody": [30, 30, 0],
    }
    assert table["share"].T.to_dict("list") == {
        node: [each / 2 for each in row] for node, row in expected.items()
    }
    assert table["share_shift"].T.to_dict("list") == {
        node: [(each - row[-1]) / 2 for each in row] for node, row in expected.items()
    }


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lookback:attrib_ds.errors.InputWarning")
def test_credits_equal_those_of_paths_with_the_lookback():
    world = simulate("random", users=1_000, seed=2)
    frames = world.touchpoints, world.conversions
    models = {"late": "last_touch", "chain": "markov"}
    compared = compare_lookbacks(Paths.from_frames(*frames), ["3D", "10D"], models=models)
    assert compared["model"].drop_duplicates().tolist() == ["late", "chain"]
    keys = ["model", "node_id"]
    for days in (3, 10):
        expected = attribute(Paths.from_frames(*frames, lookback=f"{days}D"), models).set_index(keys)
        found = compared[compared["lookback_days"] == days].set_index(keys).reindex(expected.index)
        columns = ["conversions", "value", "share"]
        pd.testing.assert_frame_equal(found[columns], expected[columns], rtol=1e-9)
    assert (compared.loc[compared["lookback_days"] == 10, "share_shift"] == 0).all()


def test_conversions_without_a_value_have_none(frames):
    touched, converted = frames
    compared = compare_lookbacks(Paths.from_frames(touched, converted.drop(columns="value")), ["7D", "30D"])
    assert compared["value"].isna().all()
    assert compared["conversions"].notna().all()


def test_no_paths():
    empty = Paths.from_frames(
        pd.DataFrame(columns=["user_id", "node_id", "date"]),
        pd.DataFrame(columns=["event_id", "user_id", "date"]),
    )
    compared = compare_lookbacks(empty, ["7D", "30D"])
    assert compared.empty
    assert list(dtype_names(compared).values()) == [
        "str",
        "float64",
        "str",
        "str",
        "float64",
        "float64",
        "str",
        "float64",
        "float64",
    ]


@pytest.mark.parametrize(
    "lookbacks", ["7D", [], ["7D"], ["7D", "168h"], ["7D", "-1D"], ["7D", "soon"], 7, None]
)
def test_invalid_arguments_are_refused_of_lookbacks(frames, lookbacks):
    with pytest.raises(InvalidRequest, match="lookbacks"):
        compare_lookbacks(Paths.from_frames(*frames), lookbacks)


def test_aggregated_paths_are_refused_of_lookbacks():
    frame = pd.DataFrame({"path": ["a"], "n": [4]})
    with pytest.raises(InvalidRequest, match="aggregated paths have no dates"):
        compare_lookbacks(Paths.from_sequences(frame, path="path", conversions="n"), ["7D", "30D"])
