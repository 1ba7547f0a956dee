"""Invariants of the models that compare whole paths, and of roll-ups, on random data.

``invariants.txt`` lists all of them with the tests that hold them.
"""

import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.journeys_as_paths import NOON, credited, journeys, paths_of, users_of

from attrib_ds import Paths, attribute, position_credits, roll_up, simulate, touch_credits
from attrib_ds.attribution.models import (
    ConversionRateShapley,
    DiscreteHazard,
    Fractribution,
    Markov,
    PositionBased,
    TimeDecay,
    rule_models,
)
from attrib_ds.records.frames import TEXT, to_pandas

TABLE = Path(__file__).with_name("invariants.txt")
ROOT = Path(__file__).parents[1]

few = settings(max_examples=3)

#: One of each kind: by age, by place, by node, by set of nodes, by path.
NORMALISED = {
    "time_decay": TimeDecay(),
    "position_based": PositionBased(),
    "last_non_direct": "last_non_direct",
    "shapley": "shapley",
    "fractribution": Fractribution(transform="first"),
}
#: Weights that do not ask which node a touchpoint is.
NAMELESS = ["first_touch", "last_touch", "linear", "linear_ramp", "position_based", "time_decay"]
#: Weights that do, or models that compare nodes.
NAMING = ["participation", "shapley", "markov", "fractribution"]
PATH_MODELS = {
    "shapley": "shapley",
    "conversion_rate_shapley": ConversionRateShapley(),
    "markov": Markov(),
    "markov_2": Markov(order=2),
    "fractribution": Fractribution(),
}


# 3: weights


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys())
@example([("a", 1, 0.0, 0)])
@example([("aba", 2, 3.0, 1), ("b", 1, 0.0, 5)])
def test_weights_are_parts_of_one_conversion(drawn):
    assume(any(row[1] for row in drawn))
    credits = touch_credits(users_of(drawn), NORMALISED)
    assert credits["conversions"].between(-1e-12, 1 + 1e-12).all()
    whole = credits.groupby(["model", "event_id"])["conversions"].sum()
    assert whole.to_numpy() == pytest.approx(1.0, abs=1e-9)


def test_negative_credits_are_reported_unchanged():
    # Users with b convert less often: b has negative credit, and a more than all conversions.
    drawn = [("a", 5, 5.0, 5), ("ab", 1, 1.0, 9)]
    credits = touch_credits(users_of(drawn), ConversionRateShapley())
    of_ab = credits[credits["event_id"] == "event 1-0"].set_index("node_id")["conversions"]
    # Rates: a 1/2, ab 1/10, b nobody, 0. Shapley: a (1/2 + 1/10) / 2 = 3/10, b (0 - 2/5) / 2 = -1/5.
    assert of_ab.to_dict() == pytest.approx({"a": 3.0, "b": -2.0})


# 4: roll-ups


def tree_of(parents):
    nodes = [(parent, None, "campaign") for parent in sorted(set(parents.values()))]
    nodes += [(leaf, parent, "adset") for leaf, parent in parents.items()]
    frame = pd.DataFrame(nodes, columns=["_id", "parentId", "type"])
    return frame.assign(name=frame["_id"]).astype({"_id": TEXT, "parentId": TEXT})


def at_level(drawn, parents):
    return [(tuple(parents[node] for node in path), *rest) for path, *rest in drawn]


def rolled(drawn, parents, models):
    credits = roll_up(attribute(users_of(drawn), models), tree_of(parents), "campaign")
    return credits.set_index(["model", "node_id"])["conversions"].sort_index()


def straight(drawn, parents, models):
    credits = attribute(users_of(at_level(drawn, parents)), models)
    return credits.set_index(["model", "node_id"])["conversions"].sort_index()


@pytest.mark.large
@pytest.mark.slow
@few
@given(
    journeys("abcd", max_size=5),
    st.fixed_dictionaries({leaf: st.sampled_from(["X", "Y"]) for leaf in "abcd"}),
)
@example([("ab", 1, 1.0, 0), ("ba", 2, 1.0, 1)], dict.fromkeys("abcd", "X"))
def test_rolling_up_is_attributing_above_for_weights_that_ask_for_no_node(drawn, parents):
    assume(any(row[1] for row in drawn))
    found, expected = rolled(drawn, parents, NAMELESS), straight(drawn, parents, NAMELESS)
    pd.testing.assert_series_equal(found, expected.reindex(found.index, fill_value=0.0), check_exact=False)
    assert expected.index.isin(found.index).all()


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("model", NAMING)
def test_rolling_up_differs_for_models_that_compare_nodes(model):
    drawn = [("abc", 3, 3.0, 1), ("ac", 1, 1.0, 4), ("c", 2, 2.0, 5), ("b", 1, 1.0, 6)]
    parents = {"a": "X", "b": "X", "c": "Y"}
    found, expected = rolled(drawn, parents, [model]), straight(drawn, parents, [model])
    assert abs(found - expected).max() > 0.01


