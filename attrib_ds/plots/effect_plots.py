"""Plots of effects: ranges of nodes next to their credit, and contours of sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from attrib_ds.attribution.incremental.sensitivity import confounder_r2
from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, check_choice, check_whole
from attrib_ds.plots import style
from attrib_ds.plots.labels import distinct, names_of_nodes
from attrib_ds.records.frames import TEXT, Frame, read_frame

COLUMNS: Final = ("node_id", "node_name", "currency", "caused", "low", "high")
_NUMBERS: Final = (
    "robustness_value", "robustness_value_interval", "benchmark_strength", "benchmark_exposure",
    "benchmark_outcome",
)  # fmt: skip
#: Smallest partial R2 on an axis.
_SMALLEST: Final = 1e-7
#: Markers of results, in turn.
_MARKERS: Final = "oDs^v"


def effects(
    effects: Frame,
    *,
    controls: Sequence[str] = (),
    at_checkout: Sequence[str] = (),
    note: str = "",
    top: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw the effect of each node with its interval, and its credit.

    Parameters
    ----------
    effects : DataFrame
        As ``estimate_effects(...).table()`` returns it: ``node_id``, ``node_name``, ``currency``, ``caused``,
        ``low``, ``high`` and optionally ``credited``; or as ``compare`` returns it, with the column
        ``result``. The ``plot()`` of a result calls this function.
    controls : sequence of str, optional
        Negative controls, which stand below the other nodes on a grey background.
    at_checkout : sequence of str, optional
        Nodes to mark as at the checkout.
    note : str, optional
        Line below the axis.
    top : int, default 15
        Maximum number of nodes with their own row, largest magnitude first; the rest is summed, without
        intervals, because bounds do not add up. Controls always have their own row.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        From top to bottom: nodes in descending order of effect, by the last result, "other (n nodes)", then
        the negative controls, whose true effect is zero. Conversions of a node are summed over currencies,
        and their intervals combined as those of independent estimates.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric, or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"node_id": ["a", "d"], "node_name": ["Ads", "Direct"], "currency": "EUR",
    ...     "credited": [30.0, 20.0], "caused": [9.0, 1.0], "low": [5.0, -2.0], "high": [13.0, 4.0]})
    >>> axes = at.plots.effects(frame, controls=["d"], ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Ads', 'Direct (control)']
    """
    effects = read_frame("effects", effects, COLUMNS)
    top = check_whole("top", top, minimum=1)
    nodes = effects[effects["node_id"].notna()].reset_index(drop=True)
    results = nodes["result"] if "result" in nodes.columns else pd.Series("", nodes.index)
    labels = list(dict.fromkeys(results))
    amounts = {label: _summed(nodes[results == label]) for label in labels}
    shown = _rows(nodes, amounts, controls=controls, at_checkout=at_checkout, top=top)
    has_credit = "credited" in nodes.columns
    title = "Conversions credited and caused per node" if has_credit else "Conversions caused per node"
    size = (9.0, 1.6 + 0.34 * max(len(shown), 3))
    ax = style.start(ax, size, title, grid="x", x="conversions")
    style.add_note(ax, note)
    if shown.empty:
        return style.write_empty(ax, "no effects")
    handles = _draw_ranges(ax, shown, [amounts[label].reindex(shown["node_id"]) for label in labels])
    names = ["credited (a convention)"] if has_credit else []
    style.draw_legend(
        ax, handles, [*names, *(f"caused, by {label}" if label else "caused" for label in labels)]
    )
    style.format_thousands(ax.xaxis)
    return ax


