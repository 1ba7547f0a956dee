"""Plots of credits, paths and insights; each draws on one matplotlib ``Axes`` and returns it.

Without ``ax`` a plot makes a figure of its own, as large as its content and matplotlib's ``font.size`` ask.
With ``ax`` it draws there and leaves the figure's size and layout alone; ``layout="constrained"`` keeps long
names inside. Texts and lines are light on a dark figure, such as those of the style ``"dark_background"``.
"""

from __future__ import annotations

from attrib_ds.plots.calibration_line import calibration
from attrib_ds.plots.credit_bars import credits
from attrib_ds.plots.effect_ranges import effects
from attrib_ds.plots.insight_lines import insights
from attrib_ds.plots.lag_histogram import lags
from attrib_ds.plots.length_bars import lengths
from attrib_ds.plots.model_dots import model_comparison
from attrib_ds.plots.order_line import orders
from attrib_ds.plots.path_flow import paths
from attrib_ds.plots.return_scatter import returns
from attrib_ds.plots.seasonal_map import seasonality
from attrib_ds.plots.state_funnel import funnel
from attrib_ds.plots.touch_timeline import explanation

__all__ = [
    "calibration",
    "credits",
    "effects",
    "explanation",
    "funnel",
    "insights",
    "lags",
    "lengths",
    "model_comparison",
    "orders",
    "paths",
    "returns",
    "seasonality",
]
