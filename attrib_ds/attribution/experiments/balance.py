"""Balance of a holdout: whether its groups were alike before the experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import chi2

from attrib_ds.errors import HoldoutWarning, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]

#: Significance level of the warning, for all nodes together.
_LEVEL: Final = 0.001
#: A column is tested if at least this many users of the smaller group are expected to differ from most
#: others: with fewer, differences are not normal.
_FEW: Final = 10


@dataclass(frozen=True, eq=False)
class Balance:
    """Differences of users before an experiment.

    Attributes
    ----------
    difference : float array, shape (n_columns,)
        Standardised difference of each column: that of the means of withheld and other users, divided by the
        root of the mean of both variances; null if it was not tested.
    probability : float
        Probability of differences this large by chance, of all columns together (Wald test); 1 without any.
    """

    difference: Numbers
    probability: float


def balance(columns: Numbers, is_withheld: Flags) -> Balance:
    """Compare withheld users with the others by what is known of them from before an experiment.

    Parameters
    ----------
    columns : float array, shape (n_users, n_columns)
        Outcomes, touchpoints and covariates of users from before the experiment.
    is_withheld : bool array, shape (n_users,)
        Users from whom the node was withheld.
    """
    difference = np.full(columns.shape[1], np.nan)
    smaller = min(int(is_withheld.sum()), int((~is_withheld).sum()))
    unusual = (columns != np.median(columns, axis=0)).mean(axis=0) if columns.size else difference
    tested = np.flatnonzero(unusual * smaller >= _FEW)
    if not len(tested):
        return Balance(difference, 1.0)
    groups = columns[is_withheld][:, tested], columns[~is_withheld][:, tested]
    distance = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    covariances = [np.atleast_2d(np.cov(group, rowvar=False)) for group in groups]
    spread = np.sqrt(np.maximum((np.diag(covariances[0]) + np.diag(covariances[1])) / 2, 1e-300))
    # Columns may be collinear, such as those of the values of one category.
    scaled = sum(
        covariance / len(group) for covariance, group in zip(covariances, groups, strict=True)
    ) / np.outer(spread, spread)
    values, vectors = np.linalg.eigh(scaled)
    is_own = values > 1e-9 * values[-1]
    projected = (distance / spread) @ vectors[:, is_own]
    statistic = float((projected**2 / values[is_own]).sum())
    difference[tested] = distance / spread
    return Balance(difference, float(chi2.sf(statistic, int(is_own.sum()))))


def warn_of_imbalance(found: dict[str, Balance], names: Sequence[str]) -> None:
    """Warn of nodes whose groups differed before the experiment by more than chance explains."""
    uneven = []
    for node, result in found.items():
        if result.probability * len(found) < _LEVEL:
            worst = int(np.nanargmax(np.abs(result.difference)))
            uneven.append(f"{node} ({names[worst]}: {result.difference[worst]:+.2f} standard deviations)")
    if uneven:
        warn(
            "withheld users differed from the others before the experiment by more than chance explains: "
            f"{', '.join(uneven[:10])}{' and others' if len(uneven) > 10 else ''}. So they were not drawn at "
            "random, or since= is later than the beginning, and the effects are biased; check the draw, its "
            "beginning, and that withheld= and participants= list all users, not only those active later",
            HoldoutWarning,
        )
