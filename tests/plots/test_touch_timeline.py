import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from attrib_ds import Paths, explain, plots
from attrib_ds.errors import InvalidRequest


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


def test_bad_input_is_refused():
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
