"""Forward-backward pass over the hidden Markov model of intents: log-likelihood and gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import expit

from attrib_ds.attribution.incremental.latent_intent.parameters import propensity_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.parameters import Parameters
    from attrib_ds.attribution.incremental.latent_intent.prefix_tree import (
        Period,
        PrefixTree,
        Singles,
    )

    Numbers = NDArray[np.float64]

#: Least log-probability of the emissions of a period, relative to the likeliest state.
_LEAST_LOG: Final = np.float32(-60)
#: Least rate of an emission, whose logarithm is finite in single precision.
_LEAST_RATE: Final = np.float32(1e-30)
#: Largest backward probability relative to that of the observed histories.
_LARGEST_VALUE: Final = np.float32(1e30)
#: Least scale, whose reciprocal is finite in single precision.
_TINY: Final = np.float32(1e-36)
#: Largest factor of a rate.
_LARGEST_FACTOR: Final = np.float32(1e6)
#: Bounds of log-rates, as good as never and always.
_LOG_RATE_BOUNDS: Final = (-60.0, 6.0)
#: Bounds of log-factors: products of two are finite in single precision, and rates beyond them are bounded.
_LOG_FACTOR_BOUNDS: Final = (-30.0, 30.0)


@dataclass(frozen=True, eq=False)
class Rates:
    """Transition and emission rates of the hidden Markov model, by intent and latent class.

    Emissions are touchpoints of each node and conversions; several of one kind within a period count as one.
    An emission, and a transition to the next intent, has the probability ``1 - exp(-rate)`` in a period.

    Attributes
    ----------
    share : float array, shape (n_classes,)
        Prior probability of each class.
    start : float array, shape (n_intents, n_classes)
        Distribution of intents at the start of an observation.
    upward : float array, shape (n_steps, n_classes)
        Rate of the transition to the next intent.
    downward : float array, shape (n_steps,)
        Probability of the transition to the intent before.
    touch : float array, shape (n_nodes + 1, n_intents * n_classes)
        Rate of touchpoints and, in the last row, of conversions.
    pattern_factor : float array, shape (n_followers, n_patterns)
        Factor of that rate by pattern of recent touchpoints.
    covariate_factor : float array, shape (n_nodes + 1, n_profiles)
        Factor of that rate by profile of covariates.
    """

    parameters: Parameters
    classes: Numbers
    tree: PrefixTree
    share: Numbers = field(init=False)
    start: Numbers = field(init=False)
    upward: Numbers = field(init=False)
    downward: Numbers = field(init=False)
    touch: Numbers = field(init=False)
    pattern_factor: Numbers = field(init=False)
    covariate_factor: Numbers = field(init=False)

    def __post_init__(self) -> None:
        given, classes, tree = self.parameters, self.classes, self.tree
        loadings = np.concatenate([given.touch, given.conversion[None]])
        signs = np.concatenate([given.emission, given.conversion_intent[None]])
        touch = (loadings @ classes.T)[:, None, :] + signs[:, :, None]
        covariates = np.concatenate([given.touch_covariates, given.conversion_covariates[None]])
        # Classes are ordered by activity, before by propensity.
        propensities = propensity_weights(len(classes) // len(given.share))
        rates = {
            "share": np.outer(softmax(given.share), propensities).ravel(),
            "start": softmax(given.start @ classes.T),
            "upward": np.exp(np.clip(given.upward @ classes.T, *_LOG_RATE_BOUNDS)),
            "downward": expit(given.downward),
            "touch": np.exp(np.clip(touch, *_LOG_RATE_BOUNDS)).reshape(len(touch), -1),
            "pattern_factor": _factor(given.recent @ tree.patterns.T + given.pattern),
            "covariate_factor": _factor(covariates @ tree.covariates.T),
        }
        for name, value in rates.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of intents and classes."""
        intents, classes = self.start.shape
        return intents, classes

    @cached_property
    def single(self) -> dict[str, Any]:
        """Arrays in the single precision of the tree."""
        given = self.parameters
        arrays = {
            "first": self.share * self.start,
            "upward": self.upward,
            "downward": self.downward,
            "touch": self.touch,
            "no_emission": -self.touch.T,
            "pattern_factor": self.pattern_factor,
            "covariate_factor": self.covariate_factor,
            "covariates": self.tree.covariates,
            "direct": given.direct,
            "transition": given.transition,
            "interactions": self.interactions,
        }
        return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}

    @cached_property
    def touches(self) -> EmissionTable:
        """Probabilities of the touchpoints of each kind."""
        node, profile, pattern = self.tree.touch_kinds
        factor = self.covariate_factor[node, profile]
        for place, follower in enumerate(self.tree.followers):
            factor = np.where(node == follower, factor * self.pattern_factor[place, pattern], factor)
        return EmissionTable.of(self.single["touch"][node].T, factor.astype(np.float32))

    @cached_property
    def interactions(self) -> Numbers:
        """Interaction effects as an upper triangular matrix."""
        count = len(self.tree.causes)
        matrix = np.zeros((count, count))
        matrix[self.tree.pairs[:, 0], self.tree.pairs[:, 1]] = self.parameters.interaction
        return matrix

    def mean_adstock(self, adstock: NDArray[Any]) -> NDArray[Any]:
        """Return the adstock of each cause, averaged over half-lives."""
        causes, lives = len(self.tree.causes), self.tree.half_lives
        total = adstock.reshape(causes, lives, adstock.shape[1]).sum(axis=1)
        return np.asarray(total * np.float32(1 / lives))

    def conversion_factor(self, adstock: Singles) -> Singles:
        """Return the factor by which causes raise the conversion rate."""
        single = self.single
        conversion_factor = single["direct"] @ adstock
        conversion_factor += 1
        if len(self.tree.pairs):
            mean = self.mean_adstock(adstock)
            conversion_factor += ((single["interactions"] @ mean) * mean).sum(axis=0)
        return np.asarray(conversion_factor)


