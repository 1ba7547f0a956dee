"""Bars of how many touchpoints conversions had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import look
from attrib_ds.plots.arguments import numbers, require_count, require_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COLUMNS: Final = ("length", "conversions")


def lengths(lengths: pd.DataFrame, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw how many conversions had how many touchpoints.

    Parameters
    ----------
    lengths : DataFrame
        As ``Paths.lengths()`` returns it: ``length`` (0: no touchpoint), ``conversions``.
    most : int, default 20
        Lengths from here on share the last bar.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        One bar per length from the left, also where no conversion has it; that of 0 is grey.

    Raises
    ------
    InvalidRequest
        If a column is missing or no number, a length is missing or below 0, or ``most`` is not a whole
        number from 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"length": [1, 3], "conversions": [5.0, 2.0]})
    >>> [int(bar.get_height()) for bar in lengths(frame, ax=Figure().subplots()).patches]
    [0, 5, 0, 2]
    """
    require_frame("lengths", lengths, COLUMNS)
    require_count("most", most)
    counted = numbers("lengths", lengths, "conversions")
    length = numbers("lengths", lengths, "length")
    wrong = length[~(length >= 0)]
    if len(wrong):
        raise InvalidRequest(
            f"lengths: column 'length' holds {wrong.iloc[0]:g}; allowed: touchpoints from 0", field="lengths"
        )
    by_length = counted.groupby(length.clip(upper=most).astype("int64")).sum()
    longest = int(by_length.index.max()) if len(by_length) else 0
    heights = by_length.reindex(range(longest + 1), fill_value=0.0).to_numpy()

    ax = look.axes_of(ax, width=7.5, height=3.8)
    look.dress(ax, title="Conversions by number of touchpoints", grid="y")
    ax.set_ylabel("conversions")
    ax.set_xlabel("touchpoints in the lookback")
    if not heights.sum():
        look.say_empty(ax, "no conversions")
        return ax
    places = range(longest + 1)
    ax.bar(places, heights, width=0.75, color=[look.GREY, *([look.tones(ax).colours[0]] * longest)])
    labels = [str(place) for place in places]
    if (length > most).any():
        labels[-1] = f"{most}+"
    look.write_thousands(ax.yaxis)
    look.settle(ax)
    look.write_thinned(ax, labels)
    return ax
