"""Where people buy in sessions: sessions are found in the data, and lost with the node that opened them."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, estimate_effects
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.sessions import Sessions, days_cut_off
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import ConfoundingWarning, InvalidRequest, NotSupported

START = pd.Timestamp("2025-01-01", tz="UTC")
MINUTES = 1 / 1_440


def paths_of(touches, orders, *, users=None):
    """Return paths of touches (user, node, day) and orders (user, day)."""
    touchpoints = pd.DataFrame(touches, columns=["user_id", "node_id", "date"])
    conversions = pd.DataFrame(orders, columns=["user_id", "date"])
    conversions.insert(0, "event_id", [f"e{number}" for number in range(len(conversions))])
    for frame in (touchpoints, conversions):
        frame["date"] = START + pd.to_timedelta((frame["date"] * 86_400e6).round(), unit="us")
    return Paths.from_frames(touchpoints, conversions, users=users)


def sessions_in(paths):
    sequences = Sequences.of(paths)
    histories = Histories.of(sequences, covariates=())
    return sequences.node_ids, histories, Sessions.of(histories)


def test_exactly_half_an_hour_begins_another_session_as_in_collection():
    touches = [("u", "ad", 1), ("u", "mail", 1 + 30 * MINUTES), ("v", "ad", 1), ("v", "ad", 1 + 29 * MINUTES)]
    _, _, sessions = sessions_in(paths_of(touches, [("u", 1 + 60 * MINUTES), ("v", 1 + 58 * MINUTES)]))
    assert sessions.user.tolist() == [0, 0, 1]
    assert sessions.of_event.tolist() == [-1, 2]


def test_sessions_begin_after_half_an_hour_without_a_touchpoint():
    touches = [
        ("u", "ad", 1),
        ("u", "mail", 1 + 29 * MINUTES),
        ("u", "mail", 1 + 60 * MINUTES),
        ("v", "ad", 1),
    ]
    orders = [("u", 1 + 40 * MINUTES), ("u", 3), ("v", 1)]
    node_ids, histories, sessions = sessions_in(paths_of(touches, orders))
    assert sessions.user.tolist() == [0, 0, 1]
    assert [node_ids[node] for node in sessions.opener] == ["ad", "mail", "ad"]
    # The second order comes days after the last touchpoint, so it is in no session.
    assert sessions.of_event.tolist() == [0, -1, 2]
    assert sessions.share == pytest.approx(2 / 3)
    inside, of_event = sessions.within(histories)
    assert of_event.tolist() == [0, 2]
    assert inside.unobserved.event_number.tolist() == [1]
    assert inside.event_time.tolist() == histories.event_time[[0, 2]].tolist()


def clicks(*, users, coupons, seed=0):
    """Return sessions on one of 30 days, three in ten of which convert within minutes, and the orders."""
    random = np.random.default_rng(seed)
    touches, orders = [], []
    for user in range(users):
        for day in np.flatnonzero(random.random(30) < 0.2):
            when = day + 0.8 * random.random()
            touches.append((f"u{user}", random.choice(["ad", "direct"]), when))
            if random.random() < 0.03:
                bought = when + (5 * MINUTES if coupons is None else 0.1)
                if coupons and random.random() < coupons:
                    touches.append((f"u{user}", "coupon", bought - 2 * MINUTES))
                orders.append((f"u{user}", bought))
                break
    return touches, orders


@pytest.mark.parametrize(("coupons", "is_scale"), [(None, True), (0.0, False), (0.9, False)])
def test_one_node_at_the_checkout_makes_no_sessions(coupons, is_scale):
    _, _, sessions = sessions_in(paths_of(*clicks(users=300, coupons=coupons)))
    assert sessions.is_scale == is_scale
    assert (sessions.share > 0.5) == (coupons != 0.0)


def observed(users):
    ends = {"since": START, "until": START + pd.Timedelta(days=30)}
    return pd.DataFrame({"user_id": [f"u{number}" for number in range(users)]}).assign(**ends)


@pytest.mark.large
@pytest.mark.slow
def test_without_effects_a_node_loses_the_sessions_that_no_other_would_replace():
    # So much shrinkage leaves no effect of earlier sessions. There are 0.2 sessions a day, half of them of
    # direct visits: one in ten sessions of the ad would have come as one of these on the same day.
    touches, orders = clicks(users=3_000, coupons=None)
    paths = paths_of(touches, orders, users=observed(3_000))
    effects = estimate_effects(paths, DiscreteHazard(shrinkage=1e6), controls=["direct"])
    opener = pd.DataFrame(touches, columns=["user_id", "node_id", "date"])
    opened = opener.groupby("user_id")["node_id"].last().reindex([user for user, _ in orders])
    caused = effects.table().set_index("node_id")["caused"]
    assert caused["ad"] == pytest.approx(0.9 * opened.eq("ad").sum(), rel=0.02)
    assert caused["direct"] == pytest.approx(0, abs=1e-3)
    assert caused["ad"] + caused[caused.index.isna()].sum() == pytest.approx(len(orders), abs=1e-2)
    alone = estimate_effects(paths, DiscreteHazard(shrinkage=1e6)).table().set_index("node_id")["caused"]
    assert alone["direct"] == pytest.approx(0.9 * opened.eq("direct").sum(), rel=0.02)


def test_results_say_in_what_people_convert():
    touches, orders = clicks(users=300, coupons=None)
    paths = paths_of(touches, orders, users=observed(300))
    effects = estimate_effects(paths, controls=["direct"])
    assert "Time scale: sessions (100% of the conversions come within 30 minutes" in effects.identified
    assert effects.warnings == ()
    rows = effects.verdict().set_index("test")
    assert rows.loc["checkout", "result"] == "not applicable"
    # Nobody knows who would have come without the ad, so nothing is clear.
    assert rows.loc["replacement of sessions", "result"] == "cannot tell"
    with pytest.raises(NotSupported, match="people convert in sessions"):
        effects.sensitivity()
    with pytest.raises(NotSupported, match="people convert in sessions"):
        effects.through({"ad": ["direct"]})
    by_week = effects.by("week")
    assert by_week.groupby("week")["caused"].sum().sum() == pytest.approx(len(orders))
    with pytest.warns(ConfoundingWarning, match="touchpoints cluster"):
        in_periods = estimate_effects(paths, DiscreteHazard(scale="periods", comparisons=2))
    assert "Time scale: periods of 1D" in in_periods.identified
    with pytest.raises(InvalidRequest, match="scale: 'days' is not allowed"):
        DiscreteHazard(scale="days")


def test_a_conversion_that_ends_the_observation_cuts_days_off():
    users = observed(3)
    users.loc[0, "until"] = START + pd.Timedelta(days=10, minutes=5)
    touches = [("u0", "ad", 10), ("u1", "ad", 10), ("u2", "ad", 10)]
    orders = [("u0", 10 + 5 * MINUTES), ("u1", 10 + 5 * MINUTES)]
    _, histories, _ = sessions_in(paths_of(touches, orders, users=users))
    assert days_cut_off(histories).tolist() == pytest.approx([20 - 5 * MINUTES, 0])


@pytest.mark.large
@pytest.mark.slow
def test_earlier_sessions_with_an_effect_earn_credit():
    # Sessions convert the more often, the more of the ad came before.
    random = np.random.default_rng(4)
    touches, orders, lost, ends = [], [], 0.0, np.full(6_000, 30.0)
    for user in range(6_000):
        seen = 0
        for day in np.flatnonzero(random.random(30) < 0.2):
            when, node = day + 0.8 * random.random(), random.choice(["ad", "direct"])
            touches.append((f"u{user}", node, when))
            if random.random() < 0.02 * (1 + seen):
                ends[user] = when + 5 * MINUTES
                orders.append((f"u{user}", ends[user]))
                # Without the ad, direct visits on the days that are left might have led to an order.
                share = 1 - (0.1 if node == "ad" else 1.0) / (1 + seen)
                lost += share * np.exp(-0.02 * 0.2 * (29 - day))
                break
            seen += node == "ad"
    users = observed(6_000).assign(until=START + pd.to_timedelta((ends * 86_400e6).round(), unit="us"))
    paths = paths_of(touches, orders, users=users)
    effects = estimate_effects(paths, DiscreteHazard(half_lives=("3000D",)), controls=["direct"])
    row = effects.table().set_index("node_id").loc["ad"]
    assert row["low"] < lost < row["high"]
    assert row["caused"] == pytest.approx(lost, rel=0.05)
    assert (row["high"] - row["low"]) / lost < 0.4
