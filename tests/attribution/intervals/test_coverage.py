"""Intervals over repeated worlds: their width matches the spread of credits, and they cover the mean."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, simulate

WORLDS = 30
MODELS = ["linear", "participation", "markov"]
Z = 1.959963984540054
#: Of Student's distribution with 19 degrees of freedom.
T = 2.093024054408263


@pytest.fixture(scope="module")
def credits():
    """Credits of worlds of 3,000 users, in closed form and by a bootstrap."""
    parts = []
    for number in range(WORLDS):
        world = simulate("synergy", users=3_000, seed=500 + number)
        paths = Paths.from_frames(world.touchpoints, world.conversions)
        for intervals in ("closed_form", "bootstrap"):
            credited = attribute(
                paths, MODELS, confidence=0.95, intervals=intervals, replicates=100, seed=number
            )
            credited.attrs = {}
            parts.append(credited.assign(intervals=intervals, world=number))
    credited = pd.concat(parts)
    return credited[credited["node_id"].notna()]


@pytest.mark.slow
@pytest.mark.parametrize("intervals", ["closed_form", "bootstrap"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("conversions", "low", "high"),
        ("value", "value_low", "value_high"),
        ("share", "share_low", "share_high"),
    ],
)
def test_intervals_are_as_wide_as_credits_spread(credits, intervals, model, name, low, high):
    rows = credits[(credits["intervals"] == intervals) & (credits["model"] == model)]
    nodes = rows.groupby("node_id")
    reach = T if (model, intervals) == ("markov", "closed_form") else Z
    told = (nodes[high].mean() - nodes[low].mean()) / 2 / reach
    # The spread over 30 worlds is known to about 13 % for each of eight nodes, which are partly correlated.
    ratio = np.sqrt((told**2).mean() / nodes[name].var().mean())
    assert 0.8 < ratio < 1.25
    truth = rows["node_id"].map(nodes[name].mean())
    held = ((rows[low] <= truth) & (truth <= rows[high])).mean()
    assert 0.9 < held < 0.99
