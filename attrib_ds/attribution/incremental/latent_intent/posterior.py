"""Draws parameters from around the likeliest ones, as far as what was seen does not speak against them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri

from attrib_ds.attribution.incremental.latent_intent.parameters import EFFECTS, PATTERNED
from attrib_ds.display import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.fitting import Objective
    from attrib_ds.attribution.incremental.latent_intent.parameters import Parameters

    Numbers = NDArray[np.float64]

#: Least curvature, as a part of what it would be if nothing were unseen; smaller ones are noise of precision.
_FLATTEST: Final = 1e-4
#: Rounds through all effects before the first draw, and between draws.
_BEFORE: Final = 200
_BETWEEN: Final = 30
#: No logarithm goes farther from the estimate, where the curvature tells little of the likelihood.
_FARTHEST: Final = 1.0
#: So many standard deviations out the normal distribution is as good as exponential.
_FAR: Final = 5.0


def draw_parameters(goal: Objective, best: Parameters, *, draws: int, seed: int) -> Iterator[Parameters]:
    """Draw effects from a normal distribution around the likeliest, cut off at zero, and what goes with them.

    All other parameters are where they are likeliest given the effects.

    Parameters
    ----------
    goal : Objective
        What they are likeliest under; its curvature there, by differences of its slope, is the precision.
        Factors of patterns of recent touchpoints stay as they are.
    best : Parameters
        The likeliest.
    draws : int
        How many.
    seed : int
        Of the draws.
    """
    row, effects = best.flat(), best.are(EFFECTS)
    moves = np.flatnonzero(~best.are(PATTERNED))
    precision, slope = _curvature(goal, best, moves)
    is_effect = effects[moves]
    # What is not at a bound is where the slope is zero, or would be after more steps.
    slope = np.where(is_effect & (row[moves] <= 0), np.minimum(slope, 0.0), 0.0)[is_effect]
    others = precision[np.ix_(~is_effect, ~is_effect)]
    across = np.linalg.solve(others, precision[np.ix_(~is_effect, is_effect)])
    of_effects = precision[np.ix_(is_effect, is_effect)] - precision[np.ix_(is_effect, ~is_effect)] @ across
    random = np.random.default_rng(seed)
    at = row[moves][is_effect]
    for away in cut_off_normals(at, slope, of_effects, draws=draws, random=random):
        moved = row.copy()
        moved[moves[is_effect]] = at + away
        moved[moves[~is_effect]] -= np.clip(across @ away, -_FARTHEST, _FARTHEST)
        yield best.like(moved)


def cut_off_normals(
    at: Numbers, slope: Numbers, precision: Numbers, *, draws: int, random: np.random.Generator
) -> Iterator[Numbers]:
    """Draw from a normal distribution in many dimensions, cut off where any is below zero.

    Parameters
    ----------
    at : float array, shape (n,)
        Where the logarithm of the density has the slope and the curvature that follow.
    slope : float array, shape (n,)
        Its slope there.
    precision : float array, shape (n, n)
        Its curvature, everywhere.
    draws : int
        How many.
    random : Generator
        Chance.

    Yields
    ------
    float array, shape (n,)
        How far each is away from ``at``.
    """
    away = np.zeros(len(at))
    for draw in range(draws):
        for _ in range(_BETWEEN if draw else _BEFORE):
            # Each anew, given all others: one dimension is easily cut off.
            for place, chance in enumerate(random.random(len(at))):
                sharp = precision[place, place]
                mean = away[place] + (slope[place] - precision[place] @ away) / sharp
                spread = 1 / np.sqrt(sharp)
                lowest = (-at[place] - mean) / spread
                if lowest > _FAR:
                    drawn = lowest - np.log1p(-chance) / lowest
                else:
                    drawn = -ndtri((1 - chance) * ndtr(-lowest))
                away[place] = max(mean + spread * drawn, -at[place])
        yield away.copy()


def _curvature(goal: Objective, best: Parameters, moves: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Return how sharp the likelihood is, and its slope, by the parameters that move."""
    row = best.flat()
    _, slope, sharpness = goal.with_sharpness(best)
    scale = np.sqrt(sharpness[moves])
    found = np.zeros((len(moves), len(moves)))
    with progress("parameters", len(moves), name="latent intent, curvature") as advance:
        for place, position in enumerate(moves):
            ends = []
            for sign in (1, -1):
                moved = row.copy()
                moved[position] += sign / scale[place]
                ends.append(goal(best.like(moved))[1][moves])
            found[place] = (ends[1] - ends[0]) / 2 / scale
            advance(1)
    values, vectors = np.linalg.eigh((found + found.T) / 2)
    sharp = (vectors * np.maximum(values, _FLATTEST)) @ vectors.T
    return sharp * np.outer(scale, scale), slope[moves]
