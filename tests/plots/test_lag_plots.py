"""Plots of lags and of the explanation of one conversion."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from support.law_examples import examples

from attrib_ds import Paths, explain, plots
from attrib_ds.errors import InvalidRequest


def lags_of(first, last, weights=1.0):
    return pd.DataFrame(
        {
            "event_id": [f"e{i}" for i in range(len(first))],
            "conversions": weights,
            "first_lag_days": np.array(first, dtype=float),
            "last_lag_days": np.array(last, dtype=float),
        }
    )


def histograms(ax):
    """Return heights and edges of the outlines of first and last touch."""
    return [patch.get_data()[:2] for patch in ax.patches if not patch.get_fill()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_bins_are_of_equal_ratio_and_hold_every_conversion():
    ax = plots.lags(lags_of([1, 10, 100], [1, 1, 10], [1.0, 2.0, 4.0]))
    (first, edges), (last, same) = histograms(ax)
    np.testing.assert_array_equal(edges, same)
    assert (edges[0], edges[-1]) == pytest.approx((1, 100))
    np.testing.assert_allclose(edges[1:] / edges[:-1], 100 ** (1 / 30))
    assert first.nonzero()[0].tolist() in ([0, 15, 29], [0, 14, 29])
    assert first[first > 0].tolist() == [1, 2, 4]
    assert (last[0], last.sum()) == (3, 7)
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "time to conversion (log scale)"


def test_medians_are_weighted_and_marked():
    # Half of the weight of 8 is reached at 10 days by the first touch, between 1 and 3 by the last.
    ax = plots.lags(lags_of([2, 10, 100], [0.5, 1, 3], [1.0, 6.0, 1.0]))
    assert legend(ax) == ["first touch (median 10 days)", "last touch (median 1 day)"]
    ax = plots.lags(lags_of([4, 8], [1 / 24, 0.5 / 24]))
    assert legend(ax) == ["first touch (median 6 days)", "last touch (median 45 minutes)"]
    assert [line.get_xdata()[0] for line in ax.get_lines()] == pytest.approx([6, 0.75 / 24])


def test_conversions_without_a_touch_are_counted_by_weight():
    ax = plots.lags(lags_of([2, np.nan, np.nan], [1, np.nan, np.nan], [1.0, 1000.0, 234.0]))
    assert ax.get_xlabel().endswith("\n1,234 conversions without a touch not drawn")
    assert [heights.sum() for heights, _ in histograms(ax)] == [1, 1]


def test_lags_under_a_minute_share_the_first_bin():
    ax = plots.lags(lags_of([0, 1, 30], [0, 0, 1e-9]))
    (first, edges), (last, _) = histograms(ax)
    assert edges[0] == pytest.approx(1 / 1440)
    assert (first[0], last[0]) == (1, 3)
    assert ax.get_xticklabels()[0].get_text() == "≤ 1 minute"
    assert legend(ax)[1] == "last touch (median 0 minutes)"


@pytest.mark.parametrize("days", [0, 1 / 1440, 0.01, 5, 400, 4000])
def test_equal_lags_draw(days):
    ax = plots.lags(lags_of([days] * 3, [days] * 3))
    for heights, edges in histograms(ax):
        assert heights.sum() == 3
        assert edges[0] < edges[-1]


@pytest.mark.parametrize(("low", "high"), [(0, 30), (3, 30), (0.2, 2), (1e-4, 1e-2), (20, 2000)])
def test_tick_labels_name_their_unit_and_stand_apart(low, high):
    ax = plots.lags(lags_of([high, high], [low, low]))
    ax.figure.draw_without_rendering()
    texts = ax.get_xticklabels()
    assert len(texts) >= 3
    assert all(text.get_text().rstrip("s").endswith(("minute", "hour", "day")) for text in texts)
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))


@pytest.mark.parametrize(("weight", "are_whole"), [(1.0, True), (0.5, False)])
def test_whole_weights_have_whole_ticks(weight, are_whole):
    ticks = plots.lags(lags_of([1, 2], [1, 2], weight)).get_yticks()
    assert (ticks == np.round(ticks)).all() == are_whole


def test_negative_weights_are_drawn():
    ax = plots.lags(lags_of([1, 2], [1, 2], [-1.0, -3.0]))
    assert histograms(ax)[0][0].sum() == -4
    assert ax.get_ylim()[0] < -3
    assert legend(ax)[0] == "first touch (median 1.5 days)"


@settings(max_examples=examples(40))  # each example draws
@given(
    st.lists(st.tuples(st.floats(0, 400), st.floats(0, 400), st.integers(0, 5)), min_size=1, max_size=30),
)
def test_no_conversion_is_lost(rows):
    first, last, weights = zip(*rows, strict=True)
    ax = plots.lags(lags_of(first, last, list(weights)), ax=Figure().subplots())
    assert [heights.sum() for heights, _ in histograms(ax)] == [sum(weights)] * 2


def test_bad_input_is_refused():
    with pytest.raises(InvalidRequest, match="lags: no column 'first_lag_days'"):
        plots.lags(lags_of([1], [1]).drop(columns="first_lag_days"))
    with pytest.raises(
        InvalidRequest, match=r"lags: column 'last_lag_days' contains -1.0; allowed: days from 0"
    ):
        plots.lags(lags_of([1, 1], [1, -1]))


def test_an_empty_plot_says_so():
    ax = plots.lags(lags_of([], []))
    assert [text.get_text() for text in ax.texts] == ["no credited conversions"]
    ax = plots.lags(lags_of([np.nan], [np.nan]))
    assert [text.get_text() for text in ax.texts] == ["no conversions with a touch"]
    assert "1 conversion without a touch" in ax.get_xlabel()


def rows_of(*rows):
    frame = pd.DataFrame(rows, columns=["node_id", "age_days", "weight"])
    frame["position"] = range(1, len(frame) + 1)
    return frame.assign(node_name=frame["node_id"])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def tips(ax):
    """Return position and height of each bar."""
    return [
        (float(end[0]), round(float(end[1] - start[1]), 9))
        for bars in ax.collections[1:]
        for start, end in bars.get_segments()
    ]


def test_bar_heights_are_shares_of_credit():
    ax = plots.explanation(rows_of(("search", 9, 0.4), ("email", 4, 0.2), ("search", 1, 0.4)))
    assert names(ax) == ["search", "email"]
    heights = dict(tips(ax))
    assert heights[9.0] == heights[1.0] == pytest.approx(2 * heights[4.0])
    assert sorted(texts(ax)) == ["20 %", "20 %", "40 %", "40 %", "80 % from 2 touches"]
    assert ax.get_xlabel() == "days before the conversion"
    # Time runs from left to right; the conversion is on the right.
    left, right = ax.get_xlim()
    assert left > 9 > 0 > right


def test_negative_shares_point_down_and_zero_is_a_mark():
    ax = plots.explanation(rows_of(("a", 3, -0.1), ("a", 2, 0.0), ("b", 1, 0.5)))
    heights = dict(tips(ax))
    assert heights[3.0] < 0 < heights[1.0]
    assert 2.0 not in heights
    assert "\N{MINUS SIGN}10 %" in texts(ax)


def test_the_baseline_is_noted_below_the_axis():
    rows = rows_of(("a", 3, 0.1), (None, np.nan, 0.9))
    assert (
        plots.explanation(rows).get_xlabel()
        == "days before the conversion\n90 % of the conversion is baseline"
    )
    alone = plots.explanation(rows_of((None, np.nan, 1.0)))
    assert texts(alone) == ["no credited touchpoint"]
    assert alone.get_xlabel() == "100 % of the conversion is baseline"


@pytest.mark.parametrize(
    ("days", "label"), [(30, "days"), (1.5, "hours"), (0.05, "minutes"), (0.0, "minutes")]
)
def test_time_has_a_fitting_unit(days, label):
    ax = plots.explanation(rows_of(("a", days, 1.0)))
    assert ax.get_xlabel() == f"{label} before the conversion"
    assert ax.get_xlim()[0] > ax.get_xlim()[1]


def test_paths_without_dates_are_drawn_by_position():
    frame = pd.DataFrame({"path": ["search > email > search"], "n": [4]})
    paths = Paths.from_sequences(frame, path="path", conversions="n")
    ax = plots.explanation(explain(paths, "linear", "0"))
    assert ax.get_xlabel() == "touchpoint"
    assert [place for place, _ in tips(ax)] == [1.0, 2.0, 3.0]
    assert ax.get_title(loc="left") == "Path to 0, credited by linear"


def test_labels_of_forty_touchpoints_do_not_overlap():
    random = np.random.default_rng(3)
    ages = np.sort(random.uniform(0, 28, 40))[::-1]
    weights = 2.0 ** (-ages / 7)
    nodes = random.choice(list("abcdefgh"), 40)
    ax = plots.explanation(rows_of(*zip(nodes, ages, weights / weights.sum(), strict=True)))
    assert len(tips(ax)) == 40
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) >= 16
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))
    # The largest part is labelled, whatever is beside it.
    assert f"{100 * weights.max() / weights.sum():.2g} %" in texts(ax)


def test_names_are_not_parsed_as_mathematics():
    ax = plots.explanation(rows_of(("$a_b$", 1, 1.0)), ax=Figure().subplots())
    assert names(ax) == ["$a_b$"]


def test_bad_input_of_timeline_is_refused():
    with pytest.raises(InvalidRequest, match="explanation: no column 'weight'"):
        plots.explanation(rows_of(("a", 1, 1.0)).drop(columns="weight"))
    with pytest.raises(InvalidRequest, match="explanation: column 'weight' is"):
        plots.explanation(rows_of(("a", 1, "much")))


def test_negative_shares_do_not_overlap_the_next_node():
    parts = {"a": (-0.5, 0.5), "b": (0.5, -0.5), "c": (-0.5, 0.5), "d": (0.5, -0.5)}
    rows = [(node, age, part) for node, both in parts.items() for age, part in zip((9, 5), both, strict=True)]
    ax = plots.explanation(rows_of(*rows))
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 12
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))
