import pandas as pd
import pytest

from attrib_ds import event_insights, plots
from attrib_ds.errors import InvalidRequest

STEPS = pd.DataFrame(
    {
        "identifier": "shop",
        "interval": ["2025-01", "2025-02"],
        "values.event-count": [60.0, 40.0],
        "values.qualified": [30.0, 20.0],
        "values.won": [4.0, 6.0],
        "values.state-delay-won": [86_400.0, 90_000.0],
    }
)


def test_a_bar_per_state_with_its_share_of_all_and_of_the_previous_step():
    ax = plots.funnel(STEPS)
    assert [bar.get_width() for bar in ax.patches] == [100, 50, 10]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["events", "qualified", "won"]
    assert [text.get_text() for text in ax.texts] == [
        "100", "50  (50.0% of all)", "10  (10.0% of all, 20.0% of the previous step)",
    ]  # fmt: skip
    assert ax.get_xlabel() == "events"


def test_steps_are_drawn_in_the_given_order():
    ax = plots.funnel(STEPS, steps=["event-count", "won"])
    assert [bar.get_width() for bar in ax.patches] == [100, 10]
    assert ax.texts[1].get_text() == "10  (10.0% of all)"


def test_zero_events_are_drawn_without_shares():
    ax = plots.funnel(STEPS.iloc[:0])
    assert [text.get_text() for text in ax.texts] == ["0", "0", "0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": ["one"]}, "steps: 'one'"),
        ({"steps": []}, "steps: at least one metric of events is required"),
        ({"insights": STEPS[["interval"]]}, "steps: at least one metric of events is required"),
        ({"insights": [1]}, "must be a DataFrame"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        plots.funnel(**{"insights": STEPS, **arguments})


@pytest.mark.slow
def test_event_insights_are_drawn_as_lines(sample):
    days = {"since": "2025-01-01T00:00:00Z", "until": "2025-06-30T00:00:00Z"}
    counts = event_insights(
        sample, metrics=["event-count", "turnover"], interval="month", group_by="event-type", **days
    )
    ax = plots.insights(counts)
    assert ax.get_ylabel() == "events"
    # Hollow markers over partial intervals have no line of their own.
    total = sum(line.get_ydata().sum() for line in ax.get_lines() if line.get_linestyle() != "None")
    assert total == counts["values.event-count"].sum() > 0
    assert plots.insights(counts, value="turnover").get_ylabel() == "turnover"
    with pytest.raises(InvalidRequest, match="value: 'sessionCount'"):
        plots.insights(counts, value="sessionCount")


def test_one_project_is_one_line_without_a_name():
    ax = plots.insights(STEPS, value="won")
    assert [line.get_ydata().tolist() for line in ax.get_lines()] == [[4, 6]]
    assert ax.get_legend() is None
