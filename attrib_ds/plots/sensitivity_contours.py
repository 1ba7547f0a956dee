"""Contours of the effect of a node that an unobserved cause would leave, with an observed benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from attrib_ds.attribution.experiments.sensitivity import confounder_r2
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.credit_plots import select_model
from attrib_ds.plots.style import names_of_nodes, numbers
from attrib_ds.records.frames import read_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from attrib_ds.records.frames import Frame

_NUMBERS: Final = (
    "caused", "robustness_value", "robustness_value_interval", "benchmark_strength", "benchmark_exposure",
    "benchmark_outcome",
)  # fmt: skip
COLUMNS: Final = ("model", "node_id", "node_name", "currency", "benchmark", *_NUMBERS)
#: Shares of the effect that are left, the widths of their lines, and their names.
_LEVELS: Final = ((0.5, 1.0, "half of the effect left"), (0.0, 2.0, "nothing of the effect left"))
#: Smallest partial R2 on an axis.
_SMALLEST: Final = 1e-7


def sensitivity(
    effects: Frame,
    *,
    node: str | None = None,
    model: str | None = None,
    currency: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how strong an unobserved cause must be to explain the effect of a node away.

    Parameters
    ----------
    effects : DataFrame
        As ``incremental_effects`` returns it: ``model``, ``node_id``, ``node_name``, ``currency``,
        ``caused``, ``robustness_value``, ``robustness_value_interval``, ``benchmark``,
        ``benchmark_strength``, ``benchmark_exposure``, ``benchmark_outcome``. Of a result with ``by=``, keep
        the rows of one period or segment.
    node : str, optional
        Id of the node to draw; required when there are several.
    model : str, optional
        Model to draw; required when there are several.
    currency : str, optional
        Currency of the effect; required when there are several.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Partial R2 of an unobserved cause with exposure (x) and with conversions (y), on logarithmic scales.
        Along the grey line half of the effect is left, along the thick one nothing, and above it the effect
        has the other sign. From the dashed line on, the interval contains zero. Diamonds: a cause as strong
        as the benchmark, and one as many times stronger as it takes to explain the effect away.

    Raises
    ------
    InvalidRequest
        If a column is missing, ``node``, ``model`` or ``currency`` is not among the effects, or several rows
        remain.

    References
    ----------
    Cinelli and Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the
    Royal Statistical Society B 82(1), 39-67, figure 2.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "hazard", "node_id": ["a"], "node_name": ["Ads"], "currency": "EUR",
    ...     "caused": [90.0], "robustness_value": [0.02], "robustness_value_interval": [0.01],
    ...     "benchmark": ["organic"], "benchmark_strength": [2.5], "benchmark_exposure": [0.15],
    ...     "benchmark_outcome": [0.0001]})
    >>> axes = at.plots.sensitivity(frame, ax=Figure().subplots())
    >>> axes.get_title(loc="left")
    'Unobserved cause that would explain away the effect of Ads'
    """
    effects = read_frame("effects", effects, COLUMNS)
    chosen, _ = select_model(effects, model)
    row = _row_of(chosen, node, currency)
    name = names_of_nodes(row)[row["node_id"].iloc[0]]
    ax = style.axes_or_new(ax, width=7.0, height=5.0)
    style.format_axes(ax, title=f"Unobserved cause that would explain away the effect of {name}", grid="both")
    ax.set_xlabel(f"partial R² with exposure to {name}")
    ax.set_ylabel("partial R² with conversions")
    found = {column: float(numbers("effects", row, column).iloc[0]) for column in _NUMBERS}
    if not found["robustness_value"] > 0:
        style.write_empty(ax, "no sensitivity")
        return ax
    _draw(ax, found, str(row["benchmark"].iloc[0]))
    return ax


