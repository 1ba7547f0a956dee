"""Line chart of insights over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.plots import interval_lines, style
from attrib_ds.plots.arguments import require_choice, require_count
from attrib_ds.plots.insight_rows import OTHER, VALUES, rows_of_events, table_of_groups
from attrib_ds.plots.interval_labels import complete
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("group", "interval", "sessionCount", "hitCount", "durationSum")


def insights(insights: Frame, *, value: str | None = None, top: int = 8, ax: Axes | None = None) -> Axes:
    """Draw insights over an interval as one line per group.

    Parameters
    ----------
    insights : DataFrame
        As ``interaction_insights`` returns it with an interval: ``group`` (null: none), ``interval``,
        ``sessionCount``, ``hitCount``, ``durationSum`` (seconds); or as ``event_insights`` does:
        ``identifier``, ``interval``, ``values.<metric>``.
    value : str, optional
        Column to draw: ``"sessionCount"`` (default), ``"hitCount"`` or ``"durationSum"``; for events, a
        metric, by default the first.
    top : int, default 8
        Maximum number of groups with their own line, largest first; the rest is summed into one grey line.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Intervals in order from left to right. An interval without a record counts as 0, including intervals
        between the first and the last that no group has. Partial intervals (column ``is_partial``) have
        hollow markers, and a note below names them.

    Raises
    ------
    InvalidRequest
        If a column is missing, every interval is null, or ``value`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"group": None, "interval": ["2025-03", "2025-01"], "sessionCount": [4, 2],
    ...                       "hitCount": [9, 3], "durationSum": [60.0, 5.0]})
    >>> axes = at.plots.insights(frame, ax=Figure().subplots())
    >>> [float(height) for height in axes.get_lines()[0].get_ydata()]
    [2.0, 0.0, 4.0]
    """
    require_count("top", top)
    insights = read_frame("insights", insights)
    if "identifier" in insights.columns:
        insights, labels = rows_of_events(insights)
    else:
        insights, labels = read_frame("insights", insights, COLUMNS), VALUES
    value = next(iter(labels), "") if value is None else value
    require_choice("value", value, labels)
    table = table_of_groups(insights, value, top=top)

    ax = style.axes_or_new(ax, width=9.0, height=4.2)
    has_groups = len(table) > 1
    title = labels[value].partition(" (")[0]
    title = title[:1].upper() + title[1:]
    style.format_axes(ax, title=f"{title} per interval{' and group' if has_groups else ''}", grid="y")
    ax.set_ylabel(labels[value])
    if table.empty:
        ax.set_xlabel("interval")
        style.write_empty(ax, f"no {title.lower()}")
        return ax
    intervals = complete(list(table.columns))
    table = table.reindex(columns=intervals, fill_value=0.0)
    kinds = [
        interval_lines.OTHER
        if has_groups and rank == top and str(label).startswith(OTHER)
        else interval_lines.GROUP
        for rank, label in enumerate(table.index)
    ]
    partial = interval_lines.partial_intervals(insights, "interval")
    handles = interval_lines.draw_lines(ax, table, kinds, partial=partial, xlabel="interval")
    style.format_thousands(ax.yaxis)
    if table.to_numpy().min() >= 0:
        ax.set_ylim(bottom=0)
    if has_groups or table.index[0]:
        style.draw_legend(ax, handles, [str(label) for label in table.index])
    style.apply_layout(ax)
    style.label_ticks(ax, intervals)
    return ax