@dataclass(eq=False)
class Forward:
    """Results of the forward pass for one period of a block; arrays end with the branch.

    Attributes
    ----------
    filtered : float32 array, shape (n_intents, n_classes, n_branches)
        Probability of each intent and class given the emissions up to the end of the period.
    emission : float32 array, shape (n_intents, n_classes, n_branches)
        Probability of the emissions of the period, up to a factor of each branch.
    scale : float32 array, shape (n_branches,)
        Probability of these emissions given all earlier ones, up to the same factor.
    up : float32 array, shape (n_steps, n_classes, n_branches_before)
        Probability of each transition upwards.
    transition_factor : float32 array, shape (n_steps, n_branches_before)
        Factor of its rate.
    factors : float32 array, shape (n_nodes + 1, n_branches)
        Factors of the rates; 0 for emissions, whose probabilities are in ``EmissionTable``.
    conversions : EmissionTable
        Probabilities of the conversions.
    conversion_factor : float32 array, shape (n_branches,)
        Factor of the conversion rate due to causes.
    """

    filtered: Singles
    emission: Singles
    scale: Singles
    up: Singles
    transition_factor: Singles
    factors: Singles
    conversions: EmissionTable
    conversion_factor: Singles


@dataclass(frozen=True, eq=False)
class EmissionTable:
    """Probability ``1 - exp(-rate)`` of emissions, by intent and class, and by emission.

    Attributes
    ----------
    logarithm : float32 array, shape (n_intents * n_classes, n)
        Log-probability.
    slope : float32 array, shape (n_intents * n_classes, n)
        Its derivative with respect to the log-rate.
    """

    logarithm: Singles
    slope: Singles

    @classmethod
    def of(cls, rate: Singles, factor: Singles) -> EmissionTable:
        """Return the table for rates with factors."""
        scaled = np.maximum(rate * np.minimum(factor, _LARGEST_FACTOR), _LEAST_RATE)
        probability = -np.expm1(-scaled)
        return cls(np.log(probability), scaled * (1 - probability) / probability)


