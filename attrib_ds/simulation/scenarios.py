"""Scenarios to simulate: channels, whom they reach, and their true effects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from attrib_ds.errors import InvalidRequest, check_choice, check_number, check_whole, plain_number

#: Targeting of a channel, in scenarios where exposure follows intent.
Delivery = Literal[
    "broad", "lookalikes", "category_search", "brand_search", "visitors", "subscribers", "checkout"
]

#: How users come to buy: at any time; after some days of consideration; or during sessions only, each of
#: which one channel or unpaid node opens.
Purchase = Literal["any_time", "considered", "in_session"]

#: Adstock: the effect of an exposure decays from the first day, or builds up over days and then decays.
Adstock = Literal["fading", "delayed"]

#: Saturation curve: diminishing returns of repeated exposures.
Saturation = Literal["hyperbola", "logarithm", "exponential"]


#: Limits of the integer types of nodes and days.
_MAX_CHANNELS: Final = 100
_MAX_DAYS: Final = 1_000


@dataclass(frozen=True)
class Channel:
    """A paid channel and its true effect.

    Parameters
    ----------
    node_id : str
        Name of the channel.
    half_life : float
        Half-life of an exposure's effect in days.
    rate : float
        Exposures per user and day, 0 to 1; for search channels in scenarios where exposure follows intent,
        the share of searches with an advertisement; at the checkout, the share of buyers; in sessions, the
        share of sessions that the channel opens.
    delivery : str, default "broad"
        Targeting if exposure follows intent: ``"broad"`` (everybody), ``"lookalikes"`` (users similar to
        buyers), ``"category_search"``, ``"brand_search"``, ``"visitors"`` (of the last seven days) or
        ``"subscribers"`` (mostly users with the observed trait). In all scenarios ``"checkout"`` reaches
        users in the minutes before they buy, and some who then do not, such as a site with coupons.
    direct : float, default 0
        Relative increase of the conversion hazard per unit of saturated adstock; below 0 for a channel that
        drives buyers away.
    upstream : float, default 0
        Relative increase of the rates at which intent rises, per unit of saturated adstock.
    promoted : float, default 1
        Factor of the rate on the days of promotions.
    """

    node_id: str
    half_life: float
    rate: float
    delivery: Delivery = "broad"
    direct: float = 0.0
    upstream: float = 0.0
    promoted: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.node_id, str) or not self.node_id:
            raise InvalidRequest(f"node_id: {self.node_id!r} is not allowed; allowed: a text")
        for name in ("half_life", "rate", "direct", "upstream", "promoted"):
            object.__setattr__(self, name, plain_number(getattr(self, name)))
        check_number("half_life", self.half_life, "days above 0", above=0)
        check_number("rate", self.rate, "0 to 1 a day", minimum=0, maximum=1)
        check_choice("delivery", self.delivery, get_args(Delivery))
        check_number("direct", self.direct, "a finite number")
        for name in ("upstream", "promoted"):
            check_number(name, getattr(self, name), "0 or more", minimum=0)


@dataclass(frozen=True)
class Scenario:
    """A scenario to simulate.

    Parameters
    ----------
    channels : tuple of Channel
        Paid channels, 1 to 100. All scenarios also have the channels :data:`UNPAID`, which have no effect.
    follows_intent : bool, default False
        Whether users who are about to buy anyway are reached more often (True), or exposure is random
        (False).
    synergies : tuple of (str, str, float)
        Relative increase of the hazard per product of two channels' saturated adstocks.
    saturation : float, default 0.35
        Rate of saturation ``s`` of a channel's adstock ``a``; 0 for none.
    saturates : {"hyperbola", "logarithm", "exponential"}, default "hyperbola"
        Saturation curve: ``a / (1 + s * a)``, ``log(1 + s * a) / s`` or ``(1 - exp(-s * a)) / s``.
    adstock : {"fading", "delayed"}, default "fading"
        An exposure's effect decays from the first day; or it is delayed: half of the pending effect arrives
        on each day and decays from then on.
    activity : float, default 0
        Standard deviation of the logarithm of users' activity, which raises all their exposures, visits and
        conversions: a heavy tail. With 0, activity matters only where exposure follows intent, and has no
        heavy tail.
    purchase : {"any_time", "considered", "in_session"}, default "any_time"
        ``"considered"``: users who want to buy decide after one to three weeks, at a date that later
        touchpoints do not change. ``"in_session"``: users open sessions, more of them if they want to buy,
        and convert during sessions only. One channel or unpaid node opens each; without the channel, the
        session is a direct visit.
    promotions : tuple of int, default ()
        Days of promotions, from 0.
    promotion_lift : float, default 3
        Factor of the conversion hazard on the days of promotions.
    mediations : tuple of (str, str, float), default ()
        Channels that lead to touchpoints of another, the mediator: relative increase of the mediator's rate
        per unit of the channel's saturated adstock. Exposure to the mediator must not follow intent, nor be
        at the checkout or in sessions.
    days : int, default 30
        Days of observation of each user, or until the conversion; 1 to 1,000.

    Examples
    --------
    >>> import attrib_ds as at
    >>> radio = at.simulation.Channel("radio", half_life=7, rate=0.05, direct=0.3)
    >>> at.simulation.Scenario((radio,), follows_intent=True).days
    30
    """

    channels: tuple[Channel, ...]
    follows_intent: bool = False
    synergies: tuple[tuple[str, str, float], ...] = ()
    saturation: float = 0.35
    saturates: Saturation = "hyperbola"
    adstock: Adstock = "fading"
    activity: float = field(default=0.0, kw_only=True)
    purchase: Purchase = field(default="any_time", kw_only=True)
    promotions: tuple[int, ...] = field(default=(), kw_only=True)
    promotion_lift: float = field(default=3.0, kw_only=True)
    mediations: tuple[tuple[str, str, float], ...] = field(default=(), kw_only=True)
    days: int = field(default=30, kw_only=True)

    def __post_init__(self) -> None:
        names = [getattr(channel, "node_id", channel) for channel in self._as_tuple("channels")]
        are_channels = all(isinstance(channel, Channel) for channel in self.channels)
        are_distinct = are_channels and len(set(names)) == len(names) and not set(names) & set(UNPAID)
        if not 0 < len(names) <= _MAX_CHANNELS or not are_distinct:
            raise InvalidRequest(
                f"channels: {names!r} is not allowed; allowed: one to {_MAX_CHANNELS} channels with distinct "
                f"names other than {', '.join(UNPAID)}"
            )
        for argument in ("synergies", "mediations"):
            for pair in self._as_tuple(argument):
                _check_pair(argument, pair, names)
        for source, mediator, effect in self.mediations:
            check_number("mediations", effect, "an effect of 0 or more", minimum=0)
            is_random = not self.follows_intent and self.purchase != "in_session"
            if source == mediator or not is_random or self._channel(mediator).delivery == "checkout":
                raise InvalidRequest(
                    f"mediations: {mediator!r} is not allowed as a mediator of {source!r}; allowed: another "
                    "channel, with random exposure"
                )
        for name in ("saturation", "activity", "promotion_lift"):
            object.__setattr__(self, name, plain_number(getattr(self, name)))
        check_number("saturation", self.saturation, "0 or more", minimum=0)
        check_number("activity", self.activity, "0 to 3", minimum=0, maximum=3)
        check_number("promotion_lift", self.promotion_lift, "0 or more", minimum=0)
        days = self._as_tuple("promotions")
        days = tuple(check_whole("promotions", day, minimum=0, maximum=_MAX_DAYS) for day in days)
        object.__setattr__(self, "promotions", days)
        choices = (("saturates", Saturation), ("adstock", Adstock), ("purchase", Purchase))
        for argument, allowed in choices:
            check_choice(argument, getattr(self, argument), get_args(allowed))
        object.__setattr__(self, "days", check_whole("days", self.days, minimum=1, maximum=_MAX_DAYS))

    def _channel(self, node_id: str) -> Channel:
        return next(channel for channel in self.channels if channel.node_id == node_id)

    def _as_tuple(self, name: str) -> tuple[Any, ...]:
        try:
            parts = tuple(getattr(self, name))
        except TypeError:
            parts = (getattr(self, name),)
        object.__setattr__(self, name, parts)
        return parts


def _check_pair(argument: str, pair: object, names: list[Any]) -> None:
    """Raise unless ``pair`` holds two channels and an effect."""
    if not isinstance(pair, tuple) or len(pair) != 3:
        raise InvalidRequest.value(argument, pair, "tuples of two channels and an effect")
    for name in pair[:2]:
        check_choice(argument, name, names)
    check_number(argument, pair[2], "an effect that is a finite number")


#: Unpaid channels, which have no effect.
UNPAID: Final = ("organic", "direct")


# Half-lives, intents and hazards of the four scenarios were fixed first. Rates, effects and synergies were
# then calibrated, and rounded, so that conventional credits (first and last touch, linear, position, time
# decay, Markov chains of order 1, Shapley values of observed sets) have errors set beforehand, for a million
# users: linear credit is 3.6, 1.8, 2.2 and 1.2 times what the channels cause (random, intent, synergy,
# intent_synergy), and its shares are 5.8, 6.4, 7.0 and 5.6 points off; brand search causes about a hundred
# conversions; in "synergy", removals of single channels add up to 10,400. Incremental models and experiments
# were not used for the calibration, so the scenarios are not tuned to any of them.
#
# In the others, paths alone do not tell what a channel caused. Their parameters were set by looking at the
# numbers of touchpoints and conversions only. In "mediation", display leads to three of five brand searches,
# which have little effect of their own.
def _channels(scenario: str) -> tuple[Channel, ...]:
    """Return the channels of a built-in scenario."""
    table = pd.read_csv(Path(__file__).with_name("channels.tsv"), sep="\t", comment="#")
    rows = table[table["scenario"] == scenario].drop(columns="scenario")
    return tuple(Channel(*row) for row in rows.itertuples(index=False, name=None))


def _synergies(*effects: float) -> tuple[tuple[str, str, float], ...]:
    pairs = (("display", "generic_search"), ("social", "retargeting"), ("display", "email"))
    return tuple((*pair, effect) for pair, effect in zip(pairs, effects, strict=True))


#: Built-in scenarios by name.
SCENARIOS: Final[dict[str, Scenario]] = {
    "random": Scenario(_channels("random")),
    "intent": Scenario(_channels("intent"), follows_intent=True),
    "synergy": Scenario(_channels("random"), synergies=_synergies(10.0, 4.5, 5.0)),
    "intent_synergy": Scenario(
        _channels("intent"), follows_intent=True, synergies=_synergies(0.45, 1.5, 1.8)
    ),
    "promotions": Scenario(_channels("promotions"), activity=1.2, promotions=(5, 6, 13, 14, 15, 24, 25)),
    "considered": Scenario(_channels("considered"), follows_intent=True, purchase="considered"),
    "sessions": Scenario(_channels("sessions"), activity=1.0, purchase="in_session"),
    "mediation": Scenario(_channels("mediation"), mediations=(("display", "brand_search", 6.0),)),
}


def scenario_named(scenario: str | Scenario) -> Scenario:
    """Return a scenario by its name; a ``Scenario`` is returned unchanged."""
    if isinstance(scenario, Scenario):
        return scenario
    if not isinstance(scenario, str) or scenario not in SCENARIOS:
        raise InvalidRequest.choice("scenario", scenario, SCENARIOS)
    return SCENARIOS[scenario]


def varied_scenario(scenario: str | Scenario, seed: int) -> Scenario:
    """Return a scenario with random parameters.

    A model that is evaluated in one scenario alone can be tuned to it.

    Parameters
    ----------
    scenario : str or Scenario
        Scenario to vary; targeting, and whether exposure follows intent, are kept.
    seed : int
        Seed of the random numbers, 0 or more.

    Returns
    -------
    Scenario
        Half-lives, rates, effects, synergies, mediations and the saturation are multiplied by random
        factors, most of them between 2/3 and 3/2 (effects: between 1/2 and 2); the saturation curve and the
        kind of adstock are drawn at random.

    Examples
    --------
    >>> import attrib_ds as at
    >>> scenario = at.simulation.varied_scenario("random", seed=1)
    >>> [round(channel.half_life, 1) for channel in scenario.channels[:2]]
    [7.8, 6.6]
    """
    original = scenario_named(scenario)
    seed = check_whole("seed", seed, minimum=0)
    random = np.random.default_rng(seed)

    def factor(spread: float) -> float:
        return float(np.exp(spread * random.standard_normal()))

    channels = tuple(
        replace(
            channel,
            half_life=channel.half_life * factor(0.3),
            rate=min(1.0, channel.rate * factor(0.25)),
            direct=channel.direct * factor(0.5),
            upstream=channel.upstream * factor(0.35),
        )
        for channel in original.channels
    )
    return replace(
        original,
        channels=channels,
        synergies=tuple((*pair[:2], pair[2] * factor(0.4)) for pair in original.synergies),
        mediations=tuple((*pair[:2], pair[2] * factor(0.4)) for pair in original.mediations),
        saturation=original.saturation * factor(0.4),
        saturates=str(random.choice(get_args(Saturation))),  # type: ignore[arg-type]
        adstock=str(random.choice(get_args(Adstock))),  # type: ignore[arg-type]
    )
