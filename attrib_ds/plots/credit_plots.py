"""Bars and dots of credit per node and model, and credited value against spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, check_choice, check_whole
from attrib_ds.plots import style
from attrib_ds.plots.labels import distinct, name_of_rest, names_of_nodes, shorten
from attrib_ds.plots.style import numbers
from attrib_ds.records.frames import Frame, read_frame


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
    check_choice("by", by, MEASURES)
    top = check_whole("top", top, minimum=1)
    rows, model = select_model(credits, model)
    rows, currency = select_currency(rows, currency, amounts=["value"] if by == "value" else [])
    shown = node_rows(rows, by, top=top)

    title = f"{MEASURES[by].capitalize()} per node{f', {shorten(model)}' if model else ''}"
    size = (8.0, 1.3 + 0.27 * max(len(shown.labels), 3))
    ax = style.start(ax, size, title, grid="x", x=axis_label(by, currency))
    if not shown.labels:
        return style.write_empty(ax, empty_message(by))
    _draw_bars(ax, shown)
    if by == "conversions" and {"low", "high"} <= set(rows.columns):
        if _draw_intervals(ax, shown, rows):
            style.add_note(ax, "lines from low to high: sampling error, not bias")
        elif rows["low"].notna().any():
            style.add_note(ax, "no intervals: bounds do not add up")
    style.format_thousands(ax.xaxis, scale=100 if by == "share" else 1)
    if shown.without_amount:
        left_out = counted(shown.without_amount, "nodes")
        style.add_note(ax, f"{left_out} without {MEASURES[by]} not drawn")
    return ax


def _draw_bars(ax: Axes, shown: NodeRows) -> None:
    positions = np.arange(len(shown.labels), dtype=np.int64)
    palette = style.palette(ax)
    colours = [palette.colours[0] if node is not None else palette.colours[4] for node in shown.node_ids]
    if shown.unattributed:
        colours[-1] = style.GREY
    ax.barh(positions, shown.amounts.iloc[:, 0].to_numpy(), height=0.72, color=colours)
    style.label_rows(ax, shown.labels, above=0.6, below=0.6)
    ax.axvline(0.0, color=palette.muted, linewidth=0.8)


def _draw_intervals(ax: Axes, shown: NodeRows, rows: pd.DataFrame) -> bool:
    """Draw the bounds of nodes with a single row (bounds do not add up); return whether any was drawn."""
    bounds = rows[["node_id"]].assign(
        low=numbers("credits", rows, "low"), high=numbers("credits", rows, "high")
    )
    single = bounds[~bounds["node_id"].duplicated(keep=False)].dropna(subset=["low", "high"])
    positions = {node: float(place) for place, node in enumerate(shown.node_ids) if node is not None}
    places = single["node_id"].map(positions).astype("float64")
    if shown.unattributed:
        places = places.mask(single["node_id"].isna(), len(shown.labels) - 1.0)
    drawn = single[places.notna()]
    if drawn.empty:
        return False
    low, high = drawn["low"].to_numpy(), drawn["high"].to_numpy()
    # Drawn from bound to bound, not around the bar's end: an estimate can lie outside its interval.
    ax.errorbar(
        (low + high) / 2, places.dropna(), xerr=np.abs(high - low) / 2,
        fmt="none", ecolor=style.palette(ax).text, elinewidth=1.1, capsize=2.5,
    )  # fmt: skip
    return True


def model_comparison(
    credits: Frame, *, by: str = "share", top: int = 15, currency: str | None = None, ax: Axes | None = None
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
    check_choice("by", by, MEASURES)
    top = check_whole("top", top, minimum=1)
    rows, currency = select_currency(credits, currency, amounts=["value"] if by == "value" else [])
    shown = node_rows(rows, by, top=top)
    models = [str(name) for name in shown.amounts.columns]

    size = (9.0, 1.3 + (0.3 + 0.02 * len(models)) * max(len(shown.labels), 3))
    title = f"{MEASURES[by].capitalize()} per node and model"
    ax = style.start(ax, size, title, grid="x", x=axis_label(by, currency))
    if not shown.labels:
        return style.write_empty(ax, empty_message(by))
    handles = _draw_dots(ax, shown)
    style.draw_legend(ax, handles, list(distinct({model: model for model in models}, width=30).values()))
    style.format_thousands(ax.xaxis, scale=100 if by == "share" else 1)
    return ax


def _draw_dots(ax: Axes, shown: NodeRows) -> list[Line2D]:
    positions = np.arange(len(shown.labels), dtype=np.int64)
    amounts = shown.amounts.to_numpy(dtype="float64")
    for position in positions[::2]:
        ax.axhspan(position - 0.5, position + 0.5, color=style.GREY, alpha=0.14, linewidth=0)
    palette = style.palette(ax)
    lowest, highest = np.nanmin(amounts, axis=1), np.nanmax(amounts, axis=1)
    ax.hlines(positions, lowest, highest, color=palette.muted, linewidth=1.1, zorder=1.5)
    models = amounts.shape[1]
    # Each model has its own height within the row, so that models that agree do not hide each other.
    heights = np.linspace(-0.3, 0.3, models) if models > 1 else np.zeros(1)
    handles: list[Line2D] = []
    for model in range(models):
        marker, size = style.MARKERS[model % len(style.MARKERS)]
        handles += ax.plot(
            amounts[:, model], positions + heights[model], marker,
            color=palette.colours[model % len(palette.colours)], markersize=size,
            markeredgecolor=palette.background, markeredgewidth=0.5,
        )  # fmt: skip
    style.label_rows(ax, shown.labels)
    ax.axvline(0.0, color=palette.muted, linewidth=0.8, zorder=1.2)
    if shown.unattributed:
        ax.get_yticklabels()[-1].set_color(palette.muted)
    return handles


COLUMNS: Final = ("model", "node_id", "node_name", "conversions", "value", "currency", "share")
MEASURES: Final = {
    "conversions": "credited conversions",
    "value": "credited value",
    "share": "share of conversions",
}


@dataclass(frozen=True)
class NodeRows:
    """Rows of a plot from top to bottom: nodes, the sum of other nodes, unattributed.

    Attributes
    ----------
    labels : tuple of str
        Label of each row.
    node_ids : tuple of str or None
        Node of each row; None for the two summary rows.
    amounts : DataFrame
        One row per label, one column per model in order of appearance; NaN if a model has no amount.
    unattributed : bool
        Whether the last row is the unattributed one.
    without_amount : int
        Number of nodes left out because no model gives them an amount.
    """

    labels: tuple[str, ...]
    node_ids: tuple[str | None, ...]
    amounts: pd.DataFrame
    unattributed: bool
    without_amount: int


def axis_label(by: str, currency: str | None) -> str:
    """Return the axis label of a measure with its unit."""
    if by == "share":
        return f"{MEASURES[by]} (%)"
    return f"{MEASURES[by]} ({currency})" if by == "value" and currency else MEASURES[by]


def empty_message(by: str) -> str:
    """Return the message of an empty plot."""
    return "no credited value" if by == "value" else "no credited conversions"


def select_model(credits: pd.DataFrame, model: str | None) -> tuple[pd.DataFrame, str | None]:
    """Return the rows of one model and its name, which is required if there are several models."""
    models = [str(name) for name in credits["model"].dropna().unique()]
    if not models:
        return credits, model
    if model is None and len(models) > 1:
        raise InvalidRequest(
            f"model: None is not allowed because credits have {len(models)} models; "
            f"allowed: {', '.join(sorted(models))}"
        )
    if model is not None and model not in models:
        raise InvalidRequest.choice("model", model, models)
    chosen = models[0] if model is None else model
    return credits[credits["model"] == chosen], chosen


def select_currency(
    credits: pd.DataFrame, currency: str | None, *, amounts: Sequence[str]
) -> tuple[pd.DataFrame, str | None]:
    """Return the rows whose ``amounts`` can be summed, and their currency if it has a name."""
    currencies = credits["currency"].dropna().unique().tolist()
    if currency is not None:
        if currencies and currency not in currencies:
            raise InvalidRequest.choice("currency", currency, currencies)
        if not currencies and len(credits):
            raise InvalidRequest(
                f"currency: {currency!r} is not allowed because the amounts in credits have no currency; "
                "allowed: None"
            )
        return credits[credits["currency"] == currency], currency
    has_amount = credits["currency"].notna() & False
    for column in amounts:
        has_amount |= numbers("credits", credits, column).fillna(0.0) != 0.0
    used = credits.loc[has_amount, "currency"]
    named = sorted(used.dropna().unique())
    if len(named) > 1 or (named and used.isna().any()):
        conflicting = [*named, *(["none"] if used.isna().any() else [])]
        raise InvalidRequest(
            f"currency: None is not allowed because credits have amounts in {len(conflicting)} currencies "
            f"({', '.join(conflicting)}), which are never summed; allowed: {', '.join(named)}"
        )
    return credits, named[0] if named else (currencies[0] if len(currencies) == 1 else None)


def node_rows(credits: pd.DataFrame, measure: str, *, top: int) -> NodeRows:
    """Sum a measure per node and model, with separate rows for the ``top`` nodes only.

    These are the nodes with the largest magnitude in any model, so that large negative credit is not hidden;
    they are ordered by their mean over the models, largest first, then by identifier.
    """
    rows = credits[["model", "node_id", "node_name"]].assign(amount=numbers("credits", credits, measure))
    by_model = {str(model): part for model, part in rows.groupby("model", sort=False)}
    table = pd.DataFrame(
        {name: part.groupby("node_id")["amount"].sum(min_count=1) for name, part in by_model.items()}
    )
    without_node = rows[rows["node_id"].isna()]
    sums = without_node.groupby(without_node["model"].astype(str))["amount"].sum(min_count=1)
    unattributed = sums.reindex(list(by_model))
    nodes = table.dropna(how="all").rename_axis("node_id")
    largest = style.ranked(nodes.abs().max(axis="columns"))
    kept = style.ranked(nodes.loc[largest[:top]].mean(axis="columns"))
    rest = largest[top:]

    names = names_of_nodes(rows)
    labels = list(distinct({node: names[node] for node in kept}).values())
    parts = [nodes.loc[kept]]
    if rest:
        labels.append(f"other ({counted(len(rest), 'nodes')})")
        parts.append(nodes.loc[rest].sum(min_count=1).to_frame().T)
    if unattributed.notna().any():
        labels.append(name_of_rest(by_model))
        parts.append(unattributed.to_frame().T)
    return NodeRows(
        labels=tuple(labels),
        node_ids=(*kept, *[None] * (len(labels) - len(kept))),
        amounts=pd.concat(parts, ignore_index=True) if labels else nodes,
        unattributed=bool(unattributed.notna().any()),
        without_amount=len(table) - len(nodes),
    )


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
    credits: Frame, *, model: str | None = None, currency: str | None = None, ax: Axes | None = None
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
            "credits: column 'spend' has no spend of a node; pass spend to attribute, "
            "for the groups of a split too"
        )

    title = f"Credited value against spend per node{f', {shorten(model)}' if model else ''}"
    x = f"spend ({currency})" if currency else "spend"
    ax = style.start(ax, (8.0, 5.5), title, grid="both", x=x, y=axis_label("value", currency))
    unspent = len(nodes) - len(spent)
    style.add_note(ax, f"{counted(unspent, 'nodes')} without spend not drawn" if unspent else "")
    if spent["value"].isna().all():
        return style.write_empty(ax, empty_message("value" if len(rows) else "conversions"))
    spent = spent.fillna({"value": 0.0})
    spend, value = spent["spend"].to_numpy(), spent["value"].to_numpy()
    low, high = (spent[name].fillna(spent["value"]).to_numpy() for name in ("low", "high"))
    _scale(ax, spend, np.concatenate([value, low, high]))
    style.format_thousands(ax.xaxis)
    style.format_thousands(ax.yaxis)
    palette = style.palette(ax)
    edge: style.Look = {"edgecolor": palette.background, "linewidth": 0.6}
    ax.scatter(spend, value, s=32, color=palette.colours[0], alpha=0.8, zorder=3, **edge)
    if spent[["low", "high"]].notna().all(axis=1).any():
        # From bound to bound, not around the point: an estimate can lie outside its interval.
        look: style.Look = {
            "ecolor": palette.colours[0],
            "elinewidth": 1.0,
            "capsize": 2.0,
            "alpha": 0.6,
            "zorder": 2.5,
        }
        ax.errorbar(spend, (low + high) / 2, yerr=(high - low) / 2, fmt="none", **look)
        style.add_note(ax, "lines from low to high: sampling error, not bias")
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
        **{name: numbers("credits", rows, name) for name in ("spend", "value", *bounds)}
    )
    by_node = amounts.groupby("node_id")
    sums = by_node[["spend", "value"]].sum(min_count=1)
    is_single = by_node.size() == 1
    for name, bound in (("low", "value_low"), ("high", "value_high")):
        sums[name] = by_node[bound].first().where(is_single) if len(bounds) == 2 else np.nan
    sums = sums.loc[style.ranked(sums["spend"])]
    return sums.assign(label=sums.index.map(distinct(names_of_nodes(rows), width=24)))


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
    look: style.Look = {"ha": "center", "va": "center", "fontsize": style.scale_points(8), "in_layout": False}
    look["parse_math"] = False
    occupied: list[Bbox] = []
    for point in np.argsort(-weight, kind="stable")[:_MAX_TRIED]:
        text = style.write(ax, labels[point], (spend[point], value[point]), **look)
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
