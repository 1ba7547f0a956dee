"""Fits to histories drawn from a known model, and draws of a truncated normal distribution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.fitting import fit, truncated_normals
from attrib_ds.attribution.incremental.latent_intent.forward_backward import Rates
from attrib_ds.attribution.incremental.latent_intent.parameters import class_grid, initial_parameters
from attrib_ds.attribution.incremental.latent_intent.prefix_tree import (
    EncodedHistories,
    TreeSettings,
    build_tree,
)
from attrib_ds.attribution.incremental.latent_intent.replication import replicate

DAYS = 10


def histories_of(user, node, day, converted):
    """Return histories of users who are observed for ten days, or up to the end of the day of conversion."""
    count, buyers = len(converted), np.flatnonzero(converted >= 0)
    order = np.lexsort((day, node, user))
    return Histories(
        np.zeros(count),
        np.where(converted >= 0, converted + 1.0, DAYS),
        np.zeros((count, 0)),
        np.zeros(count, int),
        user[order],
        node[order],
        day[order] + 0.5,
        buyers,
        converted[buyers] + 0.9,
        np.zeros(len(buyers), int),
        np.arange(len(buyers)),
        np.ones(len(buyers)),
        np.ones(len(buyers)),
        [None],
    )


def tree_of(histories, *, nodes, causes=(), followers=()):
    settings = TreeSettings(nodes, causes, followers, [2.0], 1.0, 1.0, np.zeros((0, 2), np.int64))
    encoded = EncodedHistories.of(histories, nodes=nodes, step=1.0)
    order = np.argsort(encoded.rank, kind="stable")
    return encoded, settings, build_tree(histories, encoded, settings, order, np.ones(len(order)))


def fitted(tree, *, intents, evaluations=200):
    found = fit(
        [(tree, evaluations)],
        class_grid(1, 1),
        intents=intents,
        shrinkage=0.1,
        tolerance=1e-9,
        advance=lambda _: None,
    )
    return found.parameters


def test_touchpoints_of_a_capped_node_are_as_frequent_as_observed():
    """Reached almost daily, but hardly again on the day after a touchpoint."""
    random = np.random.default_rng(3)
    touched = np.zeros((600, DAYS), bool)
    for day in range(DAYS):
        was_touched = touched[:, day - 1] if day else np.zeros(600, bool)
        touched[:, day] = random.random(600) < np.where(was_touched, 0.1, 0.95)
    user, day = np.nonzero(touched)
    converted = np.full(600, -1)
    converted[0] = DAYS - 1
    _, _, tree = tree_of(
        histories_of(user, np.zeros(len(user), int), day, converted), nodes=1, followers=(0,)
    )
    given = fitted(tree, intents=1)
    rate = np.exp(given.touch[0, 0] + given.emission[0, 0])
    factor = np.exp(given.recent @ tree.patterns.T + given.pattern)[0]
    before, after = touched[:, :-1], touched[:, 1:]
    frequency = [np.r_[touched[:, 0], after[~before]].mean(), after[before].mean()]
    assert -np.expm1(-rate * factor) == pytest.approx(frequency, abs=0.01)


@pytest.mark.slow
def test_the_effects_of_a_known_funnel_are_found():
    """Twenty thousand users of two intents; searches are signs of the second, to which ads lead."""
    rows = np.zeros((2, 0), int)
    converted = np.full(20_000, -1)
    converted[0] = DAYS - 1
    empty = histories_of(rows[0], rows[0], rows[1], converted)
    encoded, settings, tree = tree_of(empty, nodes=2, causes=(0,))
    truth = replace(
        initial_parameters(tree, class_grid(1, 1), intents=2),
        start=np.array([[0.0, 0, 0], [-3.0, 0, 0]]),
        upward=np.array([[np.log(0.02), 0, 0]]),
        downward=np.full(1, -3.0),
        touch=np.array([[np.log(0.1), 0, 0], [np.log(0.1), 0, 0]]),
        emission=np.array([[0.0, 0.0], [-1.5, 1.5]]),
        conversion=np.array([np.log(0.02), 0, 0]),
        conversion_intent=np.array([-1.5, 1.5]),
        direct=np.full(1, 1.0),
        transition=np.full((1, 1), 4.0),
    )
    rates = Rates(truth, class_grid(1, 1), tree)
    drawn = replicate(rates, empty, encoded, settings, users=20_000, seed=5)
    _, _, tree = tree_of(
        histories_of(drawn.user, drawn.node, drawn.period, drawn.converted), nodes=2, causes=(0,)
    )
    given = fitted(tree, intents=2)
    assert given.transition == pytest.approx(truth.transition, rel=0.25)
    assert given.direct == pytest.approx(truth.direct, abs=0.4)
    assert np.diff(given.conversion_intent) == pytest.approx(np.diff(truth.conversion_intent), abs=0.3)
    assert np.diff(given.emission[1]) == pytest.approx(np.diff(truth.emission[1]), abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [(0.5, 1.0, 2.0), (-1.0, 0.3, 0.0)])
def test_draws_equal_those_of_rejection_sampling(mean):
    covariance = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.0], [-0.3, 0.0, 0.5]])
    precision = np.linalg.inv(covariance)
    at = np.array([0.2, 0.0, 1.0])
    slope = precision @ (np.array(mean) - at)
    random = np.random.default_rng(1)
    drawn = at + np.stack(list(truncated_normals(at, slope, precision, draws=3_000, random=random)))
    plain = random.multivariate_normal(mean, covariance, size=200_000)
    plain = plain[(plain >= 0).all(axis=1)]
    assert (drawn >= 0).all()
    assert drawn.mean(axis=0) == pytest.approx(plain.mean(axis=0), abs=0.05)
    assert np.cov(drawn.T) == pytest.approx(np.cov(plain.T), abs=0.06)


@pytest.mark.slow
def test_strong_evidence_against_an_effect_keeps_it_near_zero():
    """Twenty standard deviations below zero, the truncated normal is exponential with rate 20."""
    random = np.random.default_rng(2)
    drawn = np.concatenate(
        list(truncated_normals(np.zeros(1), np.full(1, -20.0), np.eye(1), draws=4_000, random=random))
    )
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(1 / 20, rel=0.06)
