"""Credits of rules, against numbers computed by hand."""

import gc
from dataclasses import replace

import ibis
import numpy as np
import pandas as pd
import pytest
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.expr import operations as ops
from scipy.stats import chi2, gamma
from support.dtype_names import dtype_names
from support.engine_tables import MODELS, engine_tables

import attrib_ds as at
from attrib_ds import Paths, attribute, errors
from attrib_ds.attribution.models import (
    CustomWeights,
    LastNonDirect,
    Linear,
    PositionBased,
    TimeDecay,
)
from attrib_ds.records.frames import TEXT

DAY = pd.Timedelta(days=1)
NOON = pd.Timestamp("2025-03-10T12:00:00Z")


def touchpoints(*rows):
    return pd.DataFrame(
        {
            "user_id": [row[0] for row in rows],
            "node_id": [row[1] for row in rows],
            "date": pd.to_datetime([NOON - row[2] * DAY for row in rows], utc=True),
        }
    )


def conversions(*rows):
    frame = pd.DataFrame(rows, columns=["event_id", "user_id", "value"])
    return frame.assign(date=NOON)


@pytest.fixture
def four():
    """One conversion worth 100, with touches 14, 7, 7 and 0 days before it: a, b, a, direct."""
    touched = touchpoints(("u", "a", 14), ("u", "b", 8), ("u", "a", 7), ("u", "direct", 0))
    return Paths.from_frames(touched, conversions(("e", "u", 100.0)))


def credited(paths, model, column="conversions"):
    return attribute(paths, model).set_index("node_id")[column].to_dict()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("first_touch", {"a": 1, "b": 0, "direct": 0}),
        ("last_touch", {"a": 0, "b": 0, "direct": 1}),
        ("last_non_direct", {"a": 1, "b": 0, "direct": 0}),
        ("linear", {"a": 0.5, "b": 0.25, "direct": 0.25}),
        ("linear_ramp", {"a": 0.4, "b": 0.2, "direct": 0.4}),  # 1, 2, 3, 4 of 10
        ("position_based", {"a": 0.5, "b": 0.1, "direct": 0.4}),
        ("j_shaped", {"a": 0.3, "b": 0.1, "direct": 0.6}),
        ("inverse_j", {"a": 0.7, "b": 0.1, "direct": 0.2}),
        ("participation", {"a": 1, "b": 1, "direct": 1}),
    ],
)
def test_weights_by_hand(four, model, expected):
    assert credited(four, model) == pytest.approx(expected, abs=1e-12)
    worth = {node: 100 * share for node, share in expected.items()}
    assert credited(four, model, "value") == pytest.approx(worth, abs=1e-9)


def test_time_decay_by_hand(four):
    # Half-life 7 days: ages 14, 8, 7, 0 weigh 1/4, 2^(-8/7), 1/2, 1.
    b = 2 ** (-8 / 7)
    total = 0.25 + b + 0.5 + 1
    expected = {"a": 0.75 / total, "b": b / total, "direct": 1 / total}
    assert credited(four, "time_decay") == pytest.approx(expected, abs=1e-12)


def test_time_decay_in_steps_counts_whole_steps(four):
    # Steps of 7 days: ages 14, 8, 7, 0 count as 14, 7, 7, 0.
    expected = {"a": 0.75 / 2.25, "b": 0.5 / 2.25, "direct": 1 / 2.25}
    assert credited(four, TimeDecay("7D", step="7D")) == pytest.approx(expected, abs=1e-12)


def test_time_decay_does_not_underflow_for_old_touches():
    touched = touchpoints(("u", "a", 29), ("u", "b", 28))
    paths = Paths.from_frames(touched, conversions(("e", "u", 1.0)))
    assert credited(paths, TimeDecay("1s")) == pytest.approx({"a": 0, "b": 1}, abs=1e-12)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("length", "first", "last", "expected"),
    [
        (1, 0.4, 0.4, [1.0]),
        (2, 0.4, 0.4, [0.5, 0.5]),
        (2, 0.2, 0.6, [0.25, 0.75]),
        (2, 0.0, 0.0, [0.5, 0.5]),  # no share to either end: equally
        (3, 0.0, 0.0, [0.0, 1.0, 0.0]),
        (3, 0.5, 0.5, [0.5, 0.0, 0.5]),
        (4, 1.0, 0.0, [1.0, 0.0, 0.0, 0.0]),
        (5, 0.4, 0.4, [0.4, 0.2 / 3, 0.2 / 3, 0.2 / 3, 0.4]),
    ],
)
def test_position_based_by_path_length(length, first, last, expected):
    touched = touchpoints(*(("u", f"n{index}", length - index) for index in range(length)))
    paths = Paths.from_frames(touched, conversions(("e", "u", 1.0)))
    assert credited(paths, PositionBased(first, last)) == pytest.approx(
        {f"n{index}": share for index, share in enumerate(expected)}, abs=1e-12
    )


