"""Effects estimated from paths: what the methods of a result report, the statement and the warnings."""

import pickle
import warnings
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from attrib_ds import Paths, attribute, compare, estimate_effects, simulate
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.models import DiscreteHazard, Markov
from attrib_ds.errors import ConfoundingWarning, InvalidRequest, NotSupported
from attrib_ds.simulation.scenarios import scenario_named

CONTROLS = ["organic", "direct"]
TABLE = [
    "node_id",
    "node_name",
    "currency",
    "credited",
    "caused",
    "low",
    "high",
    "value",
    "value_low",
    "value_high",
]


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=12_000, seed=4, holdout=0.2)


@pytest.fixture(scope="module")
def paths(world):
    return Paths.from_frames(world.touchpoints, world.conversions, users=world.users)


@pytest.fixture(scope="module")
def effects(paths):
    return estimate_effects(paths, controls=CONTROLS)


@pytest.fixture(scope="module")
def holdout(world, paths):
    return holdout_effects(paths, world.withheld, covariates=["trait"])


@pytest.mark.large
@pytest.mark.slow
def test_credited_and_caused_conversions_are_side_by_side(paths, effects):
    table = effects.table()
    assert list(table.columns) == TABLE
    linear = attribute(paths, "linear").set_index("node_id")["conversions"]
    hazard = attribute(paths, "discrete_hazard", confidence=0.95).set_index("node_id")
    rows = table.set_index("node_id")
    assert rows["credited"].to_dict() == pytest.approx(
        linear.reindex(rows.index).fillna(0.0).to_dict(), nan_ok=True
    )
    same = {"caused": "conversions"} | dict.fromkeys(["low", "high", "value", "value_low", "value_high"])
    for mine, theirs in same.items():
        expected = hazard.loc[rows.index[:-1], theirs or mine]
        assert rows[mine].iloc[:-1].to_numpy() == pytest.approx(expected.to_numpy())
    assert pd.isna(table["node_id"].iloc[-1])
    assert table["credited"].sum() == pytest.approx(len(paths.lags()))
    assert table["caused"].sum() == pytest.approx(len(paths.lags()))


@pytest.mark.slow
def test_the_level_is_an_argument_of_the_report(paths, effects):
    wide, narrow = (effects.table(confidence=level).set_index("node_id") for level in (0.95, 0.5))
    assert ((wide["high"] - wide["low"]) > 2 * (narrow["high"] - narrow["low"])).all()
    hazard = attribute(paths, "discrete_hazard", confidence=0.5).set_index("node_id")
    assert narrow.loc["email", "low"] == pytest.approx(hazard.loc["email", "low"])


@pytest.mark.slow
def test_a_contrast_is_the_jackknife_of_the_difference(paths, effects):
    (row,) = effects.contrast("email", "social").to_dict("records")
    table = effects.table().set_index("node_id")
    assert row["difference"] == pytest.approx(table.loc["email", "caused"] - table.loc["social", "caused"])
    assert row["value"] == pytest.approx(table.loc["email", "value"] - table.loc["social", "value"])
    # Twenty groups: without each, scaled to all users; 2.093 is the quantile of Student's t distribution.
    without = np.array([part[:, 0] for part in effects.parts[0].tally.without]) * 20 / 19
    places = [effects.node_ids.index(node) for node in ("email", "social")]
    differences = without[:, places[0]] - without[:, places[1]]
    error = np.sqrt(19 / 20 * ((differences - differences.mean()) ** 2).sum())
    assert row["high"] - row["difference"] == pytest.approx(2.093024 * error, rel=1e-5)
    assert effects.contrast("social", "email")["low"][0] == pytest.approx(-row["high"])


