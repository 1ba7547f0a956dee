"""Lines over calendar intervals, with hollow markers at intervals that are counted in part only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.plots import style

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

#: Kinds of lines.
GROUP: Final = "group"
OTHER: Final = "other"
UNATTRIBUTED: Final = "unattributed"
_DASHES: Final = ("-", "-.", ":")
_MAX_MARKERS: Final = 60


def draw_lines(
    ax: Axes, table: pd.DataFrame, kinds: Sequence[str], *, partial: Collection[str], xlabel: str
) -> list[Line2D]:
    """Draw each row of a table as a line over its columns, and return the lines.

    Groups have colours, the others are grey. A note below the axis names the partial intervals.
    """
    palette = style.palette(ax)
    lines, groups = [], 0
    for row, kind in enumerate(kinds):
        if kind == GROUP:
            colour = palette.colours[groups % len(palette.colours)]
            dashes = _DASHES[groups // len(palette.colours) % len(_DASHES)]
            groups += 1
        else:
            colour, dashes = (style.GREY, "--") if kind == OTHER else (palette.muted, ":")
        (line,) = ax.plot(
            range(len(table.columns)),
            table.iloc[row].to_numpy(),
            color=colour,
            linestyle=dashes,
            marker="o" if len(table.columns) <= _MAX_MARKERS else "",
            markersize=3.5,
            linewidth=1.6,
        )
        lines.append(line)
    drawn = table.notna().any().tolist()
    places = [place for place, name in enumerate(table.columns) if name in partial and drawn[place]]
    for row, line in enumerate(lines if places else ()):
        ax.plot(
            places,
            table.iloc[row, places].to_numpy(),
            linestyle="",
            marker="o",
            markersize=6,
            markerfacecolor=palette.background,
            markeredgecolor=line.get_color(),
            markeredgewidth=1.2,
            zorder=line.get_zorder() + 0.5,
        )
    note = f"hollow: {_listed(list(table.columns), places)}, counted in part only"
    ax.set_xlabel(f"{xlabel}\n{note}" if places else xlabel)
    return lines


def _listed(intervals: list[str], places: list[int]) -> str:
    """Return the names of intervals; several in a row are the first and the last."""
    firsts = [place for place in places if place - 1 not in places]
    lasts = [place for place in places if place + 1 not in places]
    return ", ".join(
        intervals[first] if first == last else f"{intervals[first]} to {intervals[last]}"
        for first, last in zip(firsts, lasts, strict=True)
    )


def partial_intervals(rows: pd.DataFrame, interval: str) -> set[str]:
    """Return the partial intervals of rows; none if no column marks them."""
    if "is_partial" not in rows.columns:
        return set()
    return set(rows.loc[rows["is_partial"].fillna(False).astype(bool), interval].dropna().astype(str))