class TestMilestones:
    """W and full-path credit the touchpoints at milestones too."""

    @pytest.fixture
    def paths(self):
        touched = touchpoints(*(("u", node, age) for node, age in zip("abcde", (9, 7, 5, 3, 1), strict=True)))
        converted = conversions(("e", "u", 1.0)).assign(lead=NOON - 5 * DAY, opportunity=NOON - 2 * DAY)
        dates = {"milestone.lead": "lead", "milestone.opportunity": "opportunity"}
        return Paths.from_frames(touched, converted, columns=dates)

    def test_w(self, paths):
        # a first, c at the lead, e last, 0.3 each; b and d share 0.1.
        expected = {"a": 0.3, "b": 0.05, "c": 0.3, "d": 0.05, "e": 0.3}
        assert credited(paths, "w_shaped") == pytest.approx(expected, abs=1e-12)

    def test_full_path(self, paths):
        # d is the last touchpoint before the opportunity; only b has no role.
        expected = {"a": 0.225, "b": 0.1, "c": 0.225, "d": 0.225, "e": 0.225}
        assert credited(paths, "full_path") == pytest.approx(expected, abs=1e-12)

    def test_roles_that_coincide_add_up_and_absent_ones_are_scaled_away(self):
        touched = touchpoints(("u", "a", 9), ("u", "b", 1), ("v", "a", 9), ("v", "b", 1))
        converted = conversions(("e", "u", 1.0), ("f", "v", 1.0)).assign(lead=[NOON - 5 * DAY, pd.NaT])
        paths = Paths.from_frames(touched, converted, columns={"milestone.lead": "lead"})
        # e: a is first and lead (0.6), b last (0.3), no other touchpoints: 2/3, 1/3. f: no lead: 1/2, 1/2.
        assert credited(paths, "w_shaped") == pytest.approx({"a": 2 / 3 + 0.5, "b": 1 / 3 + 0.5}, abs=1e-12)

    def test_a_milestone_the_paths_do_not_carry_is_refused(self, four):
        with pytest.raises(errors.InvalidRequest, match="milestone 'lead'; the paths have: none"):
            attribute(four, "w_shaped")


def test_custom_weights_are_scaled_to_one(four):
    model = CustomWeights(lambda touch: 1 / (1 + touch.age_days), label="hyperbolic")
    total = 1 / 15 + 1 / 9 + 1 / 8 + 1
    expected = {"a": (1 / 15 + 1 / 8) / total, "b": 1 / 9 / total, "direct": 1 / total}
    assert credited(four, model) == pytest.approx(expected, abs=1e-12)
    assert set(attribute(four, model)["model"]) == {"hyperbolic"}


