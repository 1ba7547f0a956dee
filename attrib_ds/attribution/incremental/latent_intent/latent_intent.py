"""Credits nodes with what they cause under a funnel of intents that nobody observes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.crediting import credit_conversions
from attrib_ds.attribution.incremental.latent_intent.fitting import fit
from attrib_ds.attribution.incremental.latent_intent.funnel import Rates
from attrib_ds.attribution.incremental.latent_intent.journeys import cut_journeys
from attrib_ds.attribution.incremental.latent_intent.parameters import grid
from attrib_ds.attribution.tally import Tally
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.models import LatentIntent
    from attrib_ds.attribution.sequences import Sequences

    Codes = NDArray[np.int64]

#: Users that the first rounds are fit to, which bring the estimate near.
_FEW: Final = 25_000
#: Parts of the evaluations that each round has.
_ROUNDS: Final = (0.3, 0.4, 0.3)


def credit_latent_intent(model: LatentIntent, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    histories = Histories.of(sequences, covariates=model.covariates)
    if not len(histories.event_user):
        raise InvalidRequest("paths: there is no conversion; an incremental model needs some", field="paths")
    rates = fitted(model, histories, sequences.node_ids)
    event, part, weight = credit_conversions(rates)
    nodes, currencies = len(sequences.node_ids), len(histories.currencies)
    credited = np.zeros((2, nodes + 1, currencies))
    for number, worth in enumerate((histories.conversions, histories.value)):
        weighted = part * (worth[event] * weight)[:, None]
        for currency in range(currencies):
            is_in = histories.event_currency[event] == currency
            credited[number, rates.journeys.causes, currency] = weighted[is_in].sum(axis=0)
            total = worth[histories.event_currency == currency].sum()
            credited[number, nodes, currency] = total - credited[number, :nodes, currency].sum()
    is_touched = np.bincount(histories.touch_node, minlength=nodes) > 0
    is_shown = np.repeat(np.append(is_touched, True)[:, None], currencies, axis=1)
    return Tally(histories.currencies, credited[0], credited[1], is_shown)


def fitted(model: LatentIntent, histories: Histories, node_ids: list[str]) -> Rates:
    """Fit the model to a sample of users."""
    causes = _causes(model, node_ids)
    pairs = np.zeros((0, 2), np.int64)
    if model.interactions and 2 <= len(causes) <= model.most_interacting:
        pairs = np.stack(np.triu_indices(len(causes), 1), axis=1)
    journeys = cut_journeys(
        histories,
        nodes=len(node_ids),
        causes=causes,
        half_lives=[as_days(each, argument="half_lives") for each in model.half_lives],
        step=as_days(model.step, argument="step"),
        memory=as_days(model.memory, argument="memory"),
        users=model.users,
        pairs=pairs,
        seed=model.seed,
    )
    classes = grid(model.activities, model.propensities)
    sizes = (min(_FEW, model.users), min(_FEW, model.users), model.users)
    found = fit(
        journeys,
        classes,
        intents=model.intents,
        shrinkage=model.shrinkage,
        rounds=[
            (size, max(int(part * model.evaluations), 2)) for size, part in zip(sizes, _ROUNDS, strict=True)
        ],
        tolerance=model.tolerance,
    )
    return Rates(found.parameters, classes, journeys)


def _causes(model: LatentIntent, node_ids: list[str]) -> list[int]:
    for name in model.controls:
        if name not in node_ids:
            raise InvalidRequest.choice("controls", name, node_ids)
    return [code for code, name in enumerate(node_ids) if name not in model.controls]