def forward_pass(block: list[Period], rates: Rates) -> tuple[list[Forward], float]:
    """Return the forward pass of each period of a block, and the block's weighted log-likelihood."""
    intents, classes = rates.shape
    single = rates.single
    log_likelihood = 0.0
    forward: list[Forward] = []
    for period in block:
        count = len(period.weight)
        factors, conversions, conversion_factor = _rate_factors(period, rates)
        emission = single["no_emission"] @ factors
        for turn in period.turns:
            kind = period.touches[1, turn]
            emission[:, period.touches[0, turn]] += np.take(rates.touches.logarithm, kind, axis=1)
        if len(period.buyers):
            emission[:, period.buyers] += conversions.logarithm
        if emission.min(initial=0) < _LEAST_LOG:
            # Only ratios between intents and classes matter; the likeliest goes to the likelihood.
            largest = emission.max(axis=0)
            log_likelihood += float(largest.astype(np.float64) @ period.weight)
            emission -= largest
            np.maximum(emission, _LEAST_LOG, out=emission)
        np.exp(emission, out=emission)
        emission = emission.reshape(intents, classes, count)
        transition_factor = single["transition"] @ period.adstock_before
        transition_factor += 1
        up = single["upward"][:, :, None] * -transition_factor[:, None, :]
        np.negative(np.expm1(up, out=up), out=up)
        if forward:
            probability = period.branching.spread(_transitioned(forward[-1].filtered, up, single["downward"]))
            probability = np.multiply(probability, emission, out=probability)
        else:
            probability = single["first"][:, :, None] * emission
        scale = np.maximum(probability.reshape(-1, count).sum(axis=0), _TINY)
        probability *= 1 / scale
        log_likelihood += float(np.log(scale).astype(np.float64) @ period.weight)
        forward.append(
            Forward(
                filtered=probability,
                emission=emission,
                scale=scale,
                up=up,
                transition_factor=transition_factor,
                factors=factors,
                conversions=conversions,
                conversion_factor=conversion_factor,
            )
        )
    return forward, log_likelihood


def _rate_factors(period: Period, rates: Rates) -> tuple[Singles, EmissionTable, Singles]:
    """Return rate factors of what was not emitted, the table of conversions, and the conversion factor."""
    single, tree, count = rates.single, rates.tree, len(period.weight)
    nodes = tree.nodes
    if tree.covariates.shape[1]:
        factor = np.take(single["covariate_factor"], period.covariate_row, axis=1)
    else:
        factor = np.ones((nodes + 1, count), np.float32)
    for place, node in enumerate(tree.followers):
        factor[node] *= single["pattern_factor"][place, period.pattern]
    conversion_factor = rates.conversion_factor(period.adstock_after)
    factor[nodes] *= conversion_factor
    np.minimum(factor, _LARGEST_FACTOR, out=factor)
    buyers = period.buyers
    conversions = EmissionTable.of(single["touch"][nodes][:, None], factor[nodes, buyers])
    factor[nodes, buyers] = 0
    branch, kind = period.touches
    factor[tree.touch_kinds[0, kind], branch] = 0
    return factor, conversions, conversion_factor


def _transitioned(probability: Singles, up: Singles, downward: Singles) -> Singles:
    """Return the state probabilities after the transitions of one period, before its emissions."""
    after = probability.copy()
    last = len(probability) - 1
    for intent in range(last + 1):
        rest = probability[intent]
        if intent < last:
            upward_steps = rest * up[intent]
            after[intent] -= upward_steps
            after[intent + 1] += upward_steps
            rest = np.subtract(rest, upward_steps, out=upward_steps)
        if intent > 0:
            downward_steps = rest * downward[intent - 1]
            after[intent] -= downward_steps
            after[intent - 1] += downward_steps
    return after


