"""Splits the rate of conversions into a baseline and what each node adds to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.exposure import Exposure, pairs_of
from attrib_ds.attribution.incremental.rates import Rates, fit_rates, without_each
from attrib_ds.attribution.incremental.touched import Touched
from attrib_ds.attribution.intervals.tally import Tally
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.models.incremental import AdditiveHazard
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]


def credit_additive_hazard(model: AdditiveHazard, sequences: Sequences) -> Tally:
    """Credit each node with its part of the rate at every conversion; the baseline keeps its own."""
    exposure, pairs = exposure_of(model, sequences)
    rates = _fitted(exposure)
    nodes = len(sequences.node_ids)
    credited = [
        _credited(exposure, rates, rates.slopes, np.ones(len(exposure.cell), bool), nodes, pairs, model)
    ]
    if sequences.folds > 1:
        left_out = without_each(
            rates,
            exposure.features,
            exposure.cell,
            at_work=exposure.at_work,
            person_days=exposure.person_days,
            fold=exposure.fold,
            is_free=_free(rates, nodes, len(model.half_lives)),
        )
        credited += [
            _credited(exposure, each, slopes, exposure.fold != number, nodes, pairs, model)
            for number, (each, slopes) in enumerate(left_out)
        ]
    whole, *without = credited
    lives = len(model.half_lives)
    at_work = exposure.at_work.sum(axis=0)[: nodes * lives].reshape(nodes, lives)
    at_conversions = exposure.features[:, : nodes * lives].reshape(len(exposure.cell), nodes, lives)
    is_touched = at_work.any(axis=1) | at_conversions.any(axis=(0, 2))
    shown = np.repeat(np.append(is_touched, True)[:, None], len(exposure.currencies), axis=1)
    return Tally(
        exposure.currencies,
        whole[0],
        whole[1],
        shown,
        [each[0] for each in without],
        [each[1] for each in without],
        is_gain=np.bincount(exposure.currency, exposure.value < 0, len(exposure.currencies)) == 0,
    )


def share_additive_hazard(model: AdditiveHazard, sequences: Sequences) -> pa.Table:
    """Give each touchpoint what is left of it at the conversion, times the slopes of its half-lives.

    A pair's part is halved between its nodes, and each half divided by what is left of the node's
    touchpoints under the pair's half-life.
    """
    exposure, pairs = exposure_of(model, sequences)
    rates = _fitted(exposure)
    nodes, lives = len(sequences.node_ids), len(model.half_lives)
    touched = Touched.of(sequences)
    half_lives = days_of(model)
    left = touched.left(half_lives)
    rate = rates.at(exposure.features, exposure.cell)
    per_unit = rates.slopes[: nodes * lives].reshape(nodes, lives)[touched.code]
    share = (left * per_unit).sum(axis=1) / rate[touched.event]
    if pairs:
        parts = rates.parts(exposure.features, exposure.cell)[:, nodes * lives :]
        of_node = _halved(parts, pairs, nodes)
        middle = int(np.argsort(half_lives)[lives // 2])
        share += touched.divided(left[:, middle]) * of_node[touched.event, touched.code]
    return touched.to_arrow(share)


def exposure_of(model: AdditiveHazard, sequences: Sequences) -> tuple[Exposure, list[tuple[int, int]]]:
    """Return what the model is fit to, and the pairs of nodes that it knows."""
    pairs = pairs_of(model.interactions, sequences.node_ids)
    if len(pairs) > model.most_pairs:
        raise InvalidRequest(
            f"interactions: {len(sequences.node_ids)} nodes have {len(pairs)} pairs; allowed: up to "
            f"{model.most_pairs} (roll nodes up with level=, or name pairs)",
            field="interactions",
        )
    key = (type(model), model)
    if key not in sequences.memory:
        sequences.memory[key] = Exposure.of(
            sequences,
            half_lives=days_of(model),
            strata=model.strata,
            periods=model.periods,
            times_of_day=model.times_of_day,
            pairs=pairs,
        )
    exposure: Exposure = sequences.memory[key]
    if not len(exposure.cell):
        raise InvalidRequest("paths: there is no conversion; an incremental model needs some", field="paths")
    return exposure, pairs


def days_of(model: AdditiveHazard) -> list[float]:
    """Return the half-lives in days."""
    return [as_days(each, argument="half_lives") for each in model.half_lives]


def _fitted(exposure: Exposure) -> Rates:
    return fit_rates(
        exposure.features,
        exposure.cell,
        at_work=exposure.at_work.sum(axis=0),
        person_days=exposure.person_days.sum(axis=0),
    )


def _free(rates: Rates, nodes: int, lives: int) -> NDArray[np.bool_]:
    """Say which slopes count as if they could be negative: those above zero, and all of nodes that have none.

    The half-lives of a node that has one stay chosen: set free, they would trade with each other and with the
    baseline, and seem less certain than they are.
    """
    is_positive = rates.slopes > 0
    single = is_positive[: nodes * lives].reshape(nodes, lives)
    has_none = np.repeat(~single.any(axis=1), lives)
    return np.concatenate([single.ravel() | has_none, np.ones(len(rates.slopes) - nodes * lives, bool)])


def _credited(
    exposure: Exposure,
    rates: Rates,
    slopes: Numbers,
    kept: NDArray[np.bool_],
    nodes: int,
    pairs: list[tuple[int, int]],
    model: AdditiveHazard,
) -> Numbers:
    """Sum the parts of nodes over conversions, as numbers and in value; the rest is the baseline's."""
    parts = rates.parts(exposure.features[kept], exposure.cell[kept], slopes=slopes)
    width = nodes * len(model.half_lives)
    of_node = parts[:, :width].reshape(len(parts), nodes, len(model.half_lives)).sum(axis=2)
    of_node += _halved(parts[:, width:], pairs, nodes)
    whole = np.column_stack([of_node, 1.0 - of_node.sum(axis=1)])
    credited = np.zeros((2, nodes + 1, len(exposure.currencies)))
    for number in range(len(exposure.currencies)):
        here = exposure.currency[kept] == number
        for which, worth in enumerate((exposure.conversions, exposure.value)):
            credited[which, :, number] = worth[kept][here] @ whole[here]
    return credited


def _halved(parts: Numbers, pairs: list[tuple[int, int]], nodes: int) -> Numbers:
    of_node = np.zeros((len(parts), nodes))
    for number, pair in enumerate(pairs):
        for code in pair:
            of_node[:, code] += parts[:, number] / 2
    return of_node
