"""The look all plots share: colours, axes, legends, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib import pyplot
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.text import Text

# Okabe & Ito, "Color Universal Design" (2008), with a wine red from Tol's muted scheme in place of the
# yellow, which vanishes on white. Any two of these and the grey differ by at least 15 (CIE76) for viewers
# without one kind of cone (Machado et al. 2009).
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#222222", "#882255")
# Each with a size in points that makes it look as large as the circle.
MARKERS: Final = (
    ("o", 5.5), ("s", 5.5), ("^", 6.5), ("D", 5.0), ("v", 6.5), ("P", 7.0),
    ("X", 7.0), ("<", 6.5), (">", 6.5), ("p", 6.5), ("*", 9.0), ("h", 6.5),
)  # fmt: skip
GREY: Final = "#BEBEBE"  # fills of what is not a node or group
MUTED: Final = "#767676"  # lines and texts beside the data
INK: Final = "#333333"
_GRID: Final = "#DDDDDD"


def axes_of(ax: Axes | None, *, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of ``width`` by ``height`` inches."""
    if ax is not None:
        return ax
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)  # inches around what is drawn
    _, created = pyplot.subplots(figsize=(width, height), layout=layout)
    return created


def settle(ax: Axes) -> None:
    """Let the figure's layout, if it has one, place the axes: what is measured on them next stays true."""
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_layout_engine() is not None:
        figure.draw_without_rendering()


def dress(ax: Axes, *, title: str, grid: str | None, lift: float = 8.0) -> None:
    """Set title, spines and a light grid along ``grid`` (``"x"``, ``"y"``, ``"both"`` or none).

    The title stands ``lift`` points above the axes.
    """
    ax.set_title(
        title, loc="left", pad=lift, fontsize="medium", fontweight="bold", color=INK, parse_math=False
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(color=MUTED, labelcolor=INK, labelsize="small")
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
    ax.xaxis.label.set_parse_math(False)
    ax.yaxis.label.set_parse_math(False)
    ax.set_axisbelow(True)
    if grid == "x" or grid == "both":
        ax.xaxis.grid(visible=True, color=_GRID, linewidth=0.8)
    if grid == "y" or grid == "both":
        ax.yaxis.grid(visible=True, color=_GRID, linewidth=0.8)


def say_empty(ax: Axes, message: str) -> None:
    """Write ``message`` in the middle of axes that have nothing to show."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, message, transform=ax.transAxes, ha="center", va="center", color=MUTED)


def number(amount: float) -> str:
    """Return a number with thousands separators and at most two decimals that matter."""
    if amount == round(amount):
        return f"{amount:,.0f}"
    return f"{amount:,.1f}" if abs(amount) >= 10 else f"{amount:,.3g}"


def count(amount: float, noun: str) -> str:
    """Return a number with its noun, as in ``1 node`` or ``1,200 nodes``."""
    return f"{number(amount)} {noun}{'' if amount == 1 else 's'}"


def write_thousands(axis: Axis) -> None:
    """Label the ticks of an axis with thousands separators."""
    axis.set_major_formatter(FuncFormatter(lambda tick, _: _written(tick)))
    _spread_ticks(axis)


def write_percent(axis: Axis) -> None:
    """Label the ticks of an axis of fractions as percentages; the axis label has the sign."""
    axis.set_major_formatter(FuncFormatter(lambda tick, _: _written(100 * tick)))
    _spread_ticks(axis)


def _written(tick: float) -> str:
    # Twelve digits hide 0.30000000000000004 and still show every tick the locators choose.
    return f"{tick:,.12g}".replace("-", "\N{MINUS SIGN}")


def _spread_ticks(axis: Axis) -> None:
    """Keep the ticks so few that numbers of seven digits stand apart."""
    locator = axis.get_major_locator()
    if isinstance(locator, MaxNLocator):
        locator.set_params(nbins=6)


def outline(text: Text) -> None:
    """Put a white outline around a text that crosses lines or bands."""
    text.set_path_effects([withStroke(linewidth=2.2, foreground="white", alpha=0.75)])


def draw_legend(ax: Axes, handles: Sequence[Artist], names: Sequence[str], *, above: bool = False) -> None:
    """Draw a legend right of the axes, or in one row above them, with the names as they are."""
    # Names go in afterwards: a legend leaves out labels that begin with "_" and reads "$" as mathematics.
    legend = ax.legend(
        handles,
        ["name"] * len(names),
        loc="lower left" if above else "upper left",
        bbox_to_anchor=(0.0, 1.0) if above else (1.01, 1.0),
        ncols=len(names) if above else 1,
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        labelcolor=INK,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def write_thinned(ax: Axes, labels: Sequence[str]) -> None:
    """Label the places 0, 1, 2 … of the x axis as far as the labels stand apart."""
    width = ax.get_window_extent().width / ax.figure.dpi * 72
    # A small character is about 5 points wide; two of them keep neighbours apart.
    most = max(int(width / 5 / (max(map(len, labels)) + 2)), 2)
    # Steps a reader counts in, with weeks and fortnights for days.
    steps = (1, 2, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000)
    step = next((step for step in steps if len(labels) <= step * most), len(labels))
    places = range(0, len(labels), step)
    ax.set_xticks(places, labels=[labels[place] for place in places], parse_math=False)
