"""Markov chains: removal effects by hand, against a dense solve and against a simulation, and their laws."""

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.dtype_names import dtype_names
from support.journeys_as_paths import HOUR, NOON, credited, journeys, paths_of, users_of
from support.law_examples import examples
from support.reference_path_models import expected, normalised
from support.reference_path_models import removal_effects as reference_effects

from attrib_ds import Paths, attribute, errors, removal_effects, transition_matrix
from attrib_ds.attribution.models import Markov, model_named

few = settings(max_examples=examples(6))

#: Six walks: two a > b convert, one b converts, two a and one b do not.
SIX = [(("a", "b"), 2, 20.0, 0), (("b",), 1, 4.0, 1), (("a",), 0, 0.0, 2)]


def effects_of(paths, column="removal_effect", **options):
    return removal_effects(paths, **options).set_index("node_id")[column].to_dict()


@pytest.mark.large
@pytest.mark.slow
def test_removal_effects_by_hand():
    # From the start to a 4/6, to b 2/6; a to b 2/4; b converts 3 of 4 times: 1/2 converts.
    # Without a: 2/6 * 3/4 = 1/4 is left. Without b nothing is.
    assert effects_of(paths_of(SIX)) == pytest.approx({"a": 0.5, "b": 1.0}, abs=1e-12)
    assert credited(paths_of(SIX), "markov") == pytest.approx({"a": 1.0, "b": 2.0}, abs=1e-12)
    assert effects_of(paths_of(SIX), "lost_conversions") == pytest.approx({"a": 1.5, "b": 3.0}, abs=1e-12)
    assert effects_of(paths_of(SIX), "lost_value") == pytest.approx({"a": 12.0, "b": 24.0}, abs=1e-12)
    # The value of 24 all comes from b, so value is divided as conversions are.
    assert credited(paths_of(SIX), "markov", "value") == pytest.approx({"a": 8.0, "b": 16.0}, abs=1e-12)


@pytest.mark.slow
def test_value_is_credited_by_effects_on_value():
    rows = [(("a",), 1, 10.0, 0), (("b",), 1, 1.0, 3)]
    effects = removal_effects(paths_of(rows)).set_index("node_id")
    assert effects["removal_effect"].to_dict() == pytest.approx({"a": 0.5, "b": 0.5})
    assert effects["value_removal_effect"].to_dict() == pytest.approx({"a": 10 / 11, "b": 1 / 11})
    assert credited(paths_of(rows), "markov", "value") == pytest.approx({"a": 10.0, "b": 1.0})


@pytest.mark.slow
def test_without_nulls_an_effect_is_the_share_of_converting_walks():
    # Three converting paths, two through a, all through b.
    assert effects_of(paths_of(SIX), nulls=False) == pytest.approx({"a": 2 / 3, "b": 1.0}, abs=1e-12)
    assert credited(paths_of(SIX), Markov(nulls=False)) == pytest.approx({"a": 1.2, "b": 1.8}, abs=1e-12)
    without = [(path, converted, value, 0) for path, converted, value, _ in SIX]
    assert effects_of(paths_of(without)) == pytest.approx({"a": 2 / 3, "b": 1.0}, abs=1e-12)


def test_transitions_by_hand():
    matrix = transition_matrix(paths_of(SIX))
    assert matrix.astype(object).where(matrix.notna(), None).to_numpy().tolist() == [
        ["a", "node", "b", 2.0, 0.5],
        ["a", "null", None, 2.0, 0.5],
        ["b", "conversion", None, 3.0, 0.75],
        ["b", "null", None, 1.0, 0.25],
        [None, "node", "a", 4.0, 4 / 6],
        [None, "node", "b", 2.0, 2 / 6],
    ]
    assert dtype_names(matrix) == {
        "previous_1_id": "str",
        "outcome": "str",
        "node_id": "str",
        "transitions": "float64",
        "probability": "float64",
    }


