"""Line chart of credits over time, one line per node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from attrib_ds.contract.events import LINEAR
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers, require_choice, require_count
from attrib_ds.plots.credit_rows import select_currency, select_model
from attrib_ds.plots.interval_labels import complete
from attrib_ds.plots.interval_lines import GROUP, OTHER, UNATTRIBUTED, draw_lines, partial_intervals
from attrib_ds.plots.labels import distinct, names_of_nodes, shorten
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("model", "node_id", "node_name", "conversions", "value", "currency")
#: Measures with their names and, for ratios, the columns that are divided.
_NAMES: Final = {
    "conversions": "credited conversions",
    "value": "credited value",
    "spend": "spend",
    "cpa": "cost per conversion (CPA)",
    "roas": "return on ad spend (ROAS)",
}
_RATIOS: Final = {"cpa": ("spend", "conversions"), "roas": ("value", "spend")}
_IN_MONEY: Final = ("value", "spend", "cpa")


def series(
    series: Frame,
    *,
    by: str = "conversions",
    model: str | None = None,
    currency: str | None = None,
    top: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw one model's credit or its returns over time as one line per node.

    Parameters
    ----------
    series : DataFrame
        As :func:`attrib_ds.credit_series` returns it.
    by : {"conversions", "value", "spend", "cpa", "roas"}, default "conversions"
        What is drawn; the last three need spend.
    model : str, optional
        A name in column ``model``; required when there is more than one.
    currency : str, optional
        Keep the rows in this currency only; required for amounts of money in more than one.
    top : int, default 8
        Maximum number of nodes with their own line, largest first: by ``by``, or by spend for ``"cpa"`` and
        ``"roas"``, which only nodes with spend have. The other nodes are one dashed line.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Periods in order from left to right. A period without credit or spend counts as 0; a CPA without
        conversions and a ROAS without spend are gaps. Conversions and value without a node are a dotted line.
        Partial periods (column ``is_partial``) have hollow markers, and a note below names them.

    Raises
    ------
    InvalidRequest
        If a column is missing, or an argument is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "linear", "month": ["2025-01", "2025-03"], "node_id": "a",
    ...                       "node_name": "Ads", "conversions": [3.0, 5.0], "value": [30.0, 90.0],
    ...                       "currency": "EUR", "spend": [10.0, 45.0]})
    >>> axes = at.plots.series(frame, by="roas", ax=Figure().subplots())
    >>> [float(height) for height in axes.get_lines()[0].get_ydata()]
    [3.0, nan, 2.0]
    """
    require_choice("by", by, _NAMES)
    require_count("top", top)
    parts = _RATIOS.get(by, (by,))
    rows = read_frame("series", series, [*COLUMNS, *(name for name in parts if name not in COLUMNS)])
    interval = _interval(rows)
    rows, model = select_model(rows, model)
    amounts = [name for name in ("value", "spend") if name in parts]
    rows, currency = select_currency(rows, currency, amounts=amounts)
    if by in _RATIOS:
        # Credit that costs nothing, such as that of direct visits, would flatter the other nodes.
        has_spend = numbers("series", rows, "spend") > 0
        rows = rows[rows["node_id"].isin(rows.loc[has_spend, "node_id"].dropna())]
    sums = _sums(rows, interval, parts, top=top)
    table = sums[0] if by not in _RATIOS else (sums[0] / sums[1].where(sums[1] > 0)).dropna(how="all")

    ax = style.axes_or_new(ax, width=9.0, height=4.2)
    name = f", {shorten(model)}" if model else ""
    style.format_axes(ax, title=f"{_NAMES[by][0].upper()}{_NAMES[by][1:]} per {interval}{name}", grid="y")
    ax.set_ylabel(f"{_NAMES[by]} ({currency})" if by in _IN_MONEY and currency else _NAMES[by])
    if table.empty:
        ax.set_xlabel(interval)
        style.write_empty(ax, f"no {_NAMES[by]}")
        return ax
    kinds, names = zip(*table.index, strict=True)
    partial = partial_intervals(rows, interval)
    handles = draw_lines(ax, table, kinds, partial=partial, xlabel=interval)
    style.draw_legend(ax, handles, [shorten(name) for name in names])
    style.format_thousands(ax.yaxis)
    if not table.min().min() < 0:
        ax.set_ylim(bottom=0)
    if by == "roas":
        ax.axhline(1.0, color=style.palette(ax).muted, linewidth=0.9, zorder=1)
    style.apply_layout(ax)
    style.label_ticks(ax, list(table.columns))
    return ax


def _interval(series: pd.DataFrame) -> str:
    """Return the column of periods, which has the name of their length."""
    found = [name for name in LINEAR if name in series.columns]
    if not found:
        raise InvalidRequest(
            f"series: no column of periods among {list(series.columns)!r}; needed: one of "
            f"{', '.join(LINEAR)}, as credit_series returns it",
            field="series",
        )
    return found[0]


def _sums(rows: pd.DataFrame, interval: str, columns: tuple[str, ...], *, top: int) -> list[pd.DataFrame]:
    """Return a table for each column: one row per line, by kind and label, and one column per period.

    Nodes are ordered by the size of spend, if it is among the columns, or else of the first one.
    """
    periods = complete(sorted(set(rows[interval].astype(str))))
    names = names_of_nodes(rows)
    tables = []
    for column in columns:
        amounts = rows.assign(amount=numbers("series", rows, column))
        of_nodes = amounts.pivot_table(index="node_id", columns=interval, values="amount", aggfunc="sum")
        without = amounts[rows["node_id"].isna()].groupby(interval)["amount"].sum()
        tables.append((of_nodes.reindex(columns=periods).fillna(0.0), without.reindex(periods).fillna(0.0)))
    ranked = tables[columns.index("spend") if "spend" in columns else 0][0].abs().sum(axis="columns")
    # A column of spend has nodes without credit, which the other column may lack, and the reverse.
    order = ranked.rename("size").rename_axis("node_id").reset_index()
    nodes = order.sort_values(["size", "node_id"], ascending=[False, True])["node_id"].tolist()
    kept, others = nodes[:top], nodes[top:]
    lines = [(GROUP, label) for label in distinct({node: names[node] for node in kept}).values()]
    lines += [(OTHER, f"other ({style.format_count(len(others), 'node')})")] * bool(others)
    lines += [(UNATTRIBUTED, UNATTRIBUTED)] * any(without.any() for _, without in tables)
    sums = []
    for of_nodes, without in tables:
        parts = [of_nodes.reindex(kept).fillna(0.0)]
        if others:
            parts.append(of_nodes.reindex(others).fillna(0.0).sum().to_frame().T)
        if lines and lines[-1][0] == UNATTRIBUTED:
            parts.append(without.to_frame().T)
        index = pd.MultiIndex.from_tuples(lines, names=["kind", "label"])
        sums.append(pd.concat(parts).set_axis(index) if lines else of_nodes)
    return sums
