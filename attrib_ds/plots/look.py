"""The look all plots share: colours, axes, legends, numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from matplotlib import pyplot
from matplotlib.colors import to_hex, to_rgba
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


@dataclass(frozen=True)
class Tones:
    """Colours that depend on whether the ground is light or dark.

    Attributes
    ----------
    ink : str
        Of texts.
    muted : str
        Of lines and texts beside the data.
    grid : str
        Of the lines behind the data.
    ground : str
        Of what is cleared around texts and points.
    colours : tuple of str
        Of nodes, groups and models.
    """

    ink: str = "#333333"
    muted: str = "#767676"
    grid: str = "#DDDDDD"
    ground: str = "white"
    colours: tuple[str, ...] = COLOURS


_LIGHT: Final = Tones()
_DARK: Final = Tones(
    ink="#E4E4E4",
    muted="#9A9A9A",
    grid="#444444",
    ground="black",
    colours=tuple("#EEEEEE" if colour == "#222222" else colour for colour in COLOURS),
)


def tones(ax: Axes) -> Tones:
    """Return the colours for the ground of a figure, or for that of the style where it has none."""
    figure = ax.get_figure(root=True)
    face = to_rgba("none" if figure is None else figure.get_facecolor())
    if face[3] < 0.5:
        # What is behind a figure that one sees through suits the texts of the style.
        is_dark = _brightness(to_rgba(pyplot.rcParams["text.color"])) > 0.5
        return _DARK if is_dark else _LIGHT
    if _brightness(face) > 0.5:
        return _LIGHT
    return replace(_DARK, ground=to_hex(face))


def _brightness(colour: tuple[float, float, float, float]) -> float:
    red, green, blue, _ = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue


def axes_of(ax: Axes | None, *, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of ``width`` by ``height`` inches, more for larger texts."""
    if ax is not None:
        return ax
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)  # inches around what is drawn
    larger = max(points(1.0), 1.0)
    _, created = pyplot.subplots(figsize=(width * larger, height * larger), layout=layout)
    return created


def points(number: float) -> float:
    """Return points as many times larger as texts are larger than matplotlib's own 10 points."""
    return number * float(pyplot.rcParams["font.size"]) / 10


def settle(ax: Axes) -> None:
    """Let the figure's layout, if it has one, place the axes: what is measured on them next stays true."""
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_layout_engine() is not None:
        figure.draw_without_rendering()


def dress(ax: Axes, *, title: str, grid: str | None, lift: float = 8.0) -> None:
    """Set title, spines and a light grid along ``grid`` (``"x"``, ``"y"``, ``"both"`` or none).

    The title stands ``lift`` points above the axes, more for larger texts; a long one has several lines.
    """
    ax.set_title(
        title,
        loc="left",
        pad=points(lift),
        fontsize="medium",
        fontweight="bold",
        color=tones(ax).ink,
        parse_math=False,
        wrap=True,
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(tones(ax).muted)
    ax.tick_params(color=tones(ax).muted, labelcolor=tones(ax).ink, labelsize="small")
    ax.xaxis.label.set_color(tones(ax).ink)
    ax.yaxis.label.set_color(tones(ax).ink)
    ax.xaxis.label.set_parse_math(False)
    ax.yaxis.label.set_parse_math(False)
    ax.set_axisbelow(True)
    if grid == "x" or grid == "both":
        ax.xaxis.grid(visible=True, color=tones(ax).grid, linewidth=0.8)
    if grid == "y" or grid == "both":
        ax.yaxis.grid(visible=True, color=tones(ax).grid, linewidth=0.8)


def say_empty(ax: Axes, message: str) -> None:
    """Write ``message`` in the middle of axes that have nothing to show."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, message, transform=ax.transAxes, ha="center", va="center", color=tones(ax).muted)


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


def outline(text: Text, ax: Axes) -> None:
    """Clear the ground around a text that crosses lines or bands."""
    text.set_path_effects([withStroke(linewidth=2.2, foreground=tones(ax).ground, alpha=0.75)])


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
        labelcolor=tones(ax).ink,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def write_thinned(ax: Axes, labels: Sequence[str]) -> None:
    """Label the places 0, 1, 2 … of the x axis as far as the labels stand apart."""
    width = ax.get_window_extent().width / ax.figure.dpi * 72
    # A small character is about 5 points wide; two of them keep neighbours apart.
    most = max(int(width / points(5) / (max(map(len, labels)) + 2)), 2)
    # Steps a reader counts in, with weeks and fortnights for days.
    steps = (1, 2, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000)
    step = next((step for step in steps if len(labels) <= step * most), len(labels))
    places = range(0, len(labels), step)
    ax.set_xticks(places, labels=[labels[place] for place in places], parse_math=False)
