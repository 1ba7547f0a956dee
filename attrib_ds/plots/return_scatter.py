"""Scatter plot of credited value against spend."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.credit_plots import COLUMNS, axis_label, empty_message, select_currency, select_model
from attrib_ds.plots.style import distinct, names_of_nodes, numbers, shorten
from attrib_ds.records.frames import Frame, read_frame

Numbers = npt.NDArray[np.float64]
_RATIOS: Final = (1, 2, 5)
_LOG_RATIO: Final = 50  # ratio of largest to smallest spend above which the axes are logarithmic
_MAX_RATIO: Final = 1e5  # ratio of largest to smallest value on a logarithmic axis: bounds may be tiny
_GAP: Final = 6  # points between a marker and its label
_HORIZONTAL: Final[dict[int, Literal["left", "center", "right"]]] = {1: "left", 0: "center", -1: "right"}
_VERTICAL: Final[dict[int, Literal["bottom", "center", "top"]]] = {1: "bottom", 0: "center", -1: "top"}
_MAX_LABELS: Final = 30
_MAX_TRIED: Final = 150  # nodes for which a label position is searched


def returns(
    credits: Frame,
    *,
    model: str | None = None,
    currency: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the credited value of each node against its spend.

    Parameters
    ----------
    credits : DataFrame
        As ``attribute`` returns it with spend: ``model``, ``node_id``, ``node_name``, ``conversions``,
        ``value``, ``currency``, ``share``, ``spend``, and optionally ``value_low`` and ``value_high``.
    model : str, optional
        A name in column ``model``; required when there is more than one.
    currency : str, optional
        Keep the rows in this currency only; required when there is more than one.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One point per node with spend, a null value at 0; grey lines at a ROAS of 1, 2 and 5. A node with a
        single row has the interval of its value, if there is one, which shows sampling error, not bias. Both
        axes are logarithmic when spend spans more than a factor of 50; the value axis is linear near zero if
        a value or bound is zero or less. The largest nodes are labelled as long as labels do not overlap; the
        number of nodes without spend is below the axis.

    Raises
    ------
    InvalidRequest
        If a column is missing, no row has spend, or ``model`` or ``currency`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "linear", "node_id": ["a", "b"], "node_name": ["Ads", "Mail"],
    ...                       "conversions": [3.0, 5.0], "value": [300.0, 500.0], "currency": "EUR",
    ...                       "share": [0.375, 0.625], "spend": [100.0, 250.0]})
    >>> axes = at.plots.returns(frame, ax=Figure().subplots())
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('spend (EUR)', 'credited value (EUR)')
    """
    credits = read_frame("credits", credits, (*COLUMNS, "spend"))
    rows, model = select_model(credits, model)
    rows, currency = select_currency(rows, currency, amounts=["value", "spend"])
    nodes = _sum_nodes(rows)
    spent = nodes[nodes["spend"].fillna(0.0) != 0.0]
    if len(rows) and spent.empty:
        raise InvalidRequest(
            "credits: column 'spend' has no spend of a node; pass spend to attribute",
            field="credits",
        )

    ax = style.axes_or_new(ax, width=8.0, height=5.5)
    name = f", {shorten(model)}" if model else ""
    style.format_axes(ax, title=f"Credited value against spend per node{name}", grid="both")
    unspent = len(nodes) - len(spent)
    note = f"\n{style.format_count(unspent, 'node')} without spend not drawn" if unspent else ""
    ax.set_xlabel(f"spend ({currency}){note}" if currency else f"spend{note}")
    ax.set_ylabel(axis_label("value", currency))
    if spent["value"].isna().all():
        style.write_empty(ax, empty_message("value") if len(rows) else empty_message("conversions"))
        return ax
    spent = spent.fillna({"value": 0.0})
    spend, value = spent["spend"].to_numpy(), spent["value"].to_numpy()
    low, high = (spent[name].fillna(spent["value"]).to_numpy() for name in ("low", "high"))
    _scale(ax, spend, np.concatenate([value, low, high]))
    style.format_thousands(ax.xaxis)
    style.format_thousands(ax.yaxis)
    palette = style.palette(ax)
    ax.scatter(
        spend, value, s=32, color=palette.colours[0], alpha=0.8,
        edgecolor=palette.background, linewidth=0.6, zorder=3,
    )  # fmt: skip
    if spent[["low", "high"]].notna().all(axis=1).any():
        # From bound to bound, not around the point: an estimate can lie outside its interval.
        ax.errorbar(
            spend, (low + high) / 2, yerr=(high - low) / 2,
            fmt="none", ecolor=palette.colours[0], elinewidth=1.0, capsize=2.0, alpha=0.6,
            zorder=2.5,
        )  # fmt: skip
        ax.set_xlabel(f"{ax.get_xlabel()}\nlines from low to high: sampling error, not bias")
    style.apply_layout(ax)
    points = ax.transData.transform(np.c_[spend, value])
    dot = 3 * ax.figure.dpi / 72
    dots = [Bbox.from_extents(x - dot, y - dot, x + dot, y + dot) for x, y in points]
    labels = _label_points(ax, spend, value, spent["label"].tolist(), dots)
    _draw_ratios(ax, [*labels, *dots])
    return ax


