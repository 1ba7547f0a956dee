"""Finds the parameters under which what was seen is likeliest, effects drawn towards nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import minimize

from attrib_ds.attribution.incremental.latent_intent.funnel import Rates, Slopes, shares, slopes
from attrib_ds.attribution.incremental.latent_intent.parameters import EFFECTS, Parameters, first_guess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Journeys

    Numbers = NDArray[np.float64]

#: Steps that are remembered to tell the curvature.
_REMEMBERED: Final = 25
#: No logarithm goes farther in one round, after which the scales are taken anew.
_FARTHEST: Final = 3.0
#: Precision of the normal priors around the first guess.
_PRECISION: Final = {
    "start": 2.0,
    "climb": 2.0,
    "touch": 2.0,
    "sign": 0.5,
    "recent": 0.5,
    "apart": 5.0,
    "told_touch": 1.0,
    "buy": 2.0,
    "ease": 0.5,
    "told_buy": 1.0,
}
#: Users whom the weights of activities are drawn together by.
_BORROWED: Final = 2.0


@dataclass(frozen=True, eq=False)
class Fit:
    """The likeliest parameters.

    Attributes
    ----------
    parameters : Parameters
        The estimate.
    value : float
        Logarithm of how likely the journeys are under it, with the prior.
    evaluations : int
        How often all journeys were gone through.
    """

    parameters: Parameters
    value: float
    evaluations: int


def fit(
    rounds: Iterable[tuple[Journeys, int]],
    classes: Numbers,
    *,
    intents: int,
    shrinkage: float,
    tolerance: float,
    advance: Callable[[int], None],
) -> Fit:
    """Fit the model, first to few users and then, from there, to more.

    Parameters
    ----------
    rounds : iterable of (Journeys, int)
        Journeys, and how often they are gone through; all have the same nodes.
    classes : float array, shape (n_classes, 3)
        From :func:`parameters.grid`.
    intents : int
        How many.
    shrinkage : float
        Effects have an exponential prior with this many conversions (and steps) as its rate.
    tolerance : float
        A round ends when a step adds less than this part to the logarithm of the likelihood.
    advance : callable
        Takes how many more evaluations were made.

    Returns
    -------
    Fit
        Of the last round.
    """
    found: Fit | None = None
    for journeys, evaluations in rounds:
        centre = first_guess(journeys, classes, intents=intents)
        goal = Objective(journeys, classes, centre, shrinkage)
        begin = centre if found is None else found.parameters
        found = climb_to_best(goal, begin, evaluations=evaluations, tolerance=tolerance, advance=advance)
    if found is None:
        raise ValueError("rounds: there is none")
    return found


def climb_to_best(
    goal: Objective,
    begin: Parameters,
    *,
    evaluations: int,
    tolerance: float,
    advance: Callable[[int], None] = lambda _: None,
) -> Fit:
    """Go uphill from where the search begins."""
    _, _, sharpness = goal.with_sharpness(begin)
    scale = np.sqrt(sharpness)
    row, is_effect = begin.flat(), begin.are(EFFECTS)
    lowest = np.where(is_effect, 0.0, row - _FARTHEST)
    highest = np.where(is_effect, np.inf, row + _FARTHEST)

    def loss(scaled: Numbers) -> tuple[float, Numbers]:
        value, slope = goal(begin.like(scaled / scale))
        advance(1)
        return -value, -slope / scale

    best = minimize(
        loss,
        row * scale,
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([lowest * scale, highest * scale], axis=1),
        options={
            "maxfun": evaluations,
            "maxiter": evaluations,
            "maxcor": _REMEMBERED,
            "ftol": tolerance,
            "gtol": 0.0,
        },
    )
    return Fit(begin.like(best.x / scale), -float(best.fun), int(best.nfev))


@dataclass(frozen=True, eq=False)
class Objective:
    """The logarithm of the likelihood plus that of the prior, and its slope."""

    journeys: Journeys
    classes: Numbers
    centre: Parameters
    shrinkage: float

    def __call__(self, given: Parameters) -> tuple[float, Numbers]:
        """Return the value and the slope."""
        _, _, value, slope = self._at(given)
        return value, slope

    def with_sharpness(self, given: Parameters) -> tuple[float, Numbers, Numbers]:
        """Return also about how sharply each parameter would be known if nothing were unseen."""
        rates, found, value, slope = self._at(given, counts_steps=True)
        return value, slope, self._sharpness(rates, found).flat()

    def _at(self, given: Parameters, *, counts_steps: bool = False) -> tuple[Rates, Slopes, float, Numbers]:
        rates = Rates(given, self.classes, self.journeys)
        found = slopes(rates, counts_steps=counts_steps)
        prior, of_prior = self._prior(given)
        return rates, found, found.likely + prior, self._slopes(rates, found).flat() + of_prior.flat()

    def _of_pairs(self, matrix: Numbers) -> Numbers:
        pairs = self.journeys.pairs
        return np.asarray(matrix[pairs[:, 0], pairs[:, 1]])

    def _slopes(self, rates: Rates, found: Slopes) -> Parameters:
        intents, classes = rates.shape
        given, users = rates.parameters, found.start.sum()
        touch = found.touch.reshape(-1, intents, classes)
        activities = found.start.sum(axis=0).reshape(len(given.share), -1).sum(axis=1)
        return Parameters(
            share=activities - users * shares(given.share),
            start=(found.start - found.start.sum(axis=0) * rates.start) @ self.classes,
            climb=found.climb @ self.classes,
            fall=found.fall,
            touch=touch[:-1].sum(axis=1) @ self.classes,
            sign=touch[:-1].sum(axis=2),
            recent=found.pattern @ self.journeys.patterns,
            apart=found.pattern,
            told_touch=found.told[:-1],
            buy=touch[-1].sum(axis=0) @ self.classes,
            ease=touch[-1].sum(axis=1),
            told_buy=found.told[-1],
            direct=found.direct,
            pushed=found.pushed,
            together=self._of_pairs(found.together),
        )

    def _sharpness(self, rates: Rates, found: Slopes) -> Parameters:
        intents, classes = rates.shape
        squares, given = self.classes**2, rates.parameters
        activity, seen = shares(given.share), found.seen.reshape(-1, intents, classes)
        often = seen.sum(axis=(1, 2))
        known = {
            "share": found.start.sum() * activity * (1 - activity),
            "start": (found.start.sum(axis=0) * rates.start * (1 - rates.start)) @ squares,
            "climb": found.rises @ squares,
            "fall": found.falls,
            "touch": seen[:-1].sum(axis=1) @ squares,
            "sign": seen[:-1].sum(axis=2),
            "recent": found.patterns_seen @ self.journeys.patterns**2,
            "apart": found.patterns_seen,
            "told_touch": np.ones(given.told_touch.shape) * often[:-1, None],
            "buy": seen[-1].sum(axis=0) @ squares,
            "ease": seen[-1].sum(axis=1),
            "told_buy": np.full(given.told_buy.shape, often[-1]),
            "direct": found.direct_sharp,
            "pushed": found.pushed_sharp,
            "together": self._of_pairs(found.together_sharp),
        }
        return Parameters(**{name: value + 3.0 for name, value in known.items()})

    def _prior(self, given: Parameters) -> tuple[float, Parameters]:
        """Return the prior and its slope; effects are exponential, the rest is normal around the guess."""
        share = shares(given.share)
        value = _BORROWED * np.log(share).sum()
        found = {"share": _BORROWED * (1 - share.size * share), "fall": np.zeros_like(given.fall)}
        for name, precision in _PRECISION.items():
            away = getattr(given, name) - getattr(self.centre, name)
            value -= precision / 2 * (away**2).sum()
            found[name] = -precision * away
        for name in EFFECTS:
            effects = getattr(given, name)
            value -= self.shrinkage * effects.sum()
            found[name] = np.full(effects.shape, -self.shrinkage)
        return float(value), Parameters(**found)