def test_transitions_of_order_two_distinguish_two_touchpoints():
    matrix = transition_matrix(paths_of([(("a", "b", "a", "b"), 1, 0.0, 0)]), order=2)
    shown = matrix[["previous_2_id", "previous_1_id", "node_id", "probability"]].astype(object)
    assert shown.where(shown.notna(), None).to_numpy().tolist() == [
        ["a", "b", None, 0.5],
        ["a", "b", "a", 0.5],
        ["b", "a", "b", 1.0],
        [None, "a", "b", 1.0],
        [None, None, "a", 1.0],
    ]
    alone = transition_matrix(paths_of(SIX), nulls=False)
    assert set(alone["outcome"]) == {"node", "conversion"}


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys(), st.sampled_from([1, 2, 3, 4]))
@example(SIX, 1)
@example([(("a", "a", "a", "b"), 1, 2.0, 0), (("a", "a"), 0, 0.0, 4), (("b", "a", "b"), 2, 9.0, 1)], 2)
@example([(("a", "b", "c", "d", "a", "b", "c"), 1, 3.0, 0), (("b", "c", "d"), 0, 0.0, 2)], 4)
@example([(("x", "a"), 0, 0.0, 3), (("a",), 1, 1.0, 0)], 1)  # x stands in null paths only
def test_effects_and_credits_equal_a_dense_solve_without_the_node(drawn, order):
    total = sum(converted for _, converted, _, _ in drawn)
    worth = sum(value for _, _, value, _ in drawn)
    paths = paths_of(drawn)
    if not total:
        assert removal_effects(paths, order=order).empty
        assert attribute(paths, Markov(order=order)).empty
        return
    effects = removal_effects(paths, order=order).set_index("node_id")
    counts, values = (reference_effects(drawn, order, of=of) for of in ("conversions", "value"))
    assert effects["removal_effect"].to_dict() == pytest.approx(counts, abs=1e-9)
    assert effects["value_removal_effect"].to_dict() == pytest.approx(values, abs=1e-9)
    credits = attribute(paths, Markov(order=order)).set_index("node_id")
    assert credits["conversions"].to_dict() == pytest.approx(normalised(counts, total), abs=1e-9 * total)
    assert credits["value"].to_dict() == pytest.approx(normalised(values, worth), abs=1e-9 * worth)


@pytest.mark.slow
def test_effects_equal_the_losses_of_simulated_walks():
    rows = [
        (("a", "b", "c"), 3, 0.0, 5),
        (("b", "a"), 1, 0.0, 9),
        (("c", "c", "b"), 4, 0.0, 2),
        (("a",), 2, 0.0, 8),
        (("c", "a", "b"), 2, 0.0, 3),
    ]
    matrix = transition_matrix(paths_of(rows))
    names = ["a", "b", "c", None]
    ends = {"conversion": 4, "null": 5}
    table = np.zeros((4, 6))
    for row in matrix.itertuples():
        source = 3 if pd.isna(row.previous_1_id) else names.index(row.previous_1_id)
        target = names.index(row.node_id) if row.outcome == "node" else ends[row.outcome]
        table[source, target] = row.probability
    random = np.random.default_rng(20250310)
    at, met = np.full(200_000, 3), np.zeros((200_000, 3), dtype=bool)
    for _ in range(200):
        walking = at < 4
        if not walking.any():
            break
        drawn = random.random(len(at))
        after = (drawn[:, None] > table.cumsum(axis=1)[np.minimum(at, 3)]).sum(axis=1)
        at = np.where(walking, np.minimum(after, 5), at)
        for node in range(3):
            met[:, node] |= at == node
    converted = at == 4
    simulated = {name: met[converted, index].mean() for index, name in enumerate("abc")}
    assert effects_of(paths_of(rows)) == pytest.approx(simulated, abs=0.01)


@pytest.mark.slow
def test_consecutive_touchpoints_of_one_node_change_nothing_at_order_one():
    rows = [(("a", "a", "b"), 2, 3.0, 1), (("b", "b", "b"), 1, 1.0, 2), (("a", "b", "b", "a"), 1, 5.0, 4)]
    paths = paths_of(rows)
    once = effects_of(paths, transform="exposure")
    assert effects_of(paths) == pytest.approx(once, abs=1e-12)
    assert credited(paths, "markov", "value") == pytest.approx(
        credited(paths, Markov(transform="exposure"), "value"), abs=1e-12
    )
    assert effects_of(paths, order=2) != pytest.approx(
        effects_of(paths, order=2, transform="exposure"), abs=1e-6
    )