@dataclass(eq=False)
class Gradient:
    """Gradient of the log-likelihood, and the complete-data information.

    Derivatives are with respect to log-rates, log-factors, log-odds of probabilities, and effects themselves.
    The information is that of a model whose intents were observed.

    Attributes
    ----------
    has_information : bool
        Whether ``counts``, ``pattern_counts``, ``upward_steps``, ``downward_steps`` and the information of
        effects are summed too, which takes time.
    log_likelihood : float
        Sum over users, weighted.
    start : float array, shape (n_intents, n_classes)
        Expected number of users.
    upward, upward_steps : float array, shape (n_steps, n_classes)
        Gradient, and expected number of transitions upwards.
    downward, downward_steps : float array, shape (n_steps,)
        The same for transitions downwards.
    touch, counts : float array, shape (n_nodes + 1, n_intents * n_classes)
        Gradient, and expected number of emissions.
    pattern, pattern_counts : float array, shape (n_followers, n_patterns)
        The same by pattern of recent touchpoints.
    covariates : float array, shape (n_nodes + 1, n_covariates)
    direct, direct_information, transition, transition_information : float array
    interaction, interaction_information : float array, shape (n_causes, n_causes)
    """

    has_information: bool
    log_likelihood: float
    start: Numbers
    upward: Numbers
    upward_steps: Numbers
    downward: Numbers
    downward_steps: Numbers
    touch: Numbers
    counts: Numbers
    pattern: Numbers
    pattern_counts: Numbers
    covariates: Numbers
    direct: Numbers
    direct_information: Numbers
    transition: Numbers
    transition_information: Numbers
    interaction: Numbers
    interaction_information: Numbers

    @classmethod
    def zeros(cls, rates: Rates, *, has_information: bool) -> Gradient:
        """Return sums of zero."""
        given, covariates = rates.parameters, (len(rates.touch), rates.tree.covariates.shape[1])
        return cls(
            has_information=has_information,
            log_likelihood=0.0,
            start=np.zeros(rates.start.shape),
            upward=np.zeros(rates.upward.shape),
            upward_steps=np.zeros(rates.upward.shape),
            downward=np.zeros(rates.downward.shape),
            downward_steps=np.zeros(rates.downward.shape),
            touch=np.zeros(rates.touch.shape),
            counts=np.zeros(rates.touch.shape),
            pattern=np.zeros(rates.pattern_factor.shape),
            pattern_counts=np.zeros(rates.pattern_factor.shape),
            covariates=np.zeros(covariates),
            direct=np.zeros(given.direct.shape),
            direct_information=np.zeros(given.direct.shape),
            transition=np.zeros(given.transition.shape),
            transition_information=np.zeros(given.transition.shape),
            interaction=np.zeros(rates.interactions.shape),
            interaction_information=np.zeros(rates.interactions.shape),
        )


def likelihood_gradient(rates: Rates, *, has_information: bool = False) -> Gradient:
    """Return the log-likelihood of all histories in the tree, and its gradient."""
    total = Gradient.zeros(rates, has_information=has_information)
    # Products of small float32 matrices of finite numbers may set the flag in some BLAS kernels.
    with np.errstate(invalid="ignore"):
        for block in rates.tree.blocks:
            forward, log_likelihood = forward_pass(block, rates)
            total.log_likelihood += log_likelihood
            _backward_pass(total, block, rates, forward)
    return total


def _backward_pass(total: Gradient, block: list[Period], rates: Rates, forward: list[Forward]) -> None:
    downward = rates.single["downward"]
    intents = len(downward) + 1
    # Backward probabilities, divided by those of the later emissions, times users, summed over branches.
    after: Singles = np.zeros((1, 1, 1), np.float32)
    for number in range(len(block) - 1, -1, -1):
        period, now = block[number], forward[number]
        after = after + period.ends
        probability = now.filtered * after
        _add_emissions(total, period, rates, now, probability.reshape(-1, probability.shape[-1]))
        if number == 0:
            total.start += probability.sum(axis=-1)
            return
        value = np.multiply(now.emission, after, out=now.emission)
        # A state with almost no probability would have an infinite value; its product with that vanishes.
        with np.errstate(over="ignore"):
            value *= 1 / now.scale
        np.minimum(value, _LARGEST_VALUE, out=value)
        value = period.branching.collect(value)
        before = forward[number - 1].filtered
        after = np.empty_like(value)
        for intent in range(intents):
            stays = value[intent]
            if intent > 0:
                lower = value[intent - 1] - stays
                downward_steps = before[intent] * lower
                if intent < intents - 1:
                    downward_steps *= 1 - now.up[intent]
                down = float(downward[intent - 1])
                gain = float(downward_steps.sum(dtype=np.float64))
                total.downward[intent - 1] += gain * down * (1 - down)
                lower *= downward[intent - 1]
                stays = stays + lower
            if intent < intents - 1:
                higher = value[intent + 1] - stays
                np.multiply(now.up[intent], higher, out=after[intent])
                after[intent] += stays
                _add_upward(total, rates, period, now, intent, before[intent], higher)
            else:
                after[intent] = stays
            if total.has_information:
                _add_step_counts(total, rates, period, now, intent, before[intent] * after[intent])


