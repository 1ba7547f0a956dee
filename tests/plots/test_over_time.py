"""Plots over time: lines of insights and of credits, and the map of seasons."""

import itertools
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import attrib_ds as at
from attrib_ds import plots
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style
from attrib_ds.plots.over_time import complete, season_of
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
    assert ax.get_ylabel() == "visits"
    assert ax.get_title(loc="left") == "Visits per interval and group"


@pytest.mark.parametrize(
    ("value", "label", "first"),
    [
        ("sessionCount", "visits", 9),
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
    assert ax.get_title(loc="left") == "Visits per interval"


def test_a_single_group_and_interactions_without_one_are_named():
    assert legend(plots.insights(insights_of([("FR", "2025", 1)]))) == ["FR"]
    ax = plots.insights(insights_of([("FR", "2025", 1), (None, "2025", 7), ("_x$y$", "2025", 3)]))
    assert legend(ax) == ["no group", "_x$y$", "FR"]


@pytest.mark.few(4)
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
    [("sessionCount", "no visits"), ("hitCount", "no hits"), ("durationSum", "no duration")],
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


#: Weeks 1, 2 and 4; mail has no spend, radio no credit.
ROWS = pd.DataFrame(
    [
        ("2025-W01", "ads", "Ads", 2.0, 40.0, "EUR", 10.0),
        ("2025-W01", "mail", "Mail", 1.0, 20.0, "EUR", np.nan),
        ("2025-W01", None, None, 3.0, 5.0, "EUR", np.nan),
        ("2025-W02", "radio", "Radio", 0.0, 0.0, "EUR", 30.0),
        ("2025-W04", "ads", "Ads", 4.0, 90.0, "EUR", 45.0),
        ("2025-W04", "radio", "Radio", 0.0, 0.0, "EUR", 5.0),
    ],
    columns=["week", "node_id", "node_name", "conversions", "value", "currency", "spend"],
).assign(model="linear")


def drawn(rows=ROWS, **options):
    axes = plots.series(rows, ax=Figure().subplots(), **options)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    heights = [[float(each) for each in line.get_ydata()] for line in axes.get_lines()[: len(labels)]]
    return axes, dict(zip(labels, heights, strict=True))


def test_a_line_per_node_with_every_period_between_the_first_and_the_last():
    axes, lines = drawn()
    assert lines == {
        "Ads": [2.0, 0.0, 0.0, 4.0],
        "Mail": [1.0, 0.0, 0.0, 0.0],
        "Radio": [0.0, 0.0, 0.0, 0.0],
        "unattributed": [3.0, 0.0, 0.0, 0.0],
    }
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [f"2025-W0{week}" for week in (1, 2, 3, 4)]
    assert axes.get_title(loc="left") == "Credited conversions per week, linear"
    assert axes.get_xlabel() == "week"


def test_a_partial_period_has_hollow_markers_and_a_note():
    rows = ROWS.assign(is_partial=ROWS["week"] == "2025-W04")
    axes, lines = drawn(rows)
    assert axes.get_xlabel() == "week\nhollow: 2025-W04, counted in part only"
    hollow = axes.get_lines()[len(lines) :]
    assert [line.get_xydata().tolist() for line in hollow] == [
        [[3.0, height]] for height in (4.0, 0.0, 0.0, 0.0)
    ]
    assert {line.get_markerfacecolor() for line in hollow} == {style.palette(axes).background}
    assert drawn(rows.assign(is_partial=False))[0].get_xlabel() == "week"


def test_value_has_its_currency():
    axes, lines = drawn(by="value")
    assert lines["Ads"] == [40.0, 0.0, 0.0, 90.0]
    assert axes.get_ylabel() == "credited value (EUR)"


def test_returns_are_ratios_of_nodes_with_spend_and_gaps_without():
    axes, lines = drawn(by="roas")
    np.testing.assert_equal(lines, {"Ads": [4.0, np.nan, np.nan, 2.0], "Radio": [np.nan, 0.0, np.nan, 0.0]})
    assert axes.get_lines()[-1].get_ydata() == [1.0, 1.0]
    _, costs = drawn(by="cpa")
    np.testing.assert_equal(costs, {"Ads": [5.0, np.nan, np.nan, 11.25]})


def test_other_nodes_are_summed_before_they_are_divided():
    _, lines = drawn(by="roas", top=1)
    # Radio earned nothing of 35 EUR; mail costs nothing, and is left out.
    np.testing.assert_equal(lines["other (1 node)"], [np.nan, 0.0, np.nan, 0.0])
    _, lines = drawn(top=1)
    assert lines["other (2 nodes)"] == [1.0, 0.0, 0.0, 0.0]


def test_a_node_may_have_the_name_of_another_line():
    rows = ROWS.assign(node_name=ROWS["node_name"].replace({"Mail": "unattributed", "Ads": "other (x)"}))
    axes = plots.series(rows, ax=Figure().subplots())
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["other (x)", "unattributed", "Radio", "unattributed"]
    assert [line.get_linestyle() for line in axes.get_lines()] == ["-", "-", "-", ":"]


def test_one_model_and_one_currency_are_chosen():
    two = pd.concat([ROWS, ROWS.assign(model="last_touch", currency="USD")])
    with pytest.raises(InvalidRequest, match="model: None is not allowed because credits have 2 models"):
        plots.series(two)
    mixed = pd.concat([ROWS, ROWS.assign(currency="USD")])
    with pytest.raises(InvalidRequest, match="currency: None is not allowed"):
        plots.series(mixed, by="roas")
    assert drawn(mixed, by="value", currency="USD")[0].get_ylabel() == "credited value (USD)"
    assert drawn(mixed)[1]["Ads"] == [4.0, 0.0, 0.0, 8.0]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            ROWS.rename(columns={"week": "period"}),
            {},
            "series: has no column of periods, only .*expected one of day",
        ),
        (ROWS.drop(columns="spend"), {"by": "roas"}, "series: no column 'spend'"),
        (ROWS, {"by": "share"}, "by: 'share' is not allowed"),
        (ROWS, {"top": 0}, "top: 0 is not allowed"),
        ([1], {}, "series: must be a DataFrame, got list"),
    ],
)
def test_what_cannot_be_drawn_is_refused(rows, options, message):
    with pytest.raises(InvalidRequest, match=message):
        plots.series(rows, **options)


