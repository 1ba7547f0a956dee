"""Histories drawn from the model, compared with probabilities known from paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.latent_intent.forward_backward import Rates
from attrib_ds.attribution.incremental.latent_intent.parameters import class_grid, initial_parameters
from attrib_ds.attribution.incremental.latent_intent.prefix_tree import (
    EncodedHistories,
    TreeSettings,
    build_tree,
)
from attrib_ds.attribution.incremental.latent_intent.replication import observed_histories, replicate
from attrib_ds.attribution.paths.sequences import Sequences

START = pd.Timestamp("2025-01-01", tz="UTC")
DAY = pd.Timedelta(days=1)
DAYS = 10


@pytest.fixture(scope="module")
def world():
    """Eight users in ten days: the first converts on day 3, after ads on days -1, 1 and 2 (twice)."""
    paths = Paths.from_frames(
        pd.DataFrame(
            {"user_id": "u0", "node_id": "ads", "date": [START + day * DAY for day in (-0.5, 1.2, 2.1, 2.4)]}
        ),
        pd.DataFrame({"event_id": ["e"], "user_id": ["u0"], "date": [START + 3.5 * DAY]}),
        users=pd.DataFrame(
            {
                "user_id": [f"u{number}" for number in range(8)],
                "since": START,
                "until": [START + (3.5 if number == 0 else DAYS) * DAY for number in range(8)],
            }
        ),
    )
    histories = Histories.of(Sequences.of(paths), covariates=None, models_touchpoints=True)
    encoded = EncodedHistories.of(histories, nodes=1, step=1.0)
    return histories, encoded


def drawn(world, *, users=4_000, intents=1, followers=(), **changes):
    histories, encoded = world
    settings = TreeSettings(1, (0,), followers, [1.0], 1.0, 3.0, np.zeros((0, 2), np.int64))
    order = np.argsort(encoded.rank, kind="stable")
    tree = build_tree(histories, encoded, settings, order, np.ones(len(order)))
    classes = class_grid(1, 1)
    given = initial_parameters(tree, classes, intents=intents)
    plain = {
        "touch": np.array([[np.log(0.2), 0.0, 0.0]]),
        "emission": np.zeros((1, intents)),
        "conversion": np.array([np.log(1e-9), 0.0, 0.0]),
        "conversion_intent": np.zeros(intents),
        "direct": np.zeros(1),
        "transition": np.zeros((intents - 1, 1)),
    }
    rates = Rates(replace(given, **(plain | changes)), classes, tree)
    return replicate(rates, histories, encoded, settings, users=users, seed=3)


def test_observed_histories_count_each_node_once_a_period(world):
    found = observed_histories(*world, step=1.0)
    assert found.user.tolist() == [0, 0]
    assert found.period.tolist() == [1, 2]
    assert found.converted.tolist() == [3, -1, -1, -1, -1, -1, -1, -1]


def test_touchpoints_without_conversions_are_binomial(world):
    found = drawn(world)
    # The observation that a conversion ended would have lasted as long as those of the others.
    per_user = np.bincount(found.user, minlength=4_000)
    chance = 1 - np.exp(-0.2)
    assert per_user.mean() == pytest.approx(DAYS * chance, rel=0.03)
    assert per_user.var() == pytest.approx(DAYS * chance * (1 - chance), rel=0.07)
    assert (found.converted == -1).all()


def test_conversions_end_histories(world):
    found = drawn(world, conversion=np.array([np.log(0.3), 0.0, 0.0]))
    chance = 1 - np.exp(-0.3)
    share = np.bincount(found.converted[found.converted >= 0], minlength=DAYS) / 4_000
    assert share == pytest.approx(chance * (1 - chance) ** np.arange(DAYS), abs=0.02)
    ends = np.where(found.converted < 0, DAYS, found.converted)
    assert (found.period <= ends[found.user]).all()


def test_touchpoints_raise_the_conversion_rate_of_their_period(world):
    found = drawn(world, conversion=np.array([np.log(0.01), 0.0, 0.0]), direct=np.array([50.0]))
    on_first = np.zeros(4_000, bool)
    on_first[found.user[found.period == 0]] = True
    # One user in eight had a touchpoint half a day before: half of its adstock is left.
    chance = [1 - np.exp(-0.01 * (1 + 50 * np.log1p(level))) for level in (1.0, 1.5)]
    assert (found.converted[on_first] == 0).mean() == pytest.approx((7 * chance[0] + chance[1]) / 8, abs=0.05)


def test_intents_rise_and_raise_the_conversion_rate(world):
    """From the first intent to the second at a rate of 0.1 a day, and a conversion on the same day."""
    changes = {
        "start": np.array([[60.0, 0, 0], [0.0, 0, 0]]),
        "upward": np.array([[np.log(0.1), 0, 0]]),
        "downward": np.array([-60.0]),
        "conversion_intent": np.array([-20.0, 20.0]),
        "conversion": np.array([0.0, 0.0, 0.0]),
    }
    found = drawn(world, intents=2, **changes)
    chance = 1 - np.exp(-0.1)
    share = np.bincount(found.converted[found.converted >= 0], minlength=DAYS) / 4_000
    expected = chance * (1 - chance) ** np.arange(-1, DAYS - 1)
    # No transition precedes the first day.
    expected[0] = 0
    assert share == pytest.approx(expected, abs=0.02)


def test_followers_depend_on_recent_touchpoints(world):
    """With a factor of 0 unless a touchpoint was recent, only the user touched before is ever touched."""
    found = drawn(world, followers=(0,), pattern=np.array([[-30.0, 0.0]]), recent=np.zeros((1, 1)))
    share = len(np.unique(found.user)) / 4_000
    # Seven of eight users were never touched. The touchpoint half a day before is recent for three days.
    assert share == pytest.approx((1 - np.exp(-0.2 * 3)) / 8, abs=0.02)