def test_custom_weights_that_are_all_zero_credit_equally(four):
    assert credited(four, CustomWeights(lambda touch: 0)) == pytest.approx(
        {"a": 0.5, "b": 0.25, "direct": 0.25}, abs=1e-12
    )


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (lambda touch: -touch.position, "missing, negative or not finite"),
        (lambda touch: -1, "missing, negative or not finite"),
        (lambda touch: touch.age_days.nullif(7), "missing, negative or not finite"),
        (lambda touch: (touch.age_days * 1e9).exp(), "missing, negative or not finite|cannot be computed"),
        # DuckDB 1 raises, DuckDB 2 returns minus infinity.
        (lambda touch: touch.age_days.log(), "missing, negative or not finite|cannot be computed"),
        (lambda touch: "much", "returns str; allowed: a number"),
        (lambda touch: touch.position == 1, "returns BooleanColumn; allowed: a number"),
        (lambda touch: True, "returns bool; allowed: a number"),
        (lambda touch: 1 if touch.position == 1 else 0, "cannot be computed: .*truth value.*ibis.ifelse"),
        (lambda touch: touch["colour"], "cannot be computed: .*'colour'"),
        (
            lambda touch: 1 / touch.position.max(),
            "aggregates over touchpoints.*allowed: a function of one touchpoint",
        ),
        # The sum is infinite, so shares of it are undefined.
        (lambda touch: 1e308 + 0 * touch.position, "missing, negative or not finite"),
    ],
)
def test_invalid_custom_weights_are_refused(four, weight, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        attribute(four, CustomWeights(weight))


def test_custom_weights_that_use_an_unknown_column_are_refused(four):
    with pytest.raises(errors.InvalidRequest, match="position, length, age_days, node_id, type"):
        attribute(four, CustomWeights(lambda touch: touch.colour))


@pytest.mark.parametrize("models", [None, 3, Linear, b"linear"])
def test_arguments_that_are_no_models_are_refused(four, models):
    with pytest.raises(errors.InvalidRequest, match="models: .* is not a model; allowed"):
        attribute(four, models)


def test_an_argument_other_than_paths_is_refused():
    with pytest.raises(errors.InvalidRequest, match="paths: DataFrame is not Paths; allowed: .*from_frames"):
        attribute(touchpoints(("u", "a", 1)), "linear")


def test_spend_is_kept_without_conversions():
    paths = Paths.from_frames(touchpoints(("u", "a", 1)), conversions(("e", "u", 1.0)).iloc[:0])
    spend = pd.DataFrame({"node_id": ["a"], "spend": [5.0], "currency": ["EUR"]})
    credits = attribute(paths, ["linear", "last_touch"], spend=spend)
    assert credits[["model", "node_id", "conversions", "spend"]].to_numpy().tolist() == [
        ["linear", "a", 0.0, 5.0],
        ["last_touch", "a", 0.0, 5.0],
    ]


def test_last_non_direct_with_named_direct_nodes(four):
    assert credited(four, LastNonDirect(direct=("direct", "a"))) == {"a": 0, "b": 1, "direct": 0}


def test_last_non_direct_never_drops_a_conversion_of_direct_touches_only():
    touched = touchpoints(("u", "(Direct)", 3), ("u", "(Direct)", 1))
    paths = Paths.from_frames(touched, conversions(("e", "u", 1.0)))
    assert credited(paths, "last_non_direct") == {"(Direct)": 1}


def test_last_non_direct_of_direct_touches_only_is_the_last_touch():
    touched = touchpoints(("u", "(direct)", 3), ("u", "direct", 1))
    paths = Paths.from_frames(touched, conversions(("e", "u", 1.0)))
    assert credited(paths, "last_non_direct") == {"(direct)": 0, "direct": 1}


def test_conversions_without_a_touchpoint_are_the_unattributed_row():
    touched = touchpoints(("u", "a", 1), ("v", "b", 31), ("w", "c", -1))
    paths = Paths.from_frames(
        touched, conversions(("e", "u", 10.0), ("f", "v", 20.0), ("g", "w", 30.0), ("h", "x", 40.0))
    )
    credits = attribute(paths, "linear")
    unattributed = credits[credits["node_id"].isna()]
    assert unattributed[["conversions", "value"]].to_numpy().tolist() == [[3.0, 90.0]]
    assert credits["share"].tolist() == [0.25, 0.75]
    assert set(credits["node_id"].dropna()) == {"a"}


def frames_with_names():
    """Results with a row without a node: one conversion of u by a, then one of x without a touchpoint."""
    touched = touchpoints(("u", "a", 1))
    paths = Paths.from_frames(touched, conversions(("e", "u", 10.0), ("f", "x", 20.0)))
    credits = attribute(paths, "linear", confidence=0.9)
    nodes = pd.DataFrame({"_id": ["a"], "parentId": [None], "type": ["campaign"], "name": ["A"]})
    return {
        "attribute": credits,
        "attribute with spend": attribute(
            paths, "linear", spend=pd.DataFrame({"node_id": ["a"], "spend": [1]})
        ),
        "compare_models": at.compare_models(credits),
        "compare_lookbacks": at.compare_lookbacks(paths, ["12h", "7D"]),
        "credit_series": at.credit_series(paths, "linear"),
        "drill_down": at.drill_down(credits, nodes),
        "explain": at.explain(paths, "linear", "f"),
        "position_credits": at.position_credits(paths),
        "report_returns": at.report_returns(credits, pd.DataFrame({"node_id": ["a"], "spend": [1]})),
        "roll_up": at.roll_up(credits, nodes, "campaign"),
        "touch_credits": at.touch_credits(paths, "linear"),
        "touchpoints": paths.to_pandas(),
    }


@pytest.mark.large
@pytest.mark.slow
def test_every_frame_calls_the_row_without_a_node_unattributed():
    for name, frame in frames_with_names().items():
        without = frame[frame["node_id"].isna()]
        assert len(without), name
        assert set(without["node_name"]) == {"unattributed"}, name
        assert frame["node_name"].dtype == TEXT, name
    credits = frames_with_names()["attribute"]
    assert credits.groupby("node_name")["conversions"].sum().to_dict() == {"a": 1.0, "unattributed": 1.0}


@pytest.mark.parametrize("node_id", ["unattributed", "n1"])
def test_a_node_called_unattributed_is_told_apart_by_its_id(node_id):
    touched = touchpoints(("u", node_id, 1))
    paths = Paths.from_frames(touched, conversions(("e", "u", 10.0), ("f", "x", 20.0)))
    tree = pd.DataFrame({"node_id": [node_id], "name": "unattributed", "type": "campaign", "parent_id": None})
    paths = replace(paths, nodes=tree)
    credits = attribute(paths, "linear")
    named = {f"unattributed ({node_id})": 10.0, "unattributed": 20.0}
    assert credits.groupby("node_name")["value"].sum().to_dict() == named
    nodes = tree.rename(columns={"node_id": "_id", "parent_id": "parentId"})
    assert at.roll_up(credits, nodes, "campaign").set_index("node_name")["value"].to_dict() == named
    spend = pd.DataFrame({"node_id": ["unattributed"], "spend": [1.0]})
    spent = at.report_returns(credits, spend).set_index("node_name")["spend"]
    assert spent["unattributed (unattributed)"] == 1.0
    assert pd.isna(spent["unattributed"])


def test_a_node_without_a_name_is_called_by_its_id():
    paths = Paths.from_frames(touchpoints(("u", "a", 1)), conversions(("e", "u", 10.0)))
    tree = pd.DataFrame({"node_id": ["a"], "name": [None], "type": "campaign", "parent_id": None})
    assert attribute(replace(paths, nodes=tree), "linear")["node_name"].tolist() == ["a"]


def test_the_window_is_open_at_its_start_and_closed_at_the_conversion():
    touched = touchpoints(
        ("u", "at-start", 30), ("u", "inside", 29.999), ("u", "at-end", 0), ("u", "after", -0.001)
    )
    paths = Paths.from_frames(touched, conversions(("e", "u", 1.0)))
    assert paths.to_pandas()["node_id"].tolist() == ["inside", "at-end"]


def test_each_conversion_of_a_user_has_its_own_window():
    touched = touchpoints(("u", "a", 3), ("u", "b", 1))
    converted = pd.concat(
        [conversions(("e", "u", 1.0)), conversions(("f", "u", 5.0)).assign(date=NOON - 2 * DAY)]
    )
    assert credited(Paths.from_frames(touched, converted), "last_touch", "value") == {"a": 5.0, "b": 1.0}


def test_currencies_are_never_summed():
    touched = touchpoints(("u", "a", 1), ("v", "a", 1))
    converted = conversions(("e", "u", 10.0), ("f", "v", 20.0)).assign(currency=["EUR", "CHF"])
    credits = attribute(Paths.from_frames(touched, converted), "linear")
    assert credits[["currency", "value", "share"]].to_numpy().tolist() == [
        ["CHF", 20.0, 0.5],
        ["EUR", 10.0, 0.5],
    ]


def test_negative_and_zero_values_are_credited_and_counted():
    touched = touchpoints(("u", "a", 1), ("v", "a", 1), ("w", "b", 1))
    credits = attribute(
        Paths.from_frames(touched, conversions(("e", "u", 10.0), ("f", "v", -10.0), ("g", "w", 0.0))),
        "linear",
    ).set_index("node_id")
    assert credits["conversions"].to_dict() == {"a": 2.0, "b": 1.0}
    assert credits["value"].to_dict() == {"a": 0.0, "b": 0.0}


@pytest.mark.slow
def test_ties_of_time_are_broken_by_the_touch_and_else_by_the_node():
    touched = touchpoints(("u", "b", 1), ("u", "a", 1)).assign(touch=["1", "2"])
    converted = conversions(("e", "u", 1.0))
    assert credited(Paths.from_frames(touched, converted), "first_touch") == {"a": 1, "b": 0}
    assert credited(Paths.from_frames(touched, converted, columns={"touch": "touch"}), "first_touch") == {
        "a": 0,
        "b": 1,
    }
    assert credited(Paths.from_frames(touched[::-1], converted), "first_touch") == {"a": 1, "b": 0}


def test_one_touch_takes_everything_under_every_model():
    paths = Paths.from_frames(touchpoints(("u", "a", 5)), conversions(("e", "u", 7.0)))
    models = [
        "first",
        "last",
        "last-non-direct",
        "linear",
        "ramp",
        "time-decay",
        "position",
        "j",
        "participation",
    ]
    credits = attribute(paths, models)
    assert credits["model"].tolist() == models
    assert credits["conversions"].tolist() == [1.0] * len(models)
    assert credits["value"].tolist() == [7.0] * len(models)


class TestShape:
    """Columns and dtypes do not depend on the rows."""

    dtypes = {
        "model": "str",
        "node_id": "str",
        "node_name": "str",
        "conversions": "float64",
        "value": "float64",
        "currency": "str",
        "share": "float64",
    }

    def test_of_a_full_answer(self, four):
        assert dtype_names(attribute(four, "linear")) == self.dtypes

    def test_of_no_conversion(self):
        none = conversions(("e", "u", 1.0)).iloc[:0]
        credits = attribute(Paths.from_frames(touchpoints(("u", "a", 1)), none), ["linear", "time_decay"])
        assert credits.empty
        assert dtype_names(credits) == self.dtypes

    def test_of_no_touchpoint(self):
        none = touchpoints(("u", "a", 1)).iloc[:0]
        credits = attribute(Paths.from_frames(none, conversions(("e", "u", 1.0))), ["linear", "time_decay"])
        assert credits["conversions"].tolist() == [1.0, 1.0]
        assert credits["node_id"].isna().all()
        assert dtype_names(credits) == self.dtypes

    def test_of_empty_frames_without_dtypes(self):
        paths = Paths.from_frames(
            pd.DataFrame(columns=["user_id", "node_id", "date"]),
            pd.DataFrame(columns=["event_id", "user_id", "date"]),
        )
        assert dtype_names(attribute(paths, "linear")) == self.dtypes
        assert paths.to_pandas().empty
        assert paths.summary().empty

    def test_value_is_null_where_conversions_have_none(self):
        converted = conversions(("e", "u", 1.0)).drop(columns="value")
        credits = attribute(Paths.from_frames(touchpoints(("u", "a", 1)), converted), "linear")
        assert credits["value"].isna().all()
        assert dtype_names(credits) == self.dtypes


class TestConfidence:
    """Intervals of credited conversions: the unit is the user."""

    def test_the_variance_is_the_sum_of_squares_by_user(self):
        # u converts twice through a (credit 2), v once (credit 1/2): variance 4 + 1/4.
        touched = touchpoints(("u", "a", 1), ("v", "a", 2), ("v", "b", 1))
        converted = conversions(("e", "u", 1.0), ("f", "u", 1.0), ("g", "v", 1.0))
        credits = attribute(Paths.from_frames(touched, converted), "linear", confidence=0.95).set_index(
            "node_id"
        )
        a, b = credits.loc["a"], credits.loc["b"]
        assert a["low"] == pytest.approx(gamma.ppf(0.025, 2.5**2 / 4.25, scale=4.25 / 2.5))
        assert a["high"] == pytest.approx(gamma.ppf(0.975, 2.5**2 / 4.25 + 1, scale=4.25 / 2.5))
        # For b, one more conversion of average weight: 4.5 of 3 conversions.
        mean, variance = 0.5 + 1.5, 0.25 + 1.5**2
        assert b["high"] == pytest.approx(gamma.ppf(0.975, mean**2 / variance, scale=variance / mean))

    def test_aggregated_conversions_each_stand_for_themselves(self):
        paths = Paths.from_sequences(
            pd.DataFrame({"path": ["a > b"], "n": [400]}), path="path", conversions="n"
        )
        credits = attribute(paths, "linear", confidence=0.95).set_index("node_id")
        # Half of the exact bounds of a Poisson number of 400: 361.76 and 441.19, by chi-square quantiles.
        assert credits.loc["a", "high"] == pytest.approx(chi2.ppf(0.975, 802) / 4)
        assert credits.loc["a", "low"] == pytest.approx(chi2.ppf(0.025, 800) / 4)

    @pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, "high", float("nan")])
    def test_levels_outside_zero_and_one_are_refused(self, four, confidence):
        with pytest.raises(errors.InvalidRequest, match="confidence: .* allowed: between 0 and 1"):
            attribute(four, "linear", confidence=confidence)


