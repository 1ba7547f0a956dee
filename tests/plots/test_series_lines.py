"""Credits over time are drawn as they are, and ratios as the ratios of sums."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import attrib_ds as at
from attrib_ds import plots
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import style

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
            "series: no column of periods among .*needed: one of day",
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
