"""Bar chart of conversions by number of touchpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers, require_count
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("length", "conversions")


def lengths(lengths: Frame, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the number of conversions by number of touchpoints.

    Parameters
    ----------
    lengths : DataFrame
        As ``Paths.lengths()`` returns it: ``length`` (0: no touchpoint), ``conversions``.
    most : int, default 20
        Last bar, which includes all longer paths.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One bar per length from the left, including lengths without conversions; the bar of length 0 is grey.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric, a length is missing or below 0, or ``most`` is not a whole
        number from 1.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"length": [1, 3], "conversions": [5.0, 2.0]})
    >>> [int(bar.get_height()) for bar in at.plots.lengths(frame, ax=Figure().subplots()).patches]
    [0, 5, 0, 2]
    """
    lengths = read_frame("lengths", lengths, COLUMNS)
    require_count("most", most)
    conversions = numbers("lengths", lengths, "conversions")
    length = numbers("lengths", lengths, "length")
    invalid = length[~(length >= 0)]
    if len(invalid):
        raise InvalidRequest(
            f"lengths: column 'length' contains {invalid.iloc[0]:g}; allowed: touchpoints from 0",
            field="lengths",
        )
    by_length = conversions.groupby(length.clip(upper=most).astype("int64")).sum()
    longest = int(by_length.index.max()) if len(by_length) else 0
    heights = by_length.reindex(range(longest + 1), fill_value=0.0).to_numpy()

    ax = style.axes_or_new(ax, width=7.5, height=3.8)
    style.format_axes(ax, title="Conversions by number of touchpoints", grid="y")
    ax.set_ylabel("conversions")
    ax.set_xlabel("touchpoints in the lookback")
    if not heights.sum():
        style.write_empty(ax, "no conversions")
        return ax
    positions = range(longest + 1)
    ax.bar(positions, heights, width=0.75, color=[style.GREY, *([style.palette(ax).colours[0]] * longest)])
    labels = [str(position) for position in positions]
    if (length > most).any():
        labels[-1] = f"{most}+"
    style.format_thousands(ax.yaxis)
    style.apply_layout(ax)
    style.label_ticks(ax, labels)
    return ax
