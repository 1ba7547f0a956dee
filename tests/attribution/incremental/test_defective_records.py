"""Defects of records that leave the effects found by the discrete hazard about where they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, simulate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=60_000, seed=5)


def caused(touchpoints, conversions, users):
    paths = Paths.from_frames(touchpoints, conversions, users=users)
    rows = attribute(paths, "discrete_hazard").set_index("node_id")["conversions"]
    return rows[rows.index.notna()]


@pytest.fixture(scope="module")
def found(world):
    return caused(world.touchpoints, world.conversions, world.users)


def check_alike(changed, found):
    """Shares differ by at most 3 points on average, the level by at most a fifth."""
    shares = [each.clip(lower=0) / each.clip(lower=0).sum() for each in (changed, found)]
    assert (shares[0] - shares[1]).abs().mean() < 0.03
    assert changed.sum() / found.sum() == pytest.approx(1, abs=0.2)


@pytest.mark.large
def test_a_tenth_of_the_touchpoints_may_be_missing(world, found):
    kept = np.random.default_rng(1).random(len(world.touchpoints)) < 0.9
    check_alike(caused(world.touchpoints[kept], world.conversions, world.users), found)


@pytest.mark.large
def test_hours_may_be_wrong_by_a_time_zone(world, found):
    touchpoints = world.touchpoints.assign(date=world.touchpoints["date"] - pd.Timedelta(hours=2))
    check_alike(caused(touchpoints, world.conversions, world.users), found)


@pytest.mark.large
def test_touchpoints_may_have_dates_without_hours(world, found):
    touchpoints = world.touchpoints.assign(date=world.touchpoints["date"].dt.floor("D"))
    check_alike(caused(touchpoints, world.conversions, world.users), found)


@pytest.mark.large
def test_a_tenth_of_the_users_may_have_a_second_cookie(world, found):
    """Touchpoints from a random day on belong to a cookie that never converts, or does alone."""
    random = np.random.default_rng(2)
    middle = world.users["since"].min() + pd.Timedelta(days=15)
    split = set(world.users["user_id"][random.random(len(world.users)) < 0.1])

    def renamed(frame):
        is_later = frame["user_id"].isin(split) & (frame["date"] >= middle)
        return frame.assign(user_id=frame["user_id"].where(~is_later, frame["user_id"] + "-2"))

    users = world.users[["user_id", "since", "until"]]
    later = users[users["user_id"].isin(split) & (users["until"] >= middle)]
    users = pd.concat(
        [
            users.assign(until=users["until"].where(~users["user_id"].isin(later["user_id"]), middle)),
            later.assign(user_id=later["user_id"] + "-2", since=middle),
        ]
    )
    check_alike(caused(renamed(world.touchpoints), renamed(world.conversions), users), found)
