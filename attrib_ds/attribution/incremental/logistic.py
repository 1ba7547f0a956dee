"""Fits logistic regressions with weights and a penalty, also without each group of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_MOST_STEPS: Final = 60
_CONVERGED: Final = 1e-7
#: Bounds of a log-odds, beyond which a probability is 0 or 1 to the last digit.
_FARTHEST: Final = 35.0
#: Rows of the matrix that are made at one time.
_TOGETHER: Final = 1 << 15
#: With more rows than this, the first steps look at every eighth.
_MANY: Final = 100_000


class Matrix(Protocol):
    """A matrix whose rows are made when they are needed."""

    def rows(self, which: Any) -> Numbers:
        """Return the rows at a slice or at positions."""


def fit_logistic(
    design: Matrix, outcome: NDArray[np.bool_], weight: Numbers, *, penalty: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the coefficients of greatest penalised likelihood, and its curvature there.

    Newton's method, steps halved where they lead downhill, until no coefficient moves by more than 1e-7. The
    first column is the constant.

    Parameters
    ----------
    design : Matrix
        The matrix.
    outcome : bool array
        What is explained.
    weight : float array
        How often each row counts.
    penalty : float array, shape (n_columns,)
        Half of it times the squared coefficient is taken from the log-likelihood.
    """
    coefficients = np.zeros(len(penalty))
    share = (weight @ outcome) / weight.sum()
    coefficients[0] = np.log(share / (1 - share)) if 0 < share < 1 else np.sign(share - 0.5) * _FARTHEST
    curvature = np.eye(len(penalty))
    for stride in (8, 1) if len(outcome) > _MANY else (1,):
        every = np.arange(0, len(outcome), stride)
        best, step = -np.inf, np.zeros(len(penalty))
        for _ in range(_MOST_STEPS):
            likelihood, slope, curvature = derivatives(design, outcome, weight, coefficients, every)
            # The sample stands for all rows, which the penalty is measured in.
            height = likelihood * stride - 0.5 * float(penalty @ coefficients**2)
            if height < best - 1e-9 * abs(best):
                # Far steps overshoot where hardly anything is known: half of the way, until it is uphill.
                step /= 2
                coefficients = coefficients - step
                continue
            best = height
            curvature = curvature * stride + np.diag(penalty)
            step = solved(curvature, slope * stride - penalty * coefficients)
            coefficients = coefficients + step
            if np.abs(step).max() < (_CONVERGED if stride == 1 else 1e-3):
                break
    return coefficients, curvature


def without_each(
    design: Matrix,
    outcome: NDArray[np.bool_],
    weight: Numbers,
    fitted: tuple[Numbers, Numbers],
    *,
    group: NDArray[np.int64],
    groups: int,
) -> list[Numbers]:
    """Return the coefficients without each group of rows, one step of Newton's from those with all."""
    coefficients, curvature = fitted
    found = []
    for number in range(groups):
        _, slope, part = derivatives(design, outcome, weight, coefficients, np.flatnonzero(group == number))
        found.append(coefficients - solved(curvature - part, slope))
    return found


def derivatives(
    design: Matrix,
    outcome: NDArray[np.bool_],
    weight: Numbers,
    coefficients: Numbers,
    which: NDArray[np.int64],
) -> tuple[float, Numbers, Numbers]:
    """Return the log-likelihood of some rows, its slope and its curvature, without the penalty."""
    likelihood = 0.0
    slope = np.zeros(len(coefficients))
    curvature = np.zeros((len(coefficients), len(coefficients)))
    for rows in _blocks(which):
        matrix = design.rows(rows)
        chance = chances(matrix @ coefficients)
        likelihood += float(weight[rows] @ np.log(np.where(outcome[rows], chance, 1 - chance)))
        slope += matrix.T @ (weight[rows] * (outcome[rows] - chance))
        curvature += (matrix * (weight[rows] * chance * (1 - chance))[:, None]).T @ matrix
    return likelihood, slope, curvature


def chances(log_odds: Numbers) -> Numbers:
    """Return probabilities."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -_FARTHEST, _FARTHEST))))


def solved(matrix: Numbers, right: Numbers) -> Numbers:
    """Solve linear equations; of several solutions, return the shortest."""
    # Columns that say the same twice leave a direction without curvature.
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def _blocks(which: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(which), _TOGETHER):
        yield which[start : start + _TOGETHER]
