"""Scale effects from the users who were observed to all users."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import pandas as pd

#: A share of users, or a share and its standard error.
ObservedShare = float | tuple[float, float]


def check_observed_share(given: Any) -> tuple[float, float]:
    """Return a share and its standard error, 0 if none is given.

    Raises
    ------
    InvalidRequest
        If the share is not above 0 and at most 1, or the error is not between 0 and the share.
    """
    pair = tuple(given) if isinstance(given, tuple | list) else (given, 0.0)
    are_numbers = all(
        isinstance(each, int | float | np.number) and not isinstance(each, bool) for each in pair
    )
    if not (len(pair) == 2 and are_numbers and 0 < pair[0] <= 1 and 0 <= pair[1] < pair[0]):
        raise InvalidRequest(
            f"observed_share: {given!r} is not allowed; allowed: a number above 0 and at most 1, or such a "
            "number and its standard error, as in (0.7, 0.02)",
            field="observed_share",
        )
    return float(pair[0]), float(pair[1])


def scale_levels(
    effects: pd.DataFrame,
    observed_share: tuple[float, float],
    levels: list[tuple[str, str, str]],
    *,
    confidence: float,
) -> pd.DataFrame:
    """Divide estimates by the share of users observed, and widen their bounds by its error (delta method).

    Parameters
    ----------
    effects : DataFrame
        Effects of the observed users.
    observed_share : tuple of float
        Share of users observed, and its standard error.
    levels : list of (str, str, str)
        Columns with an estimate, its lower and its upper bound.
    confidence : float
        Level of the bounds.
    """
    share, error = observed_share
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    scaled = effects.copy()
    for estimate, low, high in levels:
        level = effects[estimate] / share
        of_share = reach * level * error / share
        scaled[estimate] = level
        scaled[low] = level - np.hypot((effects[estimate] - effects[low]) / share, of_share)
        scaled[high] = level + np.hypot((effects[high] - effects[estimate]) / share, of_share)
    return scaled
