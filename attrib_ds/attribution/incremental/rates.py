"""Fits rates that are sums of a baseline and of what is at work, none of them below zero."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import nnls

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: Days: a tenth of a second.
_LEAST_DAYS: Final = 1e-6
#: Share of the highest baseline that is as good as none.
_AS_GOOD_AS_NONE: Final = 1e-10
#: Steps of expectation and maximisation before the first of Newton's.
_FIRST_STEPS: Final = 10
_MOST_STEPS: Final = 200
#: Log-likelihood per conversion that a step must promise for another one to be made.
_CONVERGED: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates per day: that of a cell, and what each column adds per unit.

    Attributes
    ----------
    base : float array, shape (n_cells,)
        Of each cell.
    slopes : float array, shape (n_columns,)
        Of each column.
    """

    base: Numbers
    slopes: Numbers

    def at(self, features: Numbers, cell: Codes) -> Numbers:
        """Return the rate at each conversion."""
        return np.asarray(self.base[cell] + features @ self.slopes)

    def parts(self, features: Numbers, cell: Codes, *, slopes: Numbers | None = None) -> Numbers:
        """Return what part of the rate at each conversion each column has; the baseline has the rest.

        Parameters
        ----------
        features, cell : array
            Of conversions.
        slopes : float array, optional
            What columns add in place of the slopes that the rate is made of.
        """
        rate = self.at(features, cell)
        added = features * (self.slopes if slopes is None else slopes)
        # A conversion that nothing explains is the baseline's.
        return np.asarray(added / np.where(rate > 0, rate, 1.0)[:, None])


@dataclass(frozen=True, eq=False)
class _Curvature:
    """First and second derivatives of the log-likelihood; the second with its sign turned.

    Attributes
    ----------
    base_slope, base : float array, shape (n_cells,)
        By the rates of cells; the second derivatives by two of them are zero.
    slope : float array, shape (n_columns,); columns : float array, shape (n_columns, n_columns)
        By the columns.
    mixed : float array, shape (n_columns, n_cells)
        By one of each.
    """

    base_slope: Numbers
    base: Numbers
    slope: Numbers
    columns: Numbers
    mixed: Numbers

    def without(self, part: _Curvature) -> _Curvature:
        return _Curvature(
            self.base_slope - part.base_slope,
            self.base - part.base,
            self.slope - part.slope,
            self.columns - part.columns,
            self.mixed - part.mixed,
        )

    def step(self, rates: Rates) -> tuple[Rates, float]:
        """Return where the quadratic is highest with slopes of at least zero, and the promised gain."""
        return self._reached(rates, _highest)

    def free_slopes(self, rates: Rates, is_free: NDArray[np.bool_]) -> Numbers:
        """Return the slopes where the quadratic is highest, be they below zero; some may not move."""
        return self._reached(rates, partial(_top, is_free=is_free))[0].slopes

    def _reached(
        self, rates: Rates, maximise: Callable[[Numbers, Numbers, Numbers], Numbers]
    ) -> tuple[Rates, float]:
        # Baselines without conversions stay at zero, and so do those that the likelihood holds there.
        is_free = rates.base > _AS_GOOD_AS_NONE * rates.base.max(initial=0.0)
        is_free = (self.base > 0) & (is_free | (self.base_slope > 0))
        inverse = np.divide(1.0, self.base, out=np.zeros_like(self.base), where=is_free)
        reduced = self.columns - (self.mixed * inverse) @ self.mixed.T
        right = self.slope - self.mixed @ (inverse * self.base_slope)
        slopes = maximise(reduced, right + reduced @ rates.slopes, rates.slopes)
        change = slopes - rates.slopes
        base_change = inverse * (self.base_slope - self.mixed.T @ change)
        gain = self.slope @ change + self.base_slope @ base_change
        return Rates(rates.base + base_change, slopes), float(gain)


def fit_rates(features: Numbers, cell: Codes, *, at_work: Numbers, person_days: Numbers) -> Rates:
    """Return the rates of greatest likelihood of conversions as a Poisson process.

    Expectation and maximisation makes the first steps. They never leave the allowed rates, but become ever
    shorter; Newton's steps, which keep the slopes at zero or above by a least-squares problem, go on to the
    same maximum. The end is where a step promises less than 1e-12 of log-likelihood per conversion.

    Parameters
    ----------
    features : float array, shape (n_events, n_columns)
        How strongly each column was at work at each conversion.
    cell : int array
        Cell of each conversion.
    at_work : float array, shape (n_columns,)
        The integral of each column over all observations.
    person_days : float array, shape (n_cells,)
        Days observed in each cell.

    Returns
    -------
    Rates
        A column that was at work for no time has the slope 0.
    """
    events = len(cell)
    # A cell in which hardly anybody was observed has a rate all the same, if one converted there.
    days = np.maximum(person_days, _LEAST_DAYS)
    is_used = at_work > 1e-12 * days.sum()
    scale = np.where(is_used, at_work, 1.0) / days.sum()
    scaled = np.where(is_used, features / scale, 0.0)
    total = np.where(is_used, at_work / scale, 1.0)
    level = events / days.sum()
    rates = Rates(
        np.bincount(cell, minlength=len(days)) / days,
        np.where(is_used, 0.1 * level / max(len(total), 1), 0.0),
    )
    for _ in range(_FIRST_STEPS):
        weight = 1.0 / rates.at(scaled, cell)
        rates = Rates(
            rates.base * np.bincount(cell, weight, minlength=len(days)) / days,
            rates.slopes * (weight @ scaled) / total,
        )
    height = _likelihood(rates, scaled, cell, total, days)
    for _ in range(_MOST_STEPS):
        aim, gain = _curvature(rates, scaled, cell, total, days).step(rates)
        if gain < _CONVERGED * max(events, 1):
            break
        rates, height = _climbed(rates, aim, height, (scaled, cell, total, days))
    return Rates(rates.base, rates.slopes / scale)


