"""Lines of the shares that converted over the chances that models gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from attrib_ds.plots import look
from attrib_ds.plots.arguments import numbers, require_frame
from attrib_ds.plots.labels import distinct

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_COLUMNS = ("model", "unit", "trials", "expected", "observed", "observed_low", "observed_high")
#: Chances farther apart than this have a logarithmic axis.
_WIDE = 10.0
#: How far apart the bars of models stand, as a share of the axis.
_APART = 0.006


def calibration(compared: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw what share converted over the chance that models gave beforehand.

    Parameters
    ----------
    compared : DataFrame
        As ``compare_calibration`` returns it.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        One line per model with 95 % intervals; on the grey diagonal chances are right. A line that is flatter
        than it comes from chances that are too far apart. Both axes are logarithmic where chances differ by
        more than ten times.

    Raises
    ------
    InvalidRequest
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "markov", "unit": "path", "trials": [50.0, 50.0],
    ...     "expected": [0.1, 0.4], "observed": [0.08, 0.46], "observed_low": [0.02, 0.32],
    ...     "observed_high": [0.19, 0.61]})
    >>> calibration(frame, ax=Figure().subplots()).get_xlabel()
    'chance of a path to convert, by the model (%)'
    """
    require_frame("compared", compared, _COLUMNS)
    ax = look.axes_of(ax, width=6.2, height=5.6)
    look.dress(ax, title="Shares that converted, by the chance they had", grid="both")
    units = " or a ".join(sorted(set(compared["unit"]))) or "path"
    ax.set_xlabel(f"chance of a {units} to convert, by the model (%)")
    ax.set_ylabel("share that converted (%)")
    if compared.empty:
        look.say_empty(ax, "nothing to compare")
        return ax
    shown = compared.assign(**{name: numbers("compared", compared, name) for name in _COLUMNS[2:]})
    bounds = _scale(ax, shown)
    ax.plot(bounds, bounds, color=look.tones(ax).muted, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1.2)
    models = list(dict.fromkeys(shown["model"]))
    handles = []
    for place, model in enumerate(models):
        # Bars of models that agree would hide each other.
        aside = (place - (len(models) - 1) / 2) * _APART
        handles.append(_draw_line(ax, shown[shown["model"] == model], place, aside, bounds))
    look.write_percent(ax.xaxis)
    look.write_percent(ax.yaxis)
    names = distinct({str(model): str(model) for model in models}, width=30)
    look.draw_legend(ax, handles, list(names.values()))
    return ax


def _scale(ax: Axes, shown: pd.DataFrame) -> tuple[float, float]:
    """Give both axes the same scale, with room for every point and interval, and return its bounds."""
    expected, observed = shown["expected"], shown["observed"]
    least = float(min(expected.min(), observed.where(observed > 0).min(skipna=True)))
    most = float(max(expected.max(), shown["observed_high"].max()))
    if expected.max() > _WIDE * expected.min() and least > 0:
        low, high = least / 1.6, min(most * 1.3, 1.0)
        for axis, set_scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            set_scale("log")
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_locator(NullLocator())
    else:
        low, high = 0.0, min(most * 1.08, 1.0)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal", adjustable="box")
    return low, high


def _draw_line(ax: Axes, rows: pd.DataFrame, place: int, aside: float, bounds: tuple[float, float]) -> Line2D:
    low, high = bounds
    expected = rows["expected"].to_numpy()
    # A little to the side, by the same distance on the paper wherever it is.
    at = expected * (high / low) ** aside if ax.get_xscale() == "log" else expected + aside * (high - low)
    tones = look.tones(ax)
    colour = tones.colours[place % len(tones.colours)]
    marker, size = look.MARKERS[place % len(look.MARKERS)]
    lower, upper = (rows[name].clip(lower=low).to_numpy() for name in ("observed_low", "observed_high"))
    ax.vlines(at, lower, upper, color=colour, linewidth=1.2, alpha=0.55, zorder=2)
    (handle,) = ax.plot(
        at,
        np.maximum(rows["observed"].to_numpy(), low),
        color=colour,
        linewidth=1.4,
        marker=marker,
        markersize=size,
        markeredgecolor=tones.ground,
        markeredgewidth=0.5,
        zorder=3,
    )
    return handle
