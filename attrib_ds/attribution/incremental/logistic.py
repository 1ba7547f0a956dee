"""Weighted ridge logistic regression by Newton's method, with a one-step jackknife over groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_MOST_STEPS: Final = 60
_CONVERGED: Final = 1e-7
#: Bound of log-odds, beyond which a probability is 0 or 1 in double precision.
_FARTHEST: Final = 35.0
#: Rows of the matrix held in memory at once.
_TOGETHER: Final = 1 << 15
#: With more rows than this, the first steps use every eighth row.
_MANY: Final = 100_000


class Matrix(Protocol):
    """A matrix whose rows are computed on demand."""

    def rows(self, which: Any) -> Numbers:
        """Return the rows at a slice or at positions."""


def fit_logistic(
    design: Matrix, outcome: NDArray[np.bool_], weight: Numbers, *, penalty: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the coefficients of maximum penalised likelihood, and the Hessian of its negative there.

    Newton's method, with steps halved while the likelihood falls, until no coefficient moves by more than
    1e-7. The first column is the intercept.

    Parameters
    ----------
    design : Matrix
        Design matrix.
    outcome : bool array
        Dependent variable.
    weight : float array
        Weight of each row.
    penalty : float array, shape (n_columns,)
        Ridge penalty: half of it times the squared coefficient is subtracted from the log-likelihood.
    """
    coefficients = np.zeros(len(penalty))
    share = (weight @ outcome) / weight.sum()
    coefficients[0] = np.log(share / (1 - share)) if 0 < share < 1 else np.sign(share - 0.5) * _FARTHEST
    hessian = np.eye(len(penalty))
    for stride in (8, 1) if len(outcome) > _MANY else (1,):
        every = np.arange(0, len(outcome), stride)
        best, step = -np.inf, np.zeros(len(penalty))
        for _ in range(_MOST_STEPS):
            likelihood, gradient, hessian = derivatives(design, outcome, weight, coefficients, every)
            # The penalty is measured in all rows, which the sample stands for.
            objective = likelihood * stride - 0.5 * float(penalty @ coefficients**2)
            if objective < best - 1e-9 * abs(best):
                # Long steps overshoot where there is little information: halve until uphill.
                step /= 2
                coefficients = coefficients - step
                continue
            best = objective
            hessian = hessian * stride + np.diag(penalty)
            step = solved(hessian, gradient * stride - penalty * coefficients)
            coefficients = coefficients + step
            if np.abs(step).max() < (_CONVERGED if stride == 1 else 1e-3):
                break
    return coefficients, hessian


def without_each(
    design: Matrix,
    outcome: NDArray[np.bool_],
    weight: Numbers,
    fitted: tuple[Numbers, Numbers],
    *,
    group: NDArray[np.int64],
    groups: int,
) -> list[Numbers]:
    """Return the coefficients without each group of rows, by one Newton step from those of all rows."""
    coefficients, hessian = fitted
    without = []
    for number in range(groups):
        _, gradient, part = derivatives(
            design, outcome, weight, coefficients, np.flatnonzero(group == number)
        )
        without.append(coefficients - solved(hessian - part, gradient))
    return without


def derivatives(
    design: Matrix,
    outcome: NDArray[np.bool_],
    weight: Numbers,
    coefficients: Numbers,
    which: NDArray[np.int64],
) -> tuple[float, Numbers, Numbers]:
    """Return log-likelihood, gradient and negative Hessian of some rows, without the penalty."""
    likelihood = 0.0
    gradient = np.zeros(len(coefficients))
    hessian = np.zeros((len(coefficients), len(coefficients)))
    for rows in _blocks(which):
        matrix = design.rows(rows)
        probability = probabilities(matrix @ coefficients)
        likelihood += float(weight[rows] @ np.log(np.where(outcome[rows], probability, 1 - probability)))
        gradient += matrix.T @ (weight[rows] * (outcome[rows] - probability))
        hessian += (matrix * (weight[rows] * probability * (1 - probability))[:, None]).T @ matrix
    return likelihood, gradient, hessian


def probabilities(log_odds: Numbers) -> Numbers:
    """Return the probabilities of log-odds."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -_FARTHEST, _FARTHEST))))


def solved(matrix: Numbers, right: Numbers) -> Numbers:
    """Solve linear equations; return the solution of least norm if there are several."""
    # Collinear columns make the matrix singular.
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def _blocks(which: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(which), _TOGETHER):
        yield which[start : start + _TOGETHER]
