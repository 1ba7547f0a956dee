"""Dot plot of credited conversions and estimated effects per node, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.plots import style
from attrib_ds.plots.credit_plots import select_model
from attrib_ds.plots.style import distinct, names_of_nodes, numbers, require_count
from attrib_ds.records.frames import TEXT, read_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.records.frames import Frame

COLUMNS: Final = (
    "model", "node_id", "node_name", "currency", "is_control", "credited", "caused", "low", "high",
)  # fmt: skip
_SHARE: Final = ("controls_share", "controls_share_low", "controls_share_high")
_COMBINED: Final = ("combined", "combined_low", "combined_high")


def effects(
    effects: Frame,
    *,
    model: str | None = None,
    top: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw the credit of each node and its estimated effect, with intervals.

    Parameters
    ----------
    effects : DataFrame
        As ``incremental_effects`` returns it: ``model``, ``node_id``, ``node_name``, ``currency``,
        ``is_control``, ``credited``, ``caused``, ``low``, ``high`` and, with an experiment, ``combined``,
        ``combined_low``, ``combined_high``. ``verdict`` with ``controls_share`` and its bounds is written
        below the axis; nodes with ``is_at_checkout`` are marked as such.
    model : str, optional
        Model to draw; required when there are several.
    top : int, default 15
        Maximum number of nodes with their own row, largest magnitude first; the rest is summed, without
        intervals, because bounds do not add up. Controls always have their own row.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        From top to bottom: nodes in descending order of effect, "other (n nodes)", then the negative
        controls, whose true effect is zero, on a grey background. Conversions of a node are summed over
        currencies, and their intervals combined as those of independent estimates.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``model`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "hazard", "node_id": ["a", "d"], "node_name": ["Ads", "Direct"],
    ...     "currency": "EUR", "is_control": [False, True], "credited": [30.0, 20.0], "caused": [9.0, 1.0],
    ...     "low": [5.0, -2.0], "high": [13.0, 4.0]})
    >>> axes = at.plots.effects(frame, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Ads', 'Direct (control)']
    """
    effects = read_frame("effects", effects, COLUMNS)
    require_count("top", top)
    chosen, label = select_model(effects, model)
    shown = _node_rows(chosen, top=top)
    ax = style.axes_or_new(ax, width=9.0, height=1.6 + 0.34 * max(len(shown), 3))
    style.format_axes(ax, title="Conversions credited and caused per node", grid="x")
    ax.set_xlabel("conversions" + _verdict(chosen))
    if shown.empty:
        style.write_empty(ax, "no effects")
        return ax
    handles = _draw(ax, shown)
    names = ["credited (a convention)", f"caused, by {label}"]
    if "combined" in shown.columns:
        names.append("caused, with the experiment")
    style.draw_legend(ax, handles, names)
    style.format_thousands(ax.xaxis)
    return ax


def _verdict(rows: pd.DataFrame) -> str:
    """Return a line with the verdict of the controls; empty without one."""
    if "verdict" not in rows.columns or rows.empty or pd.isna(rows["verdict"].iloc[0]):
        return ""
    line = f"\nverdict of the controls: {rows['verdict'].iloc[0]}"
    if not set(_SHARE) <= set(rows.columns):
        return line
    share, low, high = (float(numbers("effects", rows, name).iloc[0]) for name in _SHARE)
    if not np.isfinite(share):
        return line
    bounds = f" [{100 * low:,.0f} to {100 * high:,.0f}]" if np.isfinite([low, high]).all() else ""
    return f"{line}, with {100 * share:,.0f} %{bounds} of the other nodes' credit"


