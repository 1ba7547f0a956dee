"""The demand curve of the shop over six months, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sample_data.columns import Seconds

#: 1 January 2025, a Wednesday, in seconds since 1970.
OPENING = 1_735_689_600
DAYS = 181
DAY = 86_400
CLOSING = OPENING + DAYS * DAY

_WEEKDAYS = np.array([1.10, 1.05, 0.98, 0.96, 0.86, 0.90, 1.18])  # Monday to Sunday
_HOURS = np.array(
    [1.6, 0.8, 0.5, 0.4, 0.5, 1.0, 2.0, 3.4, 4.3, 4.8, 5.0, 5.2,
     5.4, 4.9, 4.6, 4.6, 4.9, 5.4, 6.3, 7.4, 7.8, 6.6, 4.6, 2.9]
)  # fmt: skip


def instants(positions: npt.NDArray[np.float64]) -> Seconds:
    """Return the instants at which the cumulative demand reaches given fractions.

    Uniformly distributed positions give instants that follow week, hour, season and growth.

    Parameters
    ----------
    positions : array of float
        In [0, 1).

    Returns
    -------
    array of int64
        Whole seconds since 1970.

    Examples
    --------
    >>> bool(instants(np.array([0.0]))[0] == OPENING)
    True
    """
    hourly = np.outer(_daily(), _HOURS).ravel()
    cumulative = np.concatenate([[0.0], np.cumsum(hourly) / hourly.sum()])
    edges = np.arange(len(cumulative)) * 3600.0
    seconds: Seconds = np.floor(np.interp(positions, cumulative, edges)).astype(np.int64)
    return OPENING + seconds


def day_index(seconds: Seconds) -> Seconds:
    """Return the number of days since 1 January 2025.

    Examples
    --------
    >>> day_index(np.array([OPENING + DAY])).tolist()
    [1]
    """
    return (seconds - OPENING) // DAY


def weekday(seconds: Seconds) -> Seconds:
    """Return the day of the week, 0 for Monday.

    Examples
    --------
    >>> weekday(np.array([OPENING])).tolist()
    [2]
    """
    return (day_index(seconds) + 2) % 7


def hour(seconds: Seconds) -> Seconds:
    """Return the hour of the day, 0 to 23.

    Examples
    --------
    >>> hour(np.array([OPENING + 7_200])).tolist()
    [2]
    """
    return seconds % DAY // 3600


def _daily() -> npt.NDArray[np.float64]:
    days = np.arange(DAYS)
    growth = 0.75 + 0.75 / (1.0 + np.exp(-(days - 85) / 14.0))  # the hiking season opens in late March
    sale = np.where((days >= 76) & (days < 97), 1.25, 1.0)  # spring sale, 18 March to 7 April
    summer = np.where(days >= 151, 0.93, 1.0)
    daily: npt.NDArray[np.float64] = growth * sale * summer * _WEEKDAYS[(days + 2) % 7]
    return daily
