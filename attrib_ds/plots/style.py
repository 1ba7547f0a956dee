"""The style that all plots share: colours, axes, labels, legends, number formats and checks of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd
from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgba
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text
from matplotlib.ticker import MaxNLocator

from attrib_ds import errors

# Okabe & Ito, "Color Universal Design" (2008), with a wine red from Tol's muted scheme in place of the
# yellow, which vanishes on white. Any two of these and the grey differ by at least 15 (CIE76) for viewers
# without one kind of cone (Machado et al. 2009).
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#222222", "#882255")
# Marker and size in points, chosen so that all look equally large.
MARKERS: Final = (
    ("o", 5.5), ("s", 5.5), ("^", 6.5), ("D", 5.0), ("v", 6.5), ("P", 7.0),
    ("X", 7.0), ("<", 6.5), (">", 6.5), ("p", 6.5), ("*", 9.0), ("h", 6.5),
)  # fmt: skip
#: Keyword arguments of a matplotlib call.
Look = dict[str, Any]
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
    return _LIGHT if _brightness(face) > 0.5 else replace(_DARK, background=to_hex(face))


def _brightness(colour: tuple[float, float, float, float]) -> float:
    red, green, blue, _ = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue


def scale_points(number: float) -> float:
    """Scale a length in points by the font size, relative to matplotlib's default of 10 points."""
    return number * float(pyplot.rcParams["font.size"]) / 10


def apply_layout(ax: Axes) -> None:
    """Run the figure's layout engine, if it has one, so that later measurements of the axes are final."""
    figure = ax.get_figure(root=True)
    engine = None if figure is None else figure.get_layout_engine()
    if figure is not None and engine is not None:
        engine.execute(figure)


def start(
    ax: Axes | None,
    size: tuple[float, float],
    title: str,
    *,
    grid: str | None = None,
    x: str = "",
    y: str = "",
    lift: float = 8.0,
) -> Axes:
    """Return ``ax``, or axes on a new figure, with title, labels, spines and a light grid.

    The size is in inches, the grid along ``"x"``, ``"y"``, ``"both"`` or none. The title is ``lift`` points
    above the axes and wrapped if it is long. Size and lift are scaled by the font size.
    """
    if ax is None:
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)  # inches
        scale = max(scale_points(1.0), 1.0)
        _, ax = pyplot.subplots(figsize=(size[0] * scale, size[1] * scale), layout=layout)
    colours = palette(ax)
    font: Look = {"fontsize": "medium", "fontweight": "bold", "color": colours.text}
    ax.set_title(title, loc="left", pad=scale_points(lift), parse_math=False, wrap=True, **font)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(colours.muted)
    ax.tick_params(color=colours.muted, labelcolor=colours.text, labelsize="small")
    for name, axis, label in (("x", ax.xaxis, x), ("y", ax.yaxis, y)):
        axis.label.set(text=label, color=colours.text, parse_math=False)
        if grid in (name, "both"):
            axis.grid(visible=True, color=colours.grid, linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def write_empty(ax: Axes, message: str) -> Axes:
    """Write ``message`` in the middle of empty axes."""
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, message, transform=ax.transAxes, ha="center", va="center", color=palette(ax).muted)
    return ax


def add_note(ax: Axes, note: str) -> None:
    """Add a line below the label of the x axis; none if it is empty."""
    ax.set_xlabel(f"{ax.get_xlabel()}\n{note}" if note else ax.get_xlabel())


def label_rows(ax: Axes, labels: Sequence[str], *, above: float = 0.5, below: float = 0.5) -> None:
    """Label the positions 0, 1, 2 … of the y axis from top to bottom."""
    ax.set_yticks(range(len(labels)), labels=labels, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 1 + below, -above)


def ranked(sizes: pd.Series[Any]) -> list[str]:
    """Return the index of sizes, largest first, then in order."""
    return sizes.sort_index().sort_values(ascending=False, kind="stable").index.tolist()


def format_thousands(axis: Axis, *, scale: int = 1) -> None:
    """Label the ticks of an axis with thousands separators, multiplied by ``scale`` (100 for percentages)."""

    def label(tick: float, _: object) -> str:
        # Twelve digits hide rounding errors such as 0.30000000000000004.
        return f"{scale * tick:,.12g}".replace("-", "\N{MINUS SIGN}")

    axis.set_major_formatter(label)
    locator = axis.get_major_locator()
    if isinstance(locator, MaxNLocator):
        # Labels of seven digits must not overlap.
        locator.set_params(nbins=6)


def write(
    ax: Axes, text: str, point: tuple[float, float], offset: tuple[float, float] = (0, 0), **options: Any
) -> Annotation:
    """Write a small text at an offset in points from a point of the data."""
    style = {"fontsize": "small", "color": palette(ax).text, **options}
    return ax.annotate(text, point, xytext=offset, textcoords="offset points", **style)


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
    """Label the positions 0, 1, 2 … of the x axis after layout, skipping labels that would overlap."""
    apply_layout(ax)
    width = ax.get_window_extent().width / ax.figure.dpi * 72
    # A small character is about 5 points wide; labels are at least two characters apart.
    most = max(int(width / scale_points(5) / (max(map(len, labels)) + 2)), 2)
    # Round steps, and 7 and 14 for days.
    steps = (1, 2, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000)
    step = next((step for step in steps if len(labels) <= step * most), len(labels))
    positions = range(0, len(labels), step)
    ax.set_xticks(positions, labels=[labels[position] for position in positions], parse_math=False)


def numbers(argument: str, frame: pd.DataFrame, column: str) -> pd.Series[float]:
    """Return a column of any numeric dtype as float64, with null as NaN."""
    try:
        return pd.to_numeric(frame[column]).astype("Float64").astype("float64")
    except (TypeError, ValueError) as error:
        raise errors.InvalidRequest(
            f"{argument}: column {column!r} is {frame[column].dtype}; allowed: numbers"
        ) from error
