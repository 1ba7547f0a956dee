"""Follows through the funnel what would not have happened without a node, given all that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.latent_intent.funnel import Lived, Rates, forwards

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Codes, Journeys, Period, Singles

    Numbers = NDArray[np.float64]


def credit_conversions(rates: Rates, journeys: Journeys) -> tuple[Codes, Numbers]:
    """Return for each conversion of the journeys what part of it each cause has.

    A step upwards, or the conversion itself, would have happened without a node with the chance that its
    other causes and its baseline give. Where a step would not have happened, everything that follows from it
    would not have, until the user takes the step back; of a conversion that ends the observation, the
    chance is taken off that the user would have converted later, from where they would have been.

    Parameters
    ----------
    rates : Rates
        The estimate.
    journeys : Journeys
        Of those who converted.

    Returns
    -------
    event : int array, shape (n_events,)
        Which conversion.
    part : float array, shape (n_events, n_causes)
        From 0 to 1. Several causes may each have been needed, so the sum may be above 1.
    """
    later = _later(rates)
    crediting = Rates(rates.parameters, rates.classes, journeys)
    found = [_of_block(block, crediting, later) for block in journeys.blocks]
    causes = len(journeys.causes)
    return (
        np.concatenate([np.zeros(0, np.int64), *(event for event, _ in found)]),
        np.concatenate([np.zeros((0, causes)), *(part for _, part in found)]),
    )


def _of_block(block: list[Period], rates: Rates, later: Numbers) -> tuple[Codes, Numbers]:
    intents, classes = rates.shape
    causes, steps = len(rates.journeys.causes), intents - 1
    lived, _ = forwards(block, rates)
    events, parts = [], []
    # [cause, step, intent]: chance of being there by a step, the lowest, that needed the cause.
    lost: Singles = np.zeros((causes, steps, intents, classes, 1), np.float32)
    for when, (period, now) in enumerate(zip(block, lived, strict=True)):
        if when == 0:
            lost = np.repeat(lost, len(period.weight), axis=-1)
        else:
            moved = _moved(lost, lived[when - 1].chance, now, period, rates)
            lost = period.branching.spread(moved)
            lost = lost * (now.seen / now.scale)
        branch, event, _ = period.events
        if len(branch):
            events.append(event)
            parts.append(_parts(lost[..., branch], now, period, rates, later))
    return (
        np.concatenate([np.zeros(0, np.int64), *events]),
        np.concatenate([np.zeros((0, causes)), *parts]),
    )


def _moved(lost: Singles, before: Singles, now: Lived, period: Period, rates: Rates) -> Singles:
    """Take the steps of a period; going back by a step undoes what was lost by it."""
    steps, intents = lost.shape[1:3]
    fall = rates.as_single["fall"]
    after = lost.copy()
    for intent in range(intents):
        rest = lost[:, :, intent]
        if intent < steps:
            rises = rest * now.up[intent]
            after[:, :, intent] -= rises
            after[:, :, intent + 1] += rises
            rest = rest - rises
            clean = before[intent] - lost[:, :, intent].sum(axis=1)
            needed = _needed(rates, period.before, now, intent)
            after[:, intent, intent + 1] += clean * (now.up[intent] * needed)
        if intent > 0:
            falls = rest * fall[intent - 1]
            after[:, :, intent] -= falls
            after[:, : intent - 1, intent - 1] += falls[:, : intent - 1]
    return after


def _needed(rates: Rates, levels: Singles, now: Lived, step: int) -> Singles:
    """Return with what chance each cause was needed for a step that happened, by class and branch."""
    parts = _by_cause(rates, rates.as_single["pushed"][step], levels)
    climb, push = rates.as_single["climb"][step], now.push[step]
    without = -np.expm1(-climb[None, :, None] * (push - parts)[:, None, :])
    return np.asarray(np.clip(1 - without / now.up[step][None], 0, 1))


def _by_cause(rates: Rates, effects: Singles, levels: Singles) -> Singles:
    shape = (len(rates.journeys.causes), rates.journeys.lives, levels.shape[1])
    return np.asarray((effects[:, None] * levels).reshape(shape).sum(axis=1))


def _parts(lost: Singles, now: Lived, period: Period, rates: Rates, later: Numbers) -> Numbers:
    """Return what part each cause has in conversions of a period."""
    intents, classes = rates.shape
    branch, _, left = period.events
    levels = period.after[:, branch]
    gone = _by_cause(rates, rates.as_single["direct"], levels)
    if len(rates.journeys.pairs):
        mean = rates.mean_levels(levels)
        gone = gone + ((rates.synergy + rates.synergy.T) @ mean) * mean
    needed = gone / now.growth[branch]
    # From where the user would have been, a conversion may have come later.
    instead = np.zeros((intents, classes, len(branch)))
    is_last = left >= 0
    instead[:, :, is_last] = np.moveaxis(later[left[is_last]], 0, -1)
    chance = now.chance[:, :, branch]
    part = np.zeros((len(gone), len(branch)))
    for step in range(intents - 1):
        part += (lost[:, step].sum(axis=1) * (1 - instead[step])).sum(axis=1)
    for intent in range(intents):
        clean = chance[intent] - lost[:, :, intent].sum(axis=1)
        part += (clean * needed[:, None] * (1 - instead[intent])).sum(axis=1)
    return np.clip(part, 0, 1).T


def _later(rates: Rates) -> Numbers:
    """Return the chance to convert within so many periods, by intent and class, under mean effects."""
    intents, classes = rates.shape
    given, nodes = rates.parameters, rates.journeys.nodes
    days = bought = 0.0
    pushed: Numbers = np.zeros(intents - 1)
    for block in rates.journeys.blocks:
        for period in block:
            days += float(period.weight.sum())
            told = rates.told[nodes, period.told]
            bought += float((rates.growth(period.after) * told) @ period.weight)
            weight = np.bincount(period.branching.parent, period.weight, minlength=period.branching.before)
            pushed = pushed + given.pushed @ (period.before @ weight)
    buys = -np.expm1(-rates.touch[nodes].reshape(intents, classes) * bought / days)
    up = -np.expm1(-rates.climb * (1 + pushed / days)[:, None])
    longest = rates.journeys.longest
    later = np.zeros((longest + 1, intents, classes))
    for left in range(1, longest + 1):
        value = buys + (1 - buys) * later[left - 1]
        for intent in range(intents):
            stays = value[intent]
            if intent > 0:
                stays = stays + rates.fall[intent - 1] * (value[intent - 1] - stays)
            later[left, intent] = stays
            if intent < intents - 1:
                later[left, intent] += up[intent] * (value[intent + 1] - stays)
    return later