class TestModels:
    """Names and labels of models."""

    def test_names_ignore_case_and_punctuation(self, four):
        assert (
            attribute(four, "Linear")["conversions"].tolist()
            == attribute(four, Linear())["conversions"].tolist()
        )

    def test_the_result_is_labelled_as_asked(self, four):
        credits = attribute(four, {"mine": TimeDecay("1D"), "theirs": "linear"})
        assert list(dict.fromkeys(credits["model"])) == ["mine", "theirs"]
        assert attribute(four, TimeDecay("1D"))["model"].unique().tolist() == ["time_decay(half_life=1D)"]

    def test_an_unknown_name_names_the_closest(self, four):
        with pytest.raises(errors.InvalidRequest, match="'liner' is not a model.*did you mean 'linear'"):
            attribute(four, "liner")

    @pytest.mark.parametrize("models", [[], ["linear", "linear"], [3], [None]])
    def test_invalid_lists_of_models_are_refused(self, four, models):
        with pytest.raises(errors.InvalidRequest, match="models"):
            attribute(four, models)


# Models computed together share counts, and give the same credits as alone.

DAY_TOGETHER = pd.Timestamp("2025-03-01", tz="UTC")
MODELS_TOGETHER = {
    "linear": "linear",
    "markov": at.models.Markov(),
    "markov 3": at.models.Markov(order=3),
    "exposure": at.models.Markov(transform="exposure"),
    "without nulls": at.models.Markov(nulls=False),
    "shapley": at.models.ConversionRateShapley(shrinkage=2.0),
    "fractribution": at.models.Fractribution(),
}