@pytest.mark.slow
def test_results_are_frozen_and_pickle(effects, holdout):
    with pytest.raises(FrozenInstanceError):
        effects.label = "mine"
    combined = effects.combine(holdout)
    for each in (effects, holdout, combined, effects.scale(0.5)):
        again = pickle.loads(pickle.dumps(each))
        pd.testing.assert_frame_equal(again.table(), each.table())
        assert again.identified == each.identified
    again = pickle.loads(pickle.dumps(effects))
    pd.testing.assert_frame_equal(again.by("week"), effects.by("week"))
    pd.testing.assert_frame_equal(again.verdict(["direct"]), effects.verdict(["direct"]))


@pytest.mark.slow
def test_a_result_shows_table_verdict_and_warnings(effects, holdout):
    assert repr(effects).startswith("<HazardEffects of discrete_hazard>\nverdict: cannot tell\n")
    noted = replace(effects, warnings=("users: <some> are missing",))
    assert "\nwarnings: users: <some> are missing\n" in repr(noted)
    shown = noted._repr_html_()
    for part in ("cannot tell", "users: &lt;some&gt; are missing", "brand_search", "value_high"):
        assert part in shown
    assert repr(holdout.scale(0.5)).startswith("<HoldoutEffects of holdout>\nobserved share: 0.5\n")


@pytest.mark.slow
def test_what_does_not_apply_says_why(effects, holdout):
    combined = effects.combine(holdout)
    for result, name, reason in [
        (holdout, "verdict", "randomisation needs no controls"),
        (holdout, "sensitivity", "only a model of effects"),
        (holdout, "checkout", "mislead only models"),
        (holdout, "by", "only a model of effects"),
        (holdout, "through", "an experiment measures the total"),
        (holdout, "combine", r"model\.combine\(experiment\)"),
        (combined, "verdict", "ask its own effects"),
        (combined, "through", "the total effect"),
        (combined, "combine", "already"),
    ]:
        with pytest.raises(NotSupported, match=reason):
            getattr(result, name)("any", confidence=0.9)
    for result in (effects, holdout, combined):
        with pytest.raises(NotSupported, match="scaled already"):
            result.scale(0.5).scale(0.5)
    with pytest.raises(NotSupported, match="combine first, then scale"):
        effects.scale(0.5).combine(holdout)
    with pytest.raises(NotSupported, match="not divided by segment"):
        holdout.scale({"trait": {True: 0.5, False: 0.6}})


@pytest.mark.slow
def test_the_experiment_and_the_model_are_combined(paths, effects, holdout):
    combined = effects.combine(holdout)
    rows, measured = (each.table().set_index("node_id") for each in (combined, holdout))
    # The experiment stands first, and all of it, value included, within what it does not rule out.
    alone = ["measured", "measured_low", "measured_high"]
    assert combined.table().columns[3:6].tolist() == alone
    expected = measured[["caused", "low", "high"]].to_numpy()
    assert rows.loc[measured.index, alone].to_numpy() == pytest.approx(expected)
    for name, low, high in (("caused", "low", "high"), ("value", "value_low", "value_high")):
        reach = 2.575830 / 1.959964 * (measured[high] - measured[name])
        both = rows.loc[measured.index]
        assert (both[low] >= measured[name] - 1.0001 * reach).all()
        assert (both[high] <= measured[name] + 1.0001 * reach).all()
        assert ((both[low] <= both[name]) & (both[name] <= both[high])).all()
    assert (rows["low"] < rows["high"])[measured.index].all()
    assert rows.loc[CONTROLS, ["caused", "low", "high"]].to_numpy() == pytest.approx(np.zeros((2, 3)))
    width, plain = (each["high"] - each["low"] for each in (rows, measured))
    # The model narrows the intervals, but no further than to 0 while nothing confirms it.
    assert width[measured.index].sum() < 0.9 * plain.sum()
    evidence = combined.evidence()
    assert list(dict.fromkeys(evidence["model"])) == ["discrete_hazard", "linear"]
    of_model = evidence[evidence["model"] == "discrete_hazard"].set_index("node_id")
    assert of_model.loc[measured.index, "experiment"].to_numpy() == pytest.approx(
        measured["caused"].to_numpy()
    )
    assert of_model.loc[CONTROLS, "experiment"].isna().all()
    # A difference is as precise as its posterior: narrower than that of two independent estimates here.
    (row,) = combined.contrast("display", "email").to_dict("records")
    assert row["difference"] == pytest.approx(rows.loc["display", "caused"] - rows.loc["email", "caused"])
    assert row["low"] < row["difference"] < row["high"]


