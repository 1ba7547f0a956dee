"""Timeline of the touchpoints of one conversion, with their shares of credit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.plots import style
from attrib_ds.plots.arguments import numbers
from attrib_ds.plots.labels import distinct, names_of_nodes, shorten
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes

    from attrib_ds.records.input_frames import Frame

COLUMNS: Final = ("position", "node_id", "node_name", "age_days", "weight")
#: Height of the largest bar, as a fraction of a node's row; its label is above it.
_MAX_HEIGHT: Final = 0.62
#: The same if there are negative shares, whose bars point down towards the next row.
_MAX_HEIGHT_SIGNED: Final = 0.3
_UNITS: Final = ((1.0, "days"), (1 / 24, "hours"), (1 / 1440, "minutes"))
#: Characters of a small label in a tenth of the width of a plot.
_TENTH: Final = 6


def explanation(explanation: Frame, *, ax: Axes | None = None) -> Axes:
    """Draw the touchpoints of one conversion over time, with their shares of credit.

    Parameters
    ----------
    explanation : DataFrame
        As :func:`attrib_ds.explain` returns it, one row per touchpoint: ``position``, ``node_id``,
        ``node_name``, ``age_days`` (null where paths have no dates), ``weight``.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One row per node, the one touched first on top, with a bar per touchpoint; its height is the
        touchpoint's share of credit. The conversion is at the right end. Shares are labelled, largest first,
        unless labels would overlap; the share of each node is on the right. Bars of negative shares point
        down. Touchpoints without credit are grey marks. The baseline is noted below the axis.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> rows = pd.DataFrame({"position": [1, 2, 3], "node_id": ["search", "email", "search"],
    ...     "node_name": ["Search", "Email", "Search"], "age_days": [9.0, 4.0, 1.0],
    ...     "weight": [0.4, 0.2, 0.4]})
    >>> axes = at.plots.explanation(rows, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Search', 'Email']
    """
    explanation = read_frame("explanation", explanation, COLUMNS)
    rows = explanation.assign(
        age_days=numbers("explanation", explanation, "age_days"),
        weight=numbers("explanation", explanation, "weight").fillna(0.0),
        position=numbers("explanation", explanation, "position"),
    )
    touches = rows[rows["node_id"].notna()].sort_values(["age_days", "position"], ascending=[False, True])
    names = distinct(names_of_nodes(touches))
    has_negative = bool((touches["weight"] < 0).any())
    ax = style.axes_or_new(ax, width=8.0, height=1.5 + (0.8 if has_negative else 0.55) * max(len(names), 2))
    style.format_axes(ax, title=_title(explanation), grid=None)
    baseline = float(rows.loc[rows["node_id"].isna(), "weight"].sum())
    note = f"\n{_percent(baseline)} of the conversion is baseline" if round(baseline, 9) else ""
    if touches.empty:
        style.write_empty(ax, "no credited touchpoint")
        ax.set_xlabel(note.strip())
        return ax
    positions, name = _positions(touches)
    ax.set_xlabel(f"{name}{note}")
    heights = {node: len(names) - 1 - number for number, node in enumerate(names)}
    base = np.array([heights[node] for node in touches["node_id"]], dtype=np.float64)
    weight = touches["weight"].to_numpy()
    largest = float(np.abs(weight).max()) or 1.0
    tip = base + (_MAX_HEIGHT_SIGNED if has_negative else _MAX_HEIGHT) * weight / largest
    _draw_bars(ax, positions, base, tip, weight)
    _label_shares(ax, positions, base, tip, weight)
    _label_nodes(ax, names, heights, touches)
    if touches["age_days"].notna().all():
        ax.axvline(0.0, color=style.palette(ax).muted, linewidth=1.2)
        ax.set_xlim(1.04 * max(positions.max(), 1e-9), -0.02 * max(positions.max(), 1e-9))
    else:
        ax.set_xlim(0.4, positions.max() + 0.6)
        ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    ax.set_ylim(-0.6 if has_negative else -0.35, len(names) - 1 + (0.6 if has_negative else 0.95))
    return ax


def _title(explanation: pd.DataFrame) -> str:
    """Return the title, with the conversion and the model if they are in the frame's ``attrs``."""
    event, model = (explanation.attrs.get(name) for name in ("event_id", "model"))
    conversion = "the conversion" if event is None else event
    return f"Path to {conversion}{'' if model is None else f', credited by {shorten(str(model))}'}"


def _positions(touches: pd.DataFrame) -> tuple[npt.NDArray[np.float64], str]:
    """Return the positions of touchpoints on the x axis, and the label of the axis."""
    age = touches["age_days"].to_numpy()
    if np.isnan(age).any():
        return touches["position"].to_numpy(), "touchpoint"
    unit, name = next(((unit, name) for unit, name in _UNITS if age.max() >= 2 * unit), _UNITS[-1])
    return age / unit, f"{name} before the conversion"


def _draw_bars(
    ax: Axes,
    positions: npt.NDArray[np.float64],
    base: npt.NDArray[np.float64],
    tip: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
) -> None:
    ax.hlines(np.unique(base), 0, 1, transform=ax.get_yaxis_transform(), color=style.GREY, linewidth=0.8)
    for chosen, colour in (
        (weight > 0, style.palette(ax).colours[0]),
        (weight < 0, style.palette(ax).colours[3]),
    ):
        ax.vlines(positions[chosen], base[chosen], tip[chosen], color=colour, linewidth=3.0, alpha=0.85)
        ax.plot(positions[chosen], tip[chosen], "o", color=colour, markersize=4.0)
    is_uncredited = weight == 0
    ax.plot(positions[is_uncredited], base[is_uncredited], "|", color=style.palette(ax).muted, markersize=8.0)


def _label_shares(
    ax: Axes,
    positions: npt.NDArray[np.float64],
    base: npt.NDArray[np.float64],
    tip: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
) -> None:
    """Label the shares, largest first, without overlaps."""
    character = max(float(np.ptp(positions)), float(positions.max()), 1e-9) / 10 / _TENTH
    labelled: list[tuple[float, float, float]] = []
    for index in np.argsort(-np.abs(weight), kind="stable"):
        text = _percent(weight[index])
        half = character * (len(text) + 1) / 2
        overlaps = any(
            row == base[index] and abs(position - positions[index]) < half + width
            for row, position, width in labelled
        )
        if weight[index] == 0 or overlaps:
            continue
        labelled.append((base[index], positions[index], half))
        is_up = weight[index] > 0
        label = ax.annotate(
            text,
            (positions[index], tip[index]),
            xytext=(0, 4 if is_up else -4),
            textcoords="offset points",
            ha="center",
            va="bottom" if is_up else "top",
            fontsize="x-small",
            color=style.palette(ax).text,
        )
        # The line of the conversion may cross the label.
        style.outline(label, ax)


def _label_nodes(ax: Axes, names: dict[str, str], heights: dict[str, int], touches: pd.DataFrame) -> None:
    ax.set_yticks([heights[node] for node in names], labels=list(names.values()), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    shares = touches.groupby("node_id")["weight"].sum()
    counts = touches.groupby("node_id")["weight"].count()
    for node, height in heights.items():
        note = f" from {counts[node]} touches" if counts[node] > 1 else ""
        ax.annotate(
            f"{_percent(shares[node])}{note}",
            (1.0, height),
            xycoords=ax.get_yaxis_transform(),
            xytext=(8, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize="small",
            color=style.palette(ax).text,
            annotation_clip=False,
        )


def _percent(share: float) -> str:
    text = f"{100 * share:.0f} %" if abs(share) >= 0.0995 or share == 0 else f"{100 * share:.2g} %"
    return text.replace("-", "\N{MINUS SIGN}")
