"""Direct effects, effects through mediators, and total effects."""

from dataclasses import replace

import numpy as np
import pytest
from support.hazard_world import MEDIATOR, hazard_world

from attrib_ds import Paths, estimate_effects, simulate
from attrib_ds.attribution.incremental.discrete_hazard import HazardSample, probabilities
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.mediation import _earlier_touches, _lost, _Mediator
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest
from attrib_ds.simulation.scenarios import SCENARIOS

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


@pytest.mark.large
@pytest.mark.slow
def test_total_effects_are_those_of_a_world_in_which_display_causes_brand_searches():
    hits = {"direct": 0, "mediated": 0, "total": 0}
    errors = []
    for seed in range(20, 26):
        world = hazard_world(4_500, seed=seed)
        (row,) = estimate_effects(paths_of(world)).through(MEDIATORS).to_dict("records")
        total, direct = int(world.caused["total"].sum()), int(world.caused["display"].sum())
        for name, truth in {"direct": direct, "mediated": total - direct, "total": total}.items():
            hits[name] += bool(row[f"{name}_low"] <= truth <= row[f"{name}_high"])
        assert row["direct"] + row["mediated"] == pytest.approx(row["total"])
        errors.append(row["mediated"] / (total - direct) - 1)
    # Fewer than 4 of 6 at 95 % has a probability of 0.2 %.
    assert min(hits.values()) >= 4
    assert abs(np.mean(errors)) < 0.2


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_in_simulated_mediation_direct_and_total_effects_are_near_the_truth():
    """Display causes brand searches; conversions of six worlds together, as each has few."""
    mediation = SCENARIOS["mediation"]
    channels = tuple(
        replace(each, direct=3 * each.direct)
        for each in mediation.channels
        if each.node_id in ("display", "brand_search")
    )
    columns = {"direct": "direct", "removal": "total"}
    true, found, covered = dict.fromkeys(columns, 0.0), dict.fromkeys(columns, 0.0), 0
    for seed in range(41, 47):
        world = simulate(replace(mediation, channels=channels), users=40_000, seed=seed)
        truth = world.truth(direct=True).set_index("node_id").loc["display"]
        (row,) = estimate_effects(paths_of(world)).through({"display": ["brand_search"]}).to_dict("records")
        for name, column in columns.items():
            true[name] += truth[name]
            found[name] += row[column]
        covered += row["direct_low"] <= truth["direct"] <= row["direct_high"]
        covered += row["total_low"] <= truth["removal"] <= row["total_high"]
    assert true["removal"] > 1.15 * true["direct"]
    # What brand searches add is a sixth of the total.
    assert found["direct"] == pytest.approx(true["direct"], rel=0.1)
    assert found["removal"] == pytest.approx(true["removal"], rel=0.1)
    # Fewer than 9 of 12 at 95 % has a probability of 0.2 %.
    assert covered >= 9


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("world_of", [{"triggered": 0.0}, {"mediator_effect": 0.0}])
def test_without_a_mediated_effect_the_interval_contains_zero(world_of):
    world = hazard_world(9_000, seed=31, **world_of)
    (row,) = estimate_effects(paths_of(world)).through(MEDIATORS, confidence=0.99).to_dict("records")
    assert row["mediated_low"] <= 0 <= row["mediated_high"]
    assert row["mediated_high"] - row["mediated_low"] < 200


@pytest.mark.large
@pytest.mark.slow
def test_totals_are_scaled_with_the_other_levels(paths):
    effects = estimate_effects(paths)
    whole, part = (each.through(MEDIATORS).iloc[0] for each in (effects, effects.scale(0.5)))
    for name in ("direct", "mediated", "total", "total_low", "mediated_high"):
        assert part[name] == pytest.approx(2 * whole[name])


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mediators", "message"),
    [
        (["display"], "mediators: .* is not allowed; allowed: a mapping from nodes to lists"),
        ({"display": MEDIATOR}, "mediators: .* is not allowed; allowed: a mapping from nodes"),
        ({}, "mediators: .* is not allowed; allowed: a mapping from nodes"),
        ({"display": ["tv"]}, "mediators: 'tv' is not allowed"),
        ({"display": ["display"]}, "mediators: 'display' is not allowed as its own mediator"),
    ],
)
def test_mediators_that_make_no_sense_are_refused(paths, mediators, message):
    effects = estimate_effects(paths, DiscreteHazard(comparisons=1))
    with pytest.raises(InvalidRequest, match=message):
        effects.through(mediators)