@pytest.mark.slow
@few
@given(journeys(max_length=4), st.sampled_from([4, 6]))
@example(SIX, 9)
@example([(("a", "b", "a", "c"), 2, 0.0, 3), (("c", "a"), 1, 0.0, 0), (("b",), 3, 0.0, 3)], 4)
def test_the_highest_order_counts_conversions_whose_path_contains_the_node(drawn, order):
    total = sum(converted for _, converted, _, _ in drawn)
    effects = effects_of(paths_of(drawn), order=order)
    for node, effect in effects.items():
        met = sum(converted for path, converted, _, _ in drawn if node in path)
        assert effect == pytest.approx(met / total, abs=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys())
def test_duplicating_all_users_doubles_totals_and_leaves_shares(drawn):
    models = ["markov", "markov_2", "conversion_rate_shapley", "fractribution", "shapley"]
    once, twice = (
        attribute(paths_of(rows), models).set_index(["model", "node_id"])
        for rows in (drawn, [*drawn, *drawn])
    )
    assert set(once.index) == set(twice.index)
    for column, factor in (("conversions", 2), ("value", 2), ("share", 1)):
        assert twice[column].to_dict() == pytest.approx((factor * once[column]).to_dict(), abs=1e-9)


def test_gains_and_losses_are_credited_apart():
    # a earned 10 and 30 with two conversions, b lost 10 with one.
    rows = [(("a",), 1, 10.0, 1), (("a",), 1, 30.0, 0), (("b",), 1, -10.0, 2), (("b", "a"), 0, 0.0, 1)]
    gained = [(path, n, max(value, 0.0), nulls) for path, n, value, nulls in rows]
    lost = [(path, n, max(-value, 0.0), nulls) for path, n, value, nulls in rows]
    earned = normalised(reference_effects(gained, 1, of="value"), 40.0)
    taken = normalised(reference_effects(lost, 1, of="value"), 10.0)
    value = credited(paths_of(rows), "markov", "value")
    assert value == pytest.approx({node: earned[node] - taken[node] for node in "ab"}, abs=1e-12)
    assert sum(value.values()) == pytest.approx(30.0)


def test_a_refund_of_every_conversion_leaves_nothing():
    rows = [(("a", "b"), 1, 10.0, 1), (("b",), 2, 6.0, 1)]
    refunded = [*rows, *((path, n, -value, nulls) for path, n, value, nulls in rows)]
    assert credited(paths_of(refunded), "markov", "value") == pytest.approx({"a": 0, "b": 0}, abs=1e-12)
    assert removal_effects(paths_of(refunded))["value_removal_effect"].isna().all()


def test_value_is_missing_where_conversions_have_none():
    frame = pd.DataFrame({"path": ["a > b", "b"], "n": [1, 2]})
    credits = attribute(Paths.from_sequences(frame, path="path", conversions="n"), ["markov", "markov_2"])
    assert credits["value"].isna().all()
    assert credits["conversions"].sum() == pytest.approx(6.0)


@pytest.mark.slow
def test_values_do_not_change_credited_conversions():
    valued = paths_of(SIX)
    doubled = paths_of([(path, converted, 7.0 * value, nulls) for path, converted, value, nulls in SIX])
    assert credited(doubled, "markov_2") == credited(valued, "markov_2")
    times = {node: 7 * value for node, value in credited(valued, "markov_2", "value").items()}
    assert credited(doubled, "markov_2", "value") == pytest.approx(times)