def test_nothing_to_draw_is_said():
    axes = plots.series(ROWS.iloc[:0], ax=Figure().subplots())
    assert [text.get_text() for text in axes.texts] == ["no credited conversions"]
    without = plots.series(ROWS.assign(spend=0.0), by="roas", ax=Figure().subplots())
    assert [text.get_text() for text in without.texts] == ["no return on ad spend (ROAS)"]


@pytest.mark.slow
def test_it_draws_what_credit_series_returns(sample):
    paths = at.conversion_paths(sample, event_type="order", statistic="turnover", level="channel")
    months = at.credit_series(paths, "linear", interval="month")
    axes, lines = drawn(months, by="value", currency="EUR", top=3)
    assert len(next(iter(lines.values()))) == 6
    expected = months.loc[months["currency"] == "EUR", "value"].sum()
    assert sum(map(sum, lines.values())) == pytest.approx(expected)
    assert axes.get_xlabel() == "month"


def cells(ax):
    return ax.images[0].get_array().tolist()


def seasons_ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def colour_bar(ax):
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    return bar


def test_groups_by_weekdays():
    ax = plots.seasonality(
        insights_of([("FR", "7", 4), ("DE", "1", 9), ("FR", "2", 1), (None, "3", 2)]), interval="dayOfWeek"
    )
    assert seasons_ticks(ax.xaxis) == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert seasons_ticks(ax.yaxis) == ["DE", "FR", "no group"]
    assert cells(ax) == [[9, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 4], [0, 0, 2, 0, 0, 0, 0]]
    assert ax.get_xlabel() == "day of week"
    assert ax.get_title(loc="left") == "Visits by day of week"
    assert colour_bar(ax).get_ylabel() == "visits"


def test_weekdays_are_recognised_in_a_single_row_without_groups():
    ax = plots.seasonality(insights_of([(None, str(day), day) for day in range(1, 8)]), value="durationSum")
    assert cells(ax) == [[60.5 * day for day in range(1, 8)]]
    assert seasons_ticks(ax.xaxis)[0] == "Mon"
    assert seasons_ticks(ax.yaxis) == [""]
    assert colour_bar(ax).get_ylabel() == "duration (seconds)"


def test_labels_of_an_unnamed_interval_run_from_lowest_to_highest():
    ax = plots.seasonality(insights_of([(None, "11", 1), (None, "9", 3)]))
    assert (seasons_ticks(ax.xaxis), cells(ax)) == (["9", "10", "11"], [[3, 0, 1]])
    assert ax.get_xlabel() == "interval"


