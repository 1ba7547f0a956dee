import itertools

import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.records.frames import TEXT


def insights_of(rows):
    frame = pd.DataFrame(rows, columns=["group", "interval", "sessionCount"])
    frame["hitCount"] = frame["sessionCount"] * 3
    frame["durationSum"] = frame["sessionCount"] * 60.5
    types = {"group": TEXT, "interval": TEXT, "sessionCount": "Int64", "hitCount": "Int64"}
    return frame.astype(types)


def series(ax):
    return [line.get_ydata().tolist() for line in ax.get_lines()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


TWO = [("FR", "2025-03", 5), ("DE", "2025-01", 9), ("FR", "2025-01", 2), ("DE", "2025-04", 1)]


def test_one_line_per_group_over_every_interval():
    ax = plots.insights(insights_of(TWO))
    assert ticks(ax) == ["2025-01", "2025-02", "2025-03", "2025-04"]
    assert legend(ax) == ["DE", "FR"]
    assert series(ax) == [[9, 0, 0, 1], [2, 0, 5, 0]]
    assert ax.get_ylabel() == "interactions"
    assert ax.get_title(loc="left") == "Interactions per interval and group"


@pytest.mark.parametrize(
    ("value", "label", "first"),
    [
        ("sessionCount", "interactions", 9),
        ("hitCount", "hits", 27),
        ("durationSum", "duration (seconds)", 544.5),
    ],
)
def test_the_axis_label_names_the_value(value, label, first):
    ax = plots.insights(insights_of(TWO), value=value)
    assert ax.get_ylabel() == label
    assert series(ax)[0][0] == first


def test_groups_beyond_the_top_are_one_grey_line():
    rows = [(group, "2025-01", count) for group, count in zip("abcd", (1, 8, 4, 2), strict=True)]
    ax = plots.insights(insights_of(rows), top=2)
    assert legend(ax) == ["b", "c", "other (2 groups)"]
    assert series(ax) == [[8], [4], [3]]
    assert ax.get_lines()[-1].get_color() == style.GREY


def test_without_a_group_there_is_no_legend():
    ax = plots.insights(insights_of([(None, "10", 3), (None, "9", 4)]))
    assert ax.get_legend() is None
    assert (ticks(ax), series(ax)) == (["9", "10"], [[4, 3]])
    assert ax.get_title(loc="left") == "Interactions per interval"


def test_a_single_group_and_interactions_without_one_are_named():
    assert legend(plots.insights(insights_of([("FR", "2025", 1)]))) == ["FR"]
    ax = plots.insights(insights_of([("FR", "2025", 1), (None, "2025", 7), ("_x$y$", "2025", 3)]))
    assert legend(ax) == ["no group", "_x$y$", "FR"]


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 3, 300])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%G-W%V", "%Y-%m", "%Y-%m-%dT%H:%M:%S.000Z"])
def test_tick_labels_do_not_overlap(groups, form):
    labels = dict.fromkeys(pd.date_range("2024-01-01", periods=366).strftime(form))
    rows = [
        (f"group {i} " + "x" * 60, label, i + 1)
        for label in labels
        for i in range(groups if len(labels) < 60 else 2)
    ]
    ax = plots.insights(insights_of(rows))
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert 2 <= len(boxes) <= 20
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))


def test_bad_input_is_refused():
    frame = insights_of(TWO)
    with pytest.raises(InvalidRequest, match="insights: column 'interval' is null in every row"):
        plots.insights(frame.assign(interval=pd.Series([None] * 4, dtype=TEXT)))
    with pytest.raises(
        InvalidRequest, match="value: 'hits' is not allowed.*durationSum, hitCount, sessionCount"
    ):
        plots.insights(frame, value="hits")
    with pytest.raises(InvalidRequest, match="insights: no column 'group'"):
        plots.insights(frame.drop(columns="group"))


@pytest.mark.parametrize(
    ("value", "message"),
    [("sessionCount", "no interactions"), ("hitCount", "no hits"), ("durationSum", "no duration")],
)
def test_an_empty_plot_says_so(value, message):
    for frame in (insights_of(TWO).iloc[:0], insights_of([])):
        ax = plots.insights(frame, value=value)
        assert [text.get_text() for text in ax.texts] == [message]
        assert ax.get_ylabel()


def test_partial_intervals_have_hollow_markers_and_a_note():
    frame = insights_of([(None, "2025-W26", 9), (None, "2025-W27", 2)])
    ax = plots.insights(frame.assign(is_partial=pd.array([False, True], dtype="boolean")))
    assert ax.get_xlabel() == "interval\nhollow: 2025-W27, counted in part only"
    line, hollow = ax.get_lines()
    assert hollow.get_xydata().tolist() == [[1.0, 2.0]]
    assert hollow.get_markerfacecolor() == style.palette(ax).background
    assert hollow.get_markeredgecolor() == line.get_color()
    whole = plots.insights(frame.assign(is_partial=pd.array([False, False], dtype="boolean")))
    assert whole.get_xlabel() == "interval"
    assert len(whole.get_lines()) == 1