@pytest.mark.large
@pytest.mark.slow
def test_currencies_are_outcomes_of_one_chain():
    touched = [("u", "a", 3), ("u", "b", 1), ("v", "b", 2), ("w", "a", 2), ("x", "b", 1), ("y", "a", 1)]
    touchpoints = pd.DataFrame(touched, columns=["user_id", "node_id", "hours"])
    touchpoints["date"] = NOON - touchpoints.pop("hours") * HOUR
    conversions = pd.DataFrame(
        [("e", "u", 10.0, "EUR"), ("f", "v", 4.0, "CHF"), ("g", "w", 6.0, "EUR")],
        columns=["event_id", "user_id", "value", "currency"],
    ).assign(date=NOON)
    paths = Paths.from_frames(touchpoints, conversions)
    credits = attribute(paths, "markov").set_index(["currency", "node_id"])
    for column, totals in (("conversions", {"EUR": 2, "CHF": 1}), ("value", {"EUR": 16, "CHF": 4})):
        assert credits.groupby("currency")[column].sum().to_dict() == pytest.approx(totals)
    # From the start to a 3/5, to b 2/5; a goes to b, to EUR and to nothing, b to EUR, CHF and nothing, 1/3 each.
    # CHF: 3/5 reach b, 1/5 converts; without a 2/15. EUR: 2/5; without b 1/5, without a 2/15.
    effects = removal_effects(paths).set_index(["currency", "node_id"])["removal_effect"]
    assert effects["CHF", "b"] == pytest.approx(1.0)
    assert effects["CHF", "a"] == pytest.approx(1 / 3)
    assert effects["EUR", "b"] == pytest.approx(0.5)
    assert effects["EUR", "a"] == pytest.approx(2 / 3)
    ones = Paths.from_frames(touchpoints, conversions.assign(value=1.0))
    same = attribute(ones, ["markov", "markov_2"])
    assert same["value"].tolist() == pytest.approx(same["conversions"].tolist(), abs=1e-12)


class TestNullPaths:
    """Null paths."""

    def frames(self):
        rows = [("u", "a", 40 * 24), ("u", "b", 2), ("v", "a", 90 * 24), ("v", "b", 1), ("w", "a", 1)]
        touchpoints = pd.DataFrame(rows, columns=["user_id", "node_id", "hours"])
        touchpoints["date"] = NOON - touchpoints.pop("hours") * HOUR
        conversions = pd.DataFrame({"event_id": ["e", "f"], "user_id": ["u", "x"], "date": [NOON, NOON]})
        return touchpoints, conversions

    def test_every_touchpoint_of_a_user_without_a_conversion_is_one_path(self):
        # u converts: its old touch of a is before the lookback and is not a null path. v: a > b; w: a.
        matrix = transition_matrix(Paths.from_frames(*self.frames())).set_index(
            ["previous_1_id", "outcome", "node_id"]
        )["transitions"]
        assert dict(zip(matrix.index.tolist(), matrix, strict=True)) == {
            ("a", "node", "b"): 1.0,
            ("a", "null", np.nan): 1.0,
            ("b", "conversion", np.nan): 1.0,
            ("b", "null", np.nan): 1.0,
            (np.nan, "node", "a"): 2.0,
            (np.nan, "node", "b"): 1.0,
        }

    @pytest.mark.large
    @pytest.mark.slow
    def test_conversions_without_a_touchpoint_stay_unattributed(self):
        for model in ("markov", "markov_2", "conversion_rate_shapley", "fractribution", "shapley"):
            table = credited(Paths.from_frames(*self.frames()), model)
            assert table[None] == 1.0
            assert sum(table.values()) == pytest.approx(2.0)

    @pytest.mark.slow
    def test_ties_are_broken_as_in_converting_paths(self):
        touchpoints = pd.DataFrame(
            {"user_id": ["u", "u"], "node_id": ["b", "a"], "date": [NOON, NOON], "id": ["1", "2"]}
        )
        nobody = pd.DataFrame(columns=["event_id", "user_id", "date"])
        for columns, first in (({}, "a"), ({"touch": "id"}, "b")):
            matrix = transition_matrix(Paths.from_frames(touchpoints, nobody, columns=columns))
            assert matrix.loc[matrix["previous_1_id"].isna(), "node_id"].tolist() == [first]

    @pytest.mark.large
    @pytest.mark.slow
    @few
    @given(journeys(max_length=4))
    def test_users_and_aggregated_paths_give_the_same_credits(self, drawn):
        models = ["markov", "markov_2", "conversion_rate_shapley", "fractribution", "shapley"]
        shown = ["model", "node_id", "conversions", "value"]
        expected, found = (
            attribute(paths, models)[shown].sort_values(shown[:2], ignore_index=True)
            for paths in (paths_of(drawn), users_of(drawn))
        )
        pd.testing.assert_frame_equal(found, expected, check_exact=False, atol=1e-9)


