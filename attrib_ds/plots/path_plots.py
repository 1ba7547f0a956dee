"""Plots of paths: the flow of nodes before a conversion, lengths, orders of Markov chains, states."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.display import counted, number
from attrib_ds.errors import InvalidRequest, check_choice, check_whole
from attrib_ds.plots import style
from attrib_ds.plots.labels import distinct, names_of_nodes, shorten
from attrib_ds.records.frames import Frame, read_frame

PATH_COLUMNS: Final = ("event_id", "user_id", "node_id", "node_name", "date", "position", "length")
_BLOCK: Final = 0.07  # width of a block, in distances between columns
#: Start and height of each block, by column and node.
_Blocks = dict[tuple[int, int], tuple[float, float]]


def paths(paths: Paths | Frame, *, top: int = 8, steps: int = 4, ax: Axes | None = None) -> Axes:
    """Draw the flow of paths through their last touches to the conversion.

    Parameters
    ----------
    paths : Paths or DataFrame
        Paths, of which only the touches that are drawn are computed; or a frame as ``Paths.to_pandas()``
        returns it, one row per touchpoint: ``event_id`` (rows without one are left out), ``user_id``,
        ``node_id``, ``node_name``, ``date``, ``position`` (from 1), ``length`` (0: a conversion without a
        touch), and optionally ``conversions``, the weight of the event (1 without the column; events of
        weight 0 or less are left out).
    top : int, default 8
        Maximum number of nodes with their own blocks, by weighted touches; the rest is one block "other".
    steps : int, default 4
        Number of touches before the conversion.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One column per step, aligned at the conversion; the height of a block is the number of conversions
        whose path touches the node at that step, the height of a band the number that continue to the next
        block. Shorter paths begin at a later column; the number of conversions without a touch is below.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``top`` or ``steps`` is not a whole number from 1.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> touches = pd.DataFrame({"event_id": ["e1", "e1", "e2"], "user_id": ["u1", "u1", "u2"],
    ...                         "node_id": ["a", "b", "b"], "node_name": ["Ads", "Mail", "Mail"],
    ...                         "date": pd.Timestamp("2025-01-01", tz="UTC"), "position": [1, 2, 1],
    ...                         "length": [2, 2, 1]})
    >>> axes = at.plots.paths(touches, steps=2, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['1 before', 'last touch', 'conversion']
    """
    top = check_whole("top", top, minimum=1)
    steps = check_whole("steps", steps, minimum=1)
    touches = (
        paths.last_touches(steps) if isinstance(paths, Paths) else read_frame("paths", paths, PATH_COLUMNS)
    )
    weighted = _weigh(touches)
    rows = _last_touches(weighted, steps)
    events = rows.drop_duplicates("event_id")["weight"]

    last = "Last touch" if steps == 1 else f"Last {steps} touches"
    title = f"{last} before {counted(events.sum(), 'conversions')}"
    ax = style.start(ax, (2.6 + 1.5 * min(steps + 1, 9), 5.2), title)
    ax.spines[:].set_visible(False)
    untouched = weighted[weighted["length"] == 0].drop_duplicates("event_id")["weight"].sum()
    if untouched:
        ax.set_xlabel(f"{counted(untouched, 'conversions')} without a touch not drawn")
    if not len(events):
        return style.write_empty(
            ax, "no paths to a conversion" if len(touches) else "no credited conversions"
        )
    names, others = _rank_nodes(rows, top)
    labels = [*distinct(names).values(), f"other ({counted(others, 'nodes')})"]
    cycle = style.palette(ax).colours
    colours = [*(cycle[rank % len(cycle)] for rank in range(len(names))), style.GREY]
    sequences = _sequences(rows, names, steps)
    weights = events.to_numpy()
    blocks = _stack_blocks(sequences, weights)
    _draw_bands(ax, sequences, weights, blocks, colours)
    for (column, node), (start, height) in blocks.items():
        colour = style.palette(ax).text if column == steps else colours[node]
        ax.add_patch(Rectangle((column - _BLOCK / 2, start), _BLOCK, height, color=colour, linewidth=0))
    _label_columns(ax, blocks, steps)
    shown = sorted({node for column, node in blocks if column < steps})
    handles = [Rectangle((0, 0), 1, 1, color=colours[node]) for node in shown]
    style.draw_legend(ax, handles, [labels[node] for node in shown])
    style.apply_layout(ax)
    _name_blocks(ax, blocks, steps, labels)
    return ax


def _weigh(touches: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of events with a positive ``weight``, with numbers as float64."""
    rows = touches[["event_id", "node_id", "node_name"]].assign(
        position=style.numbers("paths", touches, "position"),
        length=style.numbers("paths", touches, "length"),
        weight=style.numbers("paths", touches, "conversions") if "conversions" in touches.columns else 1.0,
    )
    return rows[rows["event_id"].notna() & (rows["weight"] > 0)]


def _last_touches(rows: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Return the touches within the last ``steps``, with their column (0 is the earliest)."""
    rows = rows.assign(column=steps - 1 - (rows["length"] - rows["position"]))
    rows = rows[(rows["length"] > 0) & rows["column"].between(0, steps - 1)]
    is_missing = rows["node_id"].isna()
    return rows.assign(
        column=rows["column"].astype(np.int64),
        node_id=rows["node_id"].mask(is_missing, ""),
        node_name=rows["node_name"].mask(is_missing, "no node"),
    )


def _rank_nodes(rows: pd.DataFrame, top: int) -> tuple[dict[str, str], int]:
    """Return the names of the ``top`` nodes by touches, and the number of other nodes."""
    nodes = style.ranked(rows.groupby("node_id")["weight"].sum())
    names = names_of_nodes(rows)
    return {node: names[node] for node in nodes[:top]}, max(len(nodes) - top, 0)


def _sequences(rows: pd.DataFrame, names: Mapping[str, str], steps: int) -> npt.NDArray[np.int64]:
    """Return the rank of the node by path (rows) and step (columns); -1 before the start of the path."""
    ranks = {node: rank for rank, node in enumerate(names)}
    path, _ = pd.factorize(rows["event_id"])
    sequences = np.full((path.max() + 1, steps), -1, dtype=np.int64)
    sequences[path, rows["column"]] = rows["node_id"].map(ranks).fillna(len(names))
    return sequences


def _stack_blocks(sequences: npt.NDArray[np.int64], weights: npt.NDArray[np.floating]) -> _Blocks:
    """Return the block of each (column, node), stacked downwards from 0 in the order of the nodes."""
    steps = sequences.shape[1]
    gap = 0.025 * float(weights.sum())
    blocks = {}
    for column in range(steps):
        start = 0.0
        for (node,), height in _weigh_rows(sequences[:, [column]], weights):
            blocks[column, node] = (start, height)
            start += height + gap
    blocks[steps, 0] = (0.0, float(weights.sum()))
    return blocks


def _weigh_rows(
    rows: npt.NDArray[np.int64], weights: npt.NDArray[np.floating]
) -> list[tuple[tuple[int, ...], float]]:
    """Return each distinct row in order with its weight; rows that hold -1 are left out."""
    present = (rows >= 0).all(axis=1)
    shape = tuple(np.maximum(rows.max(axis=0) + 1, 1))
    cells = np.ravel_multi_index(tuple(rows[present].T), shape)
    sums = np.bincount(cells, weights[present], minlength=math.prod(shape)).reshape(shape)
    return [(tuple(map(int, cell)), float(sums[tuple(cell)])) for cell in np.argwhere(sums)]


def _draw_bands(
    ax: Axes,
    sequences: npt.NDArray[np.int64],
    weights: npt.NDArray[np.floating],
    blocks: _Blocks,
    colours: Sequence[str],
) -> None:
    used: defaultdict[tuple[int, int, str], float] = defaultdict(float)
    following = np.c_[sequences[:, 1:], np.zeros(len(sequences), dtype=np.int64)]
    for column in range(sequences.shape[1]):
        moves = np.c_[sequences[:, column], following[:, column]]
        for (here, there), height in _weigh_rows(moves, weights):
            left, right = (column, here, "out"), (column + 1, there, "in")
            starts = blocks[left[:2]][0] + used[left], blocks[right[:2]][0] + used[right]
            band = _band(column, *starts, height)
            ax.add_patch(PathPatch(band, facecolor=colours[here], alpha=0.3, linewidth=0))
            used[left] += height
            used[right] += height


def _band(column: int, left: float, right: float, height: float) -> Path:
    """Return a band of constant height from a column to the next, as Bézier curves."""
    start, middle, end = column + _BLOCK / 2, column + 0.5, column + 1 - _BLOCK / 2
    corners = [
        (start, left), (middle, left), (middle, right), (end, right),
        (end, right + height), (middle, right + height), (middle, left + height), (start, left + height),
        (start, left),
    ]  # fmt: skip
    return Path(corners, [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY])


def _label_columns(ax: Axes, blocks: _Blocks, steps: int) -> None:
    """Label the columns below, and write the number of conversions above each."""
    before = [f"{steps - 1 - column} before" for column in range(steps - 1)]
    ax.set_xticks(range(steps + 1), labels=[*before, "last touch", "conversion"], va="baseline")
    ax.set_yticks([])
    ax.tick_params(axis="x", length=0, pad=14)
    ax.set_xlim(-0.15, steps + 0.15)
    totals: defaultdict[int, float] = defaultdict(float)
    for (column, _), (_, height) in blocks.items():
        totals[column] += height
    for column, total in totals.items():
        style.write(ax, number(total), (column, 0), (0, 4), ha="center", va="bottom")
    lowest = max(map(sum, blocks.values()))
    ax.set_ylim(1.01 * lowest, -0.07 * lowest)


def _name_blocks(ax: Axes, blocks: _Blocks, steps: int, labels: Sequence[str]) -> None:
    """Write the node's name next to each block that is high enough for a line of text."""
    points = 72 / ax.figure.dpi
    box = ax.get_window_extent()
    line = style.scale_points(10) / (box.height * points) * abs(np.diff(ax.get_ylim()).item())
    pitch = box.width * points / (steps + 0.3)
    characters = max(int((1 - 1.5 * _BLOCK) * pitch / style.scale_points(5)), 4)
    font: style.Look = {"fontsize": style.scale_points(8), "color": style.palette(ax).text}
    for (column, node), (start, height) in blocks.items():
        if column < steps and height >= line:
            place, name = (column + 0.8 * _BLOCK, start + height / 2), shorten(labels[node], width=characters)
            style.outline(ax.text(*place, name, va="center", parse_math=False, **font), ax)


LENGTH_COLUMNS: Final = ("length", "conversions")


def lengths(lengths: Frame, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the number of conversions by number of touchpoints.

    Parameters
    ----------
    lengths : DataFrame
        As ``Paths.lengths()`` returns it: ``length`` (0: no touchpoint), ``conversions``.
    most : int, default 20
        Last bar, which includes all longer paths.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One bar per length from the left, including lengths without conversions; the bar of length 0 is grey.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric, a length is missing or below 0, or ``most`` is not a whole
        number from 1.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"length": [1, 3], "conversions": [5.0, 2.0]})
    >>> [int(bar.get_height()) for bar in at.plots.lengths(frame, ax=Figure().subplots()).patches]
    [0, 5, 0, 2]
    """
    lengths = read_frame("lengths", lengths, LENGTH_COLUMNS)
    most = check_whole("most", most, minimum=1)
    conversions = style.numbers("lengths", lengths, "conversions")
    length = style.numbers("lengths", lengths, "length")
    invalid = length[~(length >= 0)]
    if len(invalid):
        raise InvalidRequest(
            f"lengths: column 'length' contains {invalid.iloc[0]:g}; allowed: touchpoints from 0"
        )
    by_length = conversions.groupby(length.clip(upper=most).astype("int64")).sum()
    longest = int(by_length.index.max()) if len(by_length) else 0
    heights = by_length.reindex(range(longest + 1), fill_value=0.0).to_numpy()

    title, x = "Conversions by number of touchpoints", "touchpoints in the lookback"
    ax = style.start(ax, (7.5, 3.8), title, grid="y", x=x, y="conversions")
    if not heights.sum():
        return style.write_empty(ax, "no conversions")
    positions = range(longest + 1)
    ax.bar(positions, heights, width=0.75, color=[style.GREY, *([style.palette(ax).colours[0]] * longest)])
    labels = [str(position) for position in positions]
    if (length > most).any():
        labels[-1] = f"{most}+"
    style.format_thousands(ax.yaxis)
    style.label_ticks(ax, labels)
    return ax


_COLUMNS = ("order", "held_out", "behind", "behind_error", "is_best", "is_parsimonious")


def orders(compared: Frame, *, ax: Axes | None = None) -> Axes:
    """Draw the held-out log-likelihood by Markov order, relative to the best.

    Parameters
    ----------
    compared : DataFrame
        As ``compare_orders`` returns it.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One point per order: held-out log-likelihood per path minus that of the best order, with one standard
        error to either side. The lowest order whose error bar reaches 0 is filled and labelled.

    Raises
    ------
    InvalidRequest
        If a column is missing.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"order": [1, 2, 3], "held_out": [-9.0, -8.0, -8.3], "behind": [1.0, 0.0, 0.3],
    ...     "behind_error": [0.1, 0.0, 0.1], "is_best": [False, True, False],
    ...     "is_parsimonious": [False, True, False]})
    >>> at.plots.orders(frame, ax=Figure().subplots()).get_xlabel()
    'Markov order: touchpoints that the next step depends on'
    """
    compared = read_frame("compared", compared, _COLUMNS)
    title, y = "Markov chains by order, on held-out users", "log-likelihood per path minus the best"
    x = "Markov order: touchpoints that the next step depends on"
    ax = style.start(ax, (6.2, 4.2), title, grid="y", x=x, y=y)
    if compared.empty:
        return style.write_empty(ax, "nothing to compare")
    order, behind, error = (
        style.numbers("compared", compared, name).to_numpy() for name in ("order", "behind", "behind_error")
    )
    chosen = compared["is_parsimonious"].to_numpy(dtype=bool)
    palette = style.palette(ax)
    ax.axhline(0.0, color=palette.muted, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1.2)
    ax.plot(order, -behind, color=palette.colours[0], linewidth=1.4, zorder=2)
    ax.vlines(order, -behind - error, -behind + error, color=palette.colours[0], linewidth=1.6, zorder=2)
    for group, size, fill in ((~chosen, 6.0, palette.background), (chosen, 7.0, palette.colours[0])):
        look: style.Look = {
            "color": palette.colours[0],
            "markerfacecolor": fill,
            "markeredgewidth": 1.4,
            "zorder": 3,
        }
        ax.plot(order[group], -behind[group], "o", markersize=size, **look)
    for best, height in zip(order[chosen][:1], -behind[chosen][:1], strict=True):
        style.outline(style.write(ax, f"order {best:g}", (best, height), (0, 9), ha="center"), ax)
    ax.set_xticks(np.sort(order))
    ax.set_xlim(order.min() - 0.5, order.max() + 0.5)
    ax.margins(y=0.18)
    return ax


PREFIX: Final = "values."
#: Prefix of metrics that are a mean time, not a number of events.
_DELAY: Final = "state-delay-"


def funnel(insights: Frame, *, steps: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the number of events, and how many reached each state.

    Parameters
    ----------
    insights : DataFrame
        As ``event_insights`` returns it for ``"event-count"`` and states; its rows are summed.
    steps : sequence of str, optional
        Metrics in the order of the funnel; by default all counts, in the order of the columns.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        One bar per step from top to bottom, with its number of events and its share of the first and of the
        previous step.

    Raises
    ------
    InvalidRequest
        If a step is not a metric of the frame, or there are no steps.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"values.event-count": [80.0, 20.0], "values.won": [20.0, 5.0]})
    >>> [int(bar.get_width()) for bar in at.plots.funnel(frame, ax=Figure().subplots()).patches]
    [100, 25]
    """
    insights = read_frame("insights", insights)
    metrics = [name.removeprefix(PREFIX) for name in insights.columns if str(name).startswith(PREFIX)]
    chosen = [name for name in metrics if not name.startswith(_DELAY)] if steps is None else list(steps)
    for step in chosen:
        check_choice("steps", step, metrics)
    if not chosen:
        raise InvalidRequest("steps: at least one metric of events is required")
    counts = [float(style.numbers("insights", insights, f"{PREFIX}{step}").sum()) for step in chosen]

    size = (7.5, 1.2 + 0.55 * len(chosen))
    ax = style.start(ax, size, "Events that reached each state", grid="x", x="events", lift=10)
    ax.barh(range(len(chosen)), counts, color=style.palette(ax).colours[0], height=0.62)
    names = distinct({step: "events" if step == "event-count" else step for step in chosen})
    ax.set_yticks(range(len(chosen)), labels=[names[step] for step in chosen], parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(0, max(*counts, 1.0) * 1.45)
    for position, count in enumerate(counts):
        style.write(ax, _note(counts, position), (count, position), (4, 0), va="center")
    style.format_thousands(ax.xaxis)
    style.apply_layout(ax)
    return ax


def _note(counts: Sequence[float], position: int) -> str:
    """Return the number of events of a step with its shares of the first and of the previous step."""
    shares = []
    if position and counts[0]:
        shares.append(f"{counts[position] / counts[0]:.1%} of all")
    if position > 1 and counts[position - 1]:
        shares.append(f"{counts[position] / counts[position - 1]:.1%} of the previous step")
    note = number(counts[position])
    return f"{note}  ({', '.join(shares)})" if shares else note
