"""A world whose conversions follow a hazard with known effects, so that every conversion has a known cause.

Display makes people search for the brand; the effect of search changes after half of the time and differs by
segment. Whether a conversion would have happened without a node is decided by the same random number.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

DAYS = 30
HALF_LIFE = 3.0
START = pd.Timestamp("2025-01-17", tz="UTC")
#: Node whose touchpoints display causes, and nodes with an effect on conversions.
MEDIATOR = "brand_search"
NODES = ("display", MEDIATOR, "search", "direct")


@dataclass(frozen=True)
class HazardWorld:
    """Touchpoints, conversions and users, and the conversions that each node caused.

    ``caused`` has one row per conversion: ``event_id``, ``month``, ``segment``, a flag for each node (whether
    the conversion would not have happened without its touchpoints, all others unchanged) and ``total``
    (without display and the brand searches that it caused).
    """

    touchpoints: pd.DataFrame
    conversions: pd.DataFrame
    users: pd.DataFrame
    caused: pd.DataFrame


def hazard_world(
    users: int,
    *,
    seed: int,
    triggered: float = 0.4,
    early: float = 0.8,
    late: float = 0.8,
    north: float = 1.0,
    direct_effect: float = 0.5,
    mediator_effect: float = 1.2,
    rate: float = 0.002,
) -> HazardWorld:
    """Simulate a world.

    Parameters
    ----------
    users : int
        Number of users.
    seed : int
        Seed.
    triggered : float
        Brand searches that a display touchpoint causes, on average.
    early, late : float
        Effect of search on the log-odds before and from the first of February.
    north : float
        Factor of the effect of search in the segment "north".
    direct_effect, mediator_effect : float
        Effects of display and of brand search.
    rate : float
        Conversions per day without touchpoints.
    """
    random = np.random.default_rng(seed)
    is_north = random.random(users) < 0.4
    touches = {name: _poisson(random, users, per_day) for name, per_day in _RATES.items()}
    seen_by, seen_at = touches["display"]
    count = random.poisson(triggered, len(seen_by))
    delay = random.exponential(1.0, count.sum())
    own = touches[MEDIATOR]
    touches[MEDIATOR] = (
        np.concatenate([own[0], np.repeat(seen_by, count)]),
        np.concatenate([own[1], np.repeat(seen_at, count) + delay]),
    )
    moment = np.arange(DAYS) + random.random((users, DAYS))
    part = {name: _log_adstock(users, *touches[name], moment) for name in NODES}
    without_triggered = _log_adstock(users, own[0], own[1], moment)
    is_late = moment >= (pd.Timestamp("2025-02-01", tz="UTC") - START).days
    of_search = np.where(is_late, late, early) * np.where(is_north, north, 1.0)[:, None]
    effect = {"display": direct_effect, MEDIATOR: mediator_effect, "search": of_search, "direct": 0.0}
    log_rate = np.log(rate) + 0.5 * is_north[:, None]
    log_odds = log_rate + sum(effect[name] * part[name] for name in NODES)
    less = {name: effect[name] * part[name] for name in NODES}
    less["total"] = less["display"] + mediator_effect * (part[MEDIATOR] - without_triggered)
    draw = random.random((users, DAYS))
    is_converted = draw < _probability(log_odds)
    who = np.flatnonzero(is_converted.any(axis=1))
    day = is_converted[who].argmax(axis=1)
    at = moment[who, day]
    until = np.full(users, float(DAYS))
    until[who] = at
    ids = np.array([f"u{number:06}" for number in range(users)])
    segments = np.where(is_north, "north", "south")
    kept = {name: touches[name][1] <= until[touches[name][0]] for name in NODES}
    caused = pd.DataFrame(
        {
            "event_id": [f"e{number:06}" for number in who],
            "month": (START + pd.to_timedelta(at, unit="D")).strftime("%Y-%m"),
            "segment": segments[who],
            **{
                name: draw[who, day] >= _probability(log_odds[who, day] - less[name][who, day])
                for name in less
            },
        }
    )
    frames = [
        pd.DataFrame(
            {
                "user_id": ids[touches[name][0][kept[name]]],
                "node_id": name,
                "date": touches[name][1][kept[name]],
            }
        )
        for name in NODES
    ]
    touchpoints = pd.concat(frames, ignore_index=True)
    conversions = pd.DataFrame({"event_id": caused["event_id"], "user_id": ids[who], "date": at})
    return HazardWorld(
        touchpoints.assign(date=_dates(touchpoints["date"])),
        conversions.assign(date=_dates(conversions["date"])),
        pd.DataFrame({"user_id": ids, "segment": segments, "since": START, "until": _dates(until)}),
        caused,
    )


#: Touchpoints per user and day.
_RATES = {"display": 0.08, MEDIATOR: 0.02, "search": 0.06, "direct": 0.06}


def _poisson(random: np.random.Generator, users: int, per_day: float) -> tuple[np.ndarray, np.ndarray]:
    count = random.poisson(per_day * DAYS, users)
    return np.repeat(np.arange(users), count), random.random(count.sum()) * DAYS


def _log_adstock(users: int, who: np.ndarray, when: np.ndarray, moment: np.ndarray) -> np.ndarray:
    adstock = np.zeros((users, DAYS))
    for day in range(DAYS):
        age = moment[who, day] - when
        left = np.where(age >= 0, np.exp2(-np.maximum(age, 0) / HALF_LIFE), 0.0)
        adstock[:, day] = np.bincount(who, left, minlength=users)
    return np.log1p(adstock)


def _probability(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-log_odds))


def _dates(days: pd.Series | np.ndarray) -> pd.Series:
    return START + pd.to_timedelta(pd.Series(np.asarray(days) * 86_400e6).round(), unit="us")