@pytest.fixture(scope="module")
def frames():
    random = np.random.default_rng(7)
    user, day = random.integers(0, 300, 1_200), random.uniform(0, 20, 1_200)
    touches = pd.DataFrame(
        {
            "user_id": [f"u{each}" for each in user],
            "node_id": random.choice(list("abcde"), 1_200, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
            "date": DAY_TOGETHER + pd.to_timedelta(day, unit="D"),
        }
    )
    buyers = random.choice(330, 90, replace=False)
    conversions = pd.DataFrame(
        {
            "event_id": [f"e{each}" for each in buyers],
            "user_id": [f"u{each}" for each in buyers],
            "date": DAY_TOGETHER + pd.to_timedelta(random.uniform(5, 25, 90), unit="D"),
            "value": random.uniform(-5, 50, 90).round(2),
            "currency": random.choice(["EUR", "USD"], 90),
        }
    )
    later = conversions[["event_id", "value"]].iloc[::4].assign(date=DAY_TOGETHER + pd.Timedelta("40D"))
    return touches, conversions, later.assign(value=-later["value"] / 2)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("is_refunded", [False, True], ids=["as sold", "with refunds"])
@pytest.mark.parametrize("intervals", [None, "closed_form", "bootstrap"])
def test_models_give_the_same_credits_together_as_alone(frames, is_refunded, intervals):
    touches, conversions, later = frames
    paths = at.Paths.from_frames(touches, conversions, adjustments=later if is_refunded else None)
    asked = {} if intervals is None else {"confidence": 0.9, "intervals": intervals, "replicates": 20}
    together = at.attribute(paths, MODELS_TOGETHER, **asked)
    alone = [at.attribute(paths, {label: model}, **asked) for label, model in MODELS_TOGETHER.items()]
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True), rtol=1e-9, atol=1e-12)


