"""Total effects: conversions lost without a node, touchpoints of mediators that it causes included."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from attrib_ds.attribution import arrays, intervals
from attrib_ds.attribution.incremental import discrete_hazard as hazard
from attrib_ds.attribution.incremental.histories import Histories

#: Days before a touchpoint at which the touchpoints that may have caused it are counted.
_BEFORE: Final = 1e-9
#: Maximum number of touchpoints of a mediator in its regression, and periods without one for each.
_MOST_TOUCHES: Final = 20_000
_COMPARISONS: Final = 5
#: Number of draws of the touchpoints of mediators that remain without a node.
_DRAWS: Final = 20


@dataclass(frozen=True, eq=False)
class _Mediator:
    """Touchpoints of a mediator before conversions, and the share of each that nodes cause.

    Attributes
    ----------
    node : int
        The mediator.
    case, touch : int array
        One entry per conversion and earlier touchpoint of the mediator.
    age : float array
        Days from the touchpoint to the conversion.
    caused : list of float array, shape (n_touchpoints, n_nodes)
        Share of each touchpoint that would not have happened without each node: of all users, then without
        each fold.
    """

    node: int
    case: arrays.Codes
    touch: arrays.Codes
    age: arrays.Numbers
    caused: list[arrays.Numbers]


def lost_in_total(
    sample: hazard.HazardSample, fit: hazard.HazardFit, mediators_of: Mapping[int, Sequence[int]]
) -> dict[int, list[arrays.Numbers]]:
    """Return the share of each conversion lost without a node, directly and through mediators.

    The touchpoints of a mediator are the outcome of a discrete hazard of their own. Without the node, each
    would not have happened with the share of its probability that is lost; what remains is drawn at random,
    and the conversion probability is averaged over draws. The draws are the same for all folds of users.

    Parameters
    ----------
    sample : HazardSample
        Data of the hazard of conversions.
    fit : HazardFit
        Its fit, with or without folds.
    mediators_of : mapping
        Mediators of each node whose total effect is estimated.

    Returns
    -------
    dict
        For each node, the share of each conversion: of all users, then without each fold.
    """
    wanted = sorted({mediator for several in mediators_of.values() for mediator in several})
    mediators = {node: _mediator(sample, node, is_jackknife=len(fit.coefficients) > 1) for node in wanted}
    return {
        node: [
            _lost(sample, fit, node, [mediators[each] for each in several], number)
            for number in range(len(fit.coefficients))
        ]
        for node, several in mediators_of.items()
    }


def _mediator(sample: hazard.HazardSample, node: int, *, is_jackknife: bool) -> _Mediator:
    histories = sample.histories
    case, touch = _earlier_touches(histories, node)
    distinct, position = np.unique(touch, return_inverse=True)
    return _Mediator(
        node,
        case,
        position.reshape(-1),
        histories.event_time[case] - histories.touch_time[distinct[position.reshape(-1)]],
        _caused(sample, node, distinct, is_jackknife=is_jackknife),
    )


def _earlier_touches(histories: Histories, node: int) -> tuple[arrays.Codes, arrays.Codes]:
    """Return all pairs of a conversion and an earlier touchpoint of the node, of the same user."""
    touches = np.flatnonzero(histories.touch_node == node)
    user = histories.touch_user[touches]
    first, last = (np.searchsorted(user, histories.event_user, side=side) for side in ("left", "right"))
    count = last - first
    case = np.repeat(np.arange(len(count), dtype=np.int64), count)
    offset = np.cumsum(count) - count
    touch = touches[np.arange(len(case), dtype=np.int64) + (first - offset)[case]]
    is_earlier = histories.touch_time[touch] <= histories.event_time[case]
    return case[is_earlier], touch[is_earlier]


def _caused(
    sample: hazard.HazardSample, node: int, touches: arrays.Codes, *, is_jackknife: bool
) -> list[arrays.Numbers]:
    """Return the share of touchpoints that would not have happened without each node.

    Touchpoints outside the observation of their user, or at its very beginning, are caused by nothing: an
    observation may begin with a touchpoint because it is one.
    """
    histories, nodes = sample.histories, len(sample.node_ids)
    user, time = histories.touch_user, histories.touch_time
    is_outcome = (histories.touch_node == node) & (time > histories.since[user])
    outcome = np.flatnonzero(is_outcome)
    shares = [np.zeros((len(touches), nodes))] * (1 + intervals.GROUPS if is_jackknife else 1)
    if not len(outcome):
        return shares
    of_touches = replace(
        histories,
        event_user=user[outcome],
        event_time=np.maximum(time[outcome] - _BEFORE, histories.since[user[outcome]]),
    )
    model = replace(sample.model, comparisons=_COMPARISONS)
    fit, design = hazard.fit_drawn(
        model, of_touches, nodes=nodes, most=_MOST_TOUCHES, is_jackknife=is_jackknife
    )
    place = np.searchsorted(outcome, touches)
    is_modelled = is_outcome[touches]
    rows = design.at(place[is_modelled])
    found = []
    for coefficients in fit.coefficients:
        share = np.zeros((len(touches), nodes))
        share[is_modelled] = hazard.lost_without(rows, coefficients)
        found.append(share)
    return found


def _lost(
    sample: hazard.HazardSample, fit: hazard.HazardFit, node: int, mediators: list[_Mediator], number: int
) -> arrays.Numbers:
    """Return the share of each conversion lost without a node, in one sample of users."""
    coefficients = fit.coefficients[number]
    cases = fit.cases
    effects = cases.effects.copy()
    effects[:, node] = 0.0
    without = replace(cases, effects=effects)
    probability = hazard.probabilities(cases.log_odds(coefficients))
    remaining = hazard.probabilities(without.log_odds(coefficients))
    rows = np.unique(np.concatenate([each.case for each in mediators]))
    if not len(rows):
        return np.asarray(1.0 - remaining / probability)
    half_lives = hazard.half_lives_of(sample.model)
    random = np.random.default_rng(sample.model.seed)
    part = without.at(rows)
    total = np.zeros(len(rows))
    for _ in range(_DRAWS):
        drawn = part.effects.copy()
        for mediator in mediators:
            caused = mediator.caused[number][:, node]
            # The expected number that remains; more than one if the node prevents touchpoints.
            count = np.floor(1.0 - caused + random.random(len(caused)))[mediator.touch]
            row = np.searchsorted(rows, mediator.case)
            for life, half_life in enumerate(half_lives):
                left = np.bincount(row, count * np.exp2(-mediator.age / half_life), minlength=len(rows))
                drawn[:, mediator.node, life] = np.log1p(left)
        total += hazard.probabilities(replace(part, effects=drawn).log_odds(coefficients))
    remaining[rows] = total / _DRAWS
    return np.asarray(1.0 - remaining / probability)
