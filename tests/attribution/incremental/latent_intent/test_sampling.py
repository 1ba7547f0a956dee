"""Encoding and sampling of histories, detection of followers, and branching of the prefix tree."""

from __future__ import annotations

import numpy as np
import pytest

from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.latent_intent import find_followers
from attrib_ds.attribution.incremental.latent_intent.prefix_tree import Branching, EncodedHistories
from attrib_ds.attribution.incremental.latent_intent.sampling import sample_users


def histories_of(touches, *, users, bought=(), covariates=None, days=10.0):
    """Return histories from touches (user, day, node); the users in ``bought`` convert on the last day."""
    touches = sorted(touches)
    user, when, node = (np.array(column) for column in zip(*touches, strict=True))
    count = len(bought)
    return Histories(
        np.zeros(users),
        np.full(users, days),
        np.zeros((users, 0)) if covariates is None else np.asarray(covariates, float)[:, None],
        np.zeros(users, int),
        user,
        node,
        when.astype(float),
        np.array(bought, int),
        np.full(count, days - 0.5),
        np.zeros(count, int),
        np.arange(count),
        np.ones(count),
        np.ones(count),
        [None],
    )


def test_equal_histories_have_the_same_rank():
    touches = [(0, 1.1, 0), (0, 1.9, 1), (1, 1.2, 1), (1, 1.3, 0)]  # the same day, in another order
    touches += [(2, 1.1, 0), (2, 1.2, 0), (2, 1.9, 1)]  # one twice
    touches += [(3, 1.5, 0), (3, 2.5, 1)]  # on different days
    touches += [(4, 1.1, 0), (4, 1.9, 1)]  # with another covariate
    touches += [(5, -3.0, 0), (5, 1.1, 0), (5, 1.9, 1)]  # with something before
    touches += [(7, 1.1, 1), (7, 1.9, 1)]  # the last is the same
    found = EncodedHistories.of(
        histories_of(touches, users=8, covariates=[0, 0, 0, 0, 1, 0, 0, 0]), nodes=2, step=1.0
    )
    assert found.rank[0] == found.rank[1]
    assert len(set(found.rank)) == 7
    assert found.rank[6] == min(found.rank)
    assert found.period[found.bounds[3] : found.bounds[4]].tolist() == [1, 2]


def test_small_samples_contain_every_distinct_history_once():
    histories = histories_of([(0, 1.0, 0), (1, 1.5, 0), (2, 3.0, 1)], users=5, bought=[3])
    chosen, weight = sample_users(
        histories, EncodedHistories.of(histories, nodes=2, step=1.0), users=100, seed=0
    )
    assert dict(zip(chosen.tolist(), weight.tolist(), strict=True)) == {0: 2.0, 2: 1.0, 3: 1.0, 4: 1.0}


def test_users_with_more_touchpoints_are_sampled_more_often_and_weights_sum_to_all_users():
    random = np.random.default_rng(1)
    # One touchpoint at a moment of its own, or six.
    touches = [
        (user, day, 0) for user in range(400) for day in random.permutation(60)[: 1 if user < 200 else 6]
    ]
    histories = histories_of(touches, users=500, bought=range(200, 240), days=60.0)
    days = EncodedHistories.of(histories, nodes=1, step=1.0)
    chosen, weight = sample_users(histories, days, users=150, seed=3)
    buys = (chosen >= 200) & (chosen < 240)
    assert chosen[buys].tolist() == sorted(range(200, 240), key=lambda user: days.rank[user])
    assert (weight[buys] == 1).all()
    assert weight.sum() == pytest.approx(500)
    # Users without touchpoints have the same history, so one represents them all.
    assert weight[chosen >= 400].tolist() == pytest.approx([100], rel=0.1)
    # 160 users without a conversion have six touchpoints; with one, three or four share each of 60 days.
    of_many = ((chosen >= 240) & (chosen < 400)).sum() / 160
    of_one = (chosen < 200).sum() / len(set(days.rank[:200]))
    assert of_many > of_one > 0.1
    assert np.diff(days.rank[chosen]).min() >= 0


def test_a_node_is_a_follower_if_it_reaches_only_recently_touched_users():
    random = np.random.default_rng(2)
    visits = [(user, day, 0) for user in range(300) for day in random.uniform(0, 30, 2)]
    followed = [(user, day + 2, 1) for user, day, _ in visits]
    anywhere = [(user, day, 2) for user in range(300) for day in random.uniform(0, 30, 1)]
    histories = histories_of(visits + followed + anywhere, users=300, days=40.0)
    assert find_followers(histories, 3, memory=7.0) == [1]
    assert find_followers(histories, 3, memory=0.5) == []


@pytest.mark.parametrize(
    ("before", "parent", "spread", "collected"),
    [
        (3, [0, 1, 2], [10, 20, 30], [1, 2, 4]),
        (3, [0, 0, 2, 2, 2], [10, 10, 30, 30, 30], [3, 0, 28]),
        (3, [1], [20], [0, 1, 0]),
    ],
)
def test_branches_inherit_from_their_parent_and_parents_sum_their_branches(before, parent, spread, collected):
    branching = Branching.of(before, np.array(parent))
    assert branching.spread(np.array([[10, 20, 30]])).tolist() == [spread]
    values = 2.0 ** np.arange(len(parent))
    assert branching.collect(values[None, :]).tolist() == [collected]
    assert branching.is_plain == (parent == [0, 1, 2])
