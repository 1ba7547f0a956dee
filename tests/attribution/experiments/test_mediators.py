"""Direct effects, effects through mediators, and total effects."""

from dataclasses import replace

import numpy as np
import pytest
from support.hazard_world import MEDIATOR, hazard_world

from attrib_ds import Paths, incremental_effects, simulate
from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.logistic import probabilities
from attrib_ds.attribution.incremental.mediation import _earlier_touches, _lost, _Mediator
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

MEDIATORS = {"display": [MEDIATOR]}


def paths_of(world):
    return Paths.from_frames(world.touchpoints, world.conversions, users=world.users)


@pytest.fixture(scope="module")
def world():
    return hazard_world(4_000, seed=3)


@pytest.fixture(scope="module")
def paths(world):
    return paths_of(world)


@pytest.fixture(scope="module")
def fitted(paths):
    sequences = Sequences.of(paths)
    sample = HazardSample.of(DiscreteHazard(comparisons=5), sequences, Histories.of(sequences, covariates=()))
    return sample, sample.fit()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_touchpoints_that_a_node_causes_entirely_vanish_with_it(fitted, share):
    sample, fit = fitted
    node, mediator = (sample.node_ids.index(name) for name in ("display", MEDIATOR))
    case, touch = _earlier_touches(sample.histories, mediator)
    age = sample.histories.event_time[case] - sample.histories.touch_time[touch]
    caused = np.full((len(sample.histories.touch_node), len(sample.node_ids)), share)
    found = _lost(sample, fit, node, [_Mediator(mediator, case, touch, age, [caused])], 0)
    effects = fit.cases.effects.copy()
    effects[:, node] = 0.0
    if share:
        effects[:, mediator] = 0.0
    coefficients = fit.coefficients[0]
    without = replace(fit.cases, effects=effects).log_odds(coefficients)
    expected = 1 - probabilities(without) / probabilities(fit.cases.log_odds(coefficients))
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_total_effects_are_those_of_a_world_in_which_display_causes_brand_searches():
    hits = {"caused": 0, "mediated": 0, "total": 0}
    errors = []
    for seed in range(20, 26):
        world = hazard_world(9_000, seed=seed)
        row = incremental_effects(paths_of(world), mediators=MEDIATORS).set_index("node_id").loc["display"]
        total, direct = int(world.caused["total"].sum()), int(world.caused["display"].sum())
        for name, truth in {"caused": direct, "mediated": total - direct, "total": total}.items():
            low, high = (
                row["low" if name == "caused" else f"{name}_low"],
                row["high" if name == "caused" else f"{name}_high"],
            )
            hits[name] += bool(low <= truth <= high)
        assert row["caused"] + row["mediated"] == pytest.approx(row["total"])
        errors.append(row["mediated"] / (total - direct) - 1)
    # Fewer than 4 of 6 at 95 % has a probability of 0.2 %.
    assert min(hits.values()) >= 4
    assert abs(np.mean(errors)) < 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_in_simulated_mediation_direct_and_total_effects_are_near_the_truth():
    """Display causes brand searches; conversions of six worlds together, as each has few."""
    columns = {"direct": "caused", "removal": "total"}
    true, found, covered = dict.fromkeys(columns, 0.0), dict.fromkeys(columns, 0.0), 0
    for seed in range(41, 47):
        world = simulate("mediation", users=100_000, seed=seed)
        truth = world.truth(direct=True).set_index("node_id").loc["display"]
        row = incremental_effects(paths_of(world), mediators={"display": ["brand_search"]})
        row = row.set_index("node_id").loc["display"]
        for name, column in columns.items():
            true[name] += truth[name]
            found[name] += row[column]
        covered += row["low"] <= truth["direct"] <= row["high"]
        covered += row["total_low"] <= truth["removal"] <= row["total_high"]
    assert true["removal"] > 1.15 * true["direct"]
    # The standard error of such a sum is about a tenth.
    assert found["direct"] == pytest.approx(true["direct"], rel=0.2)
    assert found["removal"] == pytest.approx(true["removal"], rel=0.2)
    # Fewer than 9 of 12 at 95 % has a probability of 0.2 %.
    assert covered >= 9


@pytest.mark.slow
@pytest.mark.parametrize("world_of", [{"triggered": 0.0}, {"mediator_effect": 0.0}])
def test_without_a_mediated_effect_the_interval_contains_zero(world_of):
    world = hazard_world(9_000, seed=31, **world_of)
    found = incremental_effects(paths_of(world), mediators=MEDIATORS, confidence=0.99).set_index("node_id")
    row = found.loc["display"]
    assert row["mediated_low"] <= 0 <= row["mediated_high"]
    assert row["mediated_high"] - row["mediated_low"] < 200
    assert found.drop(index="display")[["mediated", "total", "total_high"]].isna().all(axis=None)
    assert f"total (display): the effect including touchpoints of {MEDIATOR}" in found.attrs["identified"]


@pytest.mark.slow
def test_totals_are_scaled_with_the_other_levels(paths):
    whole, part = (
        incremental_effects(paths, mediators=MEDIATORS, observed_share=share)
        .set_index("node_id")
        .loc["display"]
        for share in (1.0, 0.5)
    )
    for name in ("caused", "mediated", "total", "total_low", "mediated_high"):
        assert part[name] == pytest.approx(2 * whole[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mediators": ["display"]}, "mediators: .* is not allowed; allowed: a mapping from nodes to lists"),
        ({"mediators": {"display": MEDIATOR}}, "mediators: .* is not allowed; allowed: a mapping from nodes"),
        ({"mediators": {"display": ["tv"]}}, "mediators: 'tv' is not allowed"),
        ({"mediators": {"display": ["display"]}}, "mediators: 'display' is not allowed as its own mediator"),
    ],
)
def test_mediators_that_make_no_sense_are_refused(paths, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        incremental_effects(paths, **{"models": DiscreteHazard(comparisons=1)} | arguments)
