"""Follows through the funnel what would not have happened without a node, given all that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.latent_intent.funnel import Lived, Rates, forwards

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Block, Codes

    Numbers = NDArray[np.float64]


def credit_conversions(rates: Rates) -> tuple[Codes, Numbers, Numbers]:
    """Return for each conversion of the journeys what part of it each cause has.

    A step upwards, or the conversion itself, would have happened without a node with the chance that its
    other causes and its baseline give. Where a step would not have happened, everything that follows from it
    would not have, until the user takes the step back; of a conversion that ends the observation, the
    chance is taken off that the user would have converted later, from where they would have been.

    Returns
    -------
    event : int array, shape (n_events,)
        Which conversion.
    part : float array, shape (n_events, n_causes)
        From 0 to 1. Several causes may each have been needed, so the sum may be above 1.
    weight : float array, shape (n_events,)
        How many conversions it stands for.
    """
    later = _later(rates)
    found = [_of_block(block, rates, later) for block in rates.journeys.blocks]
    causes = len(rates.journeys.causes)
    return (
        np.concatenate([np.zeros(0, np.int64), *(event for event, _, _ in found)]),
        np.concatenate([np.zeros((0, causes)), *(part for _, part, _ in found)]),
        np.concatenate([np.zeros(0), *(weight for _, _, weight in found)]),
    )


def _of_block(block: Block, rates: Rates, later: Numbers) -> tuple[Codes, Numbers, Numbers]:
    classes, intents = rates.shape
    causes, steps = len(rates.journeys.causes), intents - 1
    lived, _ = forwards(block, rates)
    events, parts, weights = [], [], []
    lost = np.zeros((0, 0))
    for period, now in enumerate(lived):
        active = block.active[period]
        if period == 0:
            # [cause, step, intent]: chance of being there by a step, the lowest, that needed the cause.
            lost = np.zeros((causes, steps, intents, classes, active))
        else:
            moved = _moved(
                lost[..., :active], lived[period - 1].chance[:, :, :active], now, block, rates, period
            )
            lost = moved * (now.seen / now.scale).transpose(1, 0, 2)[None, None]
        users, event = block.events[period]
        if len(users):
            is_last = np.array([period == len(block.active) - 1], bool)
            ends = is_last | (users >= _active_next(block, period))
            events.append(event)
            parts.append(_parts(lost[..., users], now, block, rates, period, users, later, ends))
            weights.append(block.weight[users].astype(np.float64))
    return (
        np.concatenate([np.zeros(0, np.int64), *events]),
        np.concatenate([np.zeros((0, causes)), *parts]),
        np.concatenate([np.zeros(0), *weights]),
    )


def _active_next(block: Block, period: int) -> int:
    return block.active[period + 1] if period + 1 < len(block.active) else 0


def _moved(
    lost: Numbers, before: NDArray[np.float32], now: Lived, block: Block, rates: Rates, period: int
) -> Numbers:
    """Take the steps of a period; going back by a step undoes what was lost by it."""
    steps, intents = lost.shape[1:3]
    fall = rates.fall
    levels = block.before[period]
    after = lost.copy()
    for intent in range(intents):
        rest = lost[:, :, intent]
        if intent < steps:
            rises = rest * now.up[intent]
            after[:, :, intent] -= rises
            after[:, :, intent + 1] += rises
            rest = rest - rises
            needed = _needed(rates, levels, now, intent)
            clean = before[:, intent] - lost[:, :, intent].sum(axis=1)
            after[:, intent, intent + 1] += clean * (now.up[intent] * needed)
        if intent > 0:
            falls = rest * fall[intent - 1]
            after[:, :, intent] -= falls
            after[:, : intent - 1, intent - 1] += falls[:, : intent - 1]
    return after


def _needed(rates: Rates, levels: NDArray[np.float32], now: Lived, step: int) -> Numbers:
    """Return with what chance each cause was needed for a step that happened, by class and user."""
    parts = _by_cause(rates, rates.pushed[step], levels)
    climb, push = rates.climb[step], now.push[step]
    without = -np.expm1(-climb[None, :, None] * (push - parts)[:, None, :])
    return np.asarray(np.clip(1 - without / now.up[step][None], 0, 1))


def _by_cause(rates: Rates, effects: Numbers, levels: NDArray[np.float32]) -> Numbers:
    shape = (len(rates.journeys.causes), rates.journeys.lives, levels.shape[1])
    return np.asarray((effects[:, None] * levels).reshape(shape).sum(axis=1))


def _parts(
    lost: Numbers,
    now: Lived,
    block: Block,
    rates: Rates,
    period: int,
    users: Codes,
    later: Numbers,
    ends: NDArray[np.bool_],
) -> Numbers:
    """Return what part each cause has in conversions of a period."""
    classes, intents = rates.shape
    levels = block.after[period][:, users]
    growth = now.growth[users]
    gone = _by_cause(rates, rates.direct, levels)
    if len(rates.journeys.pairs):
        mean = rates.mean_levels(levels)
        gone = gone + ((rates.synergy + rates.synergy.T) @ mean) * mean
    rate = rates.buy[:, None] * now.factor[users]
    remains = ((growth - gone) / growth)[:, None, :]
    needed = 1 - np.expm1(-rate[None] * remains) / np.expm1(-rate)[None]
    needed = needed.reshape(len(gone), classes, intents, -1)
    # From where the user would have been, a conversion may have come later.
    instead = np.zeros((classes, intents, len(users)))
    instead[:, :, ends] = later[block.remaining[users[ends]]].transpose(1, 2, 0)
    chance = now.chance[:, :, users]
    part = np.zeros((len(gone), len(users)))
    for step in range(intents - 1):
        part += (lost[:, step].sum(axis=1) * (1 - instead[:, step])).sum(axis=1)
    for intent in range(intents):
        clean = chance[:, intent] - lost[:, :, intent].sum(axis=1)
        part += (clean * needed[:, :, intent] * (1 - instead[:, intent])).sum(axis=1)
    return np.clip(part, 0, 1).T


def _later(rates: Rates) -> Numbers:
    """Return the chance to convert within so many periods, by class and intent, under mean effects."""
    classes, intents = rates.shape
    days = bought = 0.0
    pushed: Numbers = np.zeros(intents - 1)
    longest = 0
    for block in rates.journeys.blocks:
        longest = max(longest, int(block.remaining.max(initial=0)))
        told = np.exp(rates.parameters.told_buy @ block.told)
        for period, active in enumerate(block.active):
            weight = block.weight[:active].astype(np.float64)
            days += weight.sum()
            bought += float((rates.growth(block.after[period]) * told[:active]) @ weight)
            pushed = pushed + rates.pushed @ (block.before[period] @ weight)
    buys = -np.expm1(-rates.buy.reshape(classes, intents) * bought / days)
    up = -np.expm1(-rates.climb * (1 + pushed / days)[:, None])
    later = np.zeros((longest + 1, classes, intents))
    for left in range(1, longest + 1):
        value = buys + (1 - buys) * later[left - 1]
        for intent in range(intents):
            stays = value[:, intent]
            if intent > 0:
                stays = stays + rates.fall[intent - 1] * (value[:, intent - 1] - stays)
            later[left, :, intent] = stays
            if intent < intents - 1:
                later[left, :, intent] += up[intent] * (value[:, intent + 1] - stays)
    return later
