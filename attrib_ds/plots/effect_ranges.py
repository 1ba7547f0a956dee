"""What nodes are credited with and what they caused, as a dot and a range on one line per node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.plots import look
from attrib_ds.plots.arguments import numbers, require_count, require_frame
from attrib_ds.plots.credit_rows import select_model
from attrib_ds.plots.labels import distinct, names_of_nodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS: Final = (
    "model", "node_id", "node_name", "currency", "is_control", "credited", "caused", "low", "high",
)  # fmt: skip
_COMBINED: Final = ("combined", "combined_low", "combined_high")


def effects(
    effects: pd.DataFrame,
    *,
    model: str | None = None,
    top: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each node is credited with beside what it caused, with intervals.

    Parameters
    ----------
    effects : DataFrame
        As ``incremental_effects`` returns it: ``model``, ``node_id``, ``node_name``, ``currency``,
        ``is_control``, ``credited``, ``caused``, ``low``, ``high`` and, where there was an experiment,
        ``combined``, ``combined_low``, ``combined_high``.
    model : str, optional
        The model to draw; needed where there are several.
    top : int, default 15
        Nodes with a line of their own, largest magnitude first, and all controls; the rest is summed, without
        intervals, because bounds do not add up.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        From top to bottom: nodes by falling effect, "other (n nodes)", then the controls, whose effect is
        known to be zero, on a grey ground. Currencies are summed as far as conversions go, and intervals with
        them as those of independent numbers.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``model`` or ``top`` is not allowed.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "hazard", "node_id": ["a", "d"], "node_name": ["Ads", "Direct"],
    ...     "currency": "EUR", "is_control": [False, True], "credited": [30.0, 20.0], "caused": [9.0, 1.0],
    ...     "low": [5.0, -2.0], "high": [13.0, 4.0]})
    >>> axes = effects(frame, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Ads', 'Direct (control)']
    """
    require_frame("effects", effects, COLUMNS)
    require_count("top", top)
    chosen, label = select_model(effects, model)
    shown = _lines(chosen, top=top)
    ax = look.axes_of(ax, width=9.0, height=1.6 + 0.34 * max(len(shown), 3))
    look.dress(ax, title="Conversions credited and caused per node", grid="x")
    ax.set_xlabel("conversions")
    if shown.empty:
        look.say_empty(ax, "no effects")
        return ax
    handles = _draw(ax, shown)
    names = ["credited (a convention)", f"caused, by {label}"]
    if "combined" in shown.columns:
        names.append("caused, with the experiment")
    look.draw_legend(ax, handles, names)
    look.write_thousands(ax.xaxis)
    return ax


def _lines(rows: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """Return one row per line: ``label``, ``is_control``, the numbers, and how far each range reaches."""
    measures = ["credited", "caused", *(["combined"] if set(_COMBINED) <= set(rows.columns) else [])]
    nodes = rows[rows["node_id"].notna()]
    given = {name: numbers("effects", nodes, name) for name in measures}
    for name, low, high in (("caused", "low", "high"), _COMBINED):
        if name in measures:
            below, above = (numbers("effects", nodes, column) for column in (low, high))
            given[f"{name}_below"] = (given[name] - below) ** 2
            given[f"{name}_above"] = (above - given[name]) ** 2
    keyed = pd.DataFrame(given).assign(node_id=nodes["node_id"], is_control=nodes["is_control"].astype(bool))
    by_node = keyed.groupby("node_id")
    summed = by_node[list(given)].sum(min_count=1).assign(is_control=by_node["is_control"].any())
    reaches = [name for name in given if name.endswith(("_below", "_above"))]
    summed[reaches] = np.sqrt(summed[reaches])
    best = measures[-1]
    magnitude = summed[measures].abs().max(axis="columns")
    order = summed.assign(magnitude=magnitude, best=summed[best]).reset_index()
    ranked = order[~order["is_control"]].sort_values(["magnitude", "node_id"], ascending=[False, True])
    falling: Any = {"by": ["best", "node_id"], "ascending": [False, True]}
    kept, rest = ranked.head(top).sort_values(**falling), ranked.iloc[top:]
    controls = order[order["is_control"]].sort_values(**falling)
    every = names_of_nodes(nodes)
    named = distinct({node: every[node] for node in [*kept["node_id"], *controls["node_id"]]})
    parts = [kept.assign(label=kept["node_id"].map(named))]
    if len(rest):
        other = rest[measures].sum(min_count=1).to_frame().T
        parts.append(other.assign(label=f"other ({look.count(len(rest), 'node')})", is_control=False))
    parts.append(controls.assign(label=controls["node_id"].map(named).astype("str") + " (control)"))
    filled = [part for part in parts if len(part)]
    lines: pd.DataFrame = pd.concat(filled, ignore_index=True) if filled else parts[0]
    return lines


def _draw(ax: Axes, shown: pd.DataFrame) -> list[Any]:
    positions = np.arange(len(shown))
    is_control = shown["is_control"].to_numpy(dtype=bool)
    if is_control.any():
        ax.axhspan(len(shown) - is_control.sum() - 0.5, len(shown) - 0.5, color=look.GREY, alpha=0.25, lw=0)
    tones = look.tones(ax)
    ax.axvline(0.0, color=tones.muted, linewidth=0.8, zorder=1.2)
    (credited,) = ax.plot(
        shown["credited"].to_numpy(),
        positions,
        linestyle="none",
        marker="o",
        markersize=6.0,
        markerfacecolor=tones.ground,
        markeredgecolor=tones.muted,
        markeredgewidth=1.4,
    )
    measures = ["caused", *(["combined"] if "combined" in shown.columns else [])]
    # Two ranges of one node keep to heights of their own.
    heights = [-0.16, 0.16] if len(measures) > 1 else [0.0]
    # A range is drawn as several artists, which a legend takes as one.
    handles: list[Any] = [credited]
    for name, height, colour, marker in zip(measures, heights, tones.colours, ("o", "D"), strict=False):
        reach = shown.reindex(columns=[f"{name}_below", f"{name}_above"]).to_numpy(dtype="float64").T
        handles.append(
            ax.errorbar(
                shown[name].to_numpy(),
                positions + height,
                xerr=np.nan_to_num(np.maximum(reach, 0.0)),
                fmt=marker,
                color=colour,
                markersize=5.0,
                elinewidth=1.8,
                capsize=0.0,
                markeredgecolor=tones.ground,
                markeredgewidth=0.5,
            )
        )
    ax.set_yticks(positions, labels=shown["label"].tolist(), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    for text, known in zip(ax.get_yticklabels(), is_control, strict=True):
        text.set_color(tones.muted if known else tones.ink)
    return handles
