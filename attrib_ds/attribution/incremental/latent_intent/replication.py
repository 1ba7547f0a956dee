"""Histories drawn from the fitted hidden Markov model, to compare with those that it was fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.incremental.latent_intent.prefix_tree import pattern_flags

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories
    from attrib_ds.attribution.incremental.latent_intent.forward_backward import Rates
    from attrib_ds.attribution.incremental.latent_intent.prefix_tree import EncodedHistories, TreeSettings

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]
    Singles = NDArray[np.float32]

#: Users simulated at a time, so that their arrays fit into a processor's cache.
_BATCH: Final = 10_000
_LARGEST_FACTOR: Final = 1e6


@dataclass(frozen=True, eq=False)
class Replicated:
    """Touchpoints and first conversions of users, by period of their observation.

    Attributes
    ----------
    users : int
        Number of users.
    user, node, period : int array
        One entry per user, node and period with a touchpoint of it, up to the conversion.
    converted : int array, shape (n_users,)
        Period of the first conversion; -1 without one.
    """

    users: int
    user: Codes
    node: Codes
    period: Codes
    converted: Codes


def observed_histories(histories: Histories, encoded: EncodedHistories, *, step: float) -> Replicated:
    """Return the histories that were observed, as the model sees them."""
    count = len(encoded.first)
    bought = np.floor(histories.event_time / step).astype(np.int64) - encoded.first[histories.event_user]
    bought = np.clip(bought, 0, encoded.length[histories.event_user] - 1)
    converted = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(converted, histories.event_user, bought)
    user = histories.touch_user
    period = np.floor(histories.touch_time / step).astype(np.int64) - encoded.first[user]
    is_in = (period >= 0) & (period < encoded.length[user]) & (period <= converted[user])
    entries = np.stack([user, histories.touch_node, period])[:, is_in]
    user, node, period = np.unique(entries, axis=1) if entries.shape[1] else entries
    converted[converted == np.iinfo(np.int64).max] = -1
    return Replicated(count, user, node, period, converted)


def replicate(
    rates: Rates,
    histories: Histories,
    encoded: EncodedHistories,
    settings: TreeSettings,
    *,
    users: int,
    seed: int,
) -> Replicated:
    """Draw histories, up to their first conversion, from the model.

    Their periods of observation, covariates and earlier touchpoints are those of users drawn at random.

    Parameters
    ----------
    rates : Rates
        Rates of the fitted model.
    histories, encoded : Histories, EncodedHistories
        Users to draw from.
    settings : TreeSettings
        Settings of the model's prefix tree.
    users : int
        Number of users to draw.
    seed : int
        Seed of the draw.
    """
    random = np.random.default_rng(seed)
    length = _planned_lengths(histories, encoded, random, step=settings.step)
    # Everybody as often as anybody else, so that the draw of users adds no error.
    chosen = np.resize(random.permutation(len(length)), users)
    drawing = _Drawing.of(rates, histories, encoded, settings)
    parts = [
        drawing.batch(begin, chosen[begin : begin + _BATCH], length[chosen[begin : begin + _BATCH]], random)
        for begin in range(0, users, _BATCH)
    ]
    user, node, period, converted = (np.concatenate([part[place] for part in parts]) for place in range(4))
    return Replicated(users, user, node, period, converted)


def _planned_lengths(
    histories: Histories, encoded: EncodedHistories, random: np.random.Generator, *, step: float
) -> Codes:
    """Return the periods of observation of each user if they had not converted.

    Observations that a conversion ended would have lasted as long as that of a user without a conversion who
    was observed from the same period on, and for at least as long.
    """
    length = encoded.length.copy()
    last = np.full(len(length), -np.inf)
    np.maximum.at(last, histories.event_user, histories.event_time)
    is_ended = np.floor(last / step) >= encoded.first + length - 1
    others = np.flatnonzero(~np.isfinite(last))
    width = int(length.max(initial=0)) + 1
    key = np.sort(encoded.first[others] * width + length[others])
    ended = np.flatnonzero(is_ended)
    low = np.searchsorted(key, encoded.first[ended] * width + length[ended])
    high = np.searchsorted(key, (encoded.first[ended] + 1) * width)
    place = low + np.floor(random.random(len(ended)) * (high - low)).astype(np.int64)
    has_other = high > low
    length[ended] += encoded.remaining[ended]
    length[ended[has_other]] = key[place[has_other]] - encoded.first[ended[has_other]] * width
    return length


@dataclass(frozen=True, eq=False)
class _Drawing:
    """The model, and touchpoints before the observations.

    Attributes
    ----------
    rates : Rates
        Rates of the fitted model; ``rate`` are those of touchpoints and conversions in single precision,
        ``probability`` the probabilities that they give, and ``first`` the cumulative distribution of intent
        and class at the beginning.
    settings : TreeSettings
        Settings of its prefix tree.
    covariate_row, flag : int array
        Profile of covariates of each user, and flag of each node in patterns of recent touchpoints.
    bounds, early_node, early_period : int array
        Touchpoints of each user before the observation.
    """

    rates: Rates
    settings: TreeSettings
    covariate_row: Codes
    flag: Codes
    bounds: Codes
    early_node: Codes
    early_period: Codes
    probability: Singles
    rate: Singles
    first: Numbers

    @classmethod
    def of(
        cls,
        rates: Rates,
        histories: Histories,
        encoded: EncodedHistories,
        settings: TreeSettings,
    ) -> _Drawing:
        user = histories.touch_user
        period = np.floor(histories.touch_time / settings.step).astype(np.int64) - encoded.first[user]
        is_early = period < 0
        bounds = np.searchsorted(user[is_early], np.arange(len(encoded.first) + 1))
        rate = rates.touch.astype(np.float32)
        first = np.cumsum((rates.share * rates.start).ravel())
        _, profile = np.unique(histories.covariates, axis=0, return_inverse=True)
        return cls(
            rates,
            settings,
            np.asarray(profile, np.int64).reshape(-1),
            pattern_flags(histories, settings.nodes),
            bounds,
            histories.touch_node[is_early],
            period[is_early],
            -np.expm1(-rate),
            rate,
            first / first[-1],
        )

    def batch(
        self, begin: int, users: Codes, length: Codes, random: np.random.Generator
    ) -> tuple[Codes, Codes, Codes, Codes]:
        """Return user, node and period of touchpoints, and the periods of conversions."""
        rates, settings, tree = self.rates, self.settings, self.rates.tree
        single, nodes, classes = rates.single, tree.nodes, rates.shape[1]
        adstock, last = self._initial(users)
        half_lives = np.asarray(settings.half_lives, np.float64)
        kept = np.tile(2.0 ** (-settings.step / half_lives), len(tree.causes)).astype(np.float32)[:, None]
        memory = settings.memory / settings.step
        state = np.minimum(np.searchsorted(self.first, random.random(len(users))), len(self.first) - 1)
        intent, group = state // classes, state % classes
        converted = np.full(len(users), -1)
        number = np.arange(len(users))
        has_covariates = bool(tree.covariates.shape[1])
        found: list[tuple[Codes, Codes, Codes]] = []
        for period in range(int(length.max(initial=0))):
            is_left = (length[number] > period) & (converted[number] < 0)
            if not is_left.all():
                number, intent, group = number[is_left], intent[is_left], group[is_left]
                adstock, last = adstock[:, is_left], last[:, is_left]
            count = len(number)
            adstock = adstock * kept
            if period:
                intent = self._next_intents(intent, group, np.log1p(adstock), random)
            state = intent * classes + group
            draw = random.random((nodes, count), np.float32)
            touched = draw < np.take(self.probability[:nodes], state, axis=1)
            profile = self.covariate_row[users[number]]
            changed = range(nodes) if has_covariates else tree.followers
            recent = ((last >= period - memory) << np.arange(len(last))[:, None]).sum(axis=0)
            for code in changed:
                factor = single["covariate_factor"][code, profile]
                for follower in np.flatnonzero(tree.followers == code):
                    factor = factor * single["pattern_factor"][follower, recent]
                rate = self.rate[code, state] * np.minimum(factor, _LARGEST_FACTOR)
                touched[code] = draw[code] < -np.expm1(-rate)
            node, at = np.nonzero(touched)
            found.append((begin + number[at], node, np.full(len(at), period)))
            for place, cause in enumerate(tree.causes):
                rows = slice(place * tree.half_lives, (place + 1) * tree.half_lives)
                adstock[rows] += touched[cause]
            if len(last):
                last[self.flag[node], at] = period
            factor = rates.conversion_factor(np.log1p(adstock)) * single["covariate_factor"][nodes, profile]
            rate = self.rate[nodes, state] * np.minimum(factor, _LARGEST_FACTOR)
            converted[number[random.random(count) < -np.expm1(-rate)]] = period
        empty = np.zeros(0, np.int64)
        user, node, when = (np.concatenate([empty, *(part[place] for part in found)]) for place in range(3))
        return user, node, when, converted

    def _initial(self, users: Codes) -> tuple[Singles, Codes]:
        """Return adstock and last touchpoint by flag, as touchpoints before the observation left them."""
        settings, tree = self.settings, self.rates.tree
        flags = int(self.flag.max(initial=-1)) + 1 if len(tree.followers) else 0
        adstock = np.zeros((len(tree.causes) * tree.half_lives, len(users)), np.float32)
        last = np.full((flags, len(users)), -(1 << 20))
        size = self.bounds[users + 1] - self.bounds[users]
        position = np.repeat(np.arange(len(users)), size)
        rows = np.repeat(self.bounds[users] - np.cumsum(size) + size, size) + np.arange(size.sum())
        node, period = self.early_node[rows], self.early_period[rows]
        for place, cause in enumerate(tree.causes):
            is_cause = node == cause
            for life, half_life in enumerate(settings.half_lives):
                left = 2.0 ** ((period[is_cause] + 1) * settings.step / half_life)
                adstock[place * tree.half_lives + life] = np.bincount(position[is_cause], left, len(users))
        if flags:
            np.maximum.at(last, (self.flag[node], position), period)
        return adstock, last

    def _next_intents(
        self, intent: Codes, group: Codes, adstock: Singles, random: np.random.Generator
    ) -> Codes:
        single = self.rates.single
        steps = len(single["downward"])
        if not steps:
            return intent
        factor = single["transition"] @ adstock + 1
        step = np.minimum(intent, steps - 1)
        rate = single["upward"][step, group] * factor[step, np.arange(len(step))]
        rises = (intent < steps) & (random.random(len(intent), np.float32) < -np.expm1(-rate))
        down = single["downward"][np.maximum(intent - 1, 0)]
        falls = (intent > 0) & ~rises & (random.random(len(intent), np.float32) < down)
        return np.asarray(intent + rises - falls)
