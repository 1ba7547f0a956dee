"""Plots of time before the conversion: the histogram of lags, and the timeline of one conversion."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import labels, style
from attrib_ds.records.frames import Frame, read_frame

Numbers = npt.NDArray[np.floating]

LAG_COLUMNS: Final = ("event_id", "conversions", "first_lag_days", "last_lag_days")
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
    ['first touch (median 5 days)', 'last touch (median 1.5 days)']
    """
    lags = read_frame("lags", lags, LAG_COLUMNS)
    weights = style.numbers("lags", lags, "conversions").fillna(0.0).to_numpy()
    first = style.numbers("lags", lags, "first_lag_days").to_numpy()
    last = style.numbers("lags", lags, "last_lag_days").to_numpy()
    for column, days in (("first_lag_days", first), ("last_lag_days", last)):
        if (days < 0).any():
            raise InvalidRequest(f"lags: column {column!r} contains {np.nanmin(days)}; allowed: days from 0")

    title, x = "Time from first and last touch to conversion", "time to conversion (log scale)"
    ax = style.start(ax, (8.0, 4.2), title, grid="y", x=x, y="conversions per bar", lift=26.0)
    touched = ~(np.isnan(first) | np.isnan(last))
    untouched = float(weights[~touched].sum())
    if untouched:
        style.add_note(ax, f"{counted(untouched, 'conversions')} without a touch not drawn")
    if not touched.any():
        return style.write_empty(
            ax, "no conversions with a touch" if len(lags) else "no credited conversions"
        )
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


def _bin_edges(days: Numbers) -> Numbers:
    shortest, longest = max(days.min(), _MINUTE), max(days.max(), _MINUTE)
    if longest < 2 * shortest:
        shortest, longest = max(shortest / 2, _MINUTE), longest * 2
    return np.geomspace(shortest, longest, _BINS + 1)


def _weighted_median(days: Numbers, weights: Numbers) -> float:
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
        return counted(days, "days")
    return counted(days / _HOUR, "hours") if days >= _HOUR else counted(days / _MINUTE, "minutes")


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
            return counted(round(days / unit), f"{name}s")
    return f"{days:g} days"


TOUCH_COLUMNS: Final = ("position", "node_id", "node_name", "age_days", "weight")
#: Height of the largest bar, as a fraction of a node's row; its label is above it.
_MAX_HEIGHT: Final = 0.62
#: The same if there are negative shares, whose bars point down towards the next row.
_MAX_HEIGHT_SIGNED: Final = 0.3
_UNITS: Final = ((1.0, "days"), (1 / 24, "hours"), (1 / 1440, "minutes"))
#: Characters of a small label in a tenth of the width of a plot.
_TENTH: Final = 6


def explanation(explanation: Frame, *, ax: Axes | None = None) -> Axes:
    """Draw the touchpoints of one conversion over time, with their shares of credit.

    Parameters
    ----------
    explanation : DataFrame
        As :func:`attrib_ds.explain` returns it, one row per touchpoint: ``position``, ``node_id``,
        ``node_name``, ``age_days`` (null where paths have no dates), ``weight``.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One row per node, the one touched first on top, with a bar per touchpoint; its height is the
        touchpoint's share of credit. The conversion is at the right end. Shares are labelled, largest first,
        unless labels would overlap; the share of each node is on the right. Bars of negative shares point
        down. Touchpoints without credit are grey marks. The baseline is noted below the axis.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> rows = pd.DataFrame({"position": [1, 2, 3], "node_id": ["search", "email", "search"],
    ...     "node_name": ["Search", "Email", "Search"], "age_days": [9.0, 4.0, 1.0],
    ...     "weight": [0.4, 0.2, 0.4]})
    >>> axes = at.plots.explanation(rows, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Search', 'Email']
    """
    explanation = read_frame("explanation", explanation, TOUCH_COLUMNS)
    rows = explanation.assign(
        age_days=style.numbers("explanation", explanation, "age_days"),
        weight=style.numbers("explanation", explanation, "weight").fillna(0.0),
        position=style.numbers("explanation", explanation, "position"),
    )
    touches = rows[rows["node_id"].notna()].sort_values(["age_days", "position"], ascending=[False, True])
    names = labels.distinct(labels.names_of_nodes(touches))
    has_negative = bool((touches["weight"] < 0).any())
    size = (8.0, 1.5 + (0.8 if has_negative else 0.55) * max(len(names), 2))
    ax = style.start(ax, size, _title(explanation))
    baseline = float(rows.loc[rows["node_id"].isna(), "weight"].sum())
    note = f"{_percent(baseline)} of the conversion is baseline" if round(baseline, 9) else ""
    if touches.empty:
        ax.set_xlabel(note)
        return style.write_empty(ax, "no credited touchpoint")
    positions, name = _positions(touches)
    ax.set_xlabel(name)
    style.add_note(ax, note)
    heights = {node: len(names) - 1 - number for number, node in enumerate(names)}
    base = np.array([heights[node] for node in touches["node_id"]], dtype=np.float64)
    weight = touches["weight"].to_numpy()
    largest = float(np.abs(weight).max()) or 1.0
    tip = base + (_MAX_HEIGHT_SIGNED if has_negative else _MAX_HEIGHT) * weight / largest
    _draw_bars(ax, positions, base, tip, weight)
    _label_shares(ax, positions, base, tip, weight)
    _label_nodes(ax, names, heights, touches)
    if touches["age_days"].notna().all():
        ax.axvline(0.0, color=style.palette(ax).muted, linewidth=1.2)
        ax.set_xlim(1.04 * max(positions.max(), 1e-9), -0.02 * max(positions.max(), 1e-9))
    else:
        ax.set_xlim(0.4, positions.max() + 0.6)
        ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    ax.set_ylim(-0.6 if has_negative else -0.35, len(names) - 1 + (0.6 if has_negative else 0.95))
    return ax


