"""The touchpoints of one conversion on the way to it, each with its part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.plots import look
from attrib_ds.plots.arguments import numbers, require_frame
from attrib_ds.plots.labels import distinct, names_of_nodes, shorten

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes

COLUMNS: Final = ("position", "node_id", "node_name", "age_days", "weight")
#: How much of the room of a node the largest part fills; the label stands above it.
_HIGHEST: Final = 0.62
#: The same where parts hang down too, towards those of the next node.
_HIGHEST_OF_BOTH: Final = 0.3
_UNITS: Final = ((1.0, "days"), (1 / 24, "hours"), (1 / 1440, "minutes"))
#: Characters of a small label for a tenth of the width of a plot.
_TENTH: Final = 6


def explanation(explanation: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the touchpoints of one conversion in time, each with its part of it.

    Parameters
    ----------
    explanation : DataFrame
        As :func:`attrib_ds.explain` returns it, one row per touchpoint: ``position``, ``node_id``,
        ``node_name``, ``age_days`` (null where paths have no dates), ``weight``.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        One line per node, the one touched first on top, with a bar per touchpoint as high as its part of the
        conversion, which stands at the right end. Parts are labelled as far as labels stand apart, the
        largest first; on the right the part of the node. Parts below zero hang down. Touchpoints without a
        part are grey marks. What is nobody's is told below.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> rows = pd.DataFrame({"position": [1, 2, 3], "node_id": ["search", "email", "search"],
    ...     "node_name": ["Search", "Email", "Search"], "age_days": [9.0, 4.0, 1.0],
    ...     "weight": [0.4, 0.2, 0.4]})
    >>> axes = explanation(rows, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Search', 'Email']
    """
    require_frame("explanation", explanation, COLUMNS)
    rows = explanation.assign(
        age_days=numbers("explanation", explanation, "age_days"),
        weight=numbers("explanation", explanation, "weight").fillna(0.0),
        position=numbers("explanation", explanation, "position"),
    )
    touches = rows[rows["node_id"].notna()].sort_values(["age_days", "position"], ascending=[False, True])
    names = distinct(names_of_nodes(touches))
    hangs_down = bool((touches["weight"] < 0).any())
    ax = look.axes_of(ax, width=8.0, height=1.5 + (0.8 if hangs_down else 0.55) * max(len(names), 2))
    look.dress(ax, title=_title(explanation), grid=None)
    nobodys = float(rows.loc[rows["node_id"].isna(), "weight"].sum())
    note = f"\n{_percent(nobodys)} of the conversion is nobody's" if round(nobodys, 9) else ""
    if touches.empty:
        look.say_empty(ax, "no touchpoint led to it")
        ax.set_xlabel(note.strip())
        return ax
    places, name = _places(touches)
    ax.set_xlabel(f"{name}{note}")
    lines = {node: len(names) - 1 - number for number, node in enumerate(names)}
    base = np.array([lines[node] for node in touches["node_id"]], dtype=np.float64)
    weight = touches["weight"].to_numpy()
    largest = float(np.abs(weight).max()) or 1.0
    tip = base + (_HIGHEST_OF_BOTH if hangs_down else _HIGHEST) * weight / largest
    _draw_bars(ax, places, base, tip, weight)
    _label_parts(ax, places, base, tip, weight)
    _label_nodes(ax, names, lines, touches)
    if touches["age_days"].notna().all():
        ax.axvline(0.0, color=look.tones(ax).muted, linewidth=1.2)
        ax.set_xlim(1.04 * max(places.max(), 1e-9), -0.02 * max(places.max(), 1e-9))
    else:
        ax.set_xlim(0.4, places.max() + 0.6)
        ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    ax.set_ylim(-0.6 if hangs_down else -0.35, len(names) - 1 + (0.6 if hangs_down else 0.95))
    return ax


def _title(explanation: pd.DataFrame) -> str:
    """Name the conversion and the model, where the frame still tells them."""
    event, model = (explanation.attrs.get(name) for name in ("event_id", "model"))
    of_event = "the conversion" if event is None else event
    return f"The way to {of_event}{'' if model is None else f', credited by {shorten(str(model))}'}"


def _places(touches: pd.DataFrame) -> tuple[npt.NDArray[np.float64], str]:
    """Return where touchpoints stand, and what that is called."""
    age = touches["age_days"].to_numpy()
    if np.isnan(age).any():
        return touches["position"].to_numpy(), "touchpoint"
    unit, name = next((each for each in _UNITS if age.max() >= 2 * each[0]), _UNITS[-1])
    return age / unit, f"{name} before the conversion"


def _draw_bars(
    ax: Axes,
    places: npt.NDArray[np.float64],
    base: npt.NDArray[np.float64],
    tip: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
) -> None:
    ax.hlines(np.unique(base), *(0, 1), transform=ax.get_yaxis_transform(), color=look.GREY, linewidth=0.8)
    for chosen, colour in ((weight > 0, look.tones(ax).colours[0]), (weight < 0, look.tones(ax).colours[3])):
        ax.vlines(places[chosen], base[chosen], tip[chosen], color=colour, linewidth=3.0, alpha=0.85)
        ax.plot(places[chosen], tip[chosen], "o", color=colour, markersize=4.0)
    nothing = weight == 0
    ax.plot(places[nothing], base[nothing], "|", color=look.tones(ax).muted, markersize=8.0)


def _label_parts(
    ax: Axes,
    places: npt.NDArray[np.float64],
    base: npt.NDArray[np.float64],
    tip: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
) -> None:
    """Write the parts, the largest first, where none is written yet."""
    room = max(float(np.ptp(places)), float(places.max()), 1e-9) / 10 / _TENTH
    written: list[tuple[float, float, float]] = []
    for index in np.argsort(-np.abs(weight), kind="stable"):
        text = _percent(weight[index])
        half = room * (len(text) + 1) / 2
        meets = any(
            line == base[index] and abs(place - places[index]) < half + width
            for line, place, width in written
        )
        if weight[index] == 0 or meets:
            continue
        written.append((base[index], places[index], half))
        is_up = weight[index] > 0
        label = ax.annotate(
            text,
            (places[index], tip[index]),
            xytext=(0, 4 if is_up else -4),
            textcoords="offset points",
            ha="center",
            va="bottom" if is_up else "top",
            fontsize="x-small",
            color=look.tones(ax).ink,
        )
        # The line of the conversion may run through it.
        look.outline(label, ax)


def _label_nodes(ax: Axes, names: dict[str, str], lines: dict[str, int], touches: pd.DataFrame) -> None:
    ax.set_yticks([lines[node] for node in names], labels=list(names.values()), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    parts = touches.groupby("node_id")["weight"].sum()
    counts = touches.groupby("node_id")["weight"].count()
    for node, line in lines.items():
        many = f" from {counts[node]} touches" if counts[node] > 1 else ""
        ax.annotate(
            f"{_percent(parts[node])}{many}",
            (1.0, line),
            xycoords=ax.get_yaxis_transform(),
            xytext=(8, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize="small",
            color=look.tones(ax).ink,
            annotation_clip=False,
        )


def _percent(part: float) -> str:
    text = f"{100 * part:.0f} %" if abs(part) >= 0.0995 or part == 0 else f"{100 * part:.2g} %"
    return text.replace("-", "\N{MINUS SIGN}")
