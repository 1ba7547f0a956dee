"""Credit of each cause for each conversion: the posterior probability that it was needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.latent_intent.forward_backward import Forward, Rates, forward_pass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.prefix_tree import Codes, Period, PrefixTree, Singles

    Numbers = NDArray[np.float64]


def credit_conversions(rates: Rates, tree: PrefixTree) -> tuple[Codes, Numbers]:
    """Return the part of each conversion that would not have happened without each cause.

    A transition upwards, or the conversion itself, would have happened without a cause with the probability
    that the other causes and the baseline give it. If a transition would not have happened, nothing that
    follows from it would have, until the user falls back below it. For a conversion that ends the
    observation, the probability of a later conversion from the counterfactual intent is subtracted.

    Parameters
    ----------
    rates : Rates
        Estimated rates.
    tree : PrefixTree
        Histories of all users who converted.

    Returns
    -------
    event : int array, shape (n_events,)
        Position of the conversion.
    part : float array, shape (n_events, n_causes)
        From 0 to 1. Several causes may each have been needed, so the sum may be above 1.
    """
    later = _later_conversion(rates)
    rates_of_tree = Rates(rates.parameters, rates.classes, tree)
    found = [_credit_block(block, rates_of_tree, later) for block in tree.blocks]
    causes = len(tree.causes)
    return (
        np.concatenate([np.zeros(0, np.int64), *(event for event, _ in found)]),
        np.concatenate([np.zeros((0, causes)), *(part for _, part in found)]),
    )


def _credit_block(block: list[Period], rates: Rates, later: Numbers) -> tuple[Codes, Numbers]:
    intents, classes = rates.shape
    causes, steps = len(rates.tree.causes), intents - 1
    forward, _ = forward_pass(block, rates)
    events, parts = [], []
    # [cause, step, intent]: probability of the intent, reached by way of a step that needed the cause; if
    # several did, the lowest counts.
    dependent: Singles = np.zeros((causes, steps, intents, classes, 1), np.float32)
    for number, (period, now) in enumerate(zip(block, forward, strict=True)):
        if number == 0:
            dependent = np.repeat(dependent, len(period.weight), axis=-1)
        else:
            transitioned = _transitioned(dependent, forward[number - 1].filtered, now, period, rates)
            dependent = period.branching.spread(transitioned)
            dependent = dependent * (now.emission / now.scale)
        branch, event, _ = period.events
        if len(branch):
            events.append(event)
            parts.append(_conversion_parts(dependent[..., branch], now, period, rates, later))
    return (
        np.concatenate([np.zeros(0, np.int64), *events]),
        np.concatenate([np.zeros((0, causes)), *parts]),
    )


def _transitioned(dependent: Singles, before: Singles, now: Forward, period: Period, rates: Rates) -> Singles:
    """Apply the transitions of a period; falling back below a step removes what depended on it."""
    steps, intents = dependent.shape[1:3]
    downward = rates.single["downward"]
    after = dependent.copy()
    for intent in range(intents):
        rest = dependent[:, :, intent]
        if intent < steps:
            upward_steps = rest * now.up[intent]
            after[:, :, intent] -= upward_steps
            after[:, :, intent + 1] += upward_steps
            rest = rest - upward_steps
            independent = before[intent] - dependent[:, :, intent].sum(axis=1)
            needed = _needed_for_step(rates, period.adstock_before, now, intent)
            after[:, intent, intent + 1] += independent * (now.up[intent] * needed)
        if intent > 0:
            downward_steps = rest * downward[intent - 1]
            after[:, :, intent] -= downward_steps
            after[:, : intent - 1, intent - 1] += downward_steps[:, : intent - 1]
    return after


def _needed_for_step(rates: Rates, adstock: Singles, now: Forward, step: int) -> Singles:
    """Return the probability that each cause was needed for a transition upwards, by class and branch."""
    parts = _sum_half_lives(rates, rates.single["transition"][step], adstock)
    upward, transition_factor = rates.single["upward"][step], now.transition_factor[step]
    without = -np.expm1(-upward[None, :, None] * (transition_factor - parts)[:, None, :])
    return np.asarray(np.clip(1 - without / now.up[step][None], 0, 1))


def _sum_half_lives(rates: Rates, effects: Singles, adstock: Singles) -> Singles:
    shape = (len(rates.tree.causes), rates.tree.half_lives, adstock.shape[1])
    return np.asarray((effects[:, None] * adstock).reshape(shape).sum(axis=1))


def _conversion_parts(
    dependent: Singles, now: Forward, period: Period, rates: Rates, later: Numbers
) -> Numbers:
    """Return the part of each cause in the conversions of a period."""
    intents, classes = rates.shape
    branch, _, left = period.events
    adstock = period.adstock_after[:, branch]
    removed = _sum_half_lives(rates, rates.single["direct"], adstock)
    if len(rates.tree.pairs):
        mean = rates.mean_adstock(adstock)
        removed = removed + ((rates.interactions + rates.interactions.T) @ mean) * mean
    needed = removed / now.conversion_factor[branch]
    # Probability of a later conversion from the counterfactual intent.
    instead = np.zeros((intents, classes, len(branch)))
    is_last = left >= 0
    instead[:, :, is_last] = np.moveaxis(later[left[is_last]], 0, -1)
    filtered = now.filtered[:, :, branch]
    part = np.zeros((len(removed), len(branch)))
    for step in range(intents - 1):
        part += (dependent[:, step].sum(axis=1) * (1 - instead[step])).sum(axis=1)
    for intent in range(intents):
        independent = filtered[intent] - dependent[:, :, intent].sum(axis=1)
        part += (independent * needed[:, None] * (1 - instead[intent])).sum(axis=1)
    return np.clip(part, 0, 1).T


def _later_conversion(rates: Rates) -> Numbers:
    """Return the probability to convert within a number of periods, by intent and class, at mean adstock."""
    intents, classes = rates.shape
    given, nodes = rates.parameters, rates.tree.nodes
    days = converted = 0.0
    transition: Numbers = np.zeros(intents - 1)
    for block in rates.tree.blocks:
        for period in block:
            days += float(period.weight.sum())
            factor = rates.covariate_factor[nodes, period.covariate_row]
            converted += float((rates.conversion_factor(period.adstock_after) * factor) @ period.weight)
            weight = np.bincount(period.branching.parent, period.weight, minlength=period.branching.before)
            transition = transition + given.transition @ (period.adstock_before @ weight)
    converts = -np.expm1(-rates.touch[nodes].reshape(intents, classes) * converted / days)
    up = -np.expm1(-rates.upward * (1 + transition / days)[:, None])
    longest = rates.tree.longest
    later = np.zeros((longest + 1, intents, classes))
    for left in range(1, longest + 1):
        value = converts + (1 - converts) * later[left - 1]
        for intent in range(intents):
            stays = value[intent]
            if intent > 0:
                stays = stays + rates.downward[intent - 1] * (value[intent - 1] - stays)
            later[left, intent] = stays
            if intent < intents - 1:
                later[left, intent] += up[intent] * (value[intent + 1] - stays)
    return later