@pytest.mark.slow
def test_an_experiment_of_another_kind_is_a_frame(effects, holdout):
    table = holdout.table()
    error = (table["high"] - table["low"]) / (2 * 1.959964)
    frame = table[["node_id", "currency", "caused"]].assign(error=error)
    expected = effects.combine(holdout).table()
    found = effects.combine(frame).table()
    value = ["value", "value_low", "value_high"]
    pd.testing.assert_frame_equal(found.drop(columns=value), expected.drop(columns=value), rtol=1e-5)
    assert found[value].isna().all(axis=None)


@pytest.mark.slow
def test_results_are_compared_node_by_node(effects, holdout):
    rows = compare({"hazard": effects, "holdout": holdout})
    columns = ["node_id", "node_name", "currency", "result", "caused", "low", "high", "disagreement"]
    assert list(rows.columns) == columns
    assert rows["node_id"].notna().all()
    nodes = effects.table().dropna(subset="node_id")["node_id"].tolist()
    assert list(dict.fromkeys(rows["node_id"])) == nodes
    assert rows.loc[rows["result"] == "hazard", "disagreement"].isna().all()
    both = rows[rows["node_id"] == "display"].set_index("result")
    errors = (both["high"] - both["low"]) / (2 * 1.959964)
    distance = (both.loc["holdout", "caused"] - both.loc["hazard", "caused"]) / np.hypot(*errors)
    assert both.loc["holdout", "disagreement"] == pytest.approx(distance, rel=1e-6)
    for results in ({}, [effects], {"hazard": effects.table()}):
        with pytest.raises(InvalidRequest, match="results: .* is not allowed; allowed: a mapping from"):
            compare(results)


@pytest.mark.slow
def test_the_statement_says_what_is_identified(effects, holdout, paths):
    statement = effects.identified
    assert "divided by convention, not an effect" in statement
    assert "caused: the direct effect" in statement
    assert "The tests do not settle whether it holds for discrete_hazard" in statement
    assert "no observation periods" not in statement
    assert "the total effect" in holdout.identified
    assert "Combined: the total effect" in effects.combine(holdout).identified
    bare = estimate_effects(paths, DiscreteHazard(comparisons=2)).identified
    assert "no evidence for or against this assumption" in bare
    assert "only by a randomised experiment" in bare


@pytest.mark.large
@pytest.mark.slow
def test_the_statement_mentions_missing_observation_periods(world):
    bare = Paths.from_frames(world.touchpoints, world.conversions)
    statement = estimate_effects(bare, DiscreteHazard(comparisons=2)).identified
    assert "The paths have no observation periods" in statement


@pytest.mark.large
@pytest.mark.slow
def test_covariates_and_the_rule_are_chosen(paths):
    quick = DiscreteHazard(comparisons=2)
    plain = estimate_effects(paths, quick, covariates=[], conventional="last")
    named = estimate_effects(paths, replace(quick, covariates=()), conventional="last")
    pd.testing.assert_frame_equal(plain.table(), named.table())
    last = attribute(paths, "last_touch").set_index("node_id")["conversions"]
    credited = plain.table().dropna(subset="node_id").set_index("node_id")["credited"]
    assert credited.to_dict() == pytest.approx(last.reindex(credited.index).to_dict())
    by_chain = estimate_effects(paths, quick, conventional=Markov())
    assert by_chain.table()["credited"].sum() == pytest.approx(len(paths.lags()))
    with pytest.raises(NotSupported, match="markov credits nodes, not conversions"):
        by_chain.by("week")


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_controls_with_credit_cause_a_warning():
    # Unpaid touchpoints are rare in this world: among fewer users chance could explain what they earn.
    world = simulate("intent", users=60_000, seed=4)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with pytest.warns(ConfoundingWarning) as caught:
        found = estimate_effects(paths, controls=CONTROLS)
    (warning,) = [warning for warning in caught if warning.category is ConfoundingWarning]
    assert str(warning.message).startswith(
        "discrete_hazard estimates effects of nodes known to have none (negative controls: organic, direct)"
    )
    assert "holdout_effects" in str(warning.message)
    assert warning.filename == __file__
    assert "does not hold for discrete_hazard" in found.identified
    assert found.warnings == (str(warning.message),)
    with pytest.warns(ConfoundingWarning):
        found.verdict(CONTROLS)