# 8: idempotence


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys("ab", max_length=6))
@example([("aa", 1, 1.0, 1), ("a", 0, 0.0, 1)])
def test_collapsing_twice_is_collapsing_once(drawn):
    assume(any(row[1] for row in drawn))
    collapsed = [(re.sub(r"(.)\1+", r"\1", "".join(path)), *rest) for path, *rest in drawn]
    models = [Markov(order=2, transform="exposure"), Fractribution(transform="exposure")]
    once, twice = (attribute(paths_of(rows), models) for rows in (drawn, collapsed))
    pd.testing.assert_frame_equal(twice, once, check_exact=False, atol=1e-9)


# 9: causality, for models of whole paths


@pytest.mark.large
@pytest.mark.slow
def test_touches_after_the_conversion_change_no_model_of_whole_paths():
    drawn = [("ab", 2, 3.0, 1), ("b", 1, 1.0, 4), ("aab", 1, -2.0, 0), ("a", 0, 0.0, 3)]
    paths = users_of(drawn)
    last = paths.touches.filter(paths.touches.position == paths.touches.length)
    buyers = last.select("user_id").to_pyarrow()["user_id"].to_pylist()
    late = pd.DataFrame({"user_id": buyers, "node_id": "late", "date": NOON + pd.Timedelta(seconds=1)})
    old = late.assign(node_id="old", date=NOON - pd.Timedelta(days=30))
    columns = {"user_id": "str", "node_id": "str"}
    known = to_pandas(paths.touchpoints.select("user_id", "node_id", "date").to_pyarrow())
    orders = to_pandas(last.select("event_id", "user_id", "value", date="event_date").to_pyarrow())
    more = Paths.from_frames(pd.concat([known, late, old]).astype(columns), orders)
    expected = attribute(paths, PATH_MODELS).set_index(["model", "node_id"])["conversions"]
    found = attribute(more, PATH_MODELS).set_index(["model", "node_id"])["conversions"]
    pd.testing.assert_series_equal(found.reindex(expected.index), expected)
    assert found.drop(expected.index).abs().sum() == 0


# 10: null players


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys("abc", max_size=5), st.integers(1, 9))
@example([("a", 1, 1.0, 0)], 3)
def test_a_node_that_only_lost_users_touched_has_no_credit(drawn, lost):
    assume(any(row[1] for row in drawn))
    with_z = [*drawn, ("z", 0, 0.0, lost), ("az", 0, 0.0, lost)]
    credits = attribute(paths_of(with_z), PATH_MODELS)
    assert credits.loc[credits["node_id"] == "z", "conversions"].abs().sum() < 1e-12


@pytest.mark.slow
@few
@given(journeys("abc", max_size=5))
@example([("abc", 1, 1.0, 0)])
def test_a_node_that_changes_no_rate_earns_nothing_where_lift_is_what_counts(drawn):
    assume(any(row[1] for row in drawn))
    # Users with z convert exactly as often as the same users without it; a rate is one of a set of nodes.
    with_z = [*drawn, *((("z", *path), *rest) for path, *rest in drawn), ("z", 0, 0.0, 1)]
    sets = paths_of(with_z)
    assert credited(sets, ConversionRateShapley())["z"] == pytest.approx(0.0, abs=1e-9)


# 11: symmetry and efficiency


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys("abc", max_size=5))
@example([("ab", 1, 1.0, 1)])
def test_symmetric_nodes_earn_equal_credit(drawn):
    assume(any(row[1] for row in drawn))
    swap = str.maketrans("ab", "ba")
    both = [*drawn, *((tuple("".join(path).translate(swap)), *rest) for path, *rest in drawn)]
    models = ["shapley", "conversion_rate_shapley", "markov"]
    earned = attribute(paths_of(both), models).pivot(index="node_id", columns="model", values="conversions")
    parts = earned.reindex(["a", "b"]).fillna(0.0)
    assert parts.loc["a"].tolist() == pytest.approx(parts.loc["b"].tolist(), abs=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys())
