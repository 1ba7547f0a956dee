"""Scatter of spend against the value credited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from matplotlib.transforms import Bbox

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import look
from attrib_ds.plots.arguments import numbers, require_frame
from attrib_ds.plots.credit_rows import COLUMNS, axis_label, empty_message, select_currency, select_model
from attrib_ds.plots.labels import distinct, names_of_nodes, shorten

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes

_RATIOS: Final = (1, 2, 5)
_WIDE: Final = 50  # largest over smallest spend from which logarithms show the small ones better
_DEEPEST: Final = 1e5  # largest over smallest value that is told apart: bounds may be next to nothing
_GAP: Final = 6  # points between a node's point and its name
_HORIZONTAL: Final[dict[int, Literal["left", "center", "right"]]] = {1: "left", 0: "center", -1: "right"}
_VERTICAL: Final[dict[int, Literal["bottom", "center", "top"]]] = {1: "bottom", 0: "center", -1: "top"}
_MOST_NAMES: Final = 30
_MOST_TRIED: Final = 150  # further nodes are too small to look for in a crowd


def returns(
    credits: pd.DataFrame,
    *,
    model: str | None = None,
    currency: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the value credited to each node against what was spent on it.

    Parameters
    ----------
    credits : DataFrame
        As ``attribute`` returns it when spend is known: ``model``, ``node_id``, ``node_name``,
        ``conversions``, ``value``, ``currency``, ``share``, ``spend``, and perhaps ``value_low`` and
        ``value_high``.
    model : str, optional
        A name in column ``model``; needed when there is more than one.
    currency : str, optional
        Keep the rows in this currency only; needed when there is more than one.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        One point per node with spend, a null value at 0; grey lines where value is 1, 2 and 5 times
        spend. A point whose node has one row carries the interval of its value, where there is one: sampling
        error, not bias. Both axes are logarithmic when spend spans more than a factor of 50; value is linear
        near zero where some of it, or of its bounds, is zero or less. The largest nodes are named as far as
        the names do not overlap; nodes without spend are counted below the axis.

    Raises
    ------
    InvalidRequest
        If a column is missing, no row has spend, or ``model`` or ``currency`` is not allowed.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "linear", "node_id": ["a", "b"], "node_name": ["Ads", "Mail"],
    ...                       "conversions": [3.0, 5.0], "value": [300.0, 500.0], "currency": "EUR",
    ...                       "share": [0.375, 0.625], "spend": [100.0, 250.0]})
    >>> axes = returns(frame, ax=Figure().subplots())
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('spend (EUR)', 'credited value (EUR)')
    """
    require_frame("credits", credits, (*COLUMNS, "spend"))
    rows, model = select_model(credits, model)
    rows, currency = select_currency(rows, currency, amounts=["value", "spend"])
    nodes = _sum_nodes(rows)
    spent = nodes[nodes["spend"].fillna(0.0) != 0.0]
    if len(rows) and spent.empty:
        raise InvalidRequest(
            "credits: column 'spend' holds no spend of a node; needed: credits attributed with spend",
            field="credits",
        )

    ax = look.axes_of(ax, width=8.0, height=5.5)
    name = f", {shorten(model)}" if model else ""
    look.dress(ax, title=f"Credited value against spend per node{name}", grid="both")
    unspent = len(nodes) - len(spent)
    note = f"\n{look.count(unspent, 'node')} without spend not drawn" if unspent else ""
    ax.set_xlabel(f"spend ({currency}){note}" if currency else f"spend{note}")
    ax.set_ylabel(axis_label("value", currency))
    if spent["value"].isna().all():
        look.say_empty(ax, empty_message("value") if len(rows) else empty_message("conversions"))
        return ax
    spent = spent.fillna({"value": 0.0})
    spend, value = spent["spend"].to_numpy(), spent["value"].to_numpy()
    low, high = (spent[name].fillna(spent["value"]).to_numpy() for name in ("low", "high"))
    _scale(ax, spend, np.concatenate([value, low, high]))
    look.write_thousands(ax.xaxis)
    look.write_thousands(ax.yaxis)
    ax.scatter(
        spend,
        value,
        s=32,
        color=look.tones(ax).colours[0],
        alpha=0.8,
        edgecolor=look.tones(ax).ground,
        linewidth=0.6,
        zorder=3,
    )
    if spent[["low", "high"]].notna().all(axis=1).any():
        # From bound to bound, not around the point: an estimate may lie outside its own interval.
        ax.errorbar(
            spend, (low + high) / 2, yerr=(high - low) / 2,
            fmt="none", ecolor=look.tones(ax).colours[0], elinewidth=1.0, capsize=2.0, alpha=0.6, zorder=2.5,
        )  # fmt: skip
        ax.set_xlabel(f"{ax.get_xlabel()}\nlines from low to high: sampling error, not bias")
    look.settle(ax)
    points = ax.transData.transform(np.c_[spend, value])
    dot = 3 * ax.figure.dpi / 72
    dots = [Bbox.from_extents(x - dot, y - dot, x + dot, y + dot) for x, y in points]
    names = _name_points(ax, spend, value, spent["label"].tolist(), dots)
    _draw_ratios(ax, [*names, *dots])
    return ax


