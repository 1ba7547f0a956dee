"""Line chart of insights over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.plots import style
from attrib_ds.plots.arguments import require_choice, require_count
from attrib_ds.plots.insight_rows import OTHER, VALUES, rows_of_events, table_of_groups
from attrib_ds.plots.interval_labels import complete
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

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
    ax.set_xlabel("interval")
    if table.empty:
        style.write_empty(ax, f"no {title.lower()}")
        return ax
    intervals = complete(list(table.columns))
    partial = _partial(insights)
    table = table.reindex(columns=intervals, fill_value=0.0)
    positions = range(len(intervals))
    marker = "o" if len(intervals) <= 60 else ""
    colours, handles = style.palette(ax).colours, []
    for rank, (label, heights) in enumerate(table.iterrows()):
        is_rest = has_groups and rank == top and str(label).startswith(OTHER)
        (handle,) = ax.plot(
            positions,
            heights.to_numpy(),
            color=style.GREY if is_rest else colours[rank % len(colours)],
            linestyle="--" if is_rest else ("-", ":", "-.")[rank // len(colours) % 3],
            marker=marker,
            markersize=3.5,
            linewidth=1.6,
        )
        handles.append(handle)
        if partial:
            places = [place for place, interval in enumerate(intervals) if interval in partial]
            _hollow(ax, handle, places, [float(heights.iloc[place]) for place in places])
    if partial:
        ax.set_xlabel(f"interval\nhollow: {', '.join(sorted(partial))}, counted in part only")
    style.format_thousands(ax.yaxis)
    if table.to_numpy().min() >= 0:
        ax.set_ylim(bottom=0)
    if has_groups or table.index[0]:
        style.draw_legend(ax, handles, [str(label) for label in table.index])
    style.apply_layout(ax)
    style.label_ticks(ax, intervals)
    return ax


def _partial(insights: pd.DataFrame) -> set[str]:
    """Return the labels of partial intervals; none if the frame does not mark them."""
    if "is_partial" not in insights.columns:
        return set()
    return set(insights.loc[insights["is_partial"].fillna(False).astype(bool), "interval"].dropna())


def _hollow(ax: Axes, line: Line2D, places: list[int], heights: list[float]) -> None:
    """Draw hollow markers over points of a line."""
    ax.plot(
        places,
        heights,
        linestyle="",
        marker="o",
        markersize=6,
        markerfacecolor=style.palette(ax).background,
        markeredgecolor=line.get_color(),
        markeredgewidth=1.2,
        zorder=line.get_zorder() + 0.5,
    )
