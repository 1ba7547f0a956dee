"""Funnel chart of events by state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers
from attrib_ds.plots.labels import distinct
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

PREFIX: Final = "values."
#: Prefix of metrics that are a mean time, not a number of events.
_DELAY: Final = "state-delay-"


def funnel(insights: Frame, *, steps: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the number of events and of those that reached each state.

    Parameters
    ----------
    insights : DataFrame
        As ``event_insights`` returns it for ``"event-count"`` and states; its rows are summed.
    steps : sequence of str, optional
        Metrics in the order of the funnel; by default all counts, in the order of the columns.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One bar per step from top to bottom, with its number of events and its share of the first and of the
        previous step.

    Raises
    ------
    InvalidRequest
        If a step is not a metric of the frame, or there are no steps.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"values.event-count": [80.0, 20.0], "values.won": [20.0, 5.0]})
    >>> [int(bar.get_width()) for bar in at.plots.funnel(frame, ax=Figure().subplots()).patches]
    [100, 25]
    """
    insights = read_frame("insights", insights)
    metrics = [name.removeprefix(PREFIX) for name in insights.columns if str(name).startswith(PREFIX)]
    chosen = [name for name in metrics if not name.startswith(_DELAY)] if steps is None else list(steps)
    for step in chosen:
        if step not in metrics:
            raise InvalidRequest.choice("steps", step, metrics)
    if not chosen:
        raise InvalidRequest("steps: at least one metric of events is required", field="steps")
    counts = [float(numbers("insights", insights, f"{PREFIX}{step}").sum()) for step in chosen]

    ax = style.axes_or_new(ax, width=7.5, height=1.2 + 0.55 * len(chosen))
    style.format_axes(ax, title="Events that reached each state", grid="x", lift=10)
    ax.set_xlabel("events")
    positions = range(len(chosen))
    ax.barh(positions, counts, color=style.palette(ax).colours[0], height=0.62)
    names = distinct({step: "events" if step == "event-count" else step for step in chosen})
    ax.set_yticks(positions, labels=[names[step] for step in chosen], parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(0, max(*counts, 1.0) * 1.45)
    for position, count in enumerate(counts):
        ax.annotate(
            _note(counts, position),
            (count, position),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=style.palette(ax).text,
        )
    style.format_thousands(ax.xaxis)
    style.apply_layout(ax)
    return ax


def _note(counts: Sequence[float], position: int) -> str:
    """Return the number of events of a step with its shares of the first and of the previous step."""
    shares = []
    if position and counts[0]:
        shares.append(f"{counts[position] / counts[0]:.1%} of all")
    if position > 1 and counts[position - 1]:
        shares.append(f"{counts[position] / counts[position - 1]:.1%} of the previous step")
    note = style.format_number(counts[position])
    return f"{note}  ({', '.join(shares)})" if shares else note
