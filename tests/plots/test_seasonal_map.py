import itertools

import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT


def insights_of(rows):
    frame = pd.DataFrame(rows, columns=["group", "interval", "sessionCount"])
    frame["hitCount"] = frame["sessionCount"] * 3
    frame["durationSum"] = frame["sessionCount"] * 60.5
    types = {"group": TEXT, "interval": TEXT, "sessionCount": "Int64", "hitCount": "Int64"}
    return frame.astype(types)


def cells(ax):
    return ax.images[0].get_array().tolist()


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def colour_bar(ax):
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    return bar


def test_groups_by_weekdays():
    ax = plots.seasonality(
        insights_of([("FR", "7", 4), ("DE", "1", 9), ("FR", "2", 1), (None, "3", 2)]), interval="dayOfWeek"
    )
    assert ticks(ax.xaxis) == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert ticks(ax.yaxis) == ["DE", "FR", "no group"]
    assert cells(ax) == [[9, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 4], [0, 0, 2, 0, 0, 0, 0]]
    assert ax.get_xlabel() == "day of week"
    assert ax.get_title(loc="left") == "Interactions by day of week"
    assert colour_bar(ax).get_ylabel() == "interactions"


def test_weekdays_are_recognised_in_a_single_row_without_groups():
    ax = plots.seasonality(insights_of([(None, str(day), day) for day in range(1, 8)]), value="durationSum")
    assert cells(ax) == [[60.5 * day for day in range(1, 8)]]
    assert ticks(ax.xaxis)[0] == "Mon"
    assert ticks(ax.yaxis) == [""]
    assert colour_bar(ax).get_ylabel() == "duration (seconds)"


def test_labels_of_an_unnamed_interval_run_from_lowest_to_highest():
    ax = plots.seasonality(insights_of([(None, "11", 1), (None, "9", 3)]))
    assert (ticks(ax.xaxis), cells(ax)) == (["9", "10", "11"], [[3, 0, 1]])
    assert ax.get_xlabel() == "interval"


def test_the_rest_does_not_take_the_colours_of_the_groups():
    rows = [(f"g{i:03}", "1", 300 - i) for i in range(300)]
    ax = plots.seasonality(insights_of(rows), interval="quarterOfYear", top=3)
    assert ticks(ax.yaxis) == ["g000", "g001", "g002", "other (297 groups)"]
    # 1 + 2 + … + 297
    assert cells(ax)[-1] == [44_253, 0, 0, 0]
    assert ax.images[0].get_clim() == (0, 300)


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["dayOfYear", "weekOfYear", "dayOfMonth", "hourOfDay", "monthOfYear"])
def test_tick_labels_do_not_overlap(interval):
    ax = plots.seasonality(insights_of([("x" * 60, "1", 3), ("y", "2", 1)]), interval=interval)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert len(boxes) >= 10
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
    assert ax.get_tightbbox().x0 >= 0


def test_bad_input_is_refused():
    frame = insights_of([("FR", "7", 4)])
    with pytest.raises(
        InvalidRequest, match="interval: 'dayofweek' is not allowed .did you mean 'dayOfWeek'"
    ):
        plots.seasonality(frame, interval="dayofweek")
    with pytest.raises(InvalidRequest, match="interval: 'quarterOfYear' is not allowed .* label '7'"):
        plots.seasonality(frame, interval="quarterOfYear")
    with pytest.raises(InvalidRequest, match="insights: interval '2025-W01' is not seasonal"):
        plots.seasonality(insights_of([(None, "2025-W01", 1)]))
    with pytest.raises(InvalidRequest, match="value: 'conversions' is not allowed"):
        plots.seasonality(frame, value="conversions")
    with pytest.raises(InvalidRequest, match="insights: no column 'interval'"):
        plots.seasonality(frame.drop(columns="interval"))


def test_an_empty_plot_says_so():
    ax = plots.seasonality(insights_of([]), interval="hourOfDay")
    assert [text.get_text() for text in ax.texts] == ["no interactions"]
    assert ax.get_xlabel() == "hour of day"