def test_the_rest_does_not_take_the_colours_of_the_groups():
    rows = [(f"g{i:03}", "1", 300 - i) for i in range(300)]
    ax = plots.seasonality(insights_of(rows), interval="quarterOfYear", top=3)
    assert seasons_ticks(ax.yaxis) == ["g000", "g001", "g002", "other (297 groups)"]
    # 1 + 2 + … + 297
    assert cells(ax)[-1] == [44_253, 0, 0, 0]
    assert ax.images[0].get_clim() == (0, 300)


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["dayOfYear", "weekOfYear", "dayOfMonth", "hourOfDay", "monthOfYear"])
def test_tick_labels_of_seasons_do_not_overlap(interval):
    ax = plots.seasonality(insights_of([("x" * 60, "1", 3), ("y", "2", 1)]), interval=interval)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert len(boxes) >= 10
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
    assert ax.get_tightbbox().x0 >= 0


def test_bad_input_of_seasons_is_refused():
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


def test_an_empty_plot_of_seasons_says_so():
    ax = plots.seasonality(insights_of([]), interval="hourOfDay")
    assert [text.get_text() for text in ax.texts] == ["no visits"]
    assert ax.get_xlabel() == "hour of day"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["2025", "2023"], ["2023", "2024", "2025"]),
        (["2025-S1", "2023-S2"], ["2023-S2", "2024-S1", "2024-S2", "2025-S1"]),
        (["2025-Q1", "2024-Q3"], ["2024-Q3", "2024-Q4", "2025-Q1"]),
        (["2025-02", "2024-11"], ["2024-11", "2024-12", "2025-01", "2025-02"]),
        # 2020 has 53 ISO weeks.
        (["2021-W01", "2020-W52"], ["2020-W52", "2020-W53", "2021-W01"]),
        (["2024-03-01", "2024-02-28"], ["2024-02-28", "2024-02-29", "2024-03-01"]),
        (["10", "9", "7"], ["7", "8", "9", "10"]),
        (["0"], ["0"]),
        ([], []),
    ],
)
def test_labels_are_ordered_and_gaps_filled(labels, expected):
    assert complete(labels) == expected


@pytest.mark.parametrize(
    "labels",
    [
        ["2025-01-01T06:00:00.000Z", "2025-01-01T00:00:00.000Z"],
        ["2025-13", "2025-01"],
        ["2025-02-30", "2025-02-01"],
        ["2025-01", "2024-12-31"],
        ["2025-W60", "2025-W01"],
    ],
)
def test_other_labels_are_only_sorted(labels):
    assert complete(labels) == sorted(labels)


def test_numbers_with_leading_zeros_are_ordered_as_numbers():
    assert complete(["10", "09", "1"]) == ["1", "09", "10"]


def test_a_stray_date_does_not_fill_centuries():
    assert complete(["2025-01-01", "1900-01-01"]) == ["1900-01-01", "2025-01-01"]


@given(start=st.dates(date(1990, 1, 1), date(2090, 1, 1)), days=st.integers(0, 800))
def test_days_and_weeks_follow_the_calendar(start, days):
    every = [start + timedelta(days=i) for i in range(days + 1)]
    assert complete([every[-1].isoformat(), every[0].isoformat()]) == [day.isoformat() for day in every]
    weeks = list(dict.fromkeys(day.strftime("%G-W%V") for day in every))
    assert complete([weeks[-1], weeks[0]]) == weeks


def test_seasons_have_their_full_range_and_names():
    assert season_of(["7", "2"], "dayOfWeek")[1] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert season_of(["3"], "monthOfYear") == (
        [str(month) for month in range(1, 13)],
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
    )
    every, names = season_of(["3"], "hourOfDay")
    assert every == names == [str(hour) for hour in range(24)]


def test_without_an_interval_only_one_to_seven_are_weekdays():
    assert season_of(list("7654321"), None)[1][0] == "Mon"
    assert season_of(["2", "5"], None) == (["2", "3", "4", "5"], ["2", "3", "4", "5"])


def test_labels_outside_the_interval_are_refused():
    with pytest.raises(
        InvalidRequest, match="interval: 'dayOfWeek' is not allowed .* label '8'; its labels are 1 to 7"
    ):
        season_of(["8", "1"], "dayOfWeek")
    with pytest.raises(InvalidRequest, match="insights: interval '2025-01' is not seasonal"):
        season_of(["2025-01"], None)