def _sum_nodes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``label``, ``spend``, ``value`` and its bounds per node, largest spend first.

    Bounds do not add up, so they are null for nodes with more than one row.
    """
    bounds = [name for name in ("value_low", "value_high") if name in rows.columns]
    amounts = rows[["node_id"]].assign(
        spend=numbers("credits", rows, "spend"),
        value=numbers("credits", rows, "value"),
        **{name: numbers("credits", rows, name) for name in bounds},
    )
    by_node = amounts.groupby("node_id")
    sums = by_node[["spend", "value"]].sum(min_count=1)
    is_single = by_node.size() == 1
    for name, bound in (("low", "value_low"), ("high", "value_high")):
        sums[name] = by_node[bound].first().where(is_single) if len(bounds) == 2 else np.nan
    sums = sums.reset_index().sort_values(["spend", "node_id"], ascending=[False, True])
    return sums.assign(label=sums["node_id"].map(distinct(names_of_nodes(rows), width=24)))


def _scale(ax: Axes, spend: Numbers, value: Numbers) -> None:
    """Choose the scales and limits of the axes, with room for labels around the points.

    ``value`` includes the bounds of intervals.
    """
    positive = value[value > 0]
    if spend.min() > 0 and spend.max() > _LOG_RATIO * spend.min() and len(positive):
        ax.set_xscale("log")
        ax.set_xlim(spend.min() / 2, spend.max() * 3)
        lowest = max(float(positive.min()), float(positive.max()) / _MAX_RATIO)
        if value.min() > 0 and value.min() >= lowest:
            ax.set_yscale("log")
            ax.set_ylim(value.min() / 2, value.max() * 2)
        else:
            linear = 10 ** np.floor(np.log10(lowest))
            ax.set_yscale("symlog", linthresh=linear, linscale=0.4)
            # Room for points at zero; below zero only if there are any.
            ax.set_ylim(2 * value.min() if value.min() < 0 else -0.15 * linear, value.max() * 2)
        ax.minorticks_off()
        return
    ax.set_xlim(*_limits(spend))
    ax.set_ylim(*_limits(value))


def _limits(amounts: Numbers) -> tuple[float, float]:
    low, high = min(amounts.min(), 0.0), max(amounts.max(), 0.0)
    room = 0.1 * (high - low) or 1.0
    return low - room if low < 0 else -0.02 * room, high + room


def _label_points(
    ax: Axes, spend: Numbers, value: Numbers, labels: list[str], dots: list[Bbox]
) -> list[Bbox]:
    """Label points where a label fits, largest spend or value first; return the boxes of the labels."""
    frame = ax.get_window_extent()
    gap = _GAP * ax.figure.dpi / 72
    weight = np.maximum(np.abs(spend) / np.abs(spend).max(), np.abs(value) / (np.abs(value).max() or 1.0))
    occupied: list[Bbox] = []
    for point in np.argsort(-weight, kind="stable")[:_MAX_TRIED]:
        text = style.write(
            ax, labels[point], (spend[point], value[point]),
            ha="center", va="center", fontsize=style.scale_points(8), in_layout=False, parse_math=False,
        )  # fmt: skip
        style.outline(text, ax)
        box = text.get_window_extent()
        others = [dot for other, dot in enumerate(dots) if other != point]
        for right, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            moved = box.translated(right * (gap + box.width / 2), up * (gap + box.height / 2))
            if _is_inside(moved, frame) and not moved.count_overlaps([*occupied, *others]):
                # Anchored on the point's side, so that the gap does not depend on the figure's DPI.
                text.set_horizontalalignment(_HORIZONTAL[right])
                text.set_verticalalignment(_VERTICAL[up])
                text.xyann = (_GAP * right, _GAP * up)
                occupied.append(moved)
                break
        else:
            text.remove()
        if len(occupied) == _MAX_LABELS:
            break
    return occupied


def _draw_ratios(ax: Axes, occupied: list[Bbox]) -> None:
    """Draw the lines of equal ROAS, each labelled as far up as its label overlaps nothing."""
    low, high = ax.get_xlim()
    if ax.get_xscale() == "log":
        along = np.geomspace(low, high, 300)
    else:
        along = np.linspace(max(low, 0.0), high, 300)
    frame, palette = ax.get_window_extent(), style.palette(ax)
    for ratio in _RATIOS:
        ax.plot(along, ratio * along, color=palette.muted, lw=1.0, zorder=1.5, scalex=False, scaley=False)
        text = ax.text(
            0, 0, f"ROAS {ratio}×", ha="right", va="center", fontsize=style.scale_points(7.5),
            color=palette.muted, in_layout=False, zorder=1.6,
            bbox={"facecolor": palette.background, "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
        for x in along[::-4]:
            text.set_position((x, ratio * x))
            box = text.get_window_extent()
            if _is_inside(box, frame) and not box.count_overlaps(occupied):
                occupied = [*occupied, box.padded(4)]
                break
        else:
            text.remove()


def _is_inside(box: Bbox, frame: Bbox) -> bool:
    return bool(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