def _sum_nodes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``label``, ``spend``, ``value`` and its bounds per node, largest spend first.

    Bounds of several rows do not add up, so they are null where a node has more than one.
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


def _scale(ax: Axes, spend: npt.NDArray[np.floating], value: npt.NDArray[np.floating]) -> None:
    """Choose scales that keep small nodes apart, with room for the names around the points.

    ``value`` holds the bounds of intervals too.
    """
    positive = value[value > 0]
    if spend.min() > 0 and spend.max() > _WIDE * spend.min() and len(positive):
        ax.set_xscale("log")
        ax.set_xlim(spend.min() / 2, spend.max() * 3)
        least = max(float(positive.min()), float(positive.max()) / _DEEPEST)
        if value.min() > 0 and value.min() >= least:
            ax.set_yscale("log")
            ax.set_ylim(value.min() / 2, value.max() * 2)
        else:
            linear = 10 ** np.floor(np.log10(least))
            ax.set_yscale("symlog", linthresh=linear, linscale=0.4)
            # Room for the points at zero; below it only where there is something.
            ax.set_ylim(2 * value.min() if value.min() < 0 else -0.15 * linear, value.max() * 2)
        ax.minorticks_off()
        return
    ax.set_xlim(*_around(spend))
    ax.set_ylim(*_around(value))


def _around(amounts: npt.NDArray[np.floating]) -> tuple[float, float]:
    low, high = min(amounts.min(), 0.0), max(amounts.max(), 0.0)
    room = 0.1 * (high - low) or 1.0
    return low - room if low < 0 else -0.02 * room, high + room


def _name_points(
    ax: Axes,
    spend: npt.NDArray[np.floating],
    value: npt.NDArray[np.floating],
    labels: list[str],
    dots: list[Bbox],
) -> list[Bbox]:
    """Name points, those with the most spend or value first, where a name fits; return their places."""
    frame = ax.get_window_extent()
    gap = _GAP * ax.figure.dpi / 72
    weight = np.maximum(np.abs(spend) / np.abs(spend).max(), np.abs(value) / (np.abs(value).max() or 1.0))
    taken: list[Bbox] = []
    for point in np.argsort(-weight, kind="stable")[:_MOST_TRIED]:
        text = ax.annotate(
            labels[point], (spend[point], value[point]), xytext=(0, 0), textcoords="offset points",
            ha="center", va="center", fontsize=look.points(8), color=look.tones(ax).ink,
            in_layout=False, parse_math=False,
        )  # fmt: skip
        look.outline(text, ax)
        box = text.get_window_extent()
        others = [dot for other, dot in enumerate(dots) if other != point]
        for right, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            place = box.translated(right * (gap + box.width / 2), up * (gap + box.height / 2))
            if _lies_in(place, frame) and not place.count_overlaps([*taken, *others]):
                # Anchored on the point's side: the gap is the same when saved with other dots per inch.
                text.set_horizontalalignment(_HORIZONTAL[right])
                text.set_verticalalignment(_VERTICAL[up])
                text.xyann = (_GAP * right, _GAP * up)
                taken.append(place)
                break
        else:
            text.remove()
        if len(taken) == _MOST_NAMES:
            break
    return taken


def _draw_ratios(ax: Axes, taken: list[Bbox]) -> None:
    """Draw the lines of equal ROAS, each named as far up as its name covers nothing."""
    low, high = ax.get_xlim()
    if ax.get_xscale() == "log":
        along = np.geomspace(low, high, 300)
    else:
        along = np.linspace(max(low, 0.0), high, 300)
    frame = ax.get_window_extent()
    for ratio in _RATIOS:
        ax.plot(
            along,
            ratio * along,
            color=look.tones(ax).muted,
            linewidth=1.0,
            zorder=1.5,
            scalex=False,
            scaley=False,
        )
        text = ax.text(
            0, 0, f"ROAS {ratio}×", ha="right", va="center", fontsize=look.points(7.5),
            color=look.tones(ax).muted, in_layout=False, zorder=1.6,
            bbox={"facecolor": look.tones(ax).ground, "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
        for x in along[::-4]:
            text.set_position((x, ratio * x))
            box = text.get_window_extent()
            if _lies_in(box, frame) and not box.count_overlaps(taken):
                taken = [*taken, box.padded(4)]
                break
        else:
            text.remove()


def _lies_in(box: Bbox, frame: Bbox) -> bool:
    return bool(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
