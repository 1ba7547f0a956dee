"""Worlds whose users differ in activity, with known effects, for the verdict on models of effects.

They share nothing with ``attrib_ds.simulate``: activity has a heavy tail everywhere, hazards multiply, exposure follows
calendars, regions, caps, visits or the wish to buy. ``WORLDS`` holds their kinds.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np
import pandas as pd

import attrib_ds as at

PAID: Final = ("display", "social", "search", "email", "partner")
UNPAID: Final = ("organic", "direct")
#: Touchpoints per user and day, half-lives in days, and log hazard ratios of a saturated exposure.
RATES: Final = np.array([0.06, 0.04, 0.03, 0.025, 0.015, 0.04, 0.03])
HALF_LIVES: Final = np.array([5.0, 3.0, 2.0, 4.0, 1.5])
EFFECTS: Final = np.array([0.45, 0.3, 0.9, 0.6, 0.2])
DAYS: Final = 30
REGIONS: Final = 6
START: Final = pd.Timestamp("2025-03-01", tz="UTC").as_unit("us")


@dataclasses.dataclass(frozen=True)
class World:
    """What a kind of world adds to exposure that is random given activity, and to effects that decay.

    Attributes
    ----------
    effects : float
        Factor of all effects; 0 for a world without any.
    harm : float
        Log hazard ratio of the last channel.
    activity : float
        Power of activity that raises conversions.
    wish : float
        Log hazard ratio of the wish to buy, which comes and goes.
    follows : tuple of str
        Nodes that reach users who wish to buy six times as often.
    propensity : float
        Standard deviation of a constant log hazard that nobody observes; lookalikes of buyers are reached more.
    lookalikes : tuple of str
        Nodes that reach users by this propensity.
    """

    effects: float = 1.0
    harm: float | None = None
    activity: float = 0.0
    wish: float = 0.0
    follows: tuple[str, ...] = ()
    propensity: float = 0.0
    lookalikes: tuple[str, ...] = ()
    retargets: bool = False
    switchback: bool = False
    shocks: str = ""
    cap: int = 0
    season: float = 0.0
    trait: float = 0.0
    sessions: bool = False
    dormant: bool = False
    rhythm: float = 0.0
    baseline: float = 0.0022
    spread: float = 0.7
    has_users: bool = True


WORLDS: Final[dict[str, World]] = {
    "random": World(),
    "random, nobody untouched listed": World(has_users=False),
    "active users buy more": World(activity=0.5),
    "active users buy a little more": World(activity=0.15),
    "switchback by region": World(switchback=True),
    "competitor": World(shocks="everywhere"),
    "competitor by region": World(shocks="region"),
    "no effects": World(effects=0),
    "no effects, active users buy more": World(effects=0, activity=0.5),
    "harm": World(harm=-0.8),
    "harm to visitors": World(harm=-0.8, wish=2.0, follows=("partner", "organic", "direct")),
    "intent": World(wish=2.0, follows=("search", "partner", "organic", "direct")),
    "intent, no effects": World(effects=0, wish=2.0, follows=("search", "partner", "organic", "direct")),
    "retargeting of visitors": World(wish=2.0, follows=("organic", "direct"), retargets=True),
    "retargeting of visitors without intent": World(retargets=True),
    "frequency cap": World(cap=3),
    "season": World(season=0.8),
    "observed trait": World(trait=0.8),
    "sessions": World(sessions=True, baseline=0.02),
    "sessions, no effects": World(sessions=True, effects=0, baseline=0.025),
    "sessions and intent": World(
        sessions=True, wish=1.5, follows=("search", "organic", "direct"), baseline=0.012
    ),
    # Judged once, after the method was fixed.
    "users who leave": World(dormant=True),
    "own rhythm": World(rhythm=1.0, harm=-0.5),
    "searchers of a season": World(season=0.6, wish=1.2, follows=("search", "organic"), activity=0.3),
    # Controls show nothing of what happens in these: the verdict must fail.
    "lookalikes": World(propensity=1.0, lookalikes=PAID),
    "intent that controls do not share": World(wish=2.0, follows=("search", "partner")),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """Frames of a world; without a table of users if nobody untouched is listed."""

    touchpoints: pd.DataFrame
    conversions: pd.DataFrame
    users: pd.DataFrame | None

    def paths(self) -> at.Paths:
        return at.Paths.from_frames(self.touchpoints, self.conversions, users=self.users)


def draw(world: World, *, users: int, seed: int) -> Drawn:
    """Draw the users of a world."""
    user, node, time, day, moment, trait, region = _run(world, users, seed, ())
    buyers = np.flatnonzero(day >= 0)
    nodes = np.array([*PAID, *UNPAID])[node]
    touchpoints = pd.DataFrame({"user_id": _ids("u", user), "node_id": nodes, "date": _instants(time)})
    columns = {"event_id": _ids("e", buyers), "user_id": _ids("u", buyers)}
    conversions = pd.DataFrame(columns | {"date": _instants(moment[buyers]), "value": 50.0})
    listed = pd.DataFrame({"user_id": _ids("u", np.arange(users)), "since": START, "trait": trait})
    listed["until"] = _instants(np.where(day >= 0, moment, float(DAYS)))
    listed["region"] = np.char.add("r", region.astype(str))
    return Drawn(touchpoints, conversions.assign(currency="EUR"), listed if world.has_users else None)


def truth(world: World, *, users: int, plan: int, repeats: int = 3) -> pd.Series[float]:
    """Return the conversions that each paid channel is expected to cause among as many users.

    Regions and days are those of the plan, which is the seed of the world.
    """
    lost = np.zeros(len(PAID))
    for seed in range(repeats):
        # The same users and days with and without a channel.
        runs = [
            _run(world, users, 90_000 + seed, out, plan=plan)[3] >= 0
            for out in ((), *((node,) for node in PAID))
        ]
        counts = np.array([each.sum() for each in runs])
        lost += (counts[0] - counts[1:]) / repeats
    return pd.Series(lost, list(PAID))


def _run(
    world: World, users: int, seed: int, without: tuple[str, ...], *, plan: int | None = None
) -> tuple[Any, ...]:
    """Run all days; the same numbers are drawn whichever channels run."""
    random = np.random.default_rng([seed, 1])
    names = [*PAID, *UNPAID]
    count, paid = len(names), len(PAID)
    activity = random.gamma(world.spread, 1 / world.spread, users)
    trait = random.random(users) < 0.35
    region = random.integers(0, REGIONS, users)
    propensity = random.standard_normal(users)
    wishes = random.random(users) < 0.1
    weekday = random.integers(0, 7, users)
    dormant_from = random.integers(0, 2 * DAYS, users)
    calendar = np.random.default_rng([seed if plan is None else plan, 2])
    is_on = calendar.random((DAYS // 5 + 1, REGIONS, paid)) < 0.5
    shocks = calendar.random((DAYS, REGIONS)) < 0.25
    if world.shocks == "everywhere":
        shocks[:] = shocks[:, :1]
    wave = 1 + world.season * np.sin(2 * np.pi * (np.arange(DAYS) + calendar.integers(0, 7)) / 7)
    effects = EFFECTS * world.effects
    if world.harm is not None:
        effects = np.append(effects[:-1], world.harm)
    is_out = np.array([name in without for name in names])
    adstock = np.zeros((paid, users))
    last_visit = np.full(users, -99)
    recent = np.zeros((7, users))
    converted, moment = np.full(users, -1), np.full(users, np.nan)
    touches: list[tuple[Any, ...]] = []
    for day in range(DAYS):
        draws = np.random.default_rng([seed, 3, day])
        adstock *= (0.5 ** (1 / HALF_LIVES))[:, None]
        rise, fall = draws.random((2, users))
        wishes = np.where(wishes, fall > 0.1, rise < 0.012)
        rate = RATES[:, None] * activity[None, :]
        for number, name in enumerate(names):
            if name in world.follows:
                rate[number] *= np.where(wishes, 6.0, 0.6)
            if name in world.lookalikes:
                rate[number] *= np.exp(0.7 * propensity - 0.245)
        if world.retargets:
            rate[4] = 0.25 * activity * (day - last_visit <= 5)
        if world.switchback:
            rate[:paid] *= 2 * is_on[day // 5][region].T
        if world.shocks:
            shocked = shocks[day][region]
            rate[2] *= np.where(shocked, 3.0, 1.0)
            rate[5] *= np.where(shocked, 3.0, 1.0)
        if world.season:
            rate *= wave[day]
        if world.trait:
            rate[3] *= np.where(trait, 2.2, 0.4)
        if world.dormant:
            rate *= np.where(day >= dormant_from, 0.1, 1.0)
        if world.rhythm:
            rate *= np.where(day % 7 == weekday, 4.0, 0.5)
        # Several touchpoints of a node in a day count once.
        is_reached = draws.random((count, users)) < 1 - np.exp(-rate)
        if world.sessions:
            # One node opens the session of the day, if there is one; without it, another that would have.
            is_reached &= ~is_out[:, None]
            order = np.where(is_reached, draws.random((count, users)), np.inf)
            is_first = np.arange(count)[:, None] == order.argmin(axis=0)
            is_reached &= is_first
        if world.cap:
            is_reached[:paid] &= recent.sum(axis=0) < world.cap
        is_reached &= ~is_out[:, None] & (converted < 0)
        recent[day % 7] = is_reached[:paid].sum(axis=0)
        last_visit = np.where(is_reached[paid:].any(axis=0), day, last_visit)
        time = draws.random((count, users)) * 0.85
        part = effects @ np.log1p(adstock if world.sessions else adstock + is_reached[:paid])
        log_hazard = np.log(world.baseline) + np.clip(part, -3, 3) + world.wish * wishes
        log_hazard = log_hazard + world.activity * np.log(np.maximum(activity, 1e-3))
        log_hazard += world.propensity * propensity + world.trait * trait
        if world.shocks:
            log_hazard -= 1.0 * shocks[day][region]
        hazard = np.exp(log_hazard) * (wave[day] if world.season else 1.0)
        if world.rhythm:
            hazard = hazard * np.where(day % 7 == weekday, 3.0, 0.7)
        if world.sessions:
            hazard = hazard * is_reached.any(axis=0)
        adstock += is_reached[:paid]
        is_buying = (draws.random(users) < 1 - np.exp(-hazard)) & (converted < 0)
        late = draws.random(users)
        opened = np.where(is_reached, time, 0).max(axis=0)
        at = opened + (2 + 20 * late) / 1_440 if world.sessions else 0.86 + 0.13 * late
        moment[is_buying] = day + at[is_buying]
        converted[is_buying] = day
        node, user = np.nonzero(is_reached)
        touches.append((user, node, day + time[node, user]))
    user, node, time = (np.concatenate(each) for each in zip(*touches, strict=True))
    return user, node, time, converted, moment, trait, region


def _ids(prefix: str, numbers: Any) -> Any:
    return np.char.add(prefix, np.char.zfill(np.asarray(numbers).astype(str), 6))


def _instants(days: Any) -> pd.Series[pd.Timestamp]:
    return START + pd.to_timedelta((np.asarray(days) * 86_400_000_000).astype(np.int64), unit="us")
