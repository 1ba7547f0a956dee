"""Credit and effect side by side, what is said of them, and the warning by controls."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, incremental_effects, simulate
from attrib_ds.attribution.experiments import holdout_effects
from attrib_ds.attribution.experiments.negative_controls import is_confounded
from attrib_ds.attribution.models.incremental import DiscreteHazard, LatentIntent
from attrib_ds.errors import ConfoundingWarning, InvalidRequest

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


def test_credit_and_effect_stand_side_by_side(paths, effects):
    columns = ["model", "node_id", "node_name", "currency", "is_control", "credited", "caused", "low", "high"]
    assert list(effects.columns[:9]) == columns
    linear = attribute(paths, "linear").set_index("node_id")["conversions"]
    hazard = attribute(paths, "discrete_hazard", confidence=0.95).set_index("node_id")
    rows = effects.set_index("node_id")
    assert rows["credited"].to_dict() == pytest.approx(
        linear.reindex(rows.index).fillna(0.0).to_dict(), nan_ok=True
    )
    for mine, theirs in (("caused", "conversions"), ("low", "low"), ("high", "high")):
        told = hazard.loc[rows.index[:-1], theirs]
        assert rows[mine].iloc[:-1].to_numpy() == pytest.approx(told.to_numpy())
    assert set(effects.loc[effects["is_control"], "node_id"]) == set(CONTROLS)
    assert pd.isna(effects["node_id"].iloc[-1])
    assert effects["credited"].sum() == pytest.approx(len(paths.lags()))
    assert effects["caused"].sum() == pytest.approx(len(paths.lags()))


def test_the_experiment_is_beside_them(world, paths, effects):
    rows = effects.set_index("node_id")
    told = holdout_effects(paths, world.withheld, covariates=["trait"]).set_index("node_id")
    for node in told.index:
        assert rows.loc[node, "experiment"] == pytest.approx(told.loc[node, "caused"])
        assert rows.loc[node, "experiment_high"] == pytest.approx(told.loc[node, "high"])
        assert rows.loc[node, "combined_low"] < rows.loc[node, "combined"] < rows.loc[node, "combined_high"]
    assert rows.loc[CONTROLS, "experiment"].isna().all()
    assert rows.loc[CONTROLS, "combined"].to_numpy() == pytest.approx([0.0, 0.0])
    width = rows["combined_high"] - rows["combined_low"]
    plain = rows["experiment_high"] - rows["experiment_low"]
    assert (width[told.index] < 0.8 * plain[told.index]).all()


def test_it_says_what_is_identified(effects, paths):
    said = effects.attrs["identified"]
    assert "it is no effect" in said
    assert "caused: the direct effect" in said
    assert "earn no more than sampling error explains" in said
    assert "was not told" not in said
    assert "experiment: the total effect" in said
    bare = incremental_effects(paths).attrs["identified"]
    assert "nothing speaks for it or against it" in bare
    assert "a randomised experiment alone" in bare


def test_it_says_so_of_each_kind_of_model(world, paths):
    quick = {"users": 500, "activities": 2, "propensities": 1, "evaluations": 2}
    models = {
        "direct": DiscreteHazard(comparisons=2),
        "short": DiscreteHazard(half_lives=("1D",), comparisons=2),
        "told": LatentIntent(controls=tuple(CONTROLS), **quick),
    }
    said = incremental_effects(paths, models, controls=CONTROLS).attrs["identified"]
    assert "caused (direct, short): the direct effect" in said
    assert "caused (told): the effect on conversions and on the steps towards them" in said
    assert "told was told that these nodes have no effect" in said
    assert "earn no more under direct, short than" in said
    alone = incremental_effects(paths, models["told"]).attrs["identified"]
    assert "caused: the effect on conversions and on the steps towards them" in alone
    assert "direct effect" not in alone


def test_it_says_that_nobody_told_who_was_observed(world):
    bare = Paths.from_frames(world.touchpoints, world.conversions)
    said = incremental_effects(bare, DiscreteHazard(comparisons=2)).attrs["identified"]
    assert "Who was observed, and when, was not told" in said


def test_several_models_have_their_rows(paths):
    labels = {
        "quick": DiscreteHazard(comparisons=5),
        "short": DiscreteHazard(half_lives=("1D",), comparisons=5),
    }
    found = incremental_effects(paths, labels, conventional="last")
    assert list(dict.fromkeys(found["model"])) == ["quick", "short"]
    credited = [part.set_index("node_id")["credited"].sort_index() for _, part in found.groupby("model")]
    pd.testing.assert_series_equal(*credited)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_controls_that_earn_credit_are_warned_of():
    # Unpaid touchpoints are rare in this world: among fewer users chance could explain what they earn.
    world = simulate("intent", users=60_000, seed=4)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with pytest.warns(ConfoundingWarning) as caught:
        found = incremental_effects(paths, controls=CONTROLS)
    (told,) = [each for each in caught if each.category is ConfoundingWarning]
    assert str(told.message).startswith(
        "discrete_hazard finds effects of nodes that are known to have none: direct"
    )
    assert "holdout_effects" in str(told.message)
    assert told.filename == __file__
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
def test_the_rule(controls, error, others, total, expected):
    credited = np.array([others / 2, -others / 2, *controls])
    known = np.array([False, False, True, True])
    assert is_confounded(credited, np.full(4, error), known, total=total) is expected


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"models": "linear"}, "'linear' gives credit and estimates no effect"),
        ({"models": []}, "models: there is none"),
        ({"models": DiscreteHazard}, "models: .* gives credit and estimates no effect"),
        ({"models": None}, "models: None gives credit and estimates no effect"),
        ({"controls": None}, "controls: None is not allowed"),
        ({"confidence": None}, "confidence: None is not a share"),
        ({"opportunities": HELD}, "opportunities: it tells of an experiment, and withheld= is missing"),
        ({"covariates": ["trait"]}, "covariates: it tells of an experiment, and withheld= is missing"),
        ({"models": ["discrete_hazard", DiscreteHazard()]}, "the label 'discrete_hazard' is taken"),
        ({"models": {"averaged": "discrete_hazard"}}, "the label 'averaged' is taken"),
        ({"conventional": "discrete_hazard"}, "conventional: 'discrete_hazard' is not allowed"),
        ({"controls": "direct"}, r"allowed: a list, as in \['direct'\]"),
        ({"controls": ["diract"]}, "did you mean 'direct'"),
        ({"confidence": 2}, "confidence: 2 is not"),
    ],
)
def test_what_is_not_allowed_is_told(paths, arguments, told):
    with pytest.raises(InvalidRequest, match=told):
        incremental_effects(paths, **arguments)
