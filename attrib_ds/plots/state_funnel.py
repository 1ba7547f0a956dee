"""Bars of how many events reached each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import look
from attrib_ds.plots.arguments import numbers, require_frame
from attrib_ds.plots.labels import distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

PREFIX: Final = "values."
#: Metrics that are a mean time and no number of events.
_DELAY: Final = "state-delay-"


def funnel(insights: pd.DataFrame, *, steps: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw how many events there were, and how many of them reached each state.

    Parameters
    ----------
    insights : DataFrame
        As ``event_insights`` returns it for ``"event-count"`` and states; its rows are summed.
    steps : sequence of str, optional
        Metrics in the order in which events go through them; by default all that are counts, in the order of
        the columns.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        One bar per step from above, with its number of events, its share of the first step and that of the
        step before.

    Raises
    ------
    InvalidRequest
        If a step is no metric of the frame, or there is none.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"values.event-count": [80.0, 20.0], "values.won": [20.0, 5.0]})
    >>> [int(bar.get_width()) for bar in funnel(frame, ax=Figure().subplots()).patches]
    [100, 25]
    """
    require_frame("insights", insights, ())
    known = [name.removeprefix(PREFIX) for name in insights.columns if str(name).startswith(PREFIX)]
    chosen = [name for name in known if not name.startswith(_DELAY)] if steps is None else list(steps)
    for step in chosen:
        if step not in known:
            raise InvalidRequest.choice("steps", step, known)
    if not chosen:
        raise InvalidRequest("steps: there is none; needed: at least one metric of events", field="steps")
    counted = [float(numbers("insights", insights, f"{PREFIX}{step}").sum()) for step in chosen]

    ax = look.axes_of(ax, width=7.5, height=1.2 + 0.55 * len(chosen))
    look.dress(ax, title="Events that reached each state", grid="x", lift=10)
    ax.set_xlabel("events")
    places = range(len(chosen))
    ax.barh(places, counted, color=look.tones(ax).colours[0], height=0.62)
    names = distinct({step: "events" if step == "event-count" else step for step in chosen})
    ax.set_yticks(places, labels=[names[step] for step in chosen], parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(0, max(*counted, 1.0) * 1.45)
    for place, number in enumerate(counted):
        ax.annotate(
            _note(counted, place),
            (number, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=look.tones(ax).ink,
        )
    look.write_thousands(ax.xaxis)
    look.settle(ax)
    return ax


def _note(counted: Sequence[float], place: int) -> str:
    """Write a number of events, and how many that is of all and of the step before."""
    shares = []
    if place and counted[0]:
        shares.append(f"{counted[place] / counted[0]:.1%} of all")
    if place > 1 and counted[place - 1]:
        shares.append(f"{counted[place] / counted[place - 1]:.1%} of the step before")
    note = look.number(counted[place])
    return f"{note}  ({', '.join(shares)})" if shares else note
