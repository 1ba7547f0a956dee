"""Heat map of insights by group and seasonal interval, such as day of week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.plots import style
from attrib_ds.plots.arguments import require_choice, require_count
from attrib_ds.plots.insight_rows import VALUES, table_of_groups
from attrib_ds.plots.interval_labels import SEASONS, season_of
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("group", "interval", "sessionCount", "hitCount", "durationSum")


def seasonality(
    insights: Frame,
    *,
    value: str = "sessionCount",
    interval: str | None = None,
    top: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw insights over a seasonal interval as a heat map of groups by labels.

    Parameters
    ----------
    insights : DataFrame
        As ``interaction_insights`` returns it with a seasonal interval: ``group`` (null: none),
        ``interval``, ``sessionCount``, ``hitCount``, ``durationSum`` (seconds).
    value : {"sessionCount", "hitCount", "durationSum"}, default "sessionCount"
        The colour of a cell.
    interval : str, optional
        Seasonal interval of the insights, such as ``"dayOfWeek"``; sets the name and the full range of the
        axis. Without it, labels that are exactly 1 to 7 are taken as weekdays.
    top : int, default 15
        Maximum number of groups with their own row, largest first; the rest is summed into one row.
    ax : Axes, optional
        Axes to draw on, which the colour bar makes smaller; a new figure by default.

    Returns
    -------
    Axes
        Seasonal labels from left to right, groups from top to bottom; a cell without a record counts
        as 0.

    Raises
    ------
    InvalidRequest
        If a column is missing, a label is not seasonal or outside ``interval``, or ``value``,
        ``interval`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"group": None, "interval": ["1", "7"], "sessionCount": [4, 2],
    ...                       "hitCount": [9, 3], "durationSum": [60.0, 5.0]})
    >>> axes = at.plots.seasonality(frame, interval="dayOfWeek", ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
    """
    insights = read_frame("insights", insights, COLUMNS)
    require_choice("value", value, VALUES)
    require_count("top", top)
    if interval is not None:
        require_choice("interval", interval, SEASONS)
    table = table_of_groups(insights, value, top=top)
    season, names = season_of(list(table.columns), interval) if len(table) else ([], [])

    ax = style.axes_or_new(ax, width=9.0, height=1.5 + 0.3 * max(len(table), 2))
    title = VALUES[value].partition(" (")[0]
    name = _words(interval) if interval else ("day of week" if names[:1] == ["Mon"] else "interval")
    style.format_axes(ax, title=f"{title.capitalize()} by {name}", grid=None)
    ax.set_xlabel(name)
    if table.empty:
        style.write_empty(ax, f"no {title}")
        return ax
    cells = table.reindex(columns=season, fill_value=0.0).to_numpy()
    # The sum of the rest may dwarf every group, so it does not set the colour range.
    low, high = min(cells[:top].min(), 0.0), cells[:top].max()
    image = ax.imshow(cells, aspect="auto", cmap="cividis", vmin=low, vmax=high, interpolation="nearest")
    extend = "max" if cells.max() > high else "neither"
    bar = ax.figure.colorbar(image, ax=ax, label=VALUES[value], pad=0.02, extend=extend)
    bar.ax.yaxis.label.set_color(style.palette(ax).text)
    bar.outline.set_visible(False)
    style.format_thousands(bar.ax.yaxis)
    bar.ax.tick_params(color=style.palette(ax).muted, labelcolor=style.palette(ax).text, labelsize="small")
    labels = [str(label) for label in table.index] if any(table.index) else [""]
    ax.set_yticks(range(len(labels)), labels=labels, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.spines[:].set_visible(False)
    style.apply_layout(ax)
    style.label_ticks(ax, names)
    return ax


def _words(interval: str) -> str:
    """Return ``day of week`` for ``dayOfWeek``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in interval)
