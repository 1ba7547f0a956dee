"""The style that all plots share: colours, axes, legends and number formats."""

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
# Marker and size in points, chosen so that all look equally large.
MARKERS: Final = (
    ("o", 5.5), ("s", 5.5), ("^", 6.5), ("D", 5.0), ("v", 6.5), ("P", 7.0),
    ("X", 7.0), ("<", 6.5), (">", 6.5), ("p", 6.5), ("*", 9.0), ("h", 6.5),
)  # fmt: skip
GREY: Final = "#BEBEBE"  # fill of everything that is not a node or group


@dataclass(frozen=True)
class Palette:
    """Colours for a light or a dark background.

    Attributes
    ----------
    text : str
        Texts.
    muted : str
        Axis lines, reference lines and secondary texts.
    grid : str
        Grid lines.
    background : str
        Outlines of texts and points.
    colours : tuple of str
        Nodes, groups and models.
    """

    text: str = "#333333"
    muted: str = "#767676"
    grid: str = "#DDDDDD"
    background: str = "white"
    colours: tuple[str, ...] = COLOURS


_LIGHT: Final = Palette()
_DARK: Final = Palette(
    text="#E4E4E4",
    muted="#9A9A9A",
    grid="#444444",
    background="black",
    colours=tuple("#EEEEEE" if colour == "#222222" else colour for colour in COLOURS),
)


def palette(ax: Axes) -> Palette:
    """Return the colours that suit the background of the figure, or of the style if it is transparent."""
    figure = ax.get_figure(root=True)
    face = to_rgba("none" if figure is None else figure.get_facecolor())
    if face[3] < 0.5:
        # A transparent figure is shown on a background that suits the text colour of the style.
        is_dark = _brightness(to_rgba(pyplot.rcParams["text.color"])) > 0.5
        return _DARK if is_dark else _LIGHT
    if _brightness(face) > 0.5:
        return _LIGHT
    return replace(_DARK, background=to_hex(face))


def _brightness(colour: tuple[float, float, float, float]) -> float:
    red, green, blue, _ = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue


def axes_or_new(ax: Axes | None, *, width: float, height: float) -> Axes:
    """Return ``ax``, or axes on a new figure of ``width`` by ``height`` inches, scaled by the font size."""
    if ax is not None:
        return ax
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)  # inches
    scale = max(scale_points(1.0), 1.0)
    _, created = pyplot.subplots(figsize=(width * scale, height * scale), layout=layout)
    return created


def scale_points(number: float) -> float:
    """Scale a length in points by the font size, relative to matplotlib's default of 10 points."""
    return number * float(pyplot.rcParams["font.size"]) / 10


def apply_layout(ax: Axes) -> None:
    """Run the figure's layout engine, if it has one, so that later measurements of the axes are final."""
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_layout_engine() is not None:
        figure.draw_without_rendering()


def format_axes(ax: Axes, *, title: str, grid: str | None, lift: float = 8.0) -> None:
    """Set title, spines and a light grid along ``grid`` (``"x"``, ``"y"``, ``"both"`` or none).

    The title is ``lift`` points above the axes, scaled by the font size; a long title is wrapped.
    """
    ax.set_title(
        title,
        loc="left",
        pad=scale_points(lift),
        fontsize="medium",
        fontweight="bold",
        color=palette(ax).text,
        parse_math=False,
        wrap=True,
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(palette(ax).muted)
    ax.tick_params(color=palette(ax).muted, labelcolor=palette(ax).text, labelsize="small")
    ax.xaxis.label.set_color(palette(ax).text)
    ax.yaxis.label.set_color(palette(ax).text)
    ax.xaxis.label.set_parse_math(False)
    ax.yaxis.label.set_parse_math(False)
    ax.set_axisbelow(True)
    if grid == "x" or grid == "both":
        ax.xaxis.grid(visible=True, color=palette(ax).grid, linewidth=0.8)
    if grid == "y" or grid == "both":
        ax.yaxis.grid(visible=True, color=palette(ax).grid, linewidth=0.8)


def write_empty(ax: Axes, message: str) -> None:
    """Write ``message`` in the middle of empty axes."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, message, transform=ax.transAxes, ha="center", va="center", color=palette(ax).muted)


def format_number(amount: float) -> str:
    """Return a number with thousands separators and about three significant digits."""
    if amount == round(amount):
        return f"{amount:,.0f}"
    return f"{amount:,.1f}" if abs(amount) >= 10 else f"{amount:,.3g}"


def format_count(amount: float, noun: str) -> str:
    """Return a number with its noun, such as ``1 node`` or ``1,200 nodes``."""
    return f"{format_number(amount)} {noun}{'' if amount == 1 else 's'}"


def format_thousands(axis: Axis) -> None:
    """Label the ticks of an axis with thousands separators."""
    axis.set_major_formatter(FuncFormatter(lambda tick, _: _tick_label(tick)))
    _limit_ticks(axis)


def format_percent(axis: Axis) -> None:
    """Label the ticks of an axis of fractions as percentages, without the percent sign."""
    axis.set_major_formatter(FuncFormatter(lambda tick, _: _tick_label(100 * tick)))
    _limit_ticks(axis)


def _tick_label(tick: float) -> str:
    # Twelve digits hide rounding errors such as 0.30000000000000004.
    return f"{tick:,.12g}".replace("-", "\N{MINUS SIGN}")


def _limit_ticks(axis: Axis) -> None:
    """Limit the number of ticks so that labels of seven digits do not overlap."""
    locator = axis.get_major_locator()
    if isinstance(locator, MaxNLocator):
        locator.set_params(nbins=6)


def outline(text: Text, ax: Axes) -> None:
    """Outline a text in the background colour, for readability over lines and bands."""
    text.set_path_effects([withStroke(linewidth=2.2, foreground=palette(ax).background, alpha=0.75)])


def draw_legend(ax: Axes, handles: Sequence[Artist], names: Sequence[str], *, above: bool = False) -> None:
    """Draw a legend to the right of the axes, or in one row above them, with literal names."""
    # Names are set afterwards: a legend skips labels that begin with "_" and parses "$" as mathematics.
    legend = ax.legend(
        handles,
        ["name"] * len(names),
        loc="lower left" if above else "upper left",
        bbox_to_anchor=(0.0, 1.0) if above else (1.01, 1.0),
        ncols=len(names) if above else 1,
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        labelcolor=palette(ax).text,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def label_ticks(ax: Axes, labels: Sequence[str]) -> None:
    """Label the positions 0, 1, 2 … of the x axis, skipping labels that would overlap."""
    width = ax.get_window_extent().width / ax.figure.dpi * 72
    # A small character is about 5 points wide; labels are at least two characters apart.
    most = max(int(width / scale_points(5) / (max(map(len, labels)) + 2)), 2)
    # Round steps, and 7 and 14 for days.
    steps = (1, 2, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000)
    step = next((step for step in steps if len(labels) <= step * most), len(labels))
    positions = range(0, len(labels), step)
    ax.set_xticks(positions, labels=[labels[position] for position in positions], parse_math=False)