@pytest.mark.large
@pytest.mark.slow
def test_temporary_tables_are_dropped_after_the_call(frames):
    touches, conversions, _ = frames
    paths = at.Paths.from_frames(touches, conversions)
    engine = paths.touches._find_backends()[0][0].con
    at.attribute(paths, MODELS_TOGETHER)
    gc.collect()
    assert engine.execute("FROM duckdb_tables() WHERE temporary").fetchall() == []


# Credits on engines on which the tests do not run: refused, or checked to add up to their conversions.


class ZeroForNull(DuckDBCompiler):
    """The maximum of no values is 0, as in ClickHouse."""

    def visit_WindowFunction(self, op, *, func, **rest):
        found = super().visit_WindowFunction(op, func=func, **rest)
        return self.f.coalesce(found, 0) if isinstance(op.func, ops.Max) else found


class InnerJoins(DuckDBCompiler):
    """Conversions without touchpoints are lost."""

    def visit_JoinLink(self, op, *, how, table, predicates):
        return super().visit_JoinLink(
            op, how="inner" if how == "left" else how, table=table, predicates=predicates
        )


def engine_with_tables(*, name="unknown", compiler=None):
    """Return DuckDB under the name of an engine that nobody has compared."""
    backend = ibis.duckdb.connect()
    for each, table in engine_tables().items():
        backend.create_table(each, table)
    backend.name = name
    backend.compiler = backend.compiler if compiler is None else compiler
    return backend


