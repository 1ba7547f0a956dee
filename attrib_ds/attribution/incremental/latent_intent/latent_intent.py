"""Credits nodes with what they cause under a funnel of intents that nobody observes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.crediting import credit_conversions
from attrib_ds.attribution.incremental.latent_intent.days import Days
from attrib_ds.attribution.incremental.latent_intent.drawing import draw_users
from attrib_ds.attribution.incremental.latent_intent.fitting import Objective, fit
from attrib_ds.attribution.incremental.latent_intent.followers import find_followers
from attrib_ds.attribution.incremental.latent_intent.funnel import Rates
from attrib_ds.attribution.incremental.latent_intent.journeys import Cut, Journeys, cut_journeys
from attrib_ds.attribution.incremental.latent_intent.parameters import first_guess, grid
from attrib_ds.attribution.incremental.latent_intent.posterior import draw_parameters
from attrib_ds.attribution.intervals.tally import Tally
from attrib_ds.display import progress
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from attrib_ds.attribution.models.incremental import LatentIntent
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]

#: How many different histories each round is fit to, from where the one before ended, and what part of the
#: evaluations it has; the last is fit to all.
_ROUNDS: Final = ((16_000, 0.3), (16_000, 0.2), (60_000, 0.2), (None, 0.3))
#: Draws of the parameters that intervals come from.
_DRAWS: Final = 40


def credit_latent_intent(model: LatentIntent, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    histories = Histories.of(sequences, covariates=model.covariates)
    if not len(histories.event_user):
        raise InvalidRequest("paths: there is no conversion; an incremental model needs some", field="paths")
    lives = _Lives.of(model, histories, sequences.node_ids)
    draws = _DRAWS if sequences.folds > 1 else 0
    with progress("passes", model.evaluations, name="latent intent, fit") as advance:
        rates = lives.fitted(advance)
    whole, replicates = lives.credited(rates), None
    if draws:
        replicates = _around(whole, lives.replicates(lives.drawn(rates, draws)))
    is_touched = np.bincount(histories.touch_node, minlength=len(sequences.node_ids)) > 0
    is_shown = np.repeat(np.append(is_touched, True)[:, None], len(histories.currencies), axis=1)
    return Tally(
        histories.currencies,
        whole[0],
        whole[1],
        is_shown,
        replicates=replicates,
    )


def _around(whole: Numbers, draws: Numbers) -> Numbers:
    """Return credits that vary around the estimate as those of draws do around their middle.

    Draws of effects that are none are all above zero, which alone does not speak against none.
    """
    found = whole + draws - np.median(draws, axis=0)
    # Of returned goods less than nothing may be credited, but not less than by the estimate.
    found[:, :, :-1] = np.maximum(found[:, :, :-1], np.minimum(whole[:, :-1], 0))
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class _Lives:
    """What the model is fit to, and what is credited.

    Attributes
    ----------
    model : LatentIntent
    histories : Histories
    nodes : int
    rounds : list of (Journeys, int)
        Of the users of each round, and its evaluations.
    converted : Journeys
        Of everybody who converted.
    """

    model: LatentIntent
    histories: Histories
    nodes: int
    rounds: list[tuple[Journeys, int]]
    converted: Journeys

    @classmethod
    def of(cls, model: LatentIntent, histories: Histories, node_ids: list[str]) -> _Lives:
        nodes, step = len(node_ids), as_days(model.step, argument="step")
        memory = as_days(model.memory, argument="memory")
        causes = _numbers("controls", model.controls, node_ids, are_in=False)
        followers = find_followers(histories, nodes, memory=memory)
        if model.followers is not None:
            followers = _numbers("followers", model.followers, node_ids, are_in=True)
        pairs = np.zeros((0, 2), np.int64)
        if model.interactions and 2 <= len(causes) <= model.most_interacting:
            pairs = np.stack(np.triu_indices(len(causes), 1), axis=1)
        half_lives = [as_days(each, argument="half_lives") for each in model.half_lives]
        cut = Cut(nodes, causes, followers, half_lives, step, memory, pairs)
        days = Days.of(histories, nodes=nodes, step=step)
        buyers = np.unique(histories.event_user)
        buyers = buyers[np.argsort(days.rank[buyers], kind="stable")]
        planned = _rounds(model.users, model.evaluations)
        drawn = {
            size: cut_journeys(
                histories, days, cut, *draw_users(histories, days, users=size, seed=model.seed)
            )
            for size in dict(planned)
        }
        rounds = [(drawn[size], evaluations) for size, evaluations in planned]
        converted = cut_journeys(histories, days, cut, buyers, np.ones(len(buyers)))
        return cls(model, histories, nodes, rounds, converted)

    def fitted(self, advance: Callable[[int], None]) -> Rates:
        """Fit the model, first to few users."""
        model = self.model
        classes = grid(model.activities, model.propensities)
        found = fit(
            self.rounds,
            classes,
            intents=model.intents,
            shrinkage=model.shrinkage,
            tolerance=model.tolerance,
            advance=advance,
        )
        return Rates(found.parameters, classes, self.rounds[-1][0])

    def drawn(self, rates: Rates, draws: int) -> list[Rates]:
        """Draw other parameters that the journeys do not speak against."""
        centre = first_guess(rates.journeys, rates.classes, intents=self.model.intents)
        goal = Objective(self.rounds[0][0], rates.classes, centre, self.model.shrinkage)
        drawn = draw_parameters(goal, rates.parameters, draws=draws, seed=self.model.seed)
        return [Rates(parameters, rates.classes, rates.journeys) for parameters in drawn]

    def replicates(self, drawn: list[Rates]) -> Numbers:
        """Return credits under each of several estimates, each of another sample of buyers."""
        random = np.random.default_rng(self.model.seed)
        found = []
        with progress("credits", len(drawn), name="latent intent, intervals") as advance:
            for rates in drawn:
                user_weight = random.poisson(1.0, len(self.histories.since))
                found.append(self.credited(rates, user_weight[self.histories.event_user]))
                advance(1)
        return np.stack(found)

    def credited(self, rates: Rates, weight: NDArray[Any] | None = None) -> Numbers:
        """Return conversions and value of each node, and of none, in each currency."""
        histories, nodes = self.histories, self.nodes
        event, part = credit_conversions(rates, self.converted)
        currencies = len(histories.currencies)
        found = np.zeros((2, nodes + 1, currencies))
        for number, worth in enumerate((histories.conversions, histories.value)):
            if weight is not None:
                worth = worth * weight
            weighted = part * worth[event][:, None]
            for currency in range(currencies):
                is_in = histories.event_currency[event] == currency
                found[number, rates.journeys.causes, currency] = weighted[is_in].sum(axis=0)
                total = worth[histories.event_currency == currency].sum()
                found[number, nodes, currency] = total - found[number, :nodes, currency].sum()
        return found


def _rounds(users: int, evaluations: int) -> list[tuple[int, int]]:
    """Return how many histories each round has, and its evaluations; rounds of as many are two at most."""
    found: list[tuple[int, float]] = []
    for size, part in _ROUNDS:
        drawn = min(size or users, users)
        if len(found) > 1 and found[-1][0] == drawn:
            part += found.pop()[1]
        found.append((drawn, part))
    return [(drawn, max(int(part * evaluations), 2)) for drawn, part in found]


def _numbers(argument: str, names: tuple[str, ...], node_ids: list[str], *, are_in: bool) -> list[int]:
    """Return the numbers of the nodes that are, or are not, among the names."""
    for name in names:
        if name not in node_ids:
            raise InvalidRequest.choice(argument, name, node_ids)
    return [code for code, name in enumerate(node_ids) if (name in names) == are_in]