def test_everything_is_divided_and_positions_add_up_to_nodes(drawn):
    conversions = sum(row[1] for row in drawn)
    assume(conversions)
    credits = attribute(paths_of(drawn), PATH_MODELS)
    whole = credits.groupby("model")["conversions"].sum()
    assert whole.tolist() == pytest.approx([conversions] * len(whole), rel=1e-9)
    by_position = position_credits(paths_of(drawn), "shapley").groupby("node_id")["conversions"].sum()
    of_node = credits[credits["model"] == "shapley"].dropna(subset="node_id").set_index("node_id")
    assert by_position.to_dict() == pytest.approx(of_node["conversions"].to_dict(), abs=1e-9)


# 12: single touchpoints


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(("converted", "lost", "value"), [(1, 0, 0), (3, 7, -20)])
def test_the_only_touchpoint_earns_everything(converted, lost, value):
    drawn = [("a", converted, float(value), lost)]
    dated = rule_models() | PATH_MODELS
    undated = {name: model for name, model in dated.items() if name != "time_decay"}
    for made, models in ((paths_of, undated), (users_of, dated)):
        credits = attribute(made(drawn), models)
        assert credits["node_id"].tolist() == ["a"] * len(credits)
        assert credits["conversions"].to_numpy() == pytest.approx(converted)
        assert credits["value"].to_numpy() == pytest.approx(value)


# 13: limits


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys("abc", max_size=4))
@example([("aab", 1, 1.0, 0)])
def test_limits_of_decay_and_of_positions(drawn):
    assume(any(row[1] for row in drawn))
    models = {
        "slow": TimeDecay("100000D"),
        "fast": TimeDecay("1us"),
        "all to the last": PositionBased(first=0.0, last=1.0),
        "all to the first": PositionBased(first=1.0, last=0.0),
        "linear": "linear",
        "last": "last_touch",
        "first": "first_touch",
    }
    credits = attribute(users_of(drawn), models)
    parts = credits.pivot(index="node_id", columns="model", values="conversions")
    for model, limit in zip(models, ("linear", "last", "last", "first"), strict=False):
        assert parts[model].tolist() == pytest.approx(parts[limit].tolist(), abs=1e-4)


@pytest.mark.slow
@few
@given(journeys("abc", max_size=4, max_length=3))
@example([("ab", 2, 1.0, 0), ("a", 1, 1.0, 3)])
def test_a_chain_as_long_as_the_paths_counts_conversions_that_meet_the_node(drawn):
    total = sum(row[1] for row in drawn)
    assume(total)
    meets = {
        node: sum(row[1] for row in drawn if node in row[0]) / total for path, *_ in drawn for node in path
    }
    expected = {node: total * part / sum(meets.values()) for node, part in meets.items()}
    found = credited(paths_of(drawn), Markov(order=3))
    assert {node: found.get(node, 0.0) for node in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore:users. no user of a conversion")
def test_a_hazard_without_exposure_leaves_everything_unattributed():
    drawn = simulate("random", users=500, seed=2)
    elsewhere = drawn.touchpoints.assign(user_id="somebody else", date=drawn.users["since"].min())
    users = pd.concat([drawn.users, drawn.users.head(1).assign(user_id="somebody else")], ignore_index=True)
    paths = Paths.from_frames(elsewhere.head(3), drawn.conversions, users=users)
    credits = attribute(paths, DiscreteHazard()).set_index("node_id")["conversions"]
    assert credits[credits.index.isna()].sum() == pytest.approx(len(drawn.conversions))
    assert credits[credits.index.notna()].abs().sum() == pytest.approx(0.0, abs=1e-9)


# The table


def table():
    """Number, statement and tests of each invariant."""
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\d+ ", line):
            number, words = line.split(" ", 1)
            found.append((int(number), words, []))
        elif line.strip() and not line.startswith("#"):
            found[-1][2].append(line.strip())
    return found


def test_the_invariants_are_numbered_and_each_has_a_test():
    assert [number for number, _, _ in table()] == list(range(1, 22))
    assert [number for number, _, tests in table() if not tests] == []


def test_the_tests_that_the_table_names_are_there():
    for _, _, tests in table():
        for named in tests:
            file, _, function = named.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^\s*def {function}\(", text, flags=re.MULTILINE), named
