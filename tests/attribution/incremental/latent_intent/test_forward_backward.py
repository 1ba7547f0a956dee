"""Likelihoods and credits of the funnel, against explicit sums over all paths through it."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.conversion_credits import credit_conversions
from attrib_ds.attribution.incremental.latent_intent.fitting import Objective
from attrib_ds.attribution.incremental.latent_intent.forward_backward import (
    Rates,
    forward_pass,
    likelihood_gradient,
)
from attrib_ds.attribution.incremental.latent_intent.parameters import (
    EFFECTS,
    Parameters,
    class_grid,
    initial_parameters,
)
from attrib_ds.attribution.incremental.latent_intent.prefix_tree import (
    EncodedHistories,
    TreeSettings,
    build_tree,
)
from attrib_ds.attribution.incremental.latent_intent.sampling import sample_users

DAYS = 4
NODES = 3
CAUSES = (0, 2)
HALF_LIVES = (1.0, 3.0)
MEMORY = 2
#: Of each user the covariate, the days observed, (day, node) of touchpoints and the day of a conversion.
USERS = [
    (0.0, DAYS, [(0, 0), (2, 1)], None),
    (1.0, DAYS, [(0, 1), (1, 1), (1, 0), (3, 2)], 3),
    (1.0, 2, [(0, 2)], None),
    (0.0, DAYS, [], 3),
    (0.0, DAYS, [(1, 2), (2, 0), (2, 2)], 3),
    (0.0, 3, [(-2, 0), (1, 0)], 2),
]


def histories_of(users):
    touches = sorted(
        (user, day + 0.25, node) for user, (_, _, found, _) in enumerate(users) for day, node in found
    )
    touch_user, touch_time, touch_node = (np.array(column) for column in zip(*touches, strict=True))
    bought = [(user, day + 0.75) for user, (_, _, _, day) in enumerate(users) if day is not None]
    event_user, event_time = (np.array(column) for column in zip(*bought, strict=True))
    count = len(bought)
    return Histories(
        np.zeros(len(users)),
        np.array([float(days) for _, days, _, _ in users]),
        np.array([[covariate] for covariate, _, _, _ in users]),
        np.zeros(len(users), int),
        touch_user,
        touch_node,
        touch_time,
        event_user,
        event_time,
        np.zeros(count, int),
        np.arange(count),
        np.ones(count),
        np.full(count, 10.0),
        [None],
    )


def journeys_of(users=USERS, *, chosen=None, weight=None, pairs=True, followers=(1, 2)):
    histories = histories_of(users)
    days = EncodedHistories.of(histories, nodes=NODES, step=1.0)
    both = np.array([[0, 1]] if pairs else np.zeros((0, 2)), int).reshape(-1, 2)
    cut = TreeSettings(NODES, CAUSES, followers, HALF_LIVES, 1.0, float(MEMORY), both)
    if chosen is None:
        chosen, weight = sample_users(histories, days, users=1_000, seed=0)
    return build_tree(histories, days, cut, np.asarray(chosen), np.asarray(weight, float))


def rates_of(journeys, *, intents, seed=0, activities=2, direct=1.0):
    classes = class_grid(activities, 1)
    guess = initial_parameters(journeys, classes, intents=intents)
    random = np.random.default_rng(seed)
    moved = guess.unflatten(guess.flatten() + 0.5 * random.standard_normal(len(guess.flatten())))
    # Many steps up and down, and strong effects, so that every path through the funnel counts.
    return Rates(
        replace(
            moved,
            upward=moved.upward + np.array([3.0, 0.0, 0.0]),
            downward=moved.downward + 2.0,
            transition=np.abs(moved.transition) + 0.2,
            direct=direct * (np.abs(moved.direct) + 0.2),
            interaction=np.abs(moved.interaction),
        ),
        classes,
        journeys,
    )


class WrittenOut:
    """The model of one user, with loops over all hidden variables."""

    def __init__(self, rates, user):
        self.given, self.classes = rates.parameters, rates.classes
        self.followers = rates.tree.followers.tolist()
        # Flags are in the order of how often nodes touched, the first one first among equals.
        often = [sum(node == each for _, _, found, _ in USERS for _, node in found) for each in range(NODES)]
        self.flags = sorted(range(NODES), key=lambda each: (-often[each], each))
        covariates = [each[0] for each in USERS]
        mean = sum(covariates) / len(covariates)
        spread = math.sqrt(sum((each - mean) ** 2 for each in covariates) / len(covariates))
        covariate, self.days, self.touches, self.bought = USERS[user]
        self.covariate = (covariate - mean) / spread

    def level(self, day, cause, life, *, until):
        """Return the adstock on a day."""
        node = CAUSES[cause]
        ages = [day - when for when, each in self.touches if each == node and when <= until]
        return math.log1p(sum(2 ** (-age / HALF_LIVES[life]) for age in ages))

    def effects(self, effect, day, *, until):
        return [
            sum(effect[cause * 2 + life] * self.level(day, cause, life, until=until) for life in (0, 1))
            for cause in (0, 1)
        ]

    def buying(self, day):
        """Return the parts of the causes in the growth of the rate, and their common one."""
        both = 0.0
        if len(self.given.interaction):
            mean = [sum(self.level(day, cause, life, until=day) for life in (0, 1)) / 2 for cause in (0, 1)]
            both = self.given.interaction[0] * mean[0] * mean[1]
        return self.effects(self.given.direct, day, until=day), both

    def chance(self, log_rate, factor, happens):
        """Return the probability of an event with a rate, times a factor, in a period."""
        never = math.exp(-math.exp(log_rate) * factor)
        return 1 - never if happens else never

    def seen(self, place, intent, day):
        """Return the probability of the observations of a day."""
        recent = [
            any(each == node and day - MEMORY <= when < day for when, each in self.touches)
            for node in self.flags
        ]
        pattern = sum(2**flag for flag, is_on in enumerate(recent) if is_on)
        chance = 1.0
        for node in range(NODES):
            log_rate = self.classes[place] @ self.given.touch[node] + self.given.emission[node, intent]
            log_factor = self.given.touch_covariates[node, 0] * self.covariate
            if node in self.followers:
                row = self.followers.index(node)
                log_factor += sum(self.given.recent[row, flag] for flag, is_on in enumerate(recent) if is_on)
                log_factor += self.given.pattern[row, pattern]
            chance *= self.chance(log_rate, math.exp(log_factor), (day, node) in self.touches)
        parts, both = self.buying(day)
        log_rate = self.classes[place] @ self.given.conversion + self.given.conversion_intent[intent]
        factor = math.exp(self.given.conversion_covariates[0] * self.covariate) * (1 + sum(parts) + both)
        return chance * self.chance(log_rate, factor, day == self.bought)

    def climb_rate(self, place, step, push):
        return math.exp(self.classes[place] @ self.given.upward[step]) * push

    def step(self, place, before, now, day):
        up = down = 0.0
        if before < len(self.given.conversion_intent) - 1:
            push = 1 + sum(self.effects(self.given.transition[before], day, until=day - 1))
            up = 1 - math.exp(-self.climb_rate(place, before, push))
        if before > 0:
            down = (1 - up) / (1 + math.exp(-self.given.downward[before - 1]))
        return {before + 1: up, before - 1: down, before: 1 - up - down}.get(now, 0.0)

    def paths(self):
        """Yield every class and path of intents, with its joint probability with the observations."""
        share = np.exp(self.given.share) / np.exp(self.given.share).sum()
        intents = range(len(self.given.conversion_intent))
        for place in range(len(share)):
            start = np.exp(self.given.start @ self.classes[place])
            start = start / start.sum()
            for path in itertools.product(intents, repeat=self.days):
                chance = share[place] * start[path[0]]
                for day, intent in enumerate(path):
                    if day > 0:
                        chance *= self.step(place, path[day - 1], intent, day)
                    chance *= self.seen(place, intent, day)
                yield chance, place, path

    def part(self, cause):
        """Return the credit of a cause: one less the probability that no step needed it."""
        total = gone = 0.0
        for chance, place, path in self.paths():
            not_needed = []
            for day in range(1, self.days):
                if path[day] > path[day - 1]:
                    pushes = self.effects(self.given.transition[path[day - 1]], day, until=day - 1)
                    rate = self.climb_rate(place, path[day - 1], 1 + sum(pushes))
                    less = self.climb_rate(place, path[day - 1], 1 + sum(pushes) - pushes[cause])
                    not_needed.append((1 - math.exp(-less)) / (1 - math.exp(-rate)))
                elif path[day] < path[day - 1] and not_needed:
                    not_needed.pop()
            parts, both = self.buying(self.days - 1)
            not_needed.append((1 + sum(parts) - parts[cause]) / (1 + sum(parts) + both))
            total += chance
            gone += chance * (1 - math.prod(not_needed))
        return gone / total


@pytest.mark.parametrize("intents", [1, 2, 3])
def test_the_likelihood_is_the_sum_over_every_path(intents):
    guess = rates_of(journeys_of(), intents=intents)
    for user in range(len(USERS)):
        alone = Rates(guess.parameters, guess.classes, journeys_of(chosen=[user], weight=[1.0]))
        (block,) = alone.tree.blocks
        _, found = forward_pass(block, alone)
        written_out = sum(chance for chance, _, _ in WrittenOut(guess, user).paths())
        assert found == pytest.approx(math.log(written_out), rel=2e-5)


@pytest.mark.parametrize("log_rate", range(8))
def test_no_history_is_more_than_certain(log_rate):
    """A follower's touchpoints without recent ones are rare, and the rate that their factor shrinks is high.

    If ``log(expm1(rate * factor))`` were approximated by ``log(factor * expm1(rate)) + rate * (factor - 1) / 2``,
    the log-likelihood of a touchpoint would grow by half the rate, without bound.
    """
    guess = rates_of(journeys_of(), intents=2)
    given = guess.parameters
    touch = np.zeros_like(given.touch)
    touch[1, 0] = log_rate
    far = replace(
        given, touch=touch, emission=0 * given.emission, pattern=np.full_like(given.pattern, -log_rate - 1)
    )
    assert likelihood_gradient(Rates(far, guess.classes, guess.tree)).log_likelihood < 0


@pytest.mark.parametrize("size", [1.0, 5.0, 25.0])
def test_no_history_is_more_than_certain_at_random_parameters(size):
    guess = rates_of(journeys_of(), intents=3)
    row, is_effect = guess.parameters.flatten(), guess.parameters.mask(EFFECTS)
    random = np.random.default_rng(4)
    for _ in range(10):
        moved = row + size * random.standard_normal(len(row))
        far = guess.parameters.unflatten(np.where(is_effect, np.abs(moved), moved))
        assert likelihood_gradient(Rates(far, guess.classes, guess.tree)).log_likelihood < 0


@pytest.mark.parametrize("name", [each.name for each in fields(Parameters)])
def test_far_from_the_data_the_posterior_density_vanishes(name):
    journeys = journeys_of()
    centre = initial_parameters(journeys, class_grid(2, 1), intents=3)
    objective = Objective(journeys, class_grid(2, 1), centre, 10.0)
    row, is_named = centre.flatten(), centre.mask((name,))
    best, _ = objective(centre)
    for place in np.flatnonzero(is_named):
        for step in (40.0,) if name in EFFECTS else (-40.0, 40.0):
            moved = row.copy()
            moved[place] += step
            assert objective(centre.unflatten(moved))[0] < best - 40


def test_shared_prefixes_give_the_same_likelihood_as_separate_users():
    """Histories that begin alike, go on alike, and are the same; of different weights."""
    users = [
        *USERS,
        USERS[1],
        USERS[3],
        (1.0, DAYS, [(0, 1), (1, 0), (1, 1)], None),
        (1.0, 3, [(0, 1)], None),
    ]
    users += [(0.0, 2, [], None), (0.0, DAYS, [], None), (0.0, DAYS, [(0, 0), (2, 1), (2, 1)], None)]
    weight = np.linspace(1, 3, len(users))
    histories = histories_of(users)
    order = np.argsort(EncodedHistories.of(histories, nodes=NODES, step=1.0).rank, kind="stable")
    together = journeys_of(users, chosen=order, weight=weight[order])
    rates = rates_of(together, intents=3, seed=1)
    (block,) = together.blocks
    assert [len(period.weight) for period in block] < [len(users)] * DAYS
    found = likelihood_gradient(rates)
    alone = [
        likelihood_gradient(
            Rates(rates.parameters, rates.classes, journeys_of(users, chosen=[user], weight=[1.0]))
        )
        for user in range(len(users))
    ]
    for each in fields(found)[1:]:
        expected = sum(many * getattr(one, each.name) for many, one in zip(weight, alone, strict=True))
        assert getattr(found, each.name) == pytest.approx(expected, rel=2e-4, abs=2e-4), each.name
    expected = sum(many * one.log_likelihood for many, one in zip(weight, alone, strict=True))
    assert found.log_likelihood == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("intents", [1, 2, 3])
def test_the_part_of_a_cause_is_the_sum_over_every_path(intents):
    """Those who convert on the last day of all: nothing could have come later."""
    rates = rates_of(journeys_of(), intents=intents)
    event, part = credit_conversions(rates, rates.tree)
    buyers = [user for user in range(len(USERS)) if USERS[user][3] is not None]
    checked = 0
    for row, position in enumerate(event):
        user = buyers[position]
        if USERS[user][3] < DAYS - 1:
            continue
        expected = [WrittenOut(rates, user).part(cause) for cause in (0, 1)]
        assert part[row] == pytest.approx(expected, abs=2e-5)
        checked += 1
    assert checked == 3


@pytest.mark.parametrize("direct", [1.0, 0.0])
def test_users_who_would_have_converted_later_needed_the_cause_less(direct):
    """By the conversion itself and, without any direct effect, by the steps before it."""
    users = [*USERS[:5], (0.0, 3, [(0, 0), (1, 0)], 2)]
    rates = rates_of(journeys_of(users, pairs=False), intents=3, direct=direct)
    event, part = credit_conversions(rates, rates.tree)
    for block in rates.tree.blocks:
        for period in block:
            period.events[2] = np.minimum(period.events[2], 0)
    _, if_all_were_over = credit_conversions(rates, rates.tree)
    is_early = event == 3
    assert 0 < part[is_early][0, 0] < 0.999 * if_all_were_over[is_early][0, 0]
    assert part[~is_early] == pytest.approx(if_all_were_over[~is_early], rel=1e-12)


@pytest.mark.parametrize("intents", [1, 2, 3])
def test_gradients_equal_finite_differences(intents):
    rates = rates_of(journeys_of(), intents=intents, seed=3)
    guess = initial_parameters(rates.tree, rates.classes, intents=intents)
    objective = Objective(rates.tree, rates.classes, guess, 2.0)
    row = rates.parameters.flatten()
    _, slope = objective(rates.parameters)
    names = np.repeat(
        [each.name for each in fields(rates.parameters)],
        [getattr(rates.parameters, each.name).size for each in fields(rates.parameters)],
    )
    for position in range(len(row)):
        move = np.zeros(len(row))
        move[position] = 0.02
        ends = [objective(rates.parameters.unflatten(row + sign * move))[0] for sign in (1, -1)]
        assert slope[position] == pytest.approx((ends[0] - ends[1]) / 0.04, abs=4e-3, rel=4e-3), names[
            position
        ]


def test_expected_counts_sum_to_the_observed_ones():
    rates = rates_of(journeys_of(), intents=3)
    found = likelihood_gradient(rates, has_information=True)
    assert found.start.sum() == pytest.approx(len(USERS), rel=1e-5)
    often = [
        len(
            {
                (user, day)
                for user, row in enumerate(USERS)
                for day, each in row[2]
                if day >= 0 and each == node
            }
        )
        for node in range(NODES)
    ]
    bought = sum(day is not None for _, _, _, day in USERS)
    assert found.counts.sum(axis=1) == pytest.approx([*often, bought], rel=1e-5)
    assert found.pattern_counts.sum(axis=1) == pytest.approx(found.counts.sum(axis=1)[[1, 2]], rel=1e-5)
    assert (found.upward_steps > 0).all()
    assert (found.downward_steps > 0).all()