@pytest.mark.large
@pytest.mark.slow
def test_node_ids_are_never_joined_into_text():
    renamed = {"a": "beta", "b": "eta", "c": "zeta > beta", "d": "'; DROP TABLE nodes; --"}
    rows = [
        (("a", "b", "c"), 2, 1.0, 3),
        (("c", "d", "a"), 1, 2.0, 0),
        (("b", "d"), 2, 3.0, 5),
        (("d",), 1, 1.0, 1),
    ]
    other = [(tuple(renamed[node] for node in path), *rest) for path, *rest in rows]
    models = [Markov(), Markov(order=3), "shapley", "conversion_rate_shapley", "fractribution"]
    for model in models:
        expected = {renamed[node]: count for node, count in credited(users_of(rows), model).items()}
        assert credited(users_of(other), model) == pytest.approx(expected, abs=1e-12)


@pytest.mark.large
@pytest.mark.slow
def test_models_computed_together_equal_those_computed_alone():
    models = [
        Markov(),
        Markov(nulls=False),
        Markov(order=3, nulls=False),
        Markov(order=2),
        Markov(order=2, transform="first"),
    ]
    together = attribute(paths_of(SIX), [*models, "linear"])
    for model in models:
        rows = together[together["model"] == model.name].reset_index(drop=True)
        pd.testing.assert_frame_equal(rows, attribute(paths_of(SIX), model))


@pytest.mark.parametrize(
    "model", [Markov(), Markov(order=2), Markov(order=4), "conversion_rate_shapley", "fractribution"]
)
class TestEdges:
    """Few or no paths."""

    @pytest.mark.few(4)
    @pytest.mark.slow
    def test_a_single_touchpoint_earns_everything(self, model):
        rows = [(("a",), 2, 6.0, 1), (("b",), 1, 9.0, 5)]
        assert credited(paths_of(rows), model) == pytest.approx({"a": 2.0, "b": 1.0}, abs=1e-12)
        assert credited(paths_of(rows), model, "value") == pytest.approx({"a": 6.0, "b": 9.0}, abs=1e-12)

    @pytest.mark.slow
    def test_no_conversions(self, model):
        assert attribute(paths_of([(("a", "b"), 0, 0.0, 4)]), model).empty

    @pytest.mark.few(3)
    @pytest.mark.slow
    def test_no_paths(self, model):
        empty = Paths.from_frames(
            pd.DataFrame(columns=["user_id", "node_id", "date"]),
            pd.DataFrame(columns=["event_id", "user_id", "date"]),
        )
        for paths in (empty, paths_of([])):
            credits = attribute(paths, model, confidence=0.9)
            assert credits.empty
            assert list(dtype_names(credits).values()) == [
                *["str"] * 3,
                *["float64"] * 2,
                "str",
                *["float64"] * 7,
            ]

    @pytest.mark.few(3)
    def test_no_touchpoint(self, model):
        conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [NOON], "value": [3.0]})
        nobody = pd.DataFrame(columns=["user_id", "node_id", "date"])
        assert credited(Paths.from_frames(nobody, conversions), model, "value") == {None: 3.0}


@pytest.mark.slow
def test_removal_effects_and_transitions_of_nothing_have_their_columns():
    assert dtype_names(removal_effects(paths_of([]))) == {
        "node_id": "str",
        "node_name": "str",
        "currency": "str",
        "removal_effect": "float64",
        "value_removal_effect": "float64",
        "lost_conversions": "float64",
        "lost_value": "float64",
    }
    assert transition_matrix(paths_of([]), order=2).columns.tolist() == [
        "previous_2_id",
        "previous_1_id",
        "outcome",
        "node_id",
        "transitions",
        "probability",
    ]


@pytest.mark.slow
def test_three_hundred_nodes():
    random = np.random.default_rng(3)
    names = [f"node {index:03d}" for index in range(300)]
    rows = [
        (
            tuple(names[at] for at in random.integers(0, 300, random.integers(1, 6))),
            int(index % 3 == 0),
            0.0,
            2,
        )
        for index in range(400)
    ]
    some = names[::40]
    found = effects_of(paths_of(rows))
    whole = expected(rows, 1)
    lost = {node: 1 - expected(rows, 1, removed=node) / whole for node in some}
    assert {node: found[node] for node in some} == pytest.approx(lost, abs=1e-9)
    total = sum(converted for _, converted, _, _ in rows)
    assert sum(credited(paths_of(rows), "markov_2").values()) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Markov(order=0),
        lambda: Markov(order=10),
        lambda: Markov(order=1.5),
        lambda: Markov(order=True),
        lambda: Markov(nulls="yes"),
        lambda: Markov(transform="collapse"),
        lambda: Markov(steps=0),
        lambda: removal_effects(paths_of(SIX), order=0),
        lambda: transition_matrix(paths_of(SIX), order=None),
    ],
)
def test_parameters_out_of_bounds_are_refused(make):
    with pytest.raises(errors.InvalidRequest, match="allowed"):
        make()