def paths_of(backend, **settings):
    return at.Paths.from_frames(
        backend.table("touched"), backend.table("converted"), columns={"touch": "touch_id"}, **settings
    )


REFUSAL = r"tables: unknown is not tested; tested: clickhouse, duckdb, postgres, pyspark\. "


def test_engines_without_tests_are_refused():
    backend = engine_with_tables()
    for attempt in (
        lambda: paths_of(backend),
        lambda: at.open_tables(backend, interactions="interactions", events="events"),
    ):
        with pytest.raises(errors.NotSupported, match=REFUSAL):
            attempt()


@pytest.mark.large
@pytest.mark.slow
def test_an_unchecked_engine_with_right_results_is_accepted():
    duckdb = engine_with_tables(name="duckdb")
    found, expected = (
        at.attribute(paths_of(backend, unchecked=True), MODELS) for backend in (engine_with_tables(), duckdb)
    )
    pd.testing.assert_frame_equal(found, expected, rtol=1e-9)


@pytest.mark.large
@pytest.mark.slow
def test_an_unchecked_project_is_accepted():
    backend = engine_with_tables()
    shop = at.open_tables(backend, interactions="interactions", events="events", unchecked=True)
    paths = at.conversion_paths(shop, event_type="order", statistic="turnover", state="paid", reset="any")
    credits = at.attribute(paths, ["last_non_direct", "markov"], confidence=0.9)
    assert set(credits["model"]) == {"last_non_direct", "markov"}


def test_aggregated_paths_are_not_of_another_engine():
    rows = pd.DataFrame({"path": ["a > b"], "n": [2]})
    assert at.attribute(at.Paths.from_sequences(rows, path="path", conversions="n"), "linear").shape[0] == 2


def test_credits_that_do_not_add_up_are_refused():
    paths = paths_of(engine_with_tables(name="zero", compiler=ZeroForNull()), unchecked=True)
    at.attribute(paths, ["linear", "participation"])
    # All touchpoints of one conversion are direct.
    message = "on zero, the credits of last_non_direct add up to 82 of 83 conversions, so zero computes them"
    with pytest.raises(errors.NotSupported, match=message):
        at.attribute(paths, ["linear", "last_non_direct"])


@pytest.mark.parametrize("model", ["linear", "markov", "shapley"])
def test_conversions_that_the_engine_loses_are_missed(model):
    paths = paths_of(engine_with_tables(name="lossy", compiler=InnerJoins()), unchecked=True)
    # 23 conversions have no touchpoint.
    with pytest.raises(
        errors.NotSupported, match=f"on lossy, the credits of {model} add up to 60 of 83 conv"
    ):
        at.attribute(paths, model)
