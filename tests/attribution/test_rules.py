"""Shapley values of observed sets: by hand, by the definition, and by position."""

import re

import ibis
import pandas as pd
import pytest
from hypothesis import example, given, settings
from scipy.stats import chi2
from support.dtype_names import dtype_names
from support.journeys_as_paths import HOUR, NOON, credited, journeys, paths_of, users_of
from support.law_examples import examples
from support.reference_path_models import observed_sets

from attrib_ds import Paths, attribute, errors, position_credits
from attrib_ds.attribution import rules
from attrib_ds.attribution.models import Shapley, TimeDecay, rule_models

few = settings(max_examples=examples(10))


@pytest.mark.slow
def test_each_distinct_node_has_an_equal_share():
    # a, b, a: 4 divided equally between a and b; c alone 1.
    rows = [(("a", "b", "a"), 4, 40.0, 9), (("c",), 1, 2.0, 0)]
    assert credited(paths_of(rows), Shapley()) == pytest.approx({"a": 2.0, "b": 2.0, "c": 1.0})
    assert credited(paths_of(rows), "shapley", "value") == pytest.approx({"a": 20.0, "b": 20.0, "c": 2.0})


@pytest.mark.slow
@few
@given(journeys("abcde"))
@example([(("a", "a", "b"), 1, 1.0, 2), (("b", "a"), 2, 3.0, 0), (("c", "b", "a", "d", "e"), 3, 1.0, 1)])
@example([(("a",), 0, 0.0, 1), (("b",), 1, 1.0, 0)])
def test_values_equal_the_definition_over_all_sets(drawn):
    found = credited(paths_of(drawn), "shapley")
    # A node without a converting path is a null player, and has no row.
    expected = {node: value for node, value in observed_sets(drawn).items() if value}
    assert found == pytest.approx(expected, abs=1e-9)
    assert sum(found.values()) == pytest.approx(sum(converted for _, converted, _, _ in drawn))


def test_symmetric_nodes_have_equal_values():
    rows = [(("a", "c"), 2, 1.0, 0), (("c", "b"), 2, 1.0, 0), (("b", "a", "b"), 3, 1.0, 1)]
    found = credited(paths_of(rows), "shapley")
    assert found["a"] == pytest.approx(found["b"], abs=1e-12)


def test_positions_by_hand():
    # a is at positions 1 and 3 of three, and its half is split; b is at 2; c is at 1.
    rows = [(("a", "b", "a"), 4, 40.0, 9), (("c", "a"), 1, 6.0, 0)]
    credits = position_credits(paths_of(rows))
    assert credits[["node_id", "position", "conversions", "value"]].to_numpy().tolist() == [
        ["a", 1, 1.0, 10.0],
        ["a", 2, 0.5, 3.0],
        ["a", 3, 1.0, 10.0],
        ["b", 2, 2.0, 20.0],
        ["c", 1, 0.5, 3.0],
    ]
    assert dtype_names(credits) == {
        "node_id": "str",
        "node_name": "str",
        "position": "Int64",
        "conversions": "float64",
        "value": "float64",
        "currency": "str",
    }


@pytest.mark.slow
@few
@given(journeys())
def test_positions_add_up_to_the_unordered_values(drawn):
    paths = paths_of(drawn)
    by_node = position_credits(paths, Shapley()).groupby("node_id")[["conversions", "value"]].sum()
    unordered = attribute(paths, "shapley").set_index("node_id")
    for column in ("conversions", "value"):
        found = by_node[column].to_dict()
        assert found == pytest.approx({} if not found else unordered[column].to_dict(), abs=1e-9)


def test_positions_of_rules_and_of_conversions_without_a_touchpoint():
    rows = [(("a", "b"), 2, 4.0, 0)]
    paths = users_of(rows)
    shown = position_credits(paths, "last_touch")[["node_id", "position", "conversions"]]
    assert shown.to_numpy().tolist() == [["a", 1, 0.0], ["b", 2, 2.0]]
    touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["a"], "date": [NOON + HOUR]})
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [NOON]})
    alone = position_credits(Paths.from_frames(touchpoints, conversions))
    assert alone["node_id"].isna().tolist() == [True]
    assert alone[["position", "conversions"]].to_numpy().tolist() == [[0, 1.0]]


def test_a_ramp_gives_the_place_of_a_touchpoint_over_the_sum_of_places():
    credits = attribute(users_of([(("a", "b", "c"), 1, 6.0, 0)]), "linear_ramp").set_index("node_id")
    assert credits["value"].to_dict() == pytest.approx({"a": 1.0, "b": 2.0, "c": 3.0})


def test_models_without_weights_have_no_positions():
    with pytest.raises(errors.InvalidRequest, match="credits nodes, not touchpoints"):
        position_credits(paths_of([(("a",), 1, 1.0, 0)]), "markov")
    with pytest.raises(errors.InvalidRequest, match="is not a model; allowed"):
        position_credits(paths_of([(("a",), 1, 1.0, 0)]), 3)


@pytest.mark.slow
def test_intervals_count_a_node_once_per_conversion():
    # 400 conversions each credit a with 1/2, aggregated or by user.
    rows = [(("a", "b", "a"), 400, 0.0, 0)]
    for paths in (paths_of(rows), users_of(rows)):
        credits = attribute(paths, ["shapley", "linear"], confidence=0.95).set_index(["model", "node_id"])
        # Exact bound of a Poisson count of equal parts (Garwood 1936).
        bound = chi2.ppf(0.975, 2 * 400 + 2) / 2
        assert credits.loc[("shapley", "a"), "high"] == pytest.approx(bound / 2)
        # Linear gives a two thirds.
        assert credits.loc[("linear", "a"), "high"] == pytest.approx(bound * 2 / 3)


@pytest.mark.few(4)
@pytest.mark.parametrize("model", [*rule_models(), TimeDecay(half_life="3D", step="1D")], ids=str)
def test_constants_of_weights_are_doubles(model):
    """DuckDB 1.5 reads 0.099 as a decimal, and rounds it to another double than DuckDB 2 does."""
    date = pd.to_datetime(["2025-01-01T10:00Z", "2025-01-02T10:00Z"])
    clicks = pd.DataFrame({"user_id": "u", "node_id": ["a", "b"], "date": date})
    paths = Paths.from_frames(clicks, pd.DataFrame({"event_id": ["e"], "user_id": "u", "date": date[1:]}))
    chosen = rule_models()[model] if isinstance(model, str) else model
    sql = ibis.to_sql(
        paths.touches.select(weight=rules.weight(chosen, paths, paths.touches)), dialect="duckdb"
    )
    decimals = re.findall(r"(?<![\w.])\d+\.\d+", re.sub("'[^']*'", "", str(sql)))
    assert not [each for each in decimals if float(each) not in {0.0, 0.5, 1.0, 2.0}]