def test_models_have_names():
    assert model_named("Markov 1") == model_named("markov") == Markov()
    assert model_named("markov-2") == Markov(order=2)
    assert Markov(order=2, transform="exposure").name == "markov(transform=exposure, order=2)"


@pytest.mark.real_data
@pytest.mark.parametrize("order", [1, 2])
def test_real_paths(order):
    folder = os.environ.get("ATTRIB_DS_REAL_DATA")
    if not folder:
        pytest.skip("real data: ATTRIB_DS_REAL_DATA names no folder")
    frame = pd.read_csv(Path(folder) / "pathdata.csv.gz")
    paths = Paths.from_sequences(
        frame,
        path="path",
        conversions="total_conversions",
        value="total_conversion_value",
        nulls="total_null",
    )
    rows = [(tuple(path.split(" > ")), *rest) for path, *rest in frame.itertuples(index=False)]
    expected = {of: reference_effects(rows, order, of=of) for of in ("conversions", "value")}
    effects = removal_effects(paths, order=order).set_index("node_id")
    assert effects["removal_effect"].to_dict() == pytest.approx(expected["conversions"], abs=1e-9)
    assert effects["value_removal_effect"].to_dict() == pytest.approx(expected["value"], abs=1e-9)
    models = [Markov(order=order), "conversion_rate_shapley", "fractribution", "shapley"]
    credits = attribute(paths, models).groupby("model")[["conversions", "value"]].sum()
    assert credits["conversions"].tolist() == pytest.approx([19_785] * 4, rel=1e-9)
    assert credits["value"].tolist() == pytest.approx([frame["total_conversion_value"].sum()] * 4, rel=1e-9)


# Large chains, whose walks are followed step by step, against a dense solve without each node.

NAMES = [f"node {index:02d}" for index in range(40)]


def journeys_of(number):
    """Random journeys with values of both signs, some of which repeat nodes."""
    random = np.random.default_rng(number)
    return [
        (
            tuple(NAMES[at] for at in random.integers(0, 40, random.integers(1, 5))) * (1 + index % 3),
            int(index % 3 != 1),
            float(random.integers(-9, 30)) if index % 3 != 1 else 0.0,
            index % 4,
        )
        for index in range(number)
    ]


def check_effects(rows, *, order, nodes):
    found = removal_effects(paths_of(rows), order=order).set_index("node_id")
    assert len({pair for path, *_ in rows for pair in itertools.pairwise(path)}) > 512
    for column, of in (("removal_effect", "conversions"), ("value_removal_effect", "value")):
        whole = expected(rows, order, of=of)
        lost = {node: 1 - expected(rows, order, removed=node, of=of) / whole for node in nodes}
        assert found.loc[nodes, column].to_dict() == pytest.approx(lost, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
def test_large_chains_equal_a_dense_solve_without_the_node(order):
    check_effects(journeys_of(400), order=order, nodes=NAMES[::9])


@pytest.mark.slow
@pytest.mark.parametrize("walk", [(NAMES[0], NAMES[0], NAMES[1]) * 3_000, (NAMES[0],) * 300])
def test_long_walks_are_solved(walk):
    round_and_round = (walk, 1, 7.0, 1)
    check_effects([*journeys_of(400), round_and_round], order=2, nodes=NAMES[:3])


@pytest.mark.slow
def test_chains_that_would_take_hours_are_refused():
    pairs = pd.DataFrame({"path": [f"a{number} > b{number}" for number in range(16_000)], "n": 1})
    paths = Paths.from_sequences(pairs, path="path", conversions="n")
    with pytest.raises(
        errors.InvalidRequest, match=r"order: 32,000 nodes and 32,000 transitions .*; allowed: up to"
    ):
        removal_effects(paths, order=2)
