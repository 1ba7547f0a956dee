"""Credited and caused conversions side by side, the statement of what is identified, and the warning."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, incremental_effects, simulate
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.experiments.negative_controls import judge_controls
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.errors import ConfoundingWarning, InvalidRequest
from attrib_ds.simulation.scenarios import scenario_named

CONTROLS = ["organic", "direct"]
HELD = pd.DataFrame({"user_id": ["u00000001"], "node_id": ["display"]})


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=12_000, seed=4, holdout=0.2)


@pytest.fixture(scope="module")
def paths(world):
    return Paths.from_frames(world.touchpoints, world.conversions, users=world.users)


@pytest.fixture(scope="module")
def effects(world, paths):
    return incremental_effects(paths, controls=CONTROLS, withheld=world.withheld, covariates=["trait"])


@pytest.mark.slow
def test_credited_and_caused_conversions_are_side_by_side(paths, effects):
    columns = ["model", "node_id", "node_name", "currency", "is_control", "credited", "caused", "low", "high"]
    assert list(effects.columns[:9]) == columns
    linear = attribute(paths, "linear").set_index("node_id")["conversions"]
    hazard = attribute(paths, "discrete_hazard", confidence=0.95).set_index("node_id")
    rows = effects.set_index("node_id")
    assert rows["credited"].to_dict() == pytest.approx(
        linear.reindex(rows.index).fillna(0.0).to_dict(), nan_ok=True
    )
    for mine, theirs in (("caused", "conversions"), ("low", "low"), ("high", "high")):
        expected = hazard.loc[rows.index[:-1], theirs]
        assert rows[mine].iloc[:-1].to_numpy() == pytest.approx(expected.to_numpy())
    assert set(effects.loc[effects["is_control"], "node_id"]) == set(CONTROLS)
    assert pd.isna(effects["node_id"].iloc[-1])
    assert effects["credited"].sum() == pytest.approx(len(paths.lags()))
    assert effects["caused"].sum() == pytest.approx(len(paths.lags()))


@pytest.mark.slow
def test_participants_with_their_draws_give_the_same_experiment(world, paths, effects):
    pairs = pd.MultiIndex.from_product(
        [world.users["user_id"], world.withheld["node_id"].unique()], names=["user_id", "node_id"]
    )
    withheld = pairs.isin(pd.MultiIndex.from_frame(world.withheld[["user_id", "node_id"]]))
    participants = pairs.to_frame(index=False).assign(withheld=withheld)
    again = incremental_effects(paths, controls=CONTROLS, participants=participants, covariates=["trait"])
    pd.testing.assert_frame_equal(again, effects)


@pytest.mark.slow
def test_the_experiment_is_next_to_the_models(world, paths, effects):
    rows = effects.set_index("node_id")
    measured = holdout_effects(paths, world.withheld, covariates=["trait"]).set_index("node_id")
    for node in measured.index:
        assert rows.loc[node, "experiment"] == pytest.approx(measured.loc[node, "caused"])
        assert rows.loc[node, "experiment_high"] == pytest.approx(measured.loc[node, "high"])
        assert rows.loc[node, "combined_low"] < rows.loc[node, "combined"] < rows.loc[node, "combined_high"]
    assert rows.loc[CONTROLS, "experiment"].isna().all()
    assert rows.loc[CONTROLS, "combined"].to_numpy() == pytest.approx([0.0, 0.0])
    width = rows["combined_high"] - rows["combined_low"]
    plain = rows["experiment_high"] - rows["experiment_low"]
    assert (width[measured.index] < 0.8 * plain[measured.index]).all()


@pytest.mark.slow
def test_attrs_state_what_is_identified(effects, paths):
    statement = effects.attrs["identified"]
    assert "divided by convention, not an effect" in statement
    assert "caused: the direct effect" in statement
    assert "The data are too few for the negative controls to tell about discrete_hazard" in statement
    assert "no observation periods" not in statement
    assert "experiment: the total effect" in statement
    bare = incremental_effects(paths).attrs["identified"]
    assert "no evidence for or against this assumption" in bare
    assert "only by a randomised experiment" in bare


@pytest.mark.slow
def test_the_statement_mentions_missing_observation_periods(world):
    bare = Paths.from_frames(world.touchpoints, world.conversions)
    statement = incremental_effects(bare, DiscreteHazard(comparisons=2)).attrs["identified"]
    assert "The paths have no observation periods" in statement


@pytest.mark.slow
def test_several_models_have_their_rows(paths):
    labels = {
        "quick": DiscreteHazard(comparisons=5),
        "short": DiscreteHazard(half_lives=("1D",), comparisons=5),
    }
    found = incremental_effects(paths, labels, conventional="last")
    assert list(dict.fromkeys(found["model"])) == ["quick", "short"]
    credited = [part.set_index("node_id")["credited"].sort_index() for _, part in found.groupby("model")]
    pd.testing.assert_series_equal(*credited)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_controls_with_credit_cause_a_warning():
    # Unpaid touchpoints are rare in this world: among fewer users chance could explain what they earn.
    world = simulate("intent", users=60_000, seed=4)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with pytest.warns(ConfoundingWarning) as caught:
        found = incremental_effects(paths, controls=CONTROLS)
    (warning,) = [warning for warning in caught if warning.category is ConfoundingWarning]
    assert str(warning.message).startswith(
        "discrete_hazard estimates effects of nodes known to have none: organic"
    )
    assert "holdout_effects" in str(warning.message)
    assert warning.filename == __file__
    assert "does not hold for discrete_hazard" in found.attrs["identified"]


@pytest.mark.parametrize(
    ("controls", "error", "others", "total", "expected"),
    [
        # Two controls: the mean square of 3 and 4 is 12.5, above the 10.2 that chance reaches once in 1,000.
        ([30.0, 40.0], 10.0, 500.0, 1e4, True),
        ([30.0, 40.0], 11.2, 500.0, 1e4, False),  # 10.0
        ([30.0, 40.0], 10.0, 2_300.0, 1e4, True),
        ([30.0, 40.0], 10.0, 2_350.0, 1e4, False),  # less than 3 % of the others
        ([-30.0, -40.0], 10.0, 500.0, 1e4, True),  # harm is no effect either
        ([30.0, 40.0], 10.0, 1e9, 600.0, True),  # a model gone astray does not hide its controls
        ([0.0, 0.0], 0.0, 500.0, 1e4, False),
        ([60.0, 0.0], 0.0, 500.0, 1e4, True),
    ],
)
def test_controls_count_as_confounded_if_their_credit_is_significant_and_large(
    controls, error, others, total, expected
):
    rest = np.array([others / 2, -others / 2])
    # The error of the sum is large, so that the controls are tested one by one.
    test = judge_controls(
        np.array(controls), np.full(2, error), sum(controls), 1e4, rest, 0 * rest,
        conversions=total, confidence=0.95,
    )  # fmt: skip
    assert test.verdict == ("confounded" if expected else "cannot tell")


@pytest.mark.parametrize(
    ("total", "error", "others", "others_error", "verdict", "bounds"),
    [
        # With an exact denominator the bounds are those of a t distribution with 19 degrees of freedom: 2.093.
        (30.0, 20.0, 1_000.0, 0.0, "clear", (-0.01186, 0.07186)),
        (30.0, 105.0, 1_000.0, 0.0, "clear", (-0.18977, 0.24977)),
        (30.0, 106.0, 1_000.0, 0.0, "cannot tell", (-0.19186, 0.25186)),
        (-30.0, 106.0, 1_000.0, 0.0, "cannot tell", (-0.25186, 0.19186)),
        (580.0, 180.0, 1_000.0, 0.0, "cannot tell", (0.20326, 0.95674)),
        (580.0, 120.0, 1_000.0, 0.0, "confounded", (0.32884, 0.83116)),
        # Others that may have no credit at all leave the share unbounded, and nothing is clear.
        (0.0, 1.0, 10.0, 5.0, "cannot tell", (-np.inf, np.inf)),
        (0.0, 1.0, 0.0, 0.0, "cannot tell", (-np.inf, np.inf)),
    ],
)
def test_the_verdict_is_clear_only_if_the_interval_of_the_share_is_small(
    total, error, others, others_error, verdict, bounds
):
    test = judge_controls(
        np.array([total]), np.array([error]), total, error, np.array([others]), np.array([others_error]),
        conversions=1e4, confidence=0.95,
    )  # fmt: skip
    assert test.verdict == verdict
    assert (test.low, test.high) == pytest.approx(bounds, abs=1e-4)


def test_without_controls_nobody_can_tell(paths):
    rows = incremental_effects(paths, DiscreteHazard(comparisons=2))
    assert set(rows["verdict"]) == {"cannot tell"}
    assert rows[["controls_share", "controls_share_low", "controls_share_high"]].isna().all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "users", "verdict"),
    [("random", 150_000, "clear"), ("considered", 30_000, "confounded"), ("sessions", 60_000, "confounded")],
)
def test_verdicts_in_simulated_worlds(scenario, users, verdict):
    world = simulate(scenario, users=users, seed=31)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = incremental_effects(paths, controls=CONTROLS)
    assert set(rows["verdict"]) == {verdict}
    assert (rows["controls_share_low"] <= rows["controls_share_high"]).all()


@pytest.mark.slow
def test_effects_in_worlds_where_nothing_has_one_are_never_clear():
    for scenario in ("promotions", "sessions"):
        plain = scenario_named(scenario)
        nothing = replace(plain, channels=tuple(replace(channel, direct=0.0) for channel in plain.channels))
        world = simulate(nothing, users=40_000, seed=32)
        assert world.truth()["removal"].eq(0).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rows = incremental_effects(
                Paths.from_frames(world.touchpoints, world.conversions, users=world.users), controls=CONTROLS
            )
        assert "clear" not in set(rows["verdict"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": "linear"}, "models: 'linear' is not an incremental model"),
        ({"models": []}, "models is empty; allowed: at least one"),
        ({"models": DiscreteHazard}, "models: .* is not an incremental model"),
        ({"models": None}, "models: None is not an incremental model"),
        ({"controls": None}, "controls: None is not allowed"),
        ({"confidence": None}, "confidence: None is not a share"),
        ({"opportunities": HELD}, "opportunities: there is no column 'withheld'"),
        ({"covariates": ["trait"]}, "covariates: requires an experiment, which is missing"),
        ({"models": ["discrete_hazard", DiscreteHazard()]}, "the label 'discrete_hazard' is taken"),
        ({"models": {"averaged": "discrete_hazard"}}, "the label 'averaged' is taken"),
        ({"conventional": "discrete_hazard"}, "conventional: 'discrete_hazard' is not allowed"),
        ({"controls": "direct"}, r"allowed: a list, as in \['direct'\]"),
        ({"controls": ["diract"]}, "did you mean 'direct'"),
        ({"confidence": 2}, "confidence: 2 is not"),
    ],
)
def test_invalid_arguments_are_refused(paths, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        incremental_effects(paths, **arguments)
