"""Finds the parameters under which what was seen is likeliest, effects drawn towards nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import minimize

from attrib_ds.attribution.incremental.latent_intent.funnel import Expected, Rates, expect
from attrib_ds.attribution.incremental.latent_intent.parameters import Parameters, first_guess

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Journeys

    Numbers = NDArray[np.float64]

#: Steps that are remembered to tell the curvature.
_REMEMBERED: Final = 25
#: No parameter goes farther in one round, after which the scales are taken anew.
_FARTHEST: Final = 3.0
#: Precision of the priors: of factors of patterns, of loadings around the first guess.
_RECENT, _APART, _LOADING, _SIGN = 10.0, 5.0, 2.0, 0.5
#: Users whom the weights of classes and first intents are drawn together by.
_BORROWED: Final = (2.0, 1.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """The likeliest parameters.

    Attributes
    ----------
    parameters : Parameters
        The estimate.
    likely : float
        Logarithm of how likely the journeys are under it, per user that they stand for.
    evaluations : int
        How often all journeys were gone through.
    """

    parameters: Parameters
    likely: float
    evaluations: int


def fit(
    journeys: Journeys,
    classes: Numbers,
    *,
    intents: int,
    shrinkage: float,
    rounds: list[tuple[int, int]],
    tolerance: float,
) -> Fit:
    """Fit the model, first to few users and then, from there, to more.

    Parameters
    ----------
    journeys : Journeys
        Of the users drawn.
    classes : float array, shape (n_classes, 3)
        From :func:`parameters.grid`.
    intents : int
        How many.
    shrinkage : float
        Effects have an exponential prior with this many conversions (and steps) as its rate.
    rounds : list of (int, int)
        Users and evaluations of each round.
    tolerance : float
        A round ends when a step adds less than this part to the logarithm of the likelihood.

    Returns
    -------
    Fit
        Of the last round.
    """
    centre = first_guess(journeys, classes, intents=intents)
    found, evaluations, likely = centre, 0, 0.0
    for users, most in rounds:
        part = journeys.some(users)
        weight = float(sum(block.weight.sum(dtype=np.float64) for block in part.blocks))
        goal = Objective(part, classes, centre, shrinkage)
        scale = np.sqrt(goal.curvature(found))
        begin = found.flat()

        def loss(row: Numbers) -> tuple[float, Numbers]:
            value, slope = goal(found.like(row / scale))  # noqa: B023  # called within the round
            return -value, -slope / scale  # noqa: B023

        best = minimize(
            loss,
            begin * scale,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([(begin - _FARTHEST) * scale, (begin + _FARTHEST) * scale], axis=1),
            options={"maxfun": most, "maxiter": most, "maxcor": _REMEMBERED, "ftol": tolerance, "gtol": 0.0},
        )
        found = found.like(best.x / scale)
        evaluations += int(best.nfev)
        likely = expect(Rates(found, classes, part)).likely / weight
    return Fit(found, likely, evaluations)


@dataclass(frozen=True, eq=False)
class Objective:
    """The logarithm of the likelihood plus that of the prior, and its slope.

    The slope of the likelihood of what was seen is the expected slope of that of everything.
    """

    journeys: Journeys
    classes: Numbers
    centre: Parameters
    shrinkage: float

    def __call__(self, given: Parameters) -> tuple[float, Numbers]:
        """Return the value and the slope."""
        rates = Rates(given, self.classes, self.journeys)
        expected = expect(rates)
        prior, slopes = self._prior(given, rates)
        seen = self._slopes(rates, expected)
        slope = np.concatenate(
            [np.ravel(getattr(seen, each.name) + getattr(slopes, each.name)) for each in fields(Parameters)]
        )
        return expected.likely + prior, slope

    def curvature(self, given: Parameters) -> Numbers:
        """Return about how sharply each parameter would be known if nothing were unseen."""
        rates = Rates(given, self.classes, self.journeys)
        found = expect(rates)
        classes, intents = rates.shape
        squares = self.classes**2
        touch = found.touch.reshape(-1, classes, intents)
        buy = found.buy.reshape(classes, intents)
        known = {
            "share": found.start.sum(axis=1) * (1 - rates.share),
            "start": found.start * (1 - rates.start),
            "climb": found.climb @ squares,
            "fall": found.fall_risk * rates.fall * (1 - rates.fall),
            "touch": touch.sum(axis=2) @ squares,
            "sign": touch.sum(axis=1),
            "recent": found.pattern @ self.journeys.patterns**2,
            "apart": found.pattern,
            "told_touch": np.ones(given.told_touch.shape) * found.touch.sum(axis=1)[:, None],
            "buy": buy.sum(axis=1) @ squares,
            "ease": buy.sum(axis=0),
            "told_buy": np.full(given.told_buy.shape, found.buy.sum()),
            "direct": rates.direct * found.direct_risk,
            "pushed": rates.pushed * found.pushed_risk,
            "together": rates.together * self._of_pairs(found.together_risk),
        }
        return np.concatenate([np.ravel(known[each.name]) for each in fields(Parameters)]) + 3.0

    def _of_pairs(self, matrix: Numbers) -> Numbers:
        pairs = self.journeys.pairs
        return np.asarray(matrix[pairs[:, 0], pairs[:, 1]])

    def _slopes(self, rates: Rates, found: Expected) -> Parameters:
        classes, intents = rates.shape
        users = found.start.sum(axis=1)
        touch = (found.touch - rates.touch * found.touch_risk).reshape(-1, classes, intents)
        buy = (found.buy - rates.buy * found.buy_risk).reshape(classes, intents)
        pattern = found.pattern - found.pattern_risk
        return Parameters(
            share=users - users.sum() * rates.share,
            start=found.start - users[:, None] * rates.start,
            climb=(found.climb - rates.climb * found.climb_risk) @ self.classes,
            fall=found.fall - rates.fall * found.fall_risk,
            touch=touch.sum(axis=2) @ self.classes,
            sign=touch.sum(axis=1),
            recent=pattern @ self.journeys.patterns,
            apart=pattern,
            told_touch=found.told_touch,
            buy=buy.sum(axis=1) @ self.classes,
            ease=buy.sum(axis=0),
            told_buy=found.told_buy,
            direct=rates.direct * (found.direct - found.direct_risk),
            pushed=rates.pushed * (found.pushed - found.pushed_risk),
            together=rates.together * self._of_pairs(found.together - found.together_risk),
        )

    def _prior(self, given: Parameters, rates: Rates) -> tuple[float, Parameters]:
        """Return the prior and its slope; effects are exponential, the rest is normal around the guess."""
        strength = dict.fromkeys(("direct", "pushed", "together"), self.shrinkage)
        normal = {"recent": _RECENT, "apart": _APART, "climb": _LOADING, "touch": _LOADING, "buy": _LOADING}
        normal |= {"sign": _SIGN, "ease": _SIGN, "told_touch": 1.0, "told_buy": 1.0}
        borrowed, of_start = _BORROWED
        value = borrowed * np.log(rates.share).sum() + of_start * np.log(rates.start).sum()
        slopes = {
            "share": borrowed * (1 - rates.share.size * rates.share),
            "start": of_start * (1 - rates.start.shape[1] * rates.start),
            "fall": np.zeros_like(given.fall),
        }
        for name, precision in normal.items():
            away = getattr(given, name) - getattr(self.centre, name)
            value -= precision / 2 * (away**2).sum()
            slopes[name] = -precision * away
        for name, rate in strength.items():
            value -= rate * getattr(rates, name).sum()
            slopes[name] = -rate * getattr(rates, name)
        return float(value), Parameters(**slopes)