def without_each(
    rates: Rates,
    features: Numbers,
    cell: Codes,
    *,
    at_work: Numbers,
    person_days: Numbers,
    fold: Codes,
    is_free: NDArray[np.bool_],
) -> list[tuple[Rates, Numbers]]:
    """Return the rates without each group of users, one step of Newton's from those with all.

    A slope that is held at zero stays there without any group, and would seem to be known exactly. So the
    slopes as they would be without that bound are told too: these vary as much as the data let them.

    Parameters
    ----------
    rates : Rates
        Of all.
    features, cell, fold : array
        Of conversions.
    at_work : float array, shape (n_groups, n_columns)
    person_days : float array, shape (n_groups, n_cells)
        Of the users of each group.
    is_free : bool array, shape (n_columns,)
        Which slopes are told without that bound; the others stay.
    """
    parts = [
        _curvature(
            rates, features[fold == number], cell[fold == number], at_work[number], person_days[number]
        )
        for number in range(len(at_work))
    ]
    whole = _curvature(rates, features, cell, at_work.sum(axis=0), person_days.sum(axis=0))
    found = []
    for part in parts:
        others = whole.without(part)
        aim, _ = others.step(rates)
        found.append((Rates(np.maximum(aim.base, 0.0), aim.slopes), others.free_slopes(rates, is_free)))
    return found


def _climbed(
    rates: Rates, aim: Rates, height: float, given: tuple[Numbers, Codes, Numbers, Numbers]
) -> tuple[Rates, float]:
    """Go towards the aim, with baselines above zero, as far as the likelihood rises."""
    length = 1.0
    while length > 1e-12:
        tried = Rates(
            np.maximum(rates.base + length * (aim.base - rates.base), 0.1 * rates.base),
            np.maximum(rates.slopes + length * (aim.slopes - rates.slopes), 0.0),
        )
        reached = _likelihood(tried, *given)
        if reached >= height:
            return tried, reached
        length /= 2
    return rates, height


def _likelihood(
    rates: Rates, features: Numbers, cell: Codes, at_work: Numbers, person_days: Numbers
) -> float:
    expected = rates.base @ person_days + rates.slopes @ at_work
    return float(np.log(rates.at(features, cell)).sum() - expected)


def _curvature(
    rates: Rates, features: Numbers, cell: Codes, at_work: Numbers, person_days: Numbers
) -> _Curvature:
    weight = 1.0 / np.maximum(rates.at(features, cell), 1e-300)
    weighted = features * weight[:, None]
    cells = len(person_days)
    return _Curvature(
        np.bincount(cell, weight, minlength=cells) - person_days,
        np.bincount(cell, weight**2, minlength=cells).astype(np.float64),
        weighted.sum(axis=0) - at_work,
        weighted.T @ weighted,
        np.stack([np.bincount(cell, column, minlength=cells) for column in (weighted * weight[:, None]).T])
        if features.shape[1]
        else np.zeros((0, cells)),
    )


def _highest(curvature: Numbers, right: Numbers, start: Numbers) -> Numbers:
    """Maximise ``right @ x - x @ curvature @ x / 2`` over x of at least zero."""
    if not len(right):
        return right
    scaled, goal, unit = _scaled(curvature, right, start)
    try:
        lower = cholesky(scaled, lower=True)
        found, _ = nnls(lower.T, solve_triangular(lower, goal, lower=True), maxiter=50 * len(right))
    except (LinAlgError, RuntimeError):
        return start
    return np.asarray(found / unit)


def _top(curvature: Numbers, right: Numbers, start: Numbers, *, is_free: NDArray[np.bool_]) -> Numbers:
    """Maximise ``right @ x - x @ curvature @ x / 2`` over some of x, the others left as they are."""
    scaled, goal, unit = _scaled(curvature, right, start)
    found = start.copy()
    goal = goal[is_free] - scaled[np.ix_(is_free, ~is_free)] @ (start * unit)[~is_free]
    try:
        found[is_free] = cho_solve(cho_factor(scaled[np.ix_(is_free, is_free)]), goal) / unit[is_free]
    except LinAlgError:
        return start
    return found


def _scaled(curvature: Numbers, right: Numbers, start: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the same with a curvature of one in each direction, and the units of its x."""
    # Columns that say the same, or never were at work, have no curvature of their own.
    spread = np.sqrt(np.maximum(np.diag(curvature), 0.0))
    is_used = spread > 0
    unit = np.where(is_used, spread, 1.0)
    scaled = curvature / np.outer(unit, unit) + 1e-10 * np.eye(len(right))
    # Those without curvature stay where they are.
    scaled[~is_used, ~is_used] = 1.0
    return scaled, np.where(is_used, right / unit + 1e-10 * start * unit, start), unit
