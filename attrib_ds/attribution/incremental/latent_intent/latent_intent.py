"""Credit of the latent intent model: sample, fit, credits and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.conversion_credits import credit_conversions
from attrib_ds.attribution.incremental.latent_intent.fitting import Objective, draw_posterior, fit
from attrib_ds.attribution.incremental.latent_intent.forward_backward import Rates
from attrib_ds.attribution.incremental.latent_intent.parameters import class_grid, initial_parameters
from attrib_ds.attribution.incremental.latent_intent.predictive_check import (
    Comparison,
    compare,
    misfits,
    warn_of_misfit,
)
from attrib_ds.attribution.incremental.latent_intent.prefix_tree import (
    EncodedHistories,
    PrefixTree,
    TreeSettings,
    build_tree,
)
from attrib_ds.attribution.incremental.latent_intent.replication import observed_histories, replicate
from attrib_ds.attribution.incremental.latent_intent.sampling import sample_users
from attrib_ds.attribution.intervals.tally import Tally
from attrib_ds.display import progress
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from attrib_ds.attribution.models.incremental import LatentIntent
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]

#: Distinct histories of each round of the fit, and its part of the evaluations; None is all of them.
_ROUNDS: Final = ((4_000, 0.4), (16_000, 0.4), (None, 0.2))
#: Users simulated from the fitted model for the predictive check: in all, and the most per observed user.
_REPLICATED_USERS: Final = 200_000
_MOST_REPLICATES: Final = 10
#: Posterior draws that intervals come from.
_DRAWS: Final = 40
#: A follower has at least this many touchpoints, and less than this share without a recent one before it.
_LEAST_TOUCHPOINTS: Final = 50
_LARGEST_SHARE_ALONE: Final = 0.02


def credit_latent_intent(model: LatentIntent, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    histories = _histories(model, sequences)
    estimation = _Estimation.of(model, histories, sequences.node_ids)
    draws = _DRAWS if sequences.folds > 1 else 0
    with progress("passes", model.evaluations, name="latent intent, fit") as advance:
        rates = estimation.fitted(advance)
    whole, replicates = estimation.credited(rates), None
    if draws:
        replicates = _centred(whole, estimation.replicates(estimation.drawn(rates, draws)))
    distances = misfits(estimation.compared(rates, sequences.node_ids))
    warn_of_misfit(model.name, distances)
    is_touched = np.bincount(histories.touch_node, minlength=len(sequences.node_ids)) > 0
    is_shown = np.repeat(np.append(is_touched, True)[:, None], len(histories.currencies), axis=1)
    return Tally(
        histories.currencies,
        whole[0],
        whole[1],
        is_shown,
        replicates=replicates,
        misfit=distances,
    )


def compare_fit(model: LatentIntent, sequences: Sequences) -> list[Comparison]:
    """Fit the model, and compare users drawn from it with those observed."""
    estimation = _Estimation.of(model, _histories(model, sequences), sequences.node_ids)
    with progress("passes", model.evaluations, name="latent intent, fit") as advance:
        rates = estimation.fitted(advance)
    return estimation.compared(rates, sequences.node_ids)


def _histories(model: LatentIntent, sequences: Sequences) -> Histories:
    histories = Histories.of(sequences, covariates=model.covariates, models_touchpoints=True)
    if not len(histories.event_user):
        raise InvalidRequest("paths: no conversions; an incremental model needs at least one", field="paths")
    return histories


def _centred(whole: Numbers, draws: Numbers) -> Numbers:
    """Centre credits of posterior draws on the estimate.

    Draws of effects are never below zero, so those of a node without an effect are all above the estimate.
    """
    found = whole + draws - np.median(draws, axis=0)
    # Credit is not below zero, unless refunds make the estimate negative.
    found[:, :, :-1] = np.maximum(found[:, :, :-1], np.minimum(whole[:, :-1], 0))
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class _Estimation:
    """Data of the fit, and of the conversions to credit.

    Attributes
    ----------
    model : LatentIntent
        Parameters of the model.
    histories : Histories
        Histories of all users.
    encoded : EncodedHistories
        The same, encoded by period.
    settings : TreeSettings
        Settings of the prefix trees.
    rounds : list of (PrefixTree, int)
        Sample of each round, and its evaluations.
    converted : PrefixTree
        All users who converted.
    """

    model: LatentIntent
    histories: Histories
    encoded: EncodedHistories
    settings: TreeSettings
    rounds: list[tuple[PrefixTree, int]]
    converted: PrefixTree

    @classmethod
    def of(cls, model: LatentIntent, histories: Histories, node_ids: list[str]) -> _Estimation:
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
        settings = TreeSettings(nodes, causes, followers, half_lives, step, memory, pairs)
        encoded = EncodedHistories.of(histories, nodes=nodes, step=step)
        buyers = np.unique(histories.event_user)
        buyers = buyers[np.argsort(encoded.rank[buyers], kind="stable")]
        rounds = []
        for size, evaluations in _rounds(model.users, model.evaluations):
            chosen, weight = sample_users(histories, encoded, users=size, seed=model.seed)
            rounds.append((build_tree(histories, encoded, settings, chosen, weight), evaluations))
        converted = build_tree(histories, encoded, settings, buyers, np.ones(len(buyers)))
        return cls(model, histories, encoded, settings, rounds, converted)

    def fitted(self, advance: Callable[[int], None]) -> Rates:
        """Fit the model."""
        model = self.model
        classes = class_grid(model.activities, model.propensities)
        found = fit(
            self.rounds,
            classes,
            intents=model.intents,
            shrinkage=model.shrinkage,
            tolerance=model.tolerance,
            advance=advance,
        )
        return Rates(found.parameters, classes, self.rounds[-1][0])

    def compared(self, rates: Rates, node_ids: list[str]) -> list[Comparison]:
        """Compare users drawn from the fitted model with those observed."""
        histories, encoded, settings = self.histories, self.encoded, self.settings
        users = min(_REPLICATED_USERS, _MOST_REPLICATES * len(encoded.first))
        seen = observed_histories(histories, encoded, step=settings.step)
        drawn = replicate(rates, histories, encoded, settings, users=users, seed=self.model.seed)
        return compare(seen, drawn, node_ids)

    def drawn(self, rates: Rates, draws: int) -> list[Rates]:
        """Draw rates from the posterior."""
        centre = initial_parameters(rates.tree, rates.classes, intents=self.model.intents)
        # The curvature takes two passes per parameter, so not those over the largest sample.
        tree, _ = self.rounds[:2][-1]
        objective = Objective(tree, rates.classes, centre, self.model.shrinkage)
        drawn = draw_posterior(objective, rates.parameters, draws=draws, seed=self.model.seed)
        return [Rates(parameters, rates.classes, rates.tree) for parameters in drawn]

    def replicates(self, drawn: list[Rates]) -> Numbers:
        """Return credits under posterior draws, each with a Poisson bootstrap sample of users."""
        random = np.random.default_rng(self.model.seed)
        found = []
        with progress("credits", len(drawn), name="latent intent, intervals") as advance:
            for rates in drawn:
                user_weight = random.poisson(1.0, len(self.histories.since))
                found.append(self.credited(rates, user_weight[self.histories.event_user]))
                advance(1)
        return np.stack(found)

    def credited(self, rates: Rates, weight: NDArray[Any] | None = None) -> Numbers:
        """Return conversions and value by node and currency; the last node is the baseline."""
        histories, nodes = self.histories, self.settings.nodes
        event, part = credit_conversions(rates, self.converted)
        currencies = len(histories.currencies)
        found = np.zeros((2, nodes + 1, currencies))
        for number, amount in enumerate((histories.conversions, histories.value)):
            if weight is not None:
                amount = amount * weight
            weighted = part * amount[event][:, None]
            for currency in range(currencies):
                is_in = histories.event_currency[event] == currency
                found[number, rates.tree.causes, currency] = weighted[is_in].sum(axis=0)
                total = amount[histories.event_currency == currency].sum()
                found[number, nodes, currency] = total - found[number, :nodes, currency].sum()
        return found


def _rounds(users: int, evaluations: int) -> list[tuple[int, int]]:
    """Return histories and evaluations of each round."""
    found: dict[int, float] = {}
    for size, part in _ROUNDS:
        drawn = min(size or users, users)
        found[drawn] = found.get(drawn, 0.0) + part
    return [(drawn, max(int(part * evaluations), 2)) for drawn, part in found.items()]


def _numbers(argument: str, names: tuple[str, ...], node_ids: list[str], *, are_in: bool) -> list[int]:
    """Return the codes of the nodes that are, or are not, named."""
    for name in names:
        if name not in node_ids:
            raise InvalidRequest.choice(argument, name, node_ids)
    return [code for code, name in enumerate(node_ids) if (name in names) == are_in]


def find_followers(histories: Histories, nodes: int, *, memory: float) -> list[int]:
    """Return the nodes that touch almost only users whom another node touched recently, such as retargeting.

    Touchpoints within the memory from the beginning of an observation are left out.
    """
    user, node, when = histories.touch_user, histories.touch_node, histories.touch_time
    count = len(user)
    if not count:
        return []
    is_new = np.ones(count, bool)
    is_new[1:] = (user[1:] != user[:-1]) | (node[1:] != node[:-1])
    begin = np.maximum.accumulate(np.where(is_new, np.arange(count), 0))
    other = np.maximum(begin - 1, 0)
    is_alone = (begin == 0) | (user[other] != user) | (when - when[other] > memory + 1)
    is_known = when >= histories.since[user] + memory
    count_of = np.bincount(node[is_known], minlength=nodes)
    alone = np.bincount(node[is_known & is_alone], minlength=nodes)
    return [
        int(each)
        for each in np.flatnonzero(
            (count_of >= _LEAST_TOUCHPOINTS) & (alone < _LARGEST_SHARE_ALONE * count_of)
        )
    ]