@pytest.mark.large
@pytest.mark.slow
def test_without_controls_nobody_can_tell(paths):
    effects = estimate_effects(paths, DiscreteHazard(comparisons=2))
    row, *_ = effects.verdict().to_dict("records")
    assert (row["test"], row["verdict"]) == ("negative controls: none", "cannot tell")
    assert row["result"] == "not applicable"
    assert np.isnan([row["share"], row["low"], row["high"]]).all()
    row, *_ = effects.verdict(CONTROLS, confidence=0.5).to_dict("records")
    assert row["test"] == "negative controls: organic, direct"
    assert row["low"] < row["share"] < row["high"]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "users", "verdict"),
    [("random", 150_000, "clear"), ("intent", 60_000, "confounded"), ("sessions", 60_000, "cannot tell")],
)
def test_verdicts_in_simulated_worlds(scenario, users, verdict):
    world = simulate(scenario, users=users, seed=31)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        row, *_ = estimate_effects(paths, controls=CONTROLS).verdict().to_dict("records")
    assert row["verdict"] == verdict
    assert row["low"] <= row["high"]


@pytest.mark.large
@pytest.mark.slow
def test_effects_in_worlds_where_nothing_has_one_are_never_clear():
    for scenario in ("promotions", "sessions"):
        plain = scenario_named(scenario)
        nothing = replace(plain, channels=tuple(replace(channel, direct=0.0) for channel in plain.channels))
        world = simulate(nothing, users=40_000, seed=32)
        assert world.truth()["removal"].eq(0).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            effects = estimate_effects(
                Paths.from_frames(world.touchpoints, world.conversions, users=world.users), controls=CONTROLS
            )
        assert effects.verdict()["verdict"][0] != "clear"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "linear"}, "model: 'linear' is not a model of effects"),
        ({"model": DiscreteHazard}, "model: .* is not a model of effects"),
        ({"model": None}, "model: None is not a model of effects"),
        ({"controls": None}, "controls: None is not allowed"),
        ({"controls": "direct"}, r"allowed: a list, as in \['direct'\]"),
        ({"controls": ["diract"]}, "did you mean 'direct'"),
        ({"covariates": "trait"}, "covariates: 'trait' is not allowed"),
        ({"covariates": ["train"]}, "did you mean 'trait'"),
        ({"conventional": "discrete_hazard"}, "conventional: 'discrete_hazard' is not allowed"),
        ({"conventional": 3}, "conventional: 3 is not allowed"),
    ],
)
def test_invalid_arguments_are_refused(paths, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        estimate_effects(paths, **arguments)


def test_invalid_arguments_of_reports_are_refused(paths):
    effects = estimate_effects(paths, DiscreteHazard(comparisons=2))
    for level in (None, 0, 1, 2, "high"):
        with pytest.raises(InvalidRequest, match=r"confidence: .* is not"):
            effects.table(confidence=level)
    with pytest.raises(InvalidRequest, match="b: 'emial' is not allowed.*did you mean 'email'"):
        effects.contrast("display", "emial")
    with pytest.raises(InvalidRequest, match="controls: 'diract' is not allowed"):
        effects.verdict(["diract"])


def test_returns_divide_spend_by_what_was_caused(effects):
    table = effects.table().dropna(subset="node_id").set_index("node_id")
    node = table.index[0]
    spend = pd.DataFrame(
        {"node_id": [node, "billboard"], "spend": [300.0, 70.0], "currency": table["currency"].iloc[0]}
    )
    found = effects.returns(spend).set_index("node_id")
    row, bounds = found.loc[node], table.loc[node]
    assert row["caused"] == bounds["caused"]
    assert row["incremental_cpa"] == pytest.approx(300.0 / bounds["caused"])
    assert row["incremental_cpa_low"] == pytest.approx(300.0 / bounds["high"])
    assert row["incremental_cpa_high"] == (
        pytest.approx(300.0 / bounds["low"]) if bounds["low"] > 0 else np.inf
    )
    for side in ("", "_low", "_high"):
        assert row[f"incremental_roas{side}"] == pytest.approx(bounds[f"value{side}"] / 300.0)
    # A node with spend whose effect nobody estimated has none that is 0.
    assert found.loc["billboard", "spend"] == 70.0
    assert found.loc["billboard"].drop(["node_name", "currency", "spend"]).isna().all()
    assert found.index.notna().all()


def test_less_exposure_loses_what_the_touchpoints_caused(effects):
    """Without any touchpoint of a node all that it caused is lost; a tenth costs a tenth where users have one."""
    caused = effects.table().dropna(subset="node_id").set_index("node_id")
    none = effects.exposure(-1.0)
    lost = none.table().set_index("node_id").loc[caused.index]
    for column, other in (("caused", "caused"), ("low", "high"), ("value", "value")):
        assert lost[column].tolist() == pytest.approx((-caused[other]).tolist(), nan_ok=True)
    assert "100% less exposure" in none.label
    with pytest.raises(NotSupported, match="ask the effects of the model"):
        none.verdict()
    for change in (0, 1.5, True, "more"):
        with pytest.raises(InvalidRequest, match="change: .* is not allowed; allowed: -1 to 1, and not 0"):
            effects.exposure(change)


@pytest.mark.filterwarnings("ignore:users. users without a touchpoint")  # Nobody has two.
def test_a_tenth_of_single_touchpoints_is_a_tenth_of_the_effect_and_twice_as_many_saturate():
    random = np.random.default_rng(2)
    names = np.array([f"u{number}" for number in range(3_000)])
    start = pd.Timestamp("2025-01-01", tz="UTC")
    touched = names[random.random(3_000) < 0.5]
    points = pd.DataFrame({"user_id": touched, "node_id": "ads"})
    points["date"] = start + pd.to_timedelta(random.random(len(touched)) * 10, "D")
    share = np.where(np.isin(names, touched), 0.2, 0.1)
    buyers = names[random.random(3_000) < share]
    bought = pd.DataFrame({"event_id": buyers, "user_id": buyers, "date": start + pd.Timedelta(days=11)})
    users = pd.DataFrame({"user_id": names, "since": start, "until": start + pd.Timedelta(days=20)})
    effects = estimate_effects(
        Paths.from_frames(points, bought, users=users), DiscreteHazard(half_lives=("5D",))
    )
    (whole,) = effects.table().query("node_id == 'ads'")["caused"]
    (less,), (more,) = (effects.exposure(change).table()["caused"] for change in (-0.1, 0.1))
    assert less == pytest.approx(-0.1 * whole)
    # A second touchpoint at the same time raises log(1 + a) to log(1 + 2 a), by the fit's own coefficient.
    fit = effects.fit
    slope = fit.coefficients[0][-1] / fit.cases.scale[0]
    adstock = np.expm1(fit.cases.effects[:, 0, 0].astype(float))
    odds = fit.cases.log_odds(fit.coefficients[0])
    further = expit(odds + slope * (np.log1p(2 * adstock) - np.log1p(adstock))) / expit(odds) - 1
    assert more == pytest.approx(0.1 * further.sum(), rel=1e-5)
    assert 0 < more < 0.1 * whole