def _row_of(effects: pd.DataFrame, node: str | None, currency: str | None) -> pd.DataFrame:
    """Return the row of a node, in one currency."""
    nodes = effects["node_id"].dropna().unique().tolist()
    if node is None and len(nodes) == 1:
        node = nodes[0]
    if node not in nodes:
        raise InvalidRequest.choice("node", node, nodes)
    rows = effects[effects["node_id"] == node]
    currencies = rows["currency"].dropna().unique().tolist()
    if currency is None and len(currencies) > 1:
        raise InvalidRequest.choice("currency", currency, currencies)
    if currency is not None:
        if currency not in currencies:
            raise InvalidRequest.choice("currency", currency, currencies)
        rows = rows[rows["currency"] == currency]
    if len(rows) != 1:
        raise InvalidRequest(
            f"effects: {len(rows)} rows of {node!r}; allowed: one (keep those of one period or segment)",
            field="effects",
        )
    return rows


def _draw(ax: Axes, found: dict[str, float], benchmark: str) -> None:
    palette = style.palette(ax)
    strength, of_interval = (
        _strength(found[name]) for name in ("robustness_value", "robustness_value_interval")
    )
    points: list[tuple[float, float, str]] = []
    multiples: list[tuple[float, float]] = []
    if found["benchmark_exposure"] > 0 and found["benchmark_outcome"] > 0:
        observed = found["benchmark_exposure"], found["benchmark_outcome"]
        times = found["benchmark_strength"]
        for multiple in (1.0, times):
            x, y = confounder_r2(multiple, *observed)
            points.append((min(x, 0.999), y, f"{style.format_number(multiple)} × {benchmark}"))
        multiples = [confounder_r2(multiple, *observed) for multiple in np.geomspace(1.0, times, 50)]
    corner = found["robustness_value"]
    lowest = max(_SMALLEST, min([corner, *(x for x, _, _ in points)]) / 4)
    exposure_range = np.geomspace(lowest, 0.999, 200)
    bottom = max(_SMALLEST, min([corner, *(y for _, y, _ in points)]) / 4)
    top = min(1.0, max([corner, *(y for _, y, _ in points)]) * 8)
    handles: list[Any] = []
    names = []
    for left, width, name in _LEVELS:
        (line,) = ax.plot(
            exposure_range,
            _outcome((1 - left) * strength, exposure_range),
            color=palette.muted if left else palette.colours[3],
            linewidth=width,
        )
        handles.append(line)
        names.append(name)
    if of_interval > 0:
        (line,) = ax.plot(
            exposure_range,
            _outcome(of_interval, exposure_range),
            color=palette.colours[3],
            linewidth=1.2,
            linestyle="--",
        )
        handles.append(line)
        names.append("the interval reaches zero")
    (value,) = ax.plot(
        [corner], [corner], linestyle="none", marker="o", markersize=6, color=palette.colours[3]
    )
    handles.append(value)
    names.append(f"robustness value ({100 * corner:.2g} %)")
    if points:
        ax.plot(*zip(*multiples, strict=True), color=palette.colours[0], linewidth=1.0)
        (diamonds,) = ax.plot(
            [x for x, _, _ in points],
            [y for _, y, _ in points],
            linestyle="none",
            marker="D",
            markersize=6,
            color=palette.colours[0],
            markeredgecolor=palette.background,
        )
        handles.append(diamonds)
        names.append(f"multiples of {benchmark}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(lowest, 1.0)
    ax.set_ylim(bottom, top)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{100 * tick:g} %"))
        axis.set_minor_formatter(NullFormatter())
    # The stronger one of the two has its label above.
    lifts = (-11, 5) if found["benchmark_strength"] >= 1 else (5, -11)
    for (x, y, label), lift in zip(points, lifts, strict=False):
        text = ax.annotate(
            label, (x, y), (8, lift), textcoords="offset points", fontsize="small", color=palette.text,
            parse_math=False,
        )  # fmt: skip
        style.outline(text, ax)
    style.draw_legend(ax, handles, names)


def _strength(robustness_value: float) -> float:
    """Return the size of the effect in units of bias, from its robustness value."""
    if robustness_value >= 1:
        return np.inf
    return float(robustness_value / np.sqrt(1 - robustness_value))


def _outcome(strength: float, exposure: Any) -> Any:
    """Return the partial R2 with the outcome that explains so much away, given that with exposure."""
    return strength**2 * (1 - exposure) / exposure
