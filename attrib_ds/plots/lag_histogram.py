"""Histogram of the time from a touch to the conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.ticker import MaxNLocator

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("event_id", "conversions", "first_lag_days", "last_lag_days")
_HOUR: Final = 1 / 24
_MINUTE: Final = _HOUR / 60
# Ticks for lags over several orders of magnitude, and finer ones if fewer than four of these fit.
_COARSE: Final = (_MINUTE, 10 * _MINUTE, _HOUR, 6 * _HOUR, 1.0, 7.0, 30.0, 90.0, 365.0, 1825.0)
_FINE: Final = (
    *(factor * _MINUTE for factor in (1, 2, 5, 10, 20, 30)),
    *(factor * _HOUR for factor in (1, 2, 3, 6, 12)),
    *(1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 21.0, 30.0, 45.0, 60.0, 90.0, 180.0, 365.0, 730.0, 1825.0),
)
_BINS: Final = 30


def lags(lags: Frame, *, ax: Axes | None = None) -> Axes:
    """Draw the time from the first and from the last touch to the conversion.

    Parameters
    ----------
    lags : DataFrame
        As ``Paths.lags()`` returns it, one row per conversion: ``event_id``, ``conversions`` (weight),
        ``first_lag_days``, ``last_lag_days`` (days; null for a conversion without a touch).
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Two step histograms of weighted conversions over logarithmic bins from one minute (shorter lags are in
        the first bin) to the longest lag; dashed lines mark the weighted medians. The number of conversions
        without a touch is below the axis.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric, or a lag is negative.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"event_id": ["e1", "e2", "e3"], "conversions": 1.0,
    ...                       "first_lag_days": [8.0, 2.0, None], "last_lag_days": [1.0, 2.0, None]})
    >>> axes = at.plots.lags(frame, ax=Figure().subplots())
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['first touch (median 5.0 days)', 'last touch (median 1.5 days)']
    """
    lags = read_frame("lags", lags, COLUMNS)
    weights = numbers("lags", lags, "conversions").fillna(0.0).to_numpy()
    first = numbers("lags", lags, "first_lag_days").to_numpy()
    last = numbers("lags", lags, "last_lag_days").to_numpy()
    for column, days in (("first_lag_days", first), ("last_lag_days", last)):
        if (days < 0).any():
            raise InvalidRequest(
                f"lags: column {column!r} contains {np.nanmin(days)}; allowed: days from 0", field="lags"
            )

    ax = style.axes_or_new(ax, width=8.0, height=4.2)
    style.format_axes(ax, title="Time from first and last touch to conversion", grid="y", lift=26.0)
    ax.set_ylabel("conversions per bar")
    untouched = float(weights[np.isnan(first) | np.isnan(last)].sum())
    note = f"\n{style.format_count(untouched, 'conversion')} without a touch not drawn" if untouched else ""
    ax.set_xlabel(f"time to conversion (log scale){note}")
    touched = ~(np.isnan(first) | np.isnan(last))
    if not touched.any():
        style.write_empty(ax, "no conversions with a touch" if len(lags) else "no credited conversions")
        return ax
    weights, first, last = weights[touched], first[touched], last[touched]
    edges = _bin_edges(np.concatenate([first, last]))
    ax.set_xscale("log")
    handles, names = [], []
    for name, days, colour, dashes in (
        ("first touch", first, style.palette(ax).colours[0], (0, (6, 3))),
        ("last touch", last, style.palette(ax).colours[3], (0, (2, 2))),
    ):
        heights, _ = np.histogram(np.clip(days, edges[0], edges[-1]), bins=edges, weights=weights)
        ax.stairs(heights, edges, fill=True, color=colour, alpha=0.15)
        handles.append(ax.stairs(heights, edges, color=colour, linewidth=1.8))
        median = _weighted_median(days, weights)
        ax.axvline(max(median, edges[0]), color=colour, linestyle=dashes, linewidth=1.4)
        names.append(f"{name} (median {_duration(median)})")
    ax.set_xlim(edges[0], edges[-1])
    if min(heights.min(), 0) == 0:
        ax.set_ylim(bottom=0)
    ax.set_xticks(*_ticks(edges[0], edges[-1], shorter=bool((last < edges[0]).any())))
    ax.minorticks_off()
    style.format_thousands(ax.yaxis)
    if (weights == np.round(weights)).all():
        ax.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    style.draw_legend(ax, handles, names, above=True)
    return ax


def _bin_edges(days: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    shortest, longest = max(days.min(), _MINUTE), max(days.max(), _MINUTE)
    if longest < 2 * shortest:
        shortest, longest = max(shortest / 2, _MINUTE), longest * 2
    return np.geomspace(shortest, longest, _BINS + 1)


def _weighted_median(days: npt.NDArray[np.floating], weights: npt.NDArray[np.floating]) -> float:
    """Return the weighted median; the unweighted one if no weight is positive."""
    weights = np.maximum(weights, 0.0)
    if not weights.any():
        return float(np.median(days))
    order = np.argsort(days, kind="stable")
    cumulative = np.cumsum(weights[order])
    low = np.searchsorted(cumulative, cumulative[-1] / 2, side="left")
    high = np.searchsorted(cumulative, cumulative[-1] / 2, side="right")
    # With exactly half the weight on either side: the mean of the two neighbours, as in an unweighted median.
    return float((days[order][low] + days[order][min(high, len(days) - 1)]) / 2)


def _duration(days: float) -> str:
    if days >= 1:
        return f"{days:,.1f} days"
    return f"{days / _HOUR:.1f} hours" if days >= _HOUR else f"{days / _MINUTE:.1f} minutes"


def _ticks(low: float, high: float, *, shorter: bool) -> tuple[list[float], list[str]]:
    # Edges come from logarithms: the tolerance keeps a tick on the edge despite rounding.
    ticks = [tick for tick in _COARSE if low * 0.999 <= tick <= high * 1.001]
    if len(ticks) < 4:
        ticks = [tick for tick in _FINE if low * 0.999 <= tick <= high * 1.001]
    names = [_tick_name(tick) for tick in ticks]
    if shorter and names:
        names[0] = f"≤ {names[0]}"
    return ticks, names


def _tick_name(days: float) -> str:
    for unit, name in ((1.0, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if days >= unit * 0.999:
            return style.format_count(round(days / unit), name)
    return f"{days:g} days"
