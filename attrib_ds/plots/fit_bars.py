"""Bar chart of a statistic of users, observed and drawn from a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("statistic", "value", "observed", "replicated", "low", "high", "distance")


def fit(check: Frame, *, statistic: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the distribution of a statistic among observed users, and among users drawn from a model.

    Parameters
    ----------
    check : DataFrame
        As ``experiments.check_fit`` returns it: ``statistic``, ``value``, ``observed``, ``replicated``,
        ``low``, ``high``, ``distance``.
    statistic : str, optional
        Statistic to draw; the one with the largest distance by default.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One bar per value, of the share of observed users; points show the share according to the model, and
        bars through them where the observed share would be in 95 of 100 samples if the model were true.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric, or there is no such statistic.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"statistic": "touchpoints of users", "value": ["0", "1+"],
    ...     "observed": [0.7, 0.3], "replicated": [0.6, 0.4], "low": [0.5, 0.3], "high": [0.7, 0.5],
    ...     "distance": 0.1})
    >>> axes = at.plots.fit(frame, ax=Figure().subplots())
    >>> [float(bar.get_height()) for bar in axes.patches]
    [0.7, 0.3]
    """
    check = read_frame("check", check, COLUMNS)
    distance = numbers("check", check, "distance")
    names = list(dict.fromkeys(check["statistic"]))
    if statistic is None and names:
        statistic = check["statistic"].iloc[int(np.argmax(distance.fillna(0.0)))]
    if names and statistic not in names:
        raise InvalidRequest.choice("statistic", statistic, names)
    rows = check[check["statistic"] == statistic]
    ax = style.axes_or_new(ax, width=7.5, height=3.8)
    title = f"Users by {statistic}" if names else "Users observed and drawn from the model"
    style.format_axes(ax, title=title, grid="y", lift=24.0)
    ax.set_ylabel("users, %")
    if rows.empty:
        style.write_empty(ax, "no statistics")
        return ax
    observed, replicated, low, high = (
        numbers("check", rows, name).fillna(0.0).to_numpy()
        for name in ("observed", "replicated", "low", "high")
    )
    ax.set_xlabel(
        f"{100 * float(distance.loc[rows.index[0]]):,.0f} % of the users are elsewhere than in the model"
    )
    palette = style.palette(ax)
    positions = np.arange(len(rows))
    bars = ax.bar(positions, observed, width=0.75, color=palette.colours[0])
    points = ax.errorbar(
        positions,
        replicated,
        yerr=np.maximum([replicated - low, high - replicated], 0.0),
        fmt="o",
        color=palette.text,
        markersize=5.0,
        elinewidth=1.8,
        capsize=0.0,
    )
    style.format_percent(ax.yaxis)
    # An error bar is a container of artists, which the legend accepts as one handle.
    handles: list[Any] = [bars, points]
    style.draw_legend(ax, handles, ["observed", "drawn from the model, with 95 % of samples"], above=True)
    style.apply_layout(ax)
    style.label_ticks(ax, rows["value"].astype("str").tolist())
    return ax