def _summed(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum the measures of nodes over currencies: with the widths of their intervals below and above."""
    columns = ["caused", *(["credited"] if "credited" in rows.columns else [])]
    amounts = pd.DataFrame({name: style.numbers("effects", rows, name) for name in columns})
    for name, bound in (("below", "low"), ("above", "high")):
        amounts[name] = (style.numbers("effects", rows, bound) - amounts["caused"]) ** 2
    summed: pd.DataFrame = amounts.groupby(rows["node_id"]).sum(min_count=1)
    summed[["below", "above"]] = np.sqrt(summed[["below", "above"]])
    return summed


def _rows(
    nodes: pd.DataFrame,
    amounts: dict[str, pd.DataFrame],
    *,
    controls: Sequence[str],
    at_checkout: Sequence[str],
    top: int,
) -> pd.DataFrame:
    """Return one row per line of the plot: ``node_id``, ``label`` and ``is_control``.

    The sums of the nodes without a line of their own are added to ``amounts``.
    """
    if nodes.empty:
        return nodes
    ids = pd.Index(sorted(set(nodes["node_id"])), name="node_id")
    last: pd.DataFrame = list(amounts.values())[-1].reindex(ids)
    sizes = [
        each.reindex(ids)[each.columns.difference(["below", "above"])].abs() for each in amounts.values()
    ]
    order = pd.DataFrame({"magnitude": pd.concat(sizes, axis=1).max(axis=1), "caused": last["caused"]})
    order = order.reset_index().assign(is_control=ids.isin(list(controls)))
    ranked = order[~order["is_control"]].sort_values(["magnitude", "node_id"], ascending=[False, True])
    descending: Any = {"by": ["caused", "node_id"], "ascending": [False, True]}
    kept, rest = ranked.head(top).sort_values(**descending), ranked.iloc[top:]
    own: pd.DataFrame = pd.concat([kept, order[order["is_control"]].sort_values(**descending)])
    names = names_of_nodes(nodes)
    labels = distinct({node: names[node] for node in own["node_id"]})
    for node in set(at_checkout) & set(kept["node_id"]):
        labels[node] = f"{labels[node]} (at checkout)"
    own["label"] = own["node_id"].map(labels).astype(TEXT) + np.where(own["is_control"], " (control)", "")
    if rest.empty:
        return own.reset_index(drop=True)
    other = ""
    while other in names:
        other += " "
    for label, each in amounts.items():
        amounts[label] = pd.concat([each, each.reindex(rest["node_id"]).sum(min_count=1).to_frame(other).T])
        amounts[label].loc[other, ["below", "above"]] = np.nan
    label = f"other ({counted(len(rest), 'nodes')})"
    line = pd.DataFrame({"node_id": [other], "is_control": [False], "label": [label]})
    parts = [own[~own["is_control"]], line, own[own["is_control"]]]
    lines: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return lines


def _draw_ranges(ax: Axes, shown: pd.DataFrame, results: list[pd.DataFrame]) -> list[Any]:
    positions = np.arange(len(shown), dtype=np.int64)
    is_control = shown["is_control"].to_numpy(dtype=bool)
    if is_control.any():
        ax.axhspan(len(shown) - is_control.sum() - 0.5, len(shown) - 0.5, color=style.GREY, alpha=0.25, lw=0)
    palette = style.palette(ax)
    ax.axvline(0.0, color=palette.muted, linewidth=0.8, zorder=1.2)
    # An error bar is a container of artists, which the legend accepts as one handle.
    handles: list[Any] = []
    credited = next(
        (each["credited"] for each in results if "credited" in each and each["credited"].notna().any()), None
    )
    if credited is not None:
        ring: style.Look = {
            "markerfacecolor": palette.background,
            "markeredgecolor": palette.muted,
            "markeredgewidth": 1.4,
        }
        handles += ax.plot(credited.to_numpy(), positions, "o", markersize=6.0, **ring)
    look: style.Look = {"markersize": 5.0, "markeredgecolor": palette.background, "markeredgewidth": 0.5}
    # Intervals of one node are drawn at different heights.
    heights = np.linspace(-0.16, 0.16, len(results)) if len(results) > 1 else [0.0]
    for index, (rows, height) in enumerate(zip(results, heights, strict=True)):
        widths = np.nan_to_num(rows[["below", "above"]].to_numpy(dtype="float64").T)
        marker, colour = _MARKERS[index % len(_MARKERS)], palette.colours[index % len(palette.colours)]
        line: style.Look = {"fmt": marker, "color": colour, "elinewidth": 1.8, "capsize": 0.0}
        handles.append(
            ax.errorbar(rows["caused"].to_numpy(), positions + height, xerr=widths, **line, **look)
        )
    style.label_rows(ax, shown["label"].tolist())
    for label, is_muted in zip(ax.get_yticklabels(), is_control, strict=True):
        label.set_color(palette.muted if is_muted else palette.text)
    return handles


def sensitivity(
    effects: Frame, *, node: str | None = None, currency: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how strong an unobserved cause must be to explain away a node's effect.

    Parameters
    ----------
    effects : DataFrame
        As ``estimate_effects(...).sensitivity()`` returns it: ``node_id``, ``node_name``, ``currency``,
        ``robustness_value``, ``robustness_value_interval``, ``benchmark``, ``benchmark_strength``,
        ``benchmark_exposure``, ``benchmark_outcome``.
    node : str, optional
        Id of the node to draw; required when there are several.
    currency : str, optional
        Currency of the effect; required when there are several.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Partial R2 of an unobserved cause with exposure (x) and with conversions (y), on logarithmic scales.
        Along the grey line half of the effect is left, along the thick one nothing, and above it the effect
        has the other sign. From the dashed line on, the interval contains zero. Diamonds: a cause as strong
        as the benchmark, and one as many times stronger as it takes to explain the effect away.

    Raises
    ------
    InvalidRequest
        If a column is missing, ``node`` or ``currency`` is not among the effects, or several rows
        remain.

    References
    ----------
    Cinelli and Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the
    Royal Statistical Society B 82(1), 39-67, figure 2.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"node_id": ["a"], "node_name": ["Ads"], "currency": "EUR",
    ...     "robustness_value": [0.02], "robustness_value_interval": [0.01], "benchmark": ["organic"],
    ...     "benchmark_strength": [2.5], "benchmark_exposure": [0.15],
    ...     "benchmark_outcome": [0.0001]})
    >>> axes = at.plots.sensitivity(frame, ax=Figure().subplots())
    >>> axes.get_title(loc="left")
    'Unobserved cause that would explain away the effect of Ads'
    """
    rows = read_frame("effects", effects, ("node_id", "node_name", "currency", "benchmark", *_NUMBERS))
    row = _row_of(rows, node, currency)
    name = names_of_nodes(row)[row["node_id"].iloc[0]]
    title = f"Unobserved cause that would explain away the effect of {name}"
    x, y = f"partial R² with exposure to {name}", "partial R² with conversions"
    ax = style.start(ax, (7.0, 5.0), title, grid="both", x=x, y=y)
    found = {column: float(style.numbers("effects", row, column).iloc[0]) for column in _NUMBERS}
    if not found["robustness_value"] > 0:
        return style.write_empty(ax, "no sensitivity")
    _draw_contours(ax, found, str(row["benchmark"].iloc[0]))
    return ax


def _row_of(effects: pd.DataFrame, node: str | None, currency: str | None) -> pd.DataFrame:
    """Return the row of a node, in one currency."""
    nodes = effects["node_id"].dropna().unique().tolist()
    if node is None and len(nodes) == 1:
        node = nodes[0]
    check_choice("node", node, nodes)
    rows = effects[effects["node_id"] == node]
    currencies = rows["currency"].dropna().unique().tolist()
    if currency not in currencies and (currency is not None or len(currencies) > 1):
        raise InvalidRequest.choice("currency", currency, currencies)
    if currency is not None:
        rows = rows[rows["currency"] == currency]
    if len(rows) != 1:
        raise InvalidRequest(f"effects: {len(rows)} rows of {node!r}; allowed: one")
    return rows


def _draw_contours(ax: Axes, found: dict[str, float], benchmark: str) -> None:
    palette = style.palette(ax)
    strength, of_interval = (
        _strength(found[name]) for name in ("robustness_value", "robustness_value_interval")
    )
    points: list[tuple[float, float, str]] = []
    multiples: list[tuple[float, float]] = []
    if found["benchmark_exposure"] > 0 and found["benchmark_outcome"] > 0:
        observed = found["benchmark_exposure"], found["benchmark_outcome"]
        times = found["benchmark_strength"]
        for multiple in (1.0, times):
            x, y = confounder_r2(multiple, *observed)
            points.append((min(x, 0.999), y, f"{multiple:,.3g} × {benchmark}"))
        multiples = [confounder_r2(multiple, *observed) for multiple in np.geomspace(1.0, times, 50)]
    corner = found["robustness_value"]
    lowest = max(_SMALLEST, min([corner, *(x for x, _, _ in points)]) / 4)
    exposure_range = np.geomspace(lowest, 0.999, 200)
    bottom = max(_SMALLEST, min([corner, *(y for _, y, _ in points)]) / 4)
    top = min(1.0, max([corner, *(y for _, y, _ in points)]) * 8)
    thin: style.Look = {"color": palette.muted, "linewidth": 1.0}
    thick: style.Look = {"color": palette.colours[3], "linewidth": 2.0}
    lines = [("half of the effect left", strength / 2, thin), ("nothing of the effect left", strength, thick)]
    if of_interval > 0:
        dashed: style.Look = {"color": palette.colours[3], "linewidth": 1.2, "linestyle": "--"}
        lines.append(("the interval reaches zero", of_interval, dashed))
    names = [name for name, _, _ in lines]
    handles: list[Any] = []
    for _, size, look in lines:
        handles += ax.plot(exposure_range, _outcome(size, exposure_range), **look)
    handles += ax.plot([corner], [corner], "o", markersize=6, color=palette.colours[3])
    names.append(f"robustness value ({100 * corner:.2g} %)")
    if points:
        ax.plot(*zip(*multiples, strict=True), color=palette.colours[0], linewidth=1.0)
        xs, ys, _ = zip(*points, strict=True)
        look = {"color": palette.colours[0], "markeredgecolor": palette.background}
        handles += ax.plot(xs, ys, "D", markersize=6, **look)
        names.append(f"multiples of {benchmark}")
    ax.set(xscale="log", yscale="log")
    ax.set(xlim=(lowest, 1.0), ylim=(bottom, top))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{100 * tick:g} %"))
        axis.set_minor_formatter(NullFormatter())
    # The stronger one of the two has its label above.
    lifts = (-11, 5) if found["benchmark_strength"] >= 1 else (5, -11)
    for (x, y, label), lift in zip(points, lifts, strict=False):
        style.outline(style.write(ax, label, (x, y), (8, lift), parse_math=False), ax)
    style.draw_legend(ax, handles, names)


def _strength(robustness_value: float) -> float:
    """Return the size of the effect in units of bias, from its robustness value."""
    return np.inf if robustness_value >= 1 else float(robustness_value / np.sqrt(1 - robustness_value))


def _outcome(strength: float, exposure: Any) -> Any:
    """Return the partial R2 with the outcome that explains so much away, given that with exposure."""
    return strength**2 * (1 - exposure) / exposure
