"""Line chart of the held-out log-likelihood of Markov chains by order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

_COLUMNS = ("order", "held_out", "behind", "behind_error", "is_best", "is_parsimonious")


def orders(compared: Frame, *, ax: Axes | None = None) -> Axes:
    """Draw the held-out log-likelihood of Markov chains by order, relative to the best.

    Parameters
    ----------
    compared : DataFrame
        As ``compare_orders`` returns it.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One point per order: held-out log-likelihood per path minus that of the best order, with one standard
        error to either side. The lowest order whose error bar reaches 0 is filled and labelled.

    Raises
    ------
    InvalidRequest
        If a column is missing.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"order": [1, 2, 3], "held_out": [-9.0, -8.0, -8.3], "behind": [1.0, 0.0, 0.3],
    ...     "behind_error": [0.1, 0.0, 0.1], "is_best": [False, True, False],
    ...     "is_parsimonious": [False, True, False]})
    >>> at.plots.orders(frame, ax=Figure().subplots()).get_xlabel()
    'order: touchpoints that the next step depends on'
    """
    compared = read_frame("compared", compared, _COLUMNS)
    ax = style.axes_or_new(ax, width=6.2, height=4.2)
    style.format_axes(ax, title="Markov chains by order, on held-out users", grid="y")
    ax.set_xlabel("order: touchpoints that the next step depends on")
    ax.set_ylabel("log-likelihood per path minus the best")
    if compared.empty:
        style.write_empty(ax, "nothing to compare")
        return ax
    order, behind, error = (
        numbers("compared", compared, name).to_numpy() for name in ("order", "behind", "behind_error")
    )
    chosen = compared["is_parsimonious"].to_numpy(dtype=bool)
    ax.axhline(0.0, color=style.palette(ax).muted, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1.2)
    ax.plot(order, -behind, color=style.palette(ax).colours[0], linewidth=1.4, zorder=2)
    ax.vlines(
        order, -behind - error, -behind + error, color=style.palette(ax).colours[0], linewidth=1.6, zorder=2
    )
    for is_filled in (False, True):
        group = chosen == is_filled
        ax.plot(
            order[group],
            -behind[group],
            linestyle="none",
            marker="o",
            markersize=7.0 if is_filled else 6.0,
            color=style.palette(ax).colours[0],
            markerfacecolor=style.palette(ax).colours[0] if is_filled else style.palette(ax).background,
            markeredgewidth=1.4,
            zorder=3,
        )
    for best, height in zip(order[chosen][:1], -behind[chosen][:1], strict=True):
        label = ax.annotate(
            f"order {best:g}",
            (best, height),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize="small",
            color=style.palette(ax).text,
        )
        style.outline(label, ax)
    ax.set_xticks(np.sort(order))
    ax.set_xlim(order.min() - 0.5, order.max() + 0.5)
    ax.margins(y=0.18)
    return ax