def _title(explanation: pd.DataFrame) -> str:
    """Return the title, with the conversion and the model if they are in the frame's ``attrs``."""
    event, model = (explanation.attrs.get(name) for name in ("event_id", "model"))
    conversion = "the conversion" if event is None else event
    return f"Path to {conversion}{'' if model is None else f', credited by {labels.shorten(str(model))}'}"


def _positions(touches: pd.DataFrame) -> tuple[Numbers, str]:
    """Return the positions of touchpoints on the x axis, and the label of the axis."""
    age = touches["age_days"].to_numpy()
    if np.isnan(age).any():
        return touches["position"].to_numpy(), "touchpoint"
    unit, name = next(((unit, name) for unit, name in _UNITS if age.max() >= 2 * unit), _UNITS[-1])
    return age / unit, f"{name} before the conversion"


def _draw_bars(ax: Axes, positions: Numbers, base: Numbers, tip: Numbers, weight: Numbers) -> None:
    ax.hlines(np.unique(base), 0, 1, transform=ax.get_yaxis_transform(), color=style.GREY, linewidth=0.8)
    colours = style.palette(ax).colours
    for chosen, colour in ((weight > 0, colours[0]), (weight < 0, colours[3])):
        ax.vlines(positions[chosen], base[chosen], tip[chosen], color=colour, linewidth=3.0, alpha=0.85)
        ax.plot(positions[chosen], tip[chosen], "o", color=colour, markersize=4.0)
    is_uncredited = weight == 0
    ax.plot(positions[is_uncredited], base[is_uncredited], "|", color=style.palette(ax).muted, markersize=8.0)


def _label_shares(ax: Axes, positions: Numbers, base: Numbers, tip: Numbers, weight: Numbers) -> None:
    """Label the shares, largest first, without overlaps."""
    character = max(float(np.ptp(positions)), float(positions.max()), 1e-9) / 10 / _TENTH
    labelled: list[tuple[float, float, float]] = []
    for index in np.argsort(-np.abs(weight), kind="stable"):
        text = _percent(weight[index])
        half = character * (len(text) + 1) / 2
        overlaps = any(
            row == base[index] and abs(position - positions[index]) < half + width
            for row, position, width in labelled
        )
        if weight[index] == 0 or overlaps:
            continue
        labelled.append((base[index], positions[index], half))
        is_up = weight[index] > 0
        place = {"ha": "center", "va": "bottom" if is_up else "top", "fontsize": "x-small"}
        label = style.write(ax, text, (positions[index], tip[index]), (0, 4 if is_up else -4), **place)
        # The line of the conversion may cross the label.
        style.outline(label, ax)


def _label_nodes(ax: Axes, names: dict[str, str], heights: dict[str, int], touches: pd.DataFrame) -> None:
    ax.set_yticks([heights[node] for node in names], labels=list(names.values()), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    place = {"xycoords": ax.get_yaxis_transform(), "ha": "left", "va": "center", "annotation_clip": False}
    for node, weights in touches.groupby("node_id")["weight"]:
        note = f" from {len(weights)} touches" if len(weights) > 1 else ""
        style.write(ax, f"{_percent(weights.sum())}{note}", (1.0, heights[str(node)]), (8, 0), **place)


def _percent(share: float) -> str:
    text = f"{100 * share:.0f} %" if abs(share) >= 0.0995 or share == 0 else f"{100 * share:.2g} %"
    return text.replace("-", "\N{MINUS SIGN}")