def _node_rows(rows: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """Return one row per label: ``is_control``, the measures and the half-widths of their intervals."""
    measures = ["credited", "caused", *(["combined"] if set(_COMBINED) <= set(rows.columns) else [])]
    nodes = rows[rows["node_id"].notna()]
    amounts = {name: numbers("effects", nodes, name) for name in measures}
    for name, low, high in (("caused", "low", "high"), _COMBINED):
        if name in measures:
            below, above = (numbers("effects", nodes, column) for column in (low, high))
            amounts[f"{name}_below"] = (amounts[name] - below) ** 2
            amounts[f"{name}_above"] = (above - amounts[name]) ** 2
    keyed = pd.DataFrame(amounts).assign(
        node_id=nodes["node_id"], is_control=nodes["is_control"].astype(bool)
    )
    by_node = keyed.groupby("node_id")
    summed = by_node[list(amounts)].sum(min_count=1).assign(is_control=by_node["is_control"].any())
    half_widths = [name for name in amounts if name.endswith(("_below", "_above"))]
    summed[half_widths] = np.sqrt(summed[half_widths])
    best = measures[-1]
    magnitude = summed[measures].abs().max(axis="columns")
    order = summed.assign(magnitude=magnitude, best=summed[best]).reset_index()
    ranked = order[~order["is_control"]].sort_values(["magnitude", "node_id"], ascending=[False, True])
    descending: Any = {"by": ["best", "node_id"], "ascending": [False, True]}
    kept, rest = ranked.head(top).sort_values(**descending), ranked.iloc[top:]
    controls = order[order["is_control"]].sort_values(**descending)
    names = names_of_nodes(nodes)
    labels = distinct({node: names[node] for node in [*kept["node_id"], *controls["node_id"]]})
    if "is_at_checkout" in nodes.columns:
        for node in set(nodes.loc[nodes["is_at_checkout"].astype(bool), "node_id"]) & set(kept["node_id"]):
            labels[node] = f"{labels[node]} (at checkout)"
    parts = [kept.assign(label=kept["node_id"].map(labels))]
    if len(rest):
        other = rest[measures].sum(min_count=1).to_frame().T
        parts.append(other.assign(label=f"other ({style.format_count(len(rest), 'node')})", is_control=False))
    parts.append(controls.assign(label=controls["node_id"].map(labels).astype(TEXT) + " (control)"))
    filled = [part for part in parts if len(part)]
    rows_shown: pd.DataFrame = pd.concat(filled, ignore_index=True) if filled else parts[0]
    return rows_shown


def _draw(ax: Axes, shown: pd.DataFrame) -> list[Any]:
    positions = np.arange(len(shown))
    is_control = shown["is_control"].to_numpy(dtype=bool)
    if is_control.any():
        ax.axhspan(len(shown) - is_control.sum() - 0.5, len(shown) - 0.5, color=style.GREY, alpha=0.25, lw=0)
    palette = style.palette(ax)
    ax.axvline(0.0, color=palette.muted, linewidth=0.8, zorder=1.2)
    (credited,) = ax.plot(
        shown["credited"].to_numpy(),
        positions,
        linestyle="none",
        marker="o",
        markersize=6.0,
        markerfacecolor=palette.background,
        markeredgecolor=palette.muted,
        markeredgewidth=1.4,
    )
    measures = ["caused", *(["combined"] if "combined" in shown.columns else [])]
    # Two intervals of one node are drawn at different heights.
    heights = [-0.16, 0.16] if len(measures) > 1 else [0.0]
    # An error bar is a container of artists, which the legend accepts as one handle.
    handles: list[Any] = [credited]
    for name, height, colour, marker in zip(measures, heights, palette.colours, ("o", "D"), strict=False):
        half_widths = shown.reindex(columns=[f"{name}_below", f"{name}_above"]).to_numpy(dtype="float64").T
        handles.append(
            ax.errorbar(
                shown[name].to_numpy(),
                positions + height,
                xerr=np.nan_to_num(np.maximum(half_widths, 0.0)),
                fmt=marker,
                color=colour,
                markersize=5.0,
                elinewidth=1.8,
                capsize=0.0,
                markeredgecolor=palette.background,
                markeredgewidth=0.5,
            )
        )
    ax.set_yticks(positions, labels=shown["label"].tolist(), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    for label, is_muted in zip(ax.get_yticklabels(), is_control, strict=True):
        label.set_color(palette.muted if is_muted else palette.text)
    return handles
