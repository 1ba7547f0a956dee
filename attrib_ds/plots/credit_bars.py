"""Bar chart of credit per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers, require_choice, require_count
from attrib_ds.plots.credit_rows import (
    COLUMNS,
    MEASURES,
    NodeRows,
    axis_label,
    empty_message,
    node_rows,
    select_currency,
    select_model,
)
from attrib_ds.plots.labels import shorten
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame


def credits(
    credits: Frame,
    *,
    by: str = "conversions",
    model: str | None = None,
    currency: str | None = None,
    top: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Draw one model's credit per node as horizontal bars.

    Parameters
    ----------
    credits : DataFrame
        As ``attribute`` returns it: ``model``, ``node_id`` (null: unattributed), ``node_name``,
        ``conversions``, ``value``, ``currency``, ``share``, and perhaps ``low`` and ``high``.
    by : {"conversions", "value", "share"}, default "conversions"
        The length of a bar.
    model : str, optional
        A name in column ``model``; required when there is more than one.
    currency : str, optional
        Keep the rows in this currency only; required with ``by="value"`` when there is more than one, because
        amounts in different currencies are never summed.
    top : int, default 20
        Maximum number of nodes with their own bar, largest magnitude first; the rest is summed into one bar.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        From top to bottom: nodes in descending order of credit, "other (n nodes)", "unattributed". With
        ``by="conversions"`` and columns ``low`` and ``high``, each bar of a node has its interval, which
        shows sampling error, not bias. Value, share and sums (of nodes, or of one node over currencies) have
        no interval, because bounds of conversions do not apply to them and do not add up.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``by``, ``model``, ``currency`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "linear", "node_id": ["a", "b", None],
    ...                       "node_name": ["Ads", "Mail", None],
    ...                       "conversions": [3.0, 5.0, 2.0], "value": None, "currency": None,
    ...                       "share": [0.3, 0.5, 0.2]})
    >>> axes = at.plots.credits(frame, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Mail', 'Ads', 'unattributed']
    """
    credits = read_frame("credits", credits, COLUMNS)
    require_choice("by", by, MEASURES)
    require_count("top", top)
    rows, model = select_model(credits, model)
    rows, currency = select_currency(rows, currency, amounts=["value"] if by == "value" else [])
    shown = node_rows(rows, by, top=top)

    ax = style.axes_or_new(ax, width=8.0, height=1.3 + 0.27 * max(len(shown.labels), 3))
    name = f", {shorten(model)}" if model else ""
    style.format_axes(ax, title=f"{MEASURES[by].capitalize()} per node{name}", grid="x")
    ax.set_xlabel(axis_label(by, currency))
    if not shown.labels:
        style.write_empty(ax, empty_message(by))
        return ax
    _draw_bars(ax, shown)
    if by == "conversions" and {"low", "high"} <= set(rows.columns):
        drawn = _draw_intervals(ax, shown, rows)
        note = (
            "lines from low to high: sampling error, not bias"
            if drawn
            else "no intervals: bounds do not add up"
        )
        if drawn or rows["low"].notna().any():
            ax.set_xlabel(f"{ax.get_xlabel()}\n{note}")
    if by == "share":
        style.format_percent(ax.xaxis)
    else:
        style.format_thousands(ax.xaxis)
    if shown.without_amount:
        left_out = style.format_count(shown.without_amount, "node")
        ax.set_xlabel(f"{ax.get_xlabel()}\n{left_out} without {MEASURES[by]} not drawn")
    return ax


def _draw_bars(ax: Axes, shown: NodeRows) -> None:
    positions = np.arange(len(shown.labels))
    palette = style.palette(ax)
    colours = [palette.colours[0] if node is not None else palette.colours[4] for node in shown.node_ids]
    if shown.unattributed:
        colours[-1] = style.GREY
    ax.barh(positions, shown.amounts.iloc[:, 0].to_numpy(), height=0.72, color=colours)
    ax.set_yticks(positions, labels=list(shown.labels), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(shown.labels) - 0.4, -0.6)
    ax.axvline(0.0, color=palette.muted, linewidth=0.8)


def _draw_intervals(ax: Axes, shown: NodeRows, rows: pd.DataFrame) -> bool:
    """Draw the bounds of nodes with a single row (bounds do not add up); return whether any was drawn."""
    bounds = rows[["node_id"]].assign(
        low=numbers("credits", rows, "low"), high=numbers("credits", rows, "high")
    )
    single = bounds[~bounds["node_id"].duplicated(keep=False)].dropna(subset=["low", "high"])
    positions: dict[str | None, int] = {
        node: position for position, node in enumerate(shown.node_ids) if node is not None
    }
    if shown.unattributed:
        positions[None] = len(shown.labels) - 1
    keys = [
        None if missing else node
        for node, missing in zip(single["node_id"], single["node_id"].isna(), strict=True)
    ]
    drawn = [key in positions for key in keys]
    if not any(drawn):
        return False
    low, high = (single.loc[drawn, bound].to_numpy() for bound in ("low", "high"))
    # Drawn from bound to bound, not around the bar's end: an estimate can lie outside its interval.
    ax.errorbar(
        (low + high) / 2,
        [positions[key] for key in keys if key in positions],
        xerr=np.abs(high - low) / 2,
        fmt="none",
        ecolor=style.palette(ax).text,
        elinewidth=1.1,
        capsize=2.5,
    )
    return True
