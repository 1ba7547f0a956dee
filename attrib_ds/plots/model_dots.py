"""Dot plot of credit per node and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.plots import style
from attrib_ds.plots.arguments import require_choice, require_count
from attrib_ds.plots.credit_rows import (
    COLUMNS,
    MEASURES,
    NodeRows,
    axis_label,
    empty_message,
    node_rows,
    select_currency,
)
from attrib_ds.plots.labels import distinct
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from attrib_ds.records.input_frames import Frame


def model_comparison(
    credits: Frame,
    *,
    by: str = "share",
    top: int = 15,
    currency: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the credit of each node by model, as dots on one row per node.

    Parameters
    ----------
    credits : DataFrame
        As ``attribute`` returns it for one or more models: ``model``, ``node_id`` (null: unattributed),
        ``node_name``, ``conversions``, ``value``, ``currency``, ``share``.
    by : {"conversions", "value", "share"}, default "share"
        The position of a dot.
    top : int, default 15
        Maximum number of nodes with their own row, largest magnitude in any model first; the rest is summed.
    currency : str, optional
        Keep the rows in this currency only; required with ``by="value"`` when there is more than one.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        From top to bottom: nodes in descending order of the mean over models, "other (n nodes)",
        "unattributed". A grey line spans the models; a model without a row for a node has no dot there.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``by``, ``currency`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": ["first", "first", "last"], "node_id": ["a", "b", "a"],
    ...                       "node_name": ["Ads", "Mail", "Ads"], "conversions": [3.0, 5.0, 8.0],
    ...                       "value": None, "currency": None, "share": [0.375, 0.625, 1.0]})
    >>> axes = at.plots.model_comparison(frame, ax=Figure().subplots())
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['first', 'last']
    """
    credits = read_frame("credits", credits, COLUMNS)
    require_choice("by", by, MEASURES)
    require_count("top", top)
    rows, currency = select_currency(credits, currency, amounts=["value"] if by == "value" else [])
    shown = node_rows(rows, by, top=top)
    models = [str(name) for name in shown.amounts.columns]

    step = 0.3 + 0.02 * len(models)
    ax = style.axes_or_new(ax, width=9.0, height=1.3 + step * max(len(shown.labels), 3))
    style.format_axes(ax, title=f"{MEASURES[by].capitalize()} per node and model", grid="x")
    ax.set_xlabel(axis_label(by, currency))
    if not shown.labels:
        style.write_empty(ax, empty_message(by))
        return ax
    handles = _draw_dots(ax, shown)
    style.draw_legend(ax, handles, list(distinct({model: model for model in models}, width=30).values()))
    if by == "share":
        style.format_percent(ax.xaxis)
    else:
        style.format_thousands(ax.xaxis)
    return ax


def _draw_dots(ax: Axes, shown: NodeRows) -> list[Line2D]:
    positions = np.arange(len(shown.labels))
    amounts = shown.amounts.to_numpy(dtype="float64")
    for position in positions[::2]:
        ax.axhspan(position - 0.5, position + 0.5, color=style.GREY, alpha=0.14, linewidth=0)
    ax.hlines(
        positions,
        np.nanmin(amounts, axis=1),
        np.nanmax(amounts, axis=1),
        color=style.palette(ax).muted,
        linewidth=1.1,
        zorder=1.5,
    )
    models = amounts.shape[1]
    # Each model has its own height within the row, so that models that agree do not hide each other.
    heights = np.linspace(-0.3, 0.3, models) if models > 1 else np.zeros(1)
    handles = []
    for model in range(models):
        marker, size = style.MARKERS[model % len(style.MARKERS)]
        (handle,) = ax.plot(
            amounts[:, model],
            positions + heights[model],
            linestyle="none",
            marker=marker,
            color=style.palette(ax).colours[model % len(style.palette(ax).colours)],
            markersize=size,
            markeredgecolor=style.palette(ax).background,
            markeredgewidth=0.5,
        )
        handles.append(handle)
    ax.set_yticks(positions, labels=list(shown.labels), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(shown.labels) - 0.5, -0.5)
    ax.axvline(0.0, color=style.palette(ax).muted, linewidth=0.8, zorder=1.2)
    if shown.unattributed:
        ax.get_yticklabels()[-1].set_color(style.palette(ax).muted)
    return handles