def _add_upward(
    total: Gradient, rates: Rates, period: Period, now: Forward, step: int, before: Singles, higher: Singles
) -> None:
    """Add the gradient of one transition upwards; ``higher`` is the gain in backward probability."""
    gradient = np.multiply(higher, before, out=higher)
    gradient *= 1 - now.up[step]
    by_class = gradient @ now.transition_factor[step]
    total.upward[step] += rates.upward[step] * by_class
    total.transition[step] += period.adstock_before @ (rates.single["upward"][step] @ gradient)


def _add_step_counts(
    total: Gradient, rates: Rates, period: Period, now: Forward, intent: int, there: Singles
) -> None:
    """Add the expected transitions from an intent; ``there`` is the expected number of users in it."""
    if intent > 0:
        total.downward_steps[intent - 1] += rates.downward[intent - 1] * there.sum(dtype=np.float64)
    if intent < len(rates.downward):
        transition_factor = now.transition_factor[intent]
        total.upward_steps[intent] += rates.upward[intent] * (there @ transition_factor)
        total.transition_information[intent] += period.adstock_before**2 @ (
            (rates.single["upward"][intent] @ there) / transition_factor
        )


def _add_emissions(total: Gradient, period: Period, rates: Rates, now: Forward, probability: Singles) -> None:
    tree, single, buyers = rates.tree, rates.single, period.buyers
    nodes, (branch, kind) = tree.nodes, period.touches
    node = np.append(tree.touch_kinds[0, kind], np.full(len(buyers), nodes))
    branch = np.append(branch, buyers)
    is_node = (node[:, None] == np.arange(nodes + 1)).astype(np.float32)
    emitting = np.take(probability, branch, axis=1)
    if total.has_information:
        total.counts += (emitting @ is_node).T
    emitting[:, : len(kind)] *= np.take(rates.touches.slope, kind, axis=1)
    emitting[:, len(kind) :] *= now.conversions.slope
    total.touch += (emitting @ is_node).T - rates.touch * (now.factors @ probability.T)
    # Gradient with respect to the logarithm of each branch's factors.
    rows = np.arange(nodes + 1) if tree.covariates.shape[1] else np.append(tree.followers, nodes)
    residual = np.zeros(now.factors.shape, np.float32)
    residual[rows] = (single["touch"][rows] @ probability) * -now.factors[rows]
    residual[node, branch] += emitting.sum(axis=0)
    if tree.covariates.shape[1]:
        total.covariates += residual @ np.take(single["covariates"], period.covariate_row, axis=0)
    patterns = total.pattern.shape[1]
    for place, each in enumerate(tree.followers):
        total.pattern[place] += np.bincount(period.pattern, residual[each], minlength=patterns)
    adstock = period.adstock_after
    per_factor = residual[nodes] / now.conversion_factor
    total.direct += adstock @ per_factor
    if len(tree.pairs):
        mean = rates.mean_adstock(adstock)
        total.interaction += (mean * per_factor) @ mean.T
    if total.has_information:
        for place, each in enumerate(tree.followers):
            there = branch[node == each]
            total.pattern_counts[place] += np.bincount(
                period.pattern[there], period.weight[there], minlength=patterns
            )
        information = period.weight[buyers] / now.conversion_factor[buyers] ** 2
        total.direct_information += adstock[:, buyers] ** 2 @ information
        if len(tree.pairs):
            squares = mean[:, buyers] ** 2
            total.interaction_information += (squares * information) @ squares.T


def _factor(logarithms: Numbers) -> Numbers:
    """Return the exponential of log-factors within their bounds."""
    return np.asarray(np.exp(np.clip(logarithms, *_LOG_FACTOR_BOUNDS)))


def softmax(logarithms: Numbers) -> Numbers:
    """Return the softmax along the first axis."""
    parts = np.exp(logarithms - logarithms.max(axis=0))
    return np.asarray(parts / parts.sum(axis=0))
